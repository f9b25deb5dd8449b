r"""A forward pass, the objective outside of MLX, and the backward pass: one of each.

An objective is a function of a few numbers a token, so its gradient factors:

    dL/dtheta = sum_t dL/dlogp_t * dlogp_t/dtheta

`karl_fast.objective` computes the first factor, the coefficients, in NumPy; MLX pulls them back through the model. MLX
is lazy: it builds the graph of the whole gradient before it computes anything, with an array in the place of the
coefficients. To evaluate the log-probabilities runs the forward part, and keeps of it what the rest of the graph still
refers to; then the coefficients are written into their array, and the backward part runs. To evaluate within `mx.grad`
instead would keep every array of the forward part, 2 to 6 times the memory; a second call would be a second forward
pass.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from karl_fast.modeling.flat_gradients import GradientSum

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import mlx.core as mx
    from numpy.typing import NDArray

    from karl_fast.objective.evaluation import Evaluation

    Arrays = dict[str, mx.array]
    Tree = Any
    Columns = dict[str, NDArray[np.float32]]


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
        import mlx.core as mx

        self._coefficients = {name: mx.array(np.zeros(size, dtype=np.float32)) for name in names}
        self._outputs, self._gradient = gradient(self._coefficients)
        self._count = size if count is None else count

    def outputs(self) -> Columns:
        """Run the forward pass, and return its outputs. [N]"""
        import mlx.core as mx

        mx.eval(self._outputs)
        return {name: np.array(array[: self._count]) for name, array in self._outputs.items()}

    def pull(self, coefficients: Columns) -> Tree:
        """Return the gradient, which is not computed yet, for the coefficients of each output. [N]"""
        for name, values in coefficients.items():
            array: Any = self._coefficients[name]
            np.asarray(memoryview(array))[: self._count] = values  # the memory that the graph reads, and has not read
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
    import mlx.core as mx

    if len(parts) == 1:
        traced = parts[0].trace()
        found = [traced.outputs()]
        evaluation, shares, columns = _evaluate_objective(found, mask, loss)
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
    sizes = [len(one["logp"]) for one in outputs]
    columns = {name: scatter_tokens(np.concatenate([one[name] for one in outputs]), mask) for name in outputs[0]}
    evaluation = loss(columns)
    ends = list(accumulate(sizes))[:-1]
    flat = {name: np.split(values[mask], ends) for name, values in _coefficients(evaluation).items()}
    return evaluation, [{name: some[part] for name, some in flat.items()} for part in range(len(sizes))], columns


def _coefficients(evaluation: Evaluation) -> dict[str, NDArray[Any]]:
    """Return the coefficients of tokens by the name of their output. [B, T]"""
    found = {
        "logp": evaluation.coefficients,
        "entropy": evaluation.entropy_coefficients,
        "divergence": evaluation.divergence_coefficients,
    }
    return {name: values for name, values in found.items() if values is not None}


def scatter_tokens(flat: NDArray[np.float32], mask: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return values of the tokens of a mask at their places, 0 elsewhere. [N] -> [B, T]"""
    found = np.zeros(mask.shape, dtype=np.float32)
    found[mask] = flat
    return found
