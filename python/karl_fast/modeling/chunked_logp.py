r"""Log-probabilities, entropies and divergences of tokens and their slopes in the hidden states, without all logits.

The log-probability of a token depends on the hidden state in front of it and on no other:

    logp_t = z_t[y_t] - log sum_v exp z_t[v],   z_t = head(h_t)

so for any loss L of the log-probabilities

    dL/dh_t = dL/dlogp_t * dlogp_t/dh_t

and the second factor can be had chunk by chunk before L is known. The head is computed once forwards and once
backwards, for tokens that are learned from and no others, and at no time is there more than one chunk of logits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from karl_fast.modeling.model_views import chunkwise

if TYPE_CHECKING:
    from collections.abc import Sequence

    import mlx.core as mx

    Arrays = dict[str, mx.array]

CHUNK_BYTES = 8 << 20
"""Logits of one chunk in float32."""

FEWEST_ROWS = 32
"""A matrix product of fewer rows spends its time on reading the head's weights."""

IN_FLIGHT = 12
"""Arrays of a chunk's size in memory at a time: MLX allocates for some ten operations ahead."""

IN_FLIGHT_DIVERGENCE = 20
"""The same with the divergence from a reference, whose logits are computed beside."""


def chunk_rows(vocabulary: int) -> int:
    """Return the number of hidden states in a chunk."""
    return max(FEWEST_ROWS, CHUNK_BYTES // (4 * vocabulary))


def log_probabilities(logits: mx.array, targets: mx.array) -> mx.array:
    """Compute the log-probability of each target, in float32. [N, V], [N] -> [N]"""
    import mlx.core as mx

    scaled = logits.astype(mx.float32)
    taken = mx.take_along_axis(scaled, targets[:, None], axis=-1)[:, 0]
    return taken - mx.logsumexp(scaled, axis=-1)


def entropies(logits: mx.array) -> mx.array:
    """Compute the entropy of each distribution in nats, in float32. [N, V] -> [N]"""
    return -_weighed(logits, _log_softmax(logits)).sum(axis=-1)


def divergences(logits: mx.array, reference: mx.array, direction: str) -> mx.array:
    """Compute the divergence of each distribution from that of the reference in nats, in float32. [N, V] -> [N]

    ``reverse`` is sum p (log p - log q), with p the policy and q the reference; ``forward`` is sum q (log q - log p).
    """
    p, q = (logits, reference) if direction == "reverse" else (reference, logits)
    return _weighed(p, _log_softmax(p) - _log_softmax(q)).sum(axis=-1)


def _log_softmax(logits: mx.array) -> mx.array:
    import mlx.core as mx

    scaled = logits.astype(mx.float32)
    return scaled - mx.logsumexp(scaled, axis=-1, keepdims=True)


def _weighed(logits: mx.array, values: mx.array) -> mx.array:
    """Return values times their probabilities, 0 where that is 0: a model may rule tokens out. [N, V]"""
    import mlx.core as mx

    p = mx.softmax(logits.astype(mx.float32), axis=-1)
    return mx.where(p > 0, p * values, 0.0)


@dataclass(frozen=True)
class ReferenceLogits:
    """Logits of another model at the same tokens, for the divergence from its whole distribution.

    Attributes:
        hidden: its hidden states. [N, E]
        head: its hidden states to logits. [1, N, E] -> [1, N, V]
        direction: ``reverse`` or ``forward``.
    """

    hidden: mx.array
    head: Any
    direction: str

    def logits(self, some: slice) -> mx.array:
        """Compute logits of some tokens, without a gradient. [N', V]"""
        import mlx.core as mx

        return mx.stop_gradient(self.head(self.hidden[some][None])[0])


def quantities(
    logits: mx.array, targets: mx.array, names: Sequence[str], reference: ReferenceLogits | None = None
) -> Arrays:
    """Compute quantities of tokens by name: ``logp``, ``entropy``, ``divergence``. [N, V], [N] -> [N]"""
    found = {"logp": log_probabilities(logits, targets)}
    if "entropy" in names:
        found["entropy"] = entropies(logits)
    if reference is not None:
        found["divergence"] = divergences(logits, reference.logits(slice(None)), reference.direction)
    return found


def scored(
    head: Any,
    hidden: mx.array,
    targets: mx.array,
    rows: int,
    names: Sequence[str],
    reference: ReferenceLogits | None = None,
    *,
    slopes: bool,
) -> tuple[Arrays, Arrays]:
    """Compute quantities of tokens, and if wanted their slopes, `rows` hidden states at a time.

    Args:
        head: hidden states to logits. [1, N, E] -> [1, N, V]
        hidden: [N, E]
        targets: [N]
        rows: hidden states a chunk.
        names: of the quantities, ``logp`` among them.
        reference: for the divergence.
        slopes: True to compute them.

    Returns:
        The quantities [N] in float32, and their slopes in the hidden states [N, E] in the type of those, by name.
    """
    import mlx.core as mx

    found: dict[str, list[mx.array]] = {name: [mx.zeros(0)] for name in names}
    steep: dict[str, list[mx.array]] = {name: [mx.zeros((0, hidden.shape[1]), hidden.dtype)] for name in names}
    before: list[mx.array] = []
    for start in range(0, hidden.shape[0], rows):
        some = slice(start, start + rows)
        states = mx.depends(hidden[some], before) if before else hidden[some]  # one chunk after the other
        other = None if reference is None else replace(reference, hidden=mx.depends(reference.hidden[some], before))
        values, pulled = _chunk(head, states, targets[some], names, other, slopes)
        for name in names:
            found[name].append(values[name])
            steep[name] += [pulled[name]] if slopes else []
        before = [*values.values(), *pulled.values()]
    return _joined(found), _joined(steep)


def _joined(chunks: dict[str, list[mx.array]]) -> Arrays:
    import mlx.core as mx

    return {name: mx.concatenate(some) for name, some in chunks.items()}


def _chunk(
    head: Any, hidden: mx.array, targets: mx.array, names: Sequence[str], reference: ReferenceLogits | None, steep: bool
) -> tuple[Arrays, Arrays]:
    import mlx.core as mx

    logits = head(hidden[None])[0]
    values = quantities(logits, targets, names, reference)
    if not steep:
        return values, {}
    # -d logp_y / dz = exp(z_v - log sum exp z) - [v = y], pulled back through the head alone: one that is linear needs
    # nothing of its way forwards for it.
    p = mx.softmax(logits.astype(mx.float32), axis=-1)
    excess = {"logp": p.at[mx.arange(targets.size), targets].add(-1.0)}
    if "entropy" in names:  # -dH / dz = p_v (log p_v + H)
        excess["entropy"] = _weighed(logits, _log_softmax(logits)) + p * values["entropy"][:, None]
    if reference is not None:
        excess["divergence"] = _divergence_excess(logits, p, reference, values["divergence"])
    pulls = [one.astype(logits.dtype) for one in excess.values()]
    slopes = [mx.vjp(lambda states: head(states[None])[0], [hidden], [pull])[1][0] for pull in pulls]
    return values, {name: -slope for name, slope in zip(excess, slopes, strict=True)}


def _divergence_excess(logits: mx.array, p: mx.array, reference: ReferenceLogits, value: mx.array) -> mx.array:
    """Compute ``-dKL / dz``: reverse p_v (KL - log p_v + log q_v), forward q_v - p_v. [N, V]"""
    import mlx.core as mx

    other = reference.logits(slice(None))
    if reference.direction == "forward":
        return mx.softmax(other.astype(mx.float32), axis=-1) - p
    return p * value[:, None] - _weighed(logits, _log_softmax(logits) - _log_softmax(other))


def forward(
    body: Any,
    head: Any,
    tokens: mx.array,
    places: mx.array,
    rows: int,
    names: Sequence[str] = ("logp",),
    reference: ReferenceLogits | None = None,
) -> Arrays:
    """Compute quantities of chosen tokens, without gradients.

    Args:
        body, head: the halves of the model.
        tokens: padded on the right. [B, T + 1]
        places: which of the B * T targets, flattened. [N]
        rows: hidden states a chunk.
        names: of the quantities, ``logp`` among them.
        reference: for the divergence.

    Returns:
        Each quantity [N] in float32, by name.
    """
    hidden, targets = chosen(body(tokens[:, :-1]), tokens, places)
    return scored(head, hidden, targets, rows, names, reference, slopes=False)[0]


def chosen(states: mx.array, tokens: mx.array, places: mx.array) -> tuple[mx.array, mx.array]:
    """Return the hidden states in front of chosen tokens, and the tokens. [B, T, E], [B, T + 1], [N] -> [N, E], [N]"""
    hidden = states.reshape(-1, states.shape[-1])[places]
    return hidden, tokens[:, 1:].reshape(-1)[places]


@chunkwise()
def backward(
    model: Any,
    body: Any,
    head: Any,
    tokens: mx.array,
    places: mx.array,
    rows: int,
    coefficients: Arrays,
    reference: ReferenceLogits | None = None,
) -> tuple[Arrays, Any]:
    """Return quantities of tokens, and the gradient of ``sum(coefficient * quantity)`` in the trainable parameters.

    Args:
        model: the model with the trainable parameters; its head has none.
        body, head, tokens, places, rows, reference: as for `forward`.
        coefficients: the slope of a loss in each quantity, by its name; read when the gradient is computed. [N]
    """
    import mlx.nn as nn

    def weighed() -> tuple[mx.array, Arrays]:
        hidden, targets = chosen(body(tokens[:, :-1]), tokens, places)
        return surrogate(head, hidden, targets, rows, coefficients, reference)

    (_, values), gradient = nn.value_and_grad(model, weighed)()
    return values, gradient


def surrogate(
    head: Any,
    hidden: mx.array,
    targets: mx.array,
    rows: int,
    coefficients: Arrays,
    reference: ReferenceLogits | None = None,
) -> tuple[mx.array, Arrays]:
    """Return a number with the gradient of ``sum(coefficient * quantity)`` in hidden states, and the quantities.

    Args:
        head: hidden states to logits.
        hidden, targets: of the chosen tokens. [N, E], [N]
        rows: hidden states a chunk.
        coefficients: by the name of the quantity. [N]
        reference: for the divergence.
    """
    import mlx.core as mx

    still = mx.stop_gradient(hidden)
    values, slopes = scored(head, still, targets, rows, list(coefficients), reference, slopes=True)
    terms = [slope[:, None] * slopes[name].astype(mx.float32) for name, slope in coefficients.items()]
    wanted = mx.stop_gradient(sum(terms[1:], start=terms[0]).astype(hidden.dtype))
    return (hidden * wanted).astype(mx.float32).sum(), values
