"""The gated delta rule in chunks is mlx-lm's loop over tokens, faster and smaller."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("mlx_lm", reason="pip install '.[train]'")

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_map
from mlx_lm.models import gated_delta as theirs

from karl_fast.modeling.chunked_logp import backward, forward
from karl_fast.modeling.gated_delta import gated_delta
from karl_fast.modeling.model_views import chunkwise, replace_gated_deltas
from karl_fast.modeling.parameters import flatten_tree
from karl_fast.train.model_logprobs import Scorer
from tests.tolerances import LARGEST_ROUNDING, SPARE, of_float32_sums
from tests.unit.modeling import model_zoo
from tests.unit.modeling.parts import adapted

if TYPE_CHECKING:
    from collections.abc import Callable

    Layer = Callable[..., tuple[mx.array, mx.array]]

NAMES = ("q", "k", "v", "gate", "beta", "state")

KINDS = [
    kind for kind in ("qwen3_5", "qwen3_next", "kimi_linear", "olmo_hybrid", "kimi_k3") if kind in model_zoo.types()
]


def tolerance(tokens: int) -> float:
    """Of sums over the tokens, the 16 numbers of a key and the 24 of a value."""
    return of_float32_sums(tokens, 16, 24)


def layer(tokens: int, *, channels: bool = False, decay: float = 1.0, alike: bool = False) -> dict[str, mx.array]:
    """Random inputs of a layer; gates are before their exponential."""
    mx.random.seed(tokens)
    rows, heads, pairs, width, values = 2, 4, 4 if channels else 2, 16, 24
    k = mx.random.normal((rows, tokens, pairs, width))
    k = mx.broadcast_to(k[:, :1], k.shape) + 0.01 * k if alike else k
    strength = mx.random.normal((rows, tokens, heads, *[width] * channels))
    return {
        "q": unit(mx.random.normal(k.shape)),
        "k": unit(k),
        "v": mx.random.normal((rows, tokens, heads, values)),
        "gate": -decay * nn.softplus(strength),
        "beta": mx.sigmoid(mx.random.normal((rows, tokens, heads))),
        "state": mx.random.normal((rows, heads, values, width)),
    }


def unit(vectors: mx.array) -> mx.array:
    return vectors / mx.linalg.norm(vectors, axis=-1, keepdims=True)


def results(function: Layer, inputs: dict[str, mx.array], mask: mx.array | None = None) -> dict[str, mx.array]:
    """Outputs, final state and gradients of all inputs, for a loss of random weights."""
    mx.random.seed(1)
    there = mx.ones(inputs["v"].shape[:2]) if mask is None else mask
    weights = mx.random.normal(inputs["v"].shape) * there[..., None, None]  # outputs of masked tokens mean nothing
    ends = mx.random.normal(inputs["state"].shape)

    def whole(q: Any, k: Any, v: Any, gate: Any, beta: Any, state: Any) -> Any:
        y, last = function(q, k, v, mx.exp(gate), beta, state, mask)
        return (y * weights).sum() + (last * ends).sum(), (y * there[..., None, None], last)

    (_, (y, last)), gradient = mx.value_and_grad(whole, argnums=list(range(6)))(*inputs.values())
    return {"y": y, "last": last, **dict(zip(NAMES, gradient, strict=True))}


def distances(found: dict[str, mx.array], wanted: dict[str, mx.array]) -> dict[str, float]:
    sizes = {name: max(float(mx.abs(one).max()), 1e-20) for name, one in wanted.items()}
    return {name: float(mx.abs(found[name] - one).max()) / sizes[name] for name, one in wanted.items()}


@pytest.mark.parametrize("channels", [False, True])
@pytest.mark.parametrize("tokens", [2, 5, 64, 100, 600])
def test_it_is_the_loop_with_its_gradients(tokens: int, channels: bool) -> None:
    inputs = layer(tokens, channels=channels)
    far = distances(results(gated_delta, inputs), results(theirs.gated_delta_ops, inputs))
    assert max(far.values()) < tolerance(tokens), far


@pytest.mark.parametrize("channels", [False, True])
@pytest.mark.parametrize(("decay", "alike"), [(0.001, False), (0.0, True), (5.0, False), (30.0, False), (300.0, False)])
def test_weak_and_strong_decay_with_similar_keys(decay: float, alike: bool, channels: bool) -> None:
    inputs = layer(150, channels=channels, decay=decay, alike=alike)
    found, wanted = results(gated_delta, inputs), results(theirs.gated_delta_ops, inputs)
    far = distances(found, wanted)
    assert all(np.isfinite(np.array(one)).all() for one in found.values())
    assert max(far.values()) < tolerance(150), far


def test_masks_of_padding_at_either_end() -> None:
    inputs = layer(90)
    places = mx.arange(90)[None]
    for mask in (places < mx.array([[70], [90]]), places >= mx.array([[33], [0]])):
        far = distances(results(gated_delta, inputs, mask), results(theirs.gated_delta_ops, inputs, mask))
        assert max(far.values()) < tolerance(90), far


def test_halves_with_carried_state_equal_the_whole() -> None:
    inputs = layer(130)
    q, k, v, gate, beta, state = inputs.values()
    y, last = gated_delta(q, k, v, mx.exp(gate), beta, state)
    outputs = []
    for part in (slice(0, 50), slice(50, 130)):
        some, state = gated_delta(q[:, part], k[:, part], v[:, part], mx.exp(gate[:, part]), beta[:, part], state)
        outputs.append(some)
    assert distances({"y": mx.concatenate(outputs, 1), "last": state}, {"y": y, "last": last})["y"] < tolerance(130)
    assert float(mx.abs(state - last).max()) < tolerance(130) * float(mx.abs(last).max())


def test_outputs_keep_query_type_and_float32_state() -> None:
    q, k, v, gate, beta, _ = (one.astype(mx.bfloat16) for one in layer(70).values())
    y, last = gated_delta(q, k, v, mx.exp(gate), beta)
    assert (y.dtype, last.dtype) == (mx.bfloat16, mx.float32)


@pytest.mark.parametrize("kind", KINDS)
def test_model_uses_it_with_the_same_gradient(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, loop = adapted(model_zoo.built(kind)), theirs.gated_delta_ops
    scorer = Scorer(model)
    with replace_gated_deltas(loop):
        plain = gradient(scorer)
    with monkeypatch.context() as patch:
        patch.setattr(theirs, "_gated_delta_step_ops", None)  # the loop would fail
        found = gradient(scorer)
    assert theirs.gated_delta_ops is loop
    model.update(tree_map(lambda one: one * (1 + 6e-8 * mx.random.normal(one.shape)), model.parameters()))
    with replace_gated_deltas(loop):
        rounding = distance(gradient(scorer), plain)
    assert distance(found, plain) < max(of_float32_sums(140), SPARE * rounding)
    assert rounding < LARGEST_ROUNDING


def gradient(scorer: Scorer) -> dict[str, mx.array]:
    """Log-probabilities, and the gradient of their sum."""
    mx.random.seed(3)
    tokens, places = mx.random.randint(4, 97, (2, 71)), mx.arange(140)
    shared = (scorer.body, scorer.head, tokens, places, scorer.rows)
    logp, tree = forward(*shared)["logp"], backward(scorer.model, *shared, {"logp": mx.ones(140)})[1]
    assert float(mx.abs(logp).min()) > 0
    return flatten_tree(tree)


def distance(found: dict[str, mx.array], wanted: dict[str, mx.array]) -> float:
    """Of all gradients together, relative."""
    size = sum(float(mx.square(one).sum()) for one in wanted.values())
    return float((sum(float(mx.square(found[name] - one).sum()) for name, one in wanted.items()) / size) ** 0.5)


def test_one_step_is_left_to_the_loop() -> None:
    inputs = layer(2)
    q, k, v, gate, beta, state = inputs.values()
    loop, seen = theirs.gated_delta_ops, []
    theirs.gated_delta_ops = lambda q, *others: seen.append(q.shape[1]) or loop(q, *others)
    try:
        with chunkwise():
            theirs.gated_delta_ops(q[:, :1], k[:, :1], v[:, :1], mx.exp(gate[:, :1]), beta[:, :1], state)
            theirs.gated_delta_ops(q, k, v, mx.exp(gate), beta, state)
    finally:
        theirs.gated_delta_ops = loop
    assert seen == [1]


def test_memory_grows_less_than_a_state_per_token() -> None:
    """A loop keeps several states of [V, K] for each token; here it is one for each block."""

    def peak(tokens: int) -> int:
        inputs = layer(tokens)
        mx.eval(inputs)
        gc.collect()
        mx.clear_cache()
        before = mx.get_active_memory()
        mx.reset_peak_memory()
        mx.eval(results(gated_delta, inputs))
        return int(mx.get_peak_memory() - before)

    state = layer(1)["state"].nbytes
    assert (peak(4096) - peak(2048)) / 2048 < state
