"""Memory of layers that are computed by blocks, for graphs that are built and never computed.

Blocks are computed again in the backward pass, by functions that MLX cannot export. While a graph is built for its
memory, each layer is a few operations that hold what a layer holds from one pass to the other: its inputs, and a state
for each block of a gated delta layer. The work on one block at a time is a graph of its own.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any

from karl_fast._extras import missing_mlx

try:
    import mlx.core as mx
except ImportError as error:
    raise missing_mlx() from error

from karl_fast.modeling import block_attention
from karl_fast.modeling.gated_delta import BLOCK, block, chunk_of
from karl_fast.modeling.model_views import gated_deltas_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Traceable = tuple[Callable[..., Any], list[mx.array]]


@contextlib.contextmanager
def stand_ins(backward: bool) -> Iterator[list[Traceable]]:
    """Note a block of each such layer, or its gradient, as a function and arguments, within this context."""
    blocks: list[Traceable] = []
    attention = partial(_attention, blocks, backward)
    with (
        gated_deltas_by(partial(_gated_delta, blocks, backward)),
        block_attention.stand_in(attention),
        _experts_without_segments(),
    ):
        yield blocks


@contextlib.contextmanager
def _experts_without_segments() -> Iterator[None]:
    """Replace products with the weights of routed experts: MLX cannot export `SegmentedMM`, their gradient.

    In its place the gradient of the weights is one array of their size, and the inputs are held for it.
    """
    theirs: Any = mx.gather_mm

    def product(a: mx.array, b: mx.array, *places: Any, sorted_indices: bool = False, **named: Any) -> mx.array:
        if not sorted_indices:
            made: mx.array = theirs(a, b, *places, **named)
            return made
        made = theirs(a, mx.stop_gradient(b), *places, sorted_indices=True, **named)
        return made + mx.square(a).sum(-1, keepdims=True) * mx.square(b).sum()

    mx.gather_mm = product
    try:
        yield
    finally:
        mx.gather_mm = theirs


def _attention(
    blocks: list[Traceable], backward: bool, q: mx.array, k: mx.array, v: mx.array, scale: float, mask: Any
) -> mx.array:
    size = min(2 * block_attention.KEYS, k.shape[2])  # a block is begun before all of the last one is freed
    keys, values = (mx.zeros((*one.shape[:2], size, one.shape[3]), one.dtype) for one in (k, v))
    function = partial(block_attention.of_blocks, scale, "causal", backward=backward)
    blocks.append((function, [mx.zeros(q.shape, q.dtype), keys, values]))
    # The gradient of keys and values is joined of those of blocks: here of two halves.
    halves = zip(*(mx.split(one, [one.shape[2] // 2], axis=2) for one in (k, v)), strict=True)
    read: Any = sum((mx.square(some).sum(3, keepdims=True) * more).sum(2, keepdims=True) for some, more in halves)
    return q.sum(3, keepdims=True) * mx.repeat(read, q.shape[1] // k.shape[1], axis=1)


def _gated_delta(
    blocks: list[Traceable],
    backward: bool,
    q: mx.array,
    k: mx.array,
    v: mx.array,
    g: mx.array,
    beta: mx.array,
    state: mx.array | None = None,
    mask: mx.array | None = None,
) -> tuple[mx.array, mx.array]:
    (batch, tokens, _, width), (heads, values) = q.shape, v.shape[2:]
    state = mx.zeros((batch, heads, values, width)) if state is None else state
    size = BLOCK * chunk_of(tokens)
    function = partial(block, chunk_of(tokens))
    first = [mx.zeros(one.shape, one.dtype) for one in (state, *(some[:, :size] for some in (q, k, v, g, beta)))]
    blocks.append((_gradient(function) if backward else function, first))
    gates = g.mean(-1) if g.ndim == 4 else g
    weights = mx.repeat((q * k).sum(-1), heads // q.shape[2], axis=-1) * gates.astype(q.dtype) * beta.astype(q.dtype)
    if not backward:
        return v * weights[..., None], state * weights.sum()
    held = mx.broadcast_to(state, (-(-tokens // size), *state.shape)) * weights.sum()
    return v * weights[..., None], mx.square(held).sum(0)


def _gradient(function: Callable[..., tuple[mx.array, mx.array]]) -> Callable[..., list[mx.array]]:
    def gradient(*arrays: mx.array) -> list[mx.array]:
        return mx.vjp(function, list(arrays), [mx.ones_like(one) for one in function(*arrays)])[1]

    return gradient
