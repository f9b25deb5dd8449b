r"""The gated delta rule in chunks of tokens, in place of mlx-lm's loop over tokens.

A head has a state S, and each token decays it and corrects it at its key:

    d_t = beta_t (v_t - g_t S_{t-1} k_t),   S_t = g_t S_{t-1} + d_t k_t^T,   y_t = S_t q_t

In a loop over tokens a gradient keeps several states of each token. Within a chunk (arXiv 2412.06464), with the decay
G_ij = g_{j+1} ... g_i between two of its tokens and G_i = g_1 ... g_i from its start, the corrections are the solution
of a triangular system, and all else is products of matrices:

    (I + L) D = beta (V - G K S^T),   L_ij = beta_i G_ij k_i . k_j  for j < i
    Y = G Q S^T + P D,                P_ij = G_ij q_i . k_j         for j <= i
    S' = G_C S + D^T (G_Cj K)

Gates are one number a head, or one for each channel of its keys. Decays are exponentials of sums of logarithms, never
of their differences: every factor is at most 1, and strong decay costs no accuracy. Each block of chunks is computed
again in the backward pass, so that a gradient keeps one state for each block.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import mlx.core as mx

if TYPE_CHECKING:
    from collections.abc import Callable

CHUNK = 64
"""Most tokens of a chunk."""

BLOCK = 4
"""Chunks that are computed again at a time in the backward pass."""

SMALLEST_GATE = 1e-30
"""Gates below count as this one, which has a logarithm; what it leaves of a state is below the rounding of float32."""


def gated_delta(
    q: mx.array,
    k: mx.array,
    v: mx.array,
    g: mx.array,
    beta: mx.array,
    state: mx.array | None = None,
    mask: mx.array | None = None,
) -> tuple[mx.array, mx.array]:
    """Compute the outputs and the final state of a layer.

    Args:
        q, k: queries and keys of R heads, each shared by H / R heads of values. [B, T, R, K]
        v: values. [B, T, H, V]
        g: gates between 0 and 1. [B, T, H] or [B, T, H, K]
        beta: strengths of the corrections. [B, T, H]
        state: at the start; zeros if None. [B, H, V, K]
        mask: tokens that count; others leave the state as it is, and their outputs are 0. [B, T]

    Returns:
        The outputs [B, T, H, V] in the type of `q`, and the final state [B, H, V, K] in float32.
    """
    (batch, tokens, _, width), (heads, values) = q.shape, v.shape[2:]
    if state is None:
        state = mx.zeros((batch, heads, values, width))
    if mask is not None:
        g = mx.where(_like(mask, g), g, mx.array(1, g.dtype))
        beta = mx.where(_like(mask, beta), beta, mx.array(0, beta.dtype))
    chunk = chunk_of(tokens)
    y, state = _in_blocks(_recompute_in_backward(partial(block, chunk)), BLOCK * chunk, state, [q, k, v, g, beta])
    return y if mask is None else mx.where(_like(mask, y), y, mx.array(0, y.dtype)), state


def chunk_of(tokens: int) -> int:
    """Return the tokens of a chunk in rows of so many."""
    return min(CHUNK, 1 << (tokens - 1).bit_length())


def _in_blocks(function: Any, size: int, state: mx.array, inputs: list[mx.array]) -> tuple[mx.array, mx.array]:
    """Call a function for `size` tokens at a time, one call after the other.

    Inputs are halved until they are short enough: of a split into more than ten parts, MLX makes slices, each of which
    has a gradient as large as the whole.
    """
    tokens = inputs[0].shape[1]
    if tokens <= size:
        output: tuple[mx.array, mx.array] = function(state, *mx.depends(inputs, [state]))
        return output
    middle = -(-tokens // (2 * size)) * size
    first, second = zip(*(mx.split(array, [middle], axis=1) for array in inputs), strict=True)
    early, state = _in_blocks(function, size, state, list(first))
    late, state = _in_blocks(function, size, state, list(second))
    return mx.concatenate([early, late], axis=1), state


def _recompute_in_backward(function: Callable[..., tuple[mx.array, mx.array]]) -> Any:
    """Return a function of a state and arrays that stores only these, and is recomputed in the backward pass.

    MLX may compute a function of `mx.checkpoint` at any time after the forward pass. Here a block waits for the
    gradient of its results, and passes on that of its state when all its gradients are there: one block after the
    other is in memory.
    """
    stored = mx.custom_function(function)

    @stored.vjp
    def gradient(inputs: Any, cotangents: Any, _: Any) -> Any:
        state, *gradients = mx.vjp(function, mx.depends(list(inputs), list(cotangents)), list(cotangents))[1]
        return [mx.depends([state], gradients)[0], *gradients]

    return stored


def _like(mask: mx.array, array: mx.array) -> mx.array:
    """Return a mask of tokens with the dimensions of an array of them. [B, T] -> [B, T, 1, ...]"""
    return mask.reshape(*mask.shape, *[1] * (array.ndim - 2))


def block(
    chunk: int, state: mx.array, q: mx.array, k: mx.array, v: mx.array, g: mx.array, beta: mx.array
) -> tuple[mx.array, mx.array]:
    """Compute some chunks; axes are chunks, rows, heads of keys, heads of values for each, tokens, channels."""
    (batch, tokens, heads, width), (all_heads, values) = q.shape, v.shape[2:]
    cut = partial(_chunks, chunk, heads)
    queries, keys, targets, strength = cut(q), cut(k), cut(v), cut(beta[..., None])
    logs = mx.log(mx.maximum(cut(g if g.ndim == 4 else g[..., None], filler=1.0), SMALLEST_GATE))
    since, until = mx.exp(_from_start(logs)), mx.exp(_to_end(logs))
    products = partial(_products, logs=logs, keys=keys)
    solved = _inverse(mx.tril(strength * products(keys), -1))
    fixed, by_state = solved @ (strength * targets), solved @ (strength * since * keys)
    reads, mixed, writes = queries * since, products(queries), keys * until
    remaining = since[..., -1:, :]
    running = state.astype(mx.float32).reshape(batch, heads, -1, values, width)
    outputs = []
    for number in range(logs.shape[0]):
        turned = running.swapaxes(-1, -2)
        corrections = fixed[number] - by_state[number] @ turned
        outputs.append(reads[number] @ turned + mixed[number] @ corrections)
        running = remaining[number] * running + corrections.swapaxes(-1, -2) @ writes[number]
    joined = mx.concatenate(outputs, axis=-2)[..., :tokens, :].reshape(batch, all_heads, tokens, values)
    return joined.swapaxes(1, 2).astype(q.dtype), running.reshape(state.shape)


def _chunks(chunk: int, heads: int, array: mx.array, filler: float = 0.0) -> mx.array:
    """Return an array in chunks and float32, filled up. [B, T, H, D] -> [N, B, R, H / R, C, D]"""
    batch, tokens, _, width = array.shape
    room = [(0, 0), (0, -tokens % chunk), (0, 0), (0, 0)]
    filled = mx.pad(array.astype(mx.float32), room, constant_values=filler)
    return filled.reshape(batch, -1, chunk, heads, array.shape[2] // heads, width).transpose(1, 0, 3, 4, 2, 5)


def _from_start(logs: mx.array) -> mx.array:
    """Sum up to each token. [..., C, D]"""
    return mx.cumsum(logs, axis=-2)


def _to_end(logs: mx.array) -> mx.array:
    """Sum what comes after each token. [..., C, D]"""
    return mx.cumsum(logs, axis=-2, reverse=True, inclusive=False)


def _products(rows: mx.array, *, keys: mx.array, logs: mx.array) -> mx.array:
    """Compute the products of rows with keys up to their token, each with the decay between the two. [..., C, C]"""
    if logs.shape[-1] == 1:
        return (rows @ keys.swapaxes(-1, -2)) * _decays(logs[..., 0])
    return _channel_products(rows, keys, logs)


def _decays(logs: mx.array) -> mx.array:
    """Compute the decay from token j to token i, 0 for j > i. [..., C] -> [..., C, C]"""
    size = logs.shape[-1]
    between = mx.cumsum(mx.tril(mx.broadcast_to(logs[..., None], (*logs.shape, size)), -1), axis=-2)
    later = mx.triu(mx.full((size, size), -mx.inf), 1)
    return mx.exp(between + later)


def _channel_products(rows: mx.array, keys: mx.array, logs: mx.array) -> mx.array:
    """Compute `_products` where each channel has its own decay, for stretches that double in length.

    Rows of the second of two stretches meet keys of the first through the border between them: both ways only decay.
    """
    products, width = (rows * keys).sum(-1)[..., None, None], 1
    while width < rows.shape[-2]:
        first, second = _pairs(products, -3)
        (_, late), (early, _), (early_logs, late_logs) = (
            _pairs(_stretches(array, width), -3) for array in (rows, keys, logs)
        )
        across = (late * mx.exp(_from_start(late_logs))) @ (early * mx.exp(_to_end(early_logs))).swapaxes(-1, -2)
        upper = mx.concatenate([first, mx.zeros_like(across)], axis=-1)
        products = mx.concatenate([upper, mx.concatenate([across, second], axis=-1)], axis=-2)
        width *= 2
    return products.squeeze(-3)


def _stretches(array: mx.array, width: int) -> mx.array:
    """Cut tokens into stretches. [..., C, D] -> [..., C / width, width, D]"""
    return array.reshape(*array.shape[:-2], -1, width, array.shape[-1])


def _pairs(array: mx.array, axis: int) -> list[mx.array]:
    """Return the first and the second of each two along an axis; the gradient of a split is one array, not two."""
    place = array.ndim + axis
    paired = array.reshape(*array.shape[:place], -1, 2, *array.shape[place + 1 :])
    return [half.squeeze(place + 1) for half in mx.split(paired, 2, axis=place + 1)]


def _inverse(lower: mx.array) -> mx.array:
    """Invert I + L, with L below the diagonal.

    The second term is zero, and has the gradient of the inverse: that of X is -X dL X.
    """
    inverse = _doubled_inverse(mx.stop_gradient(lower))
    return inverse - inverse @ (lower - mx.stop_gradient(lower)) @ inverse


def _doubled_inverse(lower: mx.array) -> mx.array:
    """Invert I + L by blocks on the diagonal, which double in size until there is one.

    The inverse of two blocks with B below them has -Y B X below theirs, X and Y. A series in powers of L would lose all
    digits where keys resemble each other.
    """
    size = lower.shape[-1]
    inverse = mx.broadcast_to(mx.eye(size), lower.shape)
    places = mx.arange(size)
    width = 1
    while width < size:
        blocks = places // width
        pairs = (blocks[:, None] == blocks[None] + 1) & (blocks[None] % 2 == 0)
        inverse = inverse - inverse @ mx.where(pairs, lower, 0.0) @ inverse
        width *= 2
    return inverse
