"""Log-probabilities, entropies and divergences of tokens, and gradients through them, without all logits.

```text
hidden states --> a chunk of logits at a time --> logp, entropy, divergence of each token  --> objective (NumPy)
      ^                      |                                                                     |
      |                      +--> slopes of each in its hidden state                               |
      +--- backward through the body <--- sum of coefficient * slope <--- d loss / d quantity <----+
```

The log-probability of a token depends on the hidden state in front of it and on no other:

    logp_t = z_t[y_t] - log sum_v exp z_t[v],   z_t = head(h_t)

so for any loss L of the log-probabilities

    dL/dh_t = dL/dlogp_t * dlogp_t/dh_t,   dL/dtheta = sum_t dL/dlogp_t * dlogp_t/dtheta

and the slopes can be computed chunk by chunk before L is known. The head is computed once forwards and once backwards,
for tokens that are learned from and no others, and there is never more than one chunk of logits.

`karl_fast.objective` computes the coefficients dL/dlogp_t in NumPy; MLX pulls them back through the model. MLX is lazy:
`Traced` builds the graph of the whole gradient before anything is computed, with an array in the place of the
coefficients. Evaluating the log-probabilities runs the forward part, and keeps of it what the rest of the graph still
refers to; then the coefficients are written into their array, and the backward part runs. Evaluating within `mx.grad`
instead would keep every array of the forward part, 2 to 6 times the memory; a second call would be a second forward
pass.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Protocol

import mlx.core as mx
import mlx.nn as nn
import numpy as np

from karl_fast.modeling.model_views import chunkwise
from karl_fast.modeling.optimizer import GradientSum

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from karl_fast.objective.batch import Evaluation

    Arrays = dict[str, mx.array]
    Tree = Any
    Columns = dict[str, NDArray[np.float32]]

CHUNK_BYTES = 8 << 20
"""Logits of one chunk in float32."""

FEWEST_ROWS = 32
"""Least hidden states of a chunk: a product of fewer rows spends its time on reading the head's weights."""

IN_FLIGHT = 12
"""Arrays of a chunk's size in memory at a time: MLX allocates for some ten operations ahead."""

IN_FLIGHT_DIVERGENCE = 20
"""The same with the divergence from a reference, whose logits are computed as well."""


