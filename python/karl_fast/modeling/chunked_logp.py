r"""The log-probabilities of tokens and their slopes in the hidden states, without the logits of all of them at once.

The log-probability of a token depends on the hidden state in front of it and on no other::

    logp_t = z_t[y_t] - log sum_v exp z_t[v],   z_t = head(h_t)

so for any loss L of the log-probabilities

    dL/dh_t = dL/dlogp_t * dlogp_t/dh_t

and the second factor can be had chunk by chunk before L is known. The head is computed once forwards and once
backwards, for tokens that are learned from and no others, and at no time is there more than one chunk of logits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import mlx.core as mx

CHUNK_BYTES = 8 << 20
"""Logits of one chunk in float32."""

FEWEST_ROWS = 32
"""A matrix product of fewer rows spends its time on reading the head's weights."""

IN_FLIGHT = 12
"""Arrays of a chunk's size in memory at a time: MLX allocates for some ten operations ahead."""


def chunk_rows(vocabulary: int) -> int:
    """Return the number of hidden states in a chunk."""
    return max(FEWEST_ROWS, CHUNK_BYTES // (4 * vocabulary))


def log_probabilities(logits: mx.array, targets: mx.array) -> mx.array:
    """Compute the log-probability of each target, in float32. [N, V], [N] -> [N]"""
    import mlx.core as mx

    scaled = logits.astype(mx.float32)
    taken = mx.take_along_axis(scaled, targets[:, None], axis=-1)[:, 0]
    return taken - mx.logsumexp(scaled, axis=-1)


def scored(head: Any, hidden: mx.array, targets: mx.array, rows: int, *, slopes: bool) -> tuple[mx.array, mx.array]:
    """Compute log-probabilities, and if wanted their slopes, `rows` hidden states at a time.

    Args:
        head: hidden states to logits. [1, N, E] -> [1, N, V]
        hidden: [N, E]
        targets: [N]
        rows: hidden states a chunk.
        slopes: True to compute them.

    Returns:
        logp [N] in float32, and dlogp/dh [N, E] in the type of the hidden states (or nothing, [0, E]).
    """
    import mlx.core as mx

    found: list[mx.array] = []
    steep: list[mx.array] = []
    before: list[mx.array] = []
    for start in range(0, hidden.shape[0], rows):
        some = slice(start, start + rows)
        states = mx.depends(hidden[some], before) if before else hidden[some]  # one chunk after the other
        logp, slope = _chunk(head, states, targets[some], slopes)
        found.append(logp)
        steep += slope
        before = [logp, *slope]
    nothing = mx.zeros((0, hidden.shape[1]), hidden.dtype)
    return mx.concatenate([mx.zeros(0), *found]), mx.concatenate([nothing, *steep])


def _chunk(head: Any, hidden: mx.array, targets: mx.array, steep: bool) -> tuple[mx.array, list[mx.array]]:
    import mlx.core as mx

    logits = head(hidden[None])[0]
    logp = log_probabilities(logits, targets)
    if not steep:
        return logp, []
    # -d logp_y / dz = exp(z_v - log sum exp z) - [v = y], pulled back through the head alone: one that is linear needs
    # nothing of its way forwards for it.
    excess = mx.softmax(logits.astype(mx.float32), axis=-1).at[mx.arange(targets.size), targets].add(-1.0)
    pull = excess.astype(logits.dtype)
    slopes = mx.vjp(lambda states: head(states[None])[0], [hidden], [pull])[1]
    return logp, [-slope for slope in slopes]


def forward(body: Any, head: Any, tokens: mx.array, places: mx.array, rows: int) -> mx.array:
    """Compute the log-probabilities of chosen tokens, without gradients.

    Args:
        body, head: the halves of the model.
        tokens: padded on the right. [B, T + 1]
        places: which of the B * T targets, flattened. [N]
        rows: hidden states a chunk.

    Returns:
        logp [N].
    """
    hidden, targets = _chosen(body(tokens[:, :-1]), tokens, places)
    return scored(head, hidden, targets, rows, slopes=False)[0]


def _chosen(states: mx.array, tokens: mx.array, places: mx.array) -> tuple[mx.array, mx.array]:
    hidden = states.reshape(-1, states.shape[-1])[places]
    return hidden, tokens[:, 1:].reshape(-1)[places]


def backward(
    model: Any,
    body: Any,
    head: Any,
    tokens: mx.array,
    places: mx.array,
    rows: int,
    loss: Callable[[mx.array], mx.array],
) -> tuple[mx.array, mx.array, Any]:
    """Return a loss of log-probabilities, the log-probabilities, and the gradient in the trainable parameters.

    Args:
        model: the model with the trainable parameters; its head has none.
        body, head, tokens, places, rows: as for `forward`.
        loss: logp [N] to a scalar.
    """
    import mlx.core as mx
    import mlx.nn as nn

    def surrogate() -> tuple[mx.array, mx.array, mx.array]:
        hidden, targets = _chosen(body(tokens[:, :-1]), tokens, places)
        logp, slopes = scored(head, mx.stop_gradient(hidden), targets, rows, slopes=True)
        value, pull = mx.value_and_grad(loss)(logp)
        wanted = mx.stop_gradient((pull[:, None] * slopes.astype(mx.float32)).astype(hidden.dtype))
        return (hidden * wanted).astype(mx.float32).sum(), value, logp

    (_, value, logp), gradient = nn.value_and_grad(model, surrogate)()
    return value, logp, gradient
