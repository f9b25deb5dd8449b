"""Caches of keys and values in 8 bits, where every layer of a model has plain ones.

Quantised caches of mlx-lm count the tokens of all rows in one number: contexts are generated in batches of one length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karl_fast.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import mlx.core as mx

BITS = 8

GROUP_SIZES = (64, 32)
"""Numbers that share a scale and a bias, the larger first; a head has to be a multiple of one."""

NEAR = 0.1
"""Maximum distance of hidden states from those with plain caches, relative to their norm: a model that takes the codes
for numbers is far beyond it."""


def group_sizes(kind: str, plain: list[Any], body: Callable[..., mx.array]) -> list[int]:
    """Return the group size of each layer, after a trial.

    Args:
        kind: type of the model, for errors.
        plain: empty caches of the model.
        body: maps tokens and caches to hidden states.

    Raises:
        ModelError: a layer has another cache, heads that have no group size, or does not take quantised caches.
    """
    import mlx.core as mx
    from mlx_lm.models.cache import KVCache

    others = sorted({type(cache).__name__ for cache in plain if type(cache) is not KVCache})
    if others:
        raise _refusal(kind, f"has {', '.join(others)}, which cannot be quantised", "KVCache in every layer")
    tokens, fresh = mx.array([[1, 2, 3, 4]]), [KVCache() for _ in plain]  # type: ignore[no-untyped-call]
    wanted = body(tokens, plain)
    sizes = [_group_size(kind, (cache.keys.shape[-1], cache.values.shape[-1])) for cache in plain]
    try:
        codes = quantize_caches(fresh, sizes)
        body(tokens[:, :3], codes)
        apart = mx.linalg.norm((body(tokens[:, 3:], codes) - wanted[:, 3:]).astype(mx.float32))
    except (RuntimeError, ValueError, TypeError, AttributeError, LookupError) as error:
        raise _refusal(kind, f"does not take them: {' '.join(str(error).split())[:200]}", "plain attention") from error
    if not apart.item() <= NEAR * mx.linalg.norm(wanted[:, 3:].astype(mx.float32)).item():  # type: ignore[operator]
        raise _refusal(kind, "computes other hidden states with them", "plain attention")
    return sizes


def quantize_caches(plain: Sequence[Any], sizes: Sequence[int]) -> list[Any]:
    """Return empty quantised caches in the place of plain ones."""
    return [cache.to_quantized(group_size=size, bits=BITS) for cache, size in zip(plain, sizes, strict=True)]


def _group_size(kind: str, heads: tuple[int, int]) -> int:
    for size in GROUP_SIZES:
        if not any(head % size for head in heads):
            return size
    raise _refusal(kind, f"has heads of {' and '.join(map(str, sorted({*heads})))} numbers", "multiples of 32")


def _refusal(kind: str, came: str, wanted: str) -> ModelError:
    return ModelError(
        f"kv_cache is 8-bit, and model type {kind} {came}, wanted {wanted}", hint="kv_cache = full takes every model"
    )