def chunk_rows(vocabulary: int) -> int:
    """Return the number of hidden states in a chunk."""
    return max(FEWEST_ROWS, CHUNK_BYTES // (4 * vocabulary))


def log_probabilities(logits: mx.array, targets: mx.array) -> mx.array:
    """Compute the log-probability of each target, in float32. [N, V], [N] -> [N]"""
    return chosen_logits(logits, targets) - mx.logsumexp(logits.astype(mx.float32), axis=-1)


def chosen_logits(logits: mx.array, targets: mx.array) -> mx.array:
    """Return the logit of each target, in float32. [N, V], [N] -> [N]"""
    return mx.take_along_axis(logits.astype(mx.float32), targets[:, None], axis=-1)[:, 0]


def entropies(logits: mx.array) -> mx.array:
    """Compute the entropy of each distribution in nats, in float32. [N, V] -> [N]"""
    return -_weighed(logits, _log_softmax(logits)).sum(axis=-1)


OUTSIDE = -1e9
"""Logit of a token outside the support: its probability is exactly 0, and its products with 0 are numbers."""


@dataclass(frozen=True)
class Support:
    """The tokens over which a divergence is summed: the k likeliest of each distribution.

    Attributes:
        k: number of tokens.
        of: whose likeliest tokens: ``teacher`` (the other model), ``student`` (the policy), or the ``intersection``.
        renormalise: True to compare the two distributions given that the token is in the support; False to sum the
            terms of the whole distributions, which is then not a divergence and may be negative.
    """

    k: int
    of: str = "teacher"
    renormalise: bool = False

    def tokens(self, logits: mx.array, other: mx.array) -> mx.array:
        """Return which tokens are in the support. [N, V], [N, V] -> bool [N, V]"""
        if self.of == "intersection":
            return mx.logical_and(_is_top(logits, self.k), _is_top(other, self.k))
        return _is_top(logits if self.of == "student" else other, self.k)


def _is_top(logits: mx.array, k: int) -> mx.array:
    """Return which tokens are among the k likeliest, exactly k of each row. [N, V] -> bool [N, V]"""
    width = logits.shape[-1]
    if k >= width:
        return mx.ones(logits.shape, dtype=mx.bool_)
    top = mx.argpartition(-mx.stop_gradient(logits), k - 1, axis=-1)[:, :k]
    return mx.put_along_axis(mx.zeros(logits.shape, dtype=mx.bool_), top, mx.array(True), axis=-1)


@dataclass(frozen=True)
class _Pair:
    """Two distributions over the same tokens, in float32.

    Attributes:
        logits, other: of the policy and of the other model, over the tokens that both have. [N, V']
        inside: which tokens are summed over, where terms of whole distributions are; None for all. [N, V']
    """

    logits: mx.array
    other: mx.array
    inside: mx.array | None

    @classmethod
    def of(cls, logits: mx.array, other: mx.array, support: Support | None) -> _Pair:
        """Cut two rows of logits to the tokens that both have, and to a support.

        Models of one family pad their vocabularies to different sizes; the surplus is of no token.
        """
        width = min(logits.shape[-1], other.shape[-1])
        z, w = logits[:, :width].astype(mx.float32), other[:, :width].astype(mx.float32)
        if support is None:
            return cls(z, w, None)
        inside = support.tokens(z, w)
        if support.renormalise:
            return cls(mx.where(inside, z, OUTSIDE), mx.where(inside, w, OUTSIDE), None)
        return cls(z, w, inside)

    def summed(self, values: mx.array) -> mx.array:
        """Return values of tokens that are summed over, 0 for others. [N, V']"""
        return values if self.inside is None else mx.where(self.inside, values, 0.0)


def divergences(logits: mx.array, reference: mx.array, direction: str, support: Support | None = None) -> mx.array:
    """Compute the divergence of each distribution from that of the reference in nats, in float32. [N, V] -> [N]

    ``reverse`` is sum p (log p - log q), with p the policy and q the reference; ``forward`` is sum q (log q - log p).
    The sum is over the tokens that both have, or over a support.
    """
    pair = _Pair.of(logits, reference, support)
    p, q = (pair.logits, pair.other) if direction == "reverse" else (pair.other, pair.logits)
    return pair.summed(_weighed(p, _log_softmax(p) - _log_softmax(q))).sum(axis=-1)


def _log_softmax(logits: mx.array) -> mx.array:
    scaled = logits.astype(mx.float32)
    return scaled - mx.logsumexp(scaled, axis=-1, keepdims=True)


def _weighed(logits: mx.array, values: mx.array) -> mx.array:
    """Return values times their probabilities, 0 where that is 0: a model may rule tokens out. [N, V]"""
    p = mx.softmax(logits.astype(mx.float32), axis=-1)
    return mx.where(p > 0, p * values, 0.0)


@dataclass(frozen=True)
class ReferenceLogits:
    """Logits of another model at the same tokens, for the divergence from its whole distribution.

    Attributes:
        hidden: its hidden states. [N, E]
        head: its hidden states to logits. [1, N, E] -> [1, N, V]
        direction: ``reverse`` or ``forward``.
        support: the tokens that are summed over; None for all.
    """

    hidden: mx.array
    head: Any
    direction: str
    support: Support | None = None

    def logits(self, part: slice) -> mx.array:
        """Compute logits of some tokens, without a gradient. [N', V]"""
        return mx.stop_gradient(self.head(self.hidden[part][None])[0])


CANDIDATE = "candidate_logp_"


def candidate_names(count: int) -> tuple[str, ...]:
    """Return the names of the log-probabilities of so many candidates in the place of each token."""
    return tuple(f"{CANDIDATE}{number}" for number in range(count))


def other_names(names: Iterable[str]) -> list[str]:
    """Return the names that are of other tokens in the place of each: ``label_logp``, or those of candidates."""
    return [name for name in names if name == "label_logp" or name.startswith(CANDIDATE)]


def _target_columns(targets: mx.array, names: Iterable[str]) -> Iterator[tuple[str, mx.array]]:
    """Yield the token that each log-probability is of, by name. [N]"""
    yield "logp", targets if targets.ndim == 1 else targets[:, 0]
    yield from ((name, targets[:, place]) for place, name in enumerate(other_names(names), start=1))


def quantities(
    logits: mx.array, targets: mx.array, names: Sequence[str], reference: ReferenceLogits | None = None
) -> Arrays:
    """Compute quantities of tokens by name. [N, V], [N] -> [N]

    They are those of `other_names`, ``entropy``, ``divergence`` and ``gap``: how much likelier the likeliest token is
    than the target, in nats, which has no slope.
    Where there are other tokens in the place of each, the targets have a further column for each of them. [N, 1 + C]
    """
    values = {name: log_probabilities(logits, column) for name, column in _target_columns(targets, names)}
    if "entropy" in names:
        values["entropy"] = entropies(logits)
    if "gap" in names:
        values["gap"] = logits.astype(mx.float32).max(axis=-1) - chosen_logits(logits, targets)
    if reference is not None:
        other = reference.logits(slice(None))
        values["divergence"] = divergences(logits, other, reference.direction, reference.support)
    return values


def score_tokens(
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
        targets: [N], or with other tokens [N, 1 + C]
        rows: hidden states a chunk.
        names: of the quantities, ``logp`` among them.
        reference: for the divergence.
        slopes: True to compute them.

    Returns:
        The quantities [N] in float32, and their slopes in the hidden states [N, E] in the type of those, by name.
    """
    columns: dict[str, list[mx.array]] = {name: [mx.zeros(0)] for name in names}
    slope_columns: dict[str, list[mx.array]] = {name: [mx.zeros((0, hidden.shape[1]), hidden.dtype)] for name in names}
    previous: list[mx.array] = []
    for start in range(0, hidden.shape[0], rows):
        part = slice(start, start + rows)
        states = mx.depends(hidden[part], previous) if previous else hidden[part]  # one chunk after the other
        other = None if reference is None else replace(reference, hidden=mx.depends(reference.hidden[part], previous))
        values, pulled = _chunk(head, states, targets[part], names, other, slopes)
        for name in names:
            columns[name].append(values[name])
            slope_columns[name] += [pulled[name]] if slopes else []
        previous = [*values.values(), *pulled.values()]
    return _joined(columns), _joined(slope_columns)


def _joined(chunks: dict[str, list[mx.array]]) -> Arrays:
    return {name: mx.concatenate(parts) for name, parts in chunks.items()}


def _chunk(
    head: Any,
    hidden: mx.array,
    targets: mx.array,
    names: Sequence[str],
    reference: ReferenceLogits | None,
    with_slopes: bool,
) -> tuple[Arrays, Arrays]:
    logits = head(hidden[None])[0]
    values = quantities(logits, targets, names, reference)
    if not with_slopes:
        return values, {}
    # -d logp_y / dz = exp(z_v - log sum exp z) - [v = y], pulled back through the head alone: one that is linear needs
    # nothing of its way forwards for it.
    p = mx.softmax(logits.astype(mx.float32), axis=-1)
    places = mx.arange(targets.shape[0])
    excess = {name: p.at[places, column].add(-1.0) for name, column in _target_columns(targets, names)}
    if "entropy" in names:  # -dH / dz = p_v (log p_v + H)
        excess["entropy"] = _weighed(logits, _log_softmax(logits)) + p * values["entropy"][:, None]
    if reference is not None:
        excess["divergence"] = _divergence_excess(logits, reference)
    pulls = [part.astype(logits.dtype) for part in excess.values()]
    slopes = [mx.vjp(lambda states: head(states[None])[0], [hidden], [pull])[1][0] for pull in pulls]
    return values, {name: -slope for name, slope in zip(excess, slopes, strict=True)}


def _divergence_excess(logits: mx.array, reference: ReferenceLogits) -> mx.array:
    """Compute ``-dD / dz``. [N, V]

    With the sum over S, D = sum_S p_v (log p_v - log q_v) of the reverse has p_v (D + P_S - [v in S] (log p_v - log q_v
    + 1)), and that of the forward [v in S] q_v - p_v Q_S; over all tokens P_S = Q_S = 1.
    """
    pair = _Pair.of(logits, reference.logits(slice(None)), reference.support)
    p, q = (mx.softmax(each, axis=-1) for each in (pair.logits, pair.other))
    if reference.direction == "forward":
        part = pair.summed(q)
        excess = part - p * part.sum(axis=-1, keepdims=True)
    else:
        terms = pair.summed(_weighed(pair.logits, _log_softmax(pair.logits) - _log_softmax(pair.other)))
        excess = p * terms.sum(axis=-1, keepdims=True) - terms
        if pair.inside is not None:  # else P_S is 1: adding and subtracting p would cost a small divergence its digits
            part = pair.summed(p)
            excess = excess + p * part.sum(axis=-1, keepdims=True) - part
    return mx.pad(excess, [(0, 0), (0, logits.shape[-1] - excess.shape[-1])])


def forward(
    body: Any,
    head: Any,
    tokens: mx.array,
    places: mx.array,
    rows: int,
    names: Sequence[str] = ("logp",),
    reference: ReferenceLogits | None = None,
    others: mx.array | None = None,
) -> Arrays:
    """Compute quantities of chosen tokens, without gradients.

    Args:
        body, head: the halves of the model.
        tokens: padded on the right. [B, T + 1]
        places: which of the B * T targets, flattened. [N]
        rows: hidden states a chunk.
        names: of the quantities, ``logp`` among them.
        reference: for the divergence.
        others: other tokens in the place of the chosen ones, as many as names of them. [N, C]

    Returns:
        Each quantity [N] in float32, by name.
    """
    hidden, targets = select_targets(body(tokens[:, :-1]), tokens, places, others)
    return score_tokens(head, hidden, targets, rows, names, reference, slopes=False)[0]


def select_targets(
    states: mx.array, tokens: mx.array, places: mx.array, others: mx.array | None = None
) -> tuple[mx.array, mx.array]:
    """Return the hidden states in front of chosen tokens, and the tokens. [B, T, E], [B, T + 1], [N] -> [N, E], [N]

    Other tokens in their place [N, C] are further columns of the tokens. [N, 1 + C]
    """
    hidden, targets = states.reshape(-1, states.shape[-1])[places], tokens[:, 1:].reshape(-1)[places]
    return hidden, targets if others is None else mx.concatenate([targets[:, None], others], axis=1)


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
    others: mx.array | None = None,
) -> tuple[Arrays, Any]:
    """Return quantities of tokens, and the gradient of ``sum(coefficient * quantity)`` in the trainable parameters.

    Args:
        model: the model with the trainable parameters; its head has none.
        body, head, tokens, places, rows, reference, others: as for `forward`.
        coefficients: the slope of a loss in each quantity, by its name; read when the gradient is computed. [N]
    """

    def weighed() -> tuple[mx.array, Arrays]:
        hidden, targets = select_targets(body(tokens[:, :-1]), tokens, places, others)
        return surrogate_loss(head, hidden, targets, rows, coefficients, reference)

    (_, values), gradient = nn.value_and_grad(model, weighed)()
    return values, gradient


def surrogate_loss(
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
    still = mx.stop_gradient(hidden)
    values, slopes = score_tokens(head, still, targets, rows, list(coefficients), reference, slopes=True)
    terms = [weights[:, None] * slopes[name].astype(mx.float32) for name, weights in coefficients.items()]
    cotangent = mx.stop_gradient(sum(terms[1:], start=terms[0]).astype(hidden.dtype))
    return (hidden * cotangent).astype(mx.float32).sum(), values


class Traced:
    """Outputs of a forward pass, and the backward pass that waits for a coefficient of each."""

    def __init__(
        self,
        names: Iterable[str],
        size: int,
        gradient: Callable[[Arrays], tuple[Arrays, Tree]],
        count: int | None = None,
    ) -> None:
        """Build the graph.

        Args:
            names: of the outputs.
            size: numbers in each.
            gradient: coefficients to the outputs, and to the gradient of ``sum(coefficient * output)``.
            count: numbers that are meant, if others fill the end up.
        """
        self._coefficients = {name: mx.array(np.zeros(size, dtype=np.float32)) for name in names}
        self._outputs, self._gradient = gradient(self._coefficients)
        self._count = size if count is None else count

    def outputs(self) -> Columns:
        """Run the forward pass, and return its outputs. [N]"""
        mx.eval(self._outputs)
        return {name: np.array(array[: self._count]) for name, array in self._outputs.items()}

    def pull(self, coefficients: Columns) -> Tree:
        """Return the gradient, which is not computed yet, for the coefficients of each output. [N]"""
        for name, values in coefficients.items():
            array: Any = self._coefficients[name]
            # The graph reads this memory, and has not read it yet: MLX arrays are immutable, their buffers are not.
            np.asarray(memoryview(array))[: self._count] = values
        return self._gradient


class Trace(Protocol):
    """A forward pass, and a backward pass that waits for the coefficients: `Traced`, or a sweep over segments."""

    def outputs(self) -> Columns:
        """Run the forward pass, and return its outputs. [N]"""

    def pull(self, coefficients: Columns) -> Tree:
        """Return the gradient for the coefficients of each output. [N]"""


class ModelPass(Protocol):
    """Pass of the rows that are in memory at a time through the model."""

    def forward(self) -> Columns:
        """Compute the outputs alone; those of each token are in the order of rows and tokens. [N]"""

    def trace(self) -> Trace:
        """Prepare the outputs and the gradient."""


def objective_gradient(
    parts: Sequence[ModelPass], mask: NDArray[np.bool_], loss: Callable[[Columns], Evaluation]
) -> tuple[Evaluation, Columns, Arrays]:
    """Return a loss of all rows, the outputs it is computed from, and its gradient in the trainable parameters, joined.

    One part takes one forward and one backward pass. Several are of a loss that looks at all their rows at once: a
    first pass keeps nothing but its outputs, and a second forward pass comes with the backward pass of each.

    Args:
        parts: the rows, in order.
        mask: which tokens have outputs. [B, T]
        loss: outputs of tokens to their coefficients. [B, T]
    """
    if len(parts) == 1:
        traced = parts[0].trace()
        outputs = [traced.outputs()]
        evaluation, shares, columns = _evaluate_objective(outputs, mask, loss)
        return evaluation, columns, traced.pull(shares[0])
    evaluation, shares, columns = _evaluate_objective([part.forward() for part in parts], mask, loss)
    summed = GradientSum()
    for part, share in zip(parts, shares, strict=True):
        summed.add(part.trace().pull(share))
        mx.eval(summed.vectors)  # before the next part needs the room
    return evaluation, columns, summed.result()


def _evaluate_objective(
    outputs: list[Columns], mask: NDArray[np.bool_], loss: Callable[[Columns], Evaluation]
) -> tuple[Evaluation, list[Columns], Columns]:
    """Return a loss, the coefficients of each part, and the outputs of all parts. [N] each, [B, T]"""
    sizes = [len(output["logp"]) for output in outputs]
    columns = {name: scatter_tokens(np.concatenate([output[name] for output in outputs]), mask) for name in outputs[0]}
    evaluation = loss(columns)
    ends = list(accumulate(sizes))[:-1]
    flat = {name: np.split(values[mask], ends) for name, values in _coefficients(evaluation).items()}
    return evaluation, [{name: parts[part] for name, parts in flat.items()} for part in range(len(sizes))], columns


def _coefficients(evaluation: Evaluation) -> dict[str, NDArray[Any]]:
    """Return the coefficients of tokens by the name of their output. [B, T]"""
    coefficients = {
        "logp": evaluation.coefficients,
        "entropy": evaluation.entropy_coefficients,
        "divergence": evaluation.divergence_coefficients,
        "label_logp": evaluation.label_logp_coefficients,
    }
    if (candidates := evaluation.candidate_logp_coefficients) is not None:
        coefficients |= zip(candidate_names(candidates.shape[2]), np.moveaxis(candidates, 2, 0), strict=True)
    return {name: values for name, values in coefficients.items() if values is not None}


def scatter_tokens(flat: NDArray[np.float32], mask: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return values of the tokens of a mask at their places, 0 elsewhere. [N] -> [B, T]"""
    columns = np.zeros(mask.shape, dtype=np.float32)
    columns[mask] = flat
    return columns
