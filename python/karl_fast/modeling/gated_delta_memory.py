"""Memory of gated delta layers in chunks, for graphs that are built and never computed.

Blocks of chunks are computed again in the backward pass, by functions that MLX cannot export. While a graph is built
for its memory, each layer is a few operations that hold what a layer holds from one pass to the other: its inputs, and
a state for each block. The work on one block at a time is a graph of its own.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

import mlx.core as mx

from karl_fast.modeling.gated_delta import BLOCK, block, chunk_of
from karl_fast.modeling.views import gated_deltas_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Traceable = tuple[Callable[..., list[mx.array]], list[mx.array]]


@contextlib.contextmanager
def stand_ins() -> Iterator[list[Traceable]]:
    """Note a block of each gated delta layer, as the function of its gradient and arguments, within this context."""
    blocks: list[Traceable] = []
    with gated_deltas_by(partial(_stand_in, blocks)):
        yield blocks


def _stand_in(
    blocks: list[Traceable],
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
    blocks.append(_first_block(state, [one[:, :size] for one in (q, k, v, g, beta)], chunk_of(tokens)))
    gates = g.mean(-1) if g.ndim == 4 else g
    weights = mx.repeat((q * k).sum(-1), heads // q.shape[2], axis=-1) * gates.astype(q.dtype) * beta.astype(q.dtype)
    held = mx.broadcast_to(state, (-(-tokens // size), *state.shape)) * weights.sum()
    return v * weights[..., None], mx.square(held).sum(0)


def _first_block(state: mx.array, inputs: list[mx.array], chunk: int) -> Traceable:
    def gradient(*arrays: mx.array) -> list[mx.array]:
        function = partial(block, chunk)
        return mx.vjp(function, list(arrays), [mx.ones_like(one) for one in function(*arrays)])[1]

    return gradient, [mx.zeros(one.shape, one.dtype) for one in (state, *inputs)]
