r"""Attention by blocks of keys, with a gradient that holds the scores of one block.

For queries Q, keys K and values V, both cut into blocks j, a mask M of 0 and -inf, and a scale a:

    S_j = a Q K_j^T + M_j,   l = log sum_j sum exp(S_j),   O = sum_j exp(S_j - l) V_j

    P_j = exp(S_j - l),      dV_j = P_j^T dO,              dS_j = P_j (dO V_j^T - rowsum(dO O))
    dQ = a sum_j dS_j K_j,   dK_j = a dS_j^T Q

The forward pass keeps O and l (arXiv 2112.05682, 2205.14135); the gradient computes each S_j again. MLX's own gradient
holds several arrays of [H, queries, keys].
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any

import mlx.core as mx

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KEYS = 512
"""Keys of a block."""

LOW = -1e30
"""Score of a key that is masked: finite, so that a row without any key so far is not NaN."""


@contextlib.contextmanager
def attention_by_blocks(*, forward_only: bool = False) -> Iterator[None]:
    """Compute the attention of every model by blocks of keys within this context.

    A pass without a gradient is left to MLX on a GPU, where it has a kernel without scores for most widths of heads.
    Contexts of several threads at a time would not restore what was there.
    """
    plain: Any = mx.fast.scaled_dot_product_attention

    def either(q: mx.array, k: mx.array, v: mx.array, *, scale: float, mask: Any = None, **named: Any) -> Any:
        if _by_blocks(mask, **named):
            return _ways[-1](q, k, v, scale, mask)
        return plain(q, k, v, scale=scale, mask=mask, **named)

    if forward_only and mx.default_device().type == mx.DeviceType.gpu:
        yield
        return
    mx.fast.scaled_dot_product_attention = either
    try:
        yield
    finally:
        mx.fast.scaled_dot_product_attention = plain


@contextlib.contextmanager
def stand_in(function: Callable[..., mx.array]) -> Iterator[None]:
    """Replace `attention` by a function with its arguments, in graphs that are built for their memory."""
    _ways.append(function)
    try:
        yield
    finally:
        _ways.pop()


def _by_blocks(mask: Any, sinks: mx.array | None = None, **_: Any) -> bool:
    """Return False for attention sinks, and for masks of numbers, which have gradients of their own."""
    return sinks is None and (mask is None or isinstance(mask, str) or (mask.dtype == mx.bool_ and mask.ndim in (2, 4)))


def attention(q: mx.array, k: mx.array, v: mx.array, scale: float, mask: Any = None) -> mx.array:
    """Compute softmax(scale Q K^T + M) V.

    Args:
        q: queries; H is a multiple of G. [B, H, L, D]
        k, v: keys and values. [B, G, S, D] and [B, G, S, E]
        scale: of the scores.
        mask: "causal" for queries that are the last of the keys; keys that count [L, S] or [B, 1 or H, L, S]; None.

    Returns:
        [B, H, L, E], in the type of all three, or float32.
    """
    if not q.dtype == k.dtype == v.dtype:
        q, k, v = (array.astype(mx.float32) for array in (q, k, v))
    masked = _Mask(mask, q, k)
    function: Any = mx.custom_function(partial(_forward, scale, masked))
    function.vjp(partial(_backward, scale, masked))
    output: mx.array = function(q, k, v)[0]
    return output


_ways: list[Callable[..., mx.array]] = [attention]


def _forward(scale: float, masked: _Mask, q: mx.array, k: mx.array, v: mx.array) -> tuple[mx.array, mx.array]:
    """Return O [B, H, L, E], and l [B, G, R L, 1] for R = H / G."""
    rows = _rows(q * scale, k)
    top = mx.full((*rows.shape[:3], 1), LOW)
    total, summed = mx.zeros_like(top), mx.zeros((*rows.shape[:3], v.shape[3]))
    for start, stop in _blocks(k):
        # A block waits for the sums of the one before it: one block of scores is in memory.
        keys, values = mx.depends([k[:, :, start:stop], v[:, :, start:stop]], [total, summed])
        scores = masked(rows @ keys.swapaxes(2, 3), start, stop)
        new = mx.maximum(top, scores.max(3, keepdims=True))
        weights, shrink = mx.exp(scores - new), mx.exp(top - new)
        total = total * shrink + weights.sum(3, keepdims=True)
        summed = summed * shrink + weights.astype(v.dtype) @ values
        top = new
    return (summed / total).astype(q.dtype).reshape(*q.shape[:3], -1), top + mx.log(total)


def _backward(scale: float, masked: _Mask, inputs: Any, cotangents: Any, outputs: Any) -> list[mx.array]:
    """Return the gradients of queries, keys and values, given that of O; l has none."""
    (q, k, v), (out, log_sum) = inputs, outputs
    # Queries that attend to no key have no gradient.
    rows, slopes = _rows(q * scale, k), mx.where(log_sum > LOW / 2, _rows(cotangents[0], k), 0)
    common = (slopes.astype(mx.float32) * _rows(out, k)).sum(3, keepdims=True)
    by_query, by_key, by_value = mx.zeros(rows.shape), list[mx.array](), list[mx.array]()
    for start, stop in _blocks(k):
        done = [by_query, *by_key[-1:], *by_value[-1:]]
        keys, values = mx.depends([k[:, :, start:stop], v[:, :, start:stop]], done)
        weights = mx.exp(masked(rows @ keys.swapaxes(2, 3), start, stop) - log_sum)
        by_value.append(weights.astype(v.dtype).swapaxes(2, 3) @ slopes)
        by_score = (weights * (slopes @ values.swapaxes(2, 3) - common)).astype(q.dtype)
        by_key.append(by_score.swapaxes(2, 3) @ rows)
        by_query = by_query + by_score @ keys
    by_q = (by_query * scale).astype(q.dtype).reshape(q.shape)
    return [by_q, mx.concatenate(by_key, axis=2), mx.concatenate(by_value, axis=2)]


def of_blocks(
    scale: float, mask: Any, q: mx.array, k: mx.array, v: mx.array, *, backward: bool
) -> tuple[mx.array, ...]:
    """Return what `attention` computes of some blocks, or its gradient: for the memory of its graph."""
    masked = _Mask(mask, q, k)
    out, log_sum = _forward(scale, masked, q, k, v)
    if not backward:
        return out, log_sum
    zeros = [mx.zeros(array.shape, array.dtype) for array in (out, log_sum)]
    return tuple(_backward(scale, masked, (q, k, v), zeros, zeros))


def _blocks(k: mx.array) -> list[tuple[int, int]]:
    return [(start, min(start + KEYS, k.shape[2])) for start in range(0, k.shape[2], KEYS)]


def _rows(q: mx.array, k: mx.array) -> mx.array:
    """Return queries as rows of the head of keys that they share. [B, H, L, D] -> [B, G, R L, D]"""
    return q.reshape(q.shape[0], k.shape[1], -1, q.shape[3])


class _Mask:
    """Scores of a block in float32, those of masked keys replaced."""

    def __init__(self, mask: Any, q: mx.array, k: mx.array) -> None:
        batch, heads, self._queries = q.shape[:3]
        self._shape = (batch, k.shape[1], heads // k.shape[1], self._queries)
        self._offset, self._causal = k.shape[2] - self._queries, isinstance(mask, str)
        self._mask = None if self._causal or mask is None else self._by_head(mask)

    def _by_head(self, mask: mx.array) -> mx.array:
        """Return a mask that broadcasts to [B, G, R, L, S]."""
        mask = mx.broadcast_to(mask, (*mask.shape[:-2], self._queries, self._offset + self._queries))
        if mask.ndim == 4 and mask.shape[1] > 1:
            return mask.reshape(mask.shape[0], *self._shape[1:], -1)
        return mask if mask.ndim == 2 else mask[:, :, None]

    def __call__(self, scores: mx.array, start: int, stop: int) -> mx.array:
        """Mask the scores of the keys from `start` to `stop`. [B, G, R L, stop - start]"""
        allowed = self._allowed(start, stop)
        scores = scores.astype(mx.float32)
        if allowed is None:
            return scores
        by_query = scores.reshape(*self._shape, stop - start)
        return mx.where(allowed, by_query, LOW).reshape(scores.shape)

    def _allowed(self, start: int, stop: int) -> mx.array | None:
        if self._mask is not None:
            return self._mask[..., start:stop]
        if not self._causal or stop <= self._offset + 1:
            return None
        return mx.arange(start, stop)[None] <= mx.arange(self._queries)[:, None] + self._offset
