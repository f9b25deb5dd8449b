"""Attention by blocks of keys beside that of MLX: results, gradients, memory, and where it is used."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("mlx_lm", reason="pip install '.[train]'")

import mlx.core as mx
from mlx_lm.models.base import create_causal_mask

from karl_fast.modeling import block_attention
from karl_fast.modeling.block_attention import attention, attention_by_blocks
from karl_fast.modeling.memory import limit_memory

SHAPES = {
    "queries that share heads of keys": (2, 4, 2, 8, 50, 8, 8),
    "as many queries as keys": (1, 4, 4, 50, 50, 8, 8),
    "values of another width": (1, 4, 1, 5, 64, 8, 12),
}
"""[B, H, G, L, S, D, E]"""
MASKS = ["causal", "none", "window", "of rows", "of heads", "of keys"]


def mask_of(kind: str, rows: int, heads: int, queries: int, keys: int) -> Any:
    some = mx.random.uniform(shape=(rows, heads, queries, keys)) > 0.5
    some = some | (mx.arange(keys) == keys - 1)  # each query attends to a key
    window = create_causal_mask(queries, keys - queries, window_size=7)
    parts = {"of rows": some[:, :1], "of heads": some, "of keys": some[:, :, :1]}
    return ({"causal": "causal", "none": None, "window": window} | parts)[kind]


def gradients(function: Any, arrays: list[Any], weights: Any) -> list[Any]:
    """The result, and the gradients of queries, keys and values, in float32."""
    found = mx.vjp(function, arrays, [weights])
    return [np.array(one.astype(mx.float32)) for part in found for one in part]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize(("kind", "far"), [("float32", 5e-6), ("bfloat16", 0.03)])
def test_results_and_gradients_are_those_of_mlx(
    monkeypatch: pytest.MonkeyPatch, mask: str, shape: tuple[int, ...], kind: str, far: float
) -> None:
    monkeypatch.setattr(block_attention, "KEYS", 16)
    mx.random.seed(0)
    rows, heads, groups, queries, keys, width, wide = shape
    shapes = [(rows, heads, queries, width), (rows, groups, keys, width), (rows, groups, keys, wide)]
    *arrays, weights = (mx.random.normal(one) for one in (*shapes, (rows, heads, queries, wide)))
    which = mask_of(mask, rows, heads, queries, keys)
    theirs = mx.fast.scaled_dot_product_attention
    wanted = gradients(lambda *some: [theirs(*some, scale=0.3, mask=which)], arrays, weights)
    typed = [one.astype(getattr(mx, kind)) for one in arrays]
    found = gradients(lambda *some: [attention(*some, 0.3, which)], typed, weights.astype(typed[0].dtype))
    for one, other in zip(found, wanted, strict=True):
        assert np.abs(one - other).max() < far * np.abs(other).max()


def test_queries_that_attend_to_nothing_have_no_gradient() -> None:
    arrays = [mx.random.normal((1, 2, 3, 4)) for _ in range(3)]
    mask = mx.array([[True, False, False], [False] * 3, [True] * 3])
    by_query, *_ = mx.grad(lambda *some: attention(*some, 1.0, mask)[:, :, 1].sum(), argnums=(0, 1, 2))(*arrays)
    assert not np.array(by_query).any()
    for one in mx.grad(lambda *some: attention(*some, 1.0, mask)[:, :, 1].sum(), argnums=(1, 2))(*arrays):
        assert not np.array(one).any()


@pytest.mark.parametrize("narrow", range(3))
def test_result_and_gradient_types_match_mlx(narrow: int) -> None:
    arrays = [mx.random.normal((1, 2, 3, 4)) for _ in range(3)]
    arrays[narrow] = arrays[narrow].astype(mx.bfloat16)
    theirs: Any = mx.fast.scaled_dot_product_attention
    wanted = mx.vjp(lambda *some: [theirs(*some, scale=1.0)], arrays, [mx.ones((1, 2, 3, 4))])
    found = mx.vjp(lambda *some: [attention(*some, 1.0)], arrays, [mx.ones((1, 2, 3, 4))])
    assert [one.dtype for part in found for one in part] == [one.dtype for part in wanted for one in part]


def test_a_gradient_holds_the_scores_of_one_block() -> None:
    """With four times the keys it takes what their gradients take, and not four times the scores."""

    def peak(keys: int) -> int:
        q, k, v = (mx.random.normal((1, 8, tokens, 8)) for tokens in (64, keys, keys))
        mx.eval(q, k, v)
        before = mx.get_active_memory()
        with limit_memory(1 << 20):
            mx.reset_peak_memory()
            mx.eval(mx.grad(lambda *some: attention(*some, 0.3, "causal").sum(), argnums=(0, 1, 2))(q, k, v))
            return int(mx.get_peak_memory()) - before

    scores, gradient = 4 * 8 * 64 * 8192, 2 * 4 * 8 * 8 * 8192
    assert peak(8192) < peak(2048) + 2 * gradient < scores


def test_context_replaces_attention_except_sinks_and_numeric_masks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    called: list[Any] = []
    monkeypatch.setattr(block_attention, "_ways", [lambda *given: called.append(given[-1]) or given[0]])
    theirs: Any = mx.fast.scaled_dot_product_attention
    one, numbers = mx.zeros((1, 1, 3, 4)), mx.zeros((3, 3))
    with attention_by_blocks():
        mx.fast.scaled_dot_product_attention(one, one, one, scale=1.0, mask="causal")
        mx.fast.scaled_dot_product_attention(one, one, one, scale=1.0, mask=numbers)
        mx.fast.scaled_dot_product_attention(one, one, one, scale=1.0, sinks=mx.zeros(1))
    assert called == ["causal"]
    assert mx.fast.scaled_dot_product_attention is theirs
