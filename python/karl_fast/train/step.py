"""One step: the gradient of one or more batches as if they were one, its norm, and the update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.train.batch import Padded, padded
from karl_fast.train.head import backward, chunk_rows, forward
from karl_fast.train.model import adapters_off, split

if TYPE_CHECKING:
    import mlx.core as mx
    from numpy.typing import NDArray

    from karl_fast.train.examples import Example
    from karl_fast.train.recipe import Objective


@dataclass(frozen=True)
class Gradient:
    """What a step is made of.

    Attributes:
        loss: of all its batches, as one.
        values: by trainable parameter, not yet scaled down.
        norm: of all of them together.
        learned: tokens that were learned from.
        real: tokens that the model saw, without padding.
    """

    loss: float
    values: Any
    norm: float
    learned: int
    real: int

    @property
    def finite(self) -> bool:
        """Whether there is nothing in it that would spoil the weights."""
        return bool(np.isfinite(self.norm) and np.isfinite(self.loss))


def vocabulary(model: Any) -> int:
    """How many tokens a model knows; nothing is computed for it."""
    import mlx.core as mx

    return int(model(mx.array([[1]])).shape[-1])


class Learner:
    """A model, its halves, and what it is to learn."""

    def __init__(self, model: Any, examples: list[Example], objective: Objective) -> None:
        self.model, self.examples, self.objective = model, examples, objective
        self.body, self.head = split(model)
        self.rows = chunk_rows(vocabulary(model))

    def gradient(self, batches: list[list[int]]) -> Gradient:
        """The gradient of the mean over all batches: totals and denominators add up, and are divided once.

        Args:
            batches: each a list of numbers of examples.
        """
        import mlx.core as mx
        from mlx.utils import tree_map

        total, count, learned, real = 0.0, 0.0, 0, 0
        summed = None
        for rows in batches:
            batch = padded([self.examples[row] for row in rows])
            value, over, gradient = self._of_batch(rows, batch)
            summed = gradient if summed is None else tree_map(mx.add, summed, gradient)
            mx.eval(value, summed)
            total, count = total + value.item(), count + over
            learned, real = learned + int(batch.places.size), real + batch.real
        mean = tree_map(lambda one: one / max(count, 1.0), summed)
        return Gradient(total / max(count, 1.0), mean, _norm(mean), learned, real)

    def _of_batch(self, rows: list[int], batch: Padded) -> tuple[mx.array, float, Any]:
        scored = self.objective.scored(rows, batch, self._reference(batch))
        family = self.objective.family

        def total(logp: mx.array) -> mx.array:
            return family.total(batch.spread(logp), scored)

        value, _, gradient = backward(
            self.model, self.body, self.head, batch.tokens, batch.places, self.rows, total
        )
        return value, float(family.denominator(scored)), gradient

    def _reference(self, batch: Padded) -> NDArray[np.float32] | None:
        """Log-probabilities under the model before training, where the recipe compares with it. [B, T]"""
        if not self.objective.grouped:
            return None
        with adapters_off(self.model):
            return np.array(batch.spread(self.logp(batch)))

    def logp(self, batch: Padded) -> mx.array:
        """The log-probability of each learned token, without dropout and without a gradient. [N]"""
        self.model.eval()
        try:
            return forward(self.body, self.head, batch.tokens, batch.places, self.rows)
        finally:
            self.model.train()


def _norm(gradient: Any) -> float:
    """The Euclidean norm of all gradients together, in float32."""
    import mlx.core as mx
    from mlx.utils import tree_flatten

    squares = [mx.square(one.astype(mx.float32)).sum() for _, one in tree_flatten(gradient)]
    return float(mx.sqrt(mx.stack(squares).sum()).item())


def clipped(gradient: Gradient, limit: float) -> Any:
    """The gradient, scaled down where its norm is above the limit; 0 is no limit."""
    from mlx.utils import tree_map

    if not limit or gradient.norm <= limit:
        return gradient.values
    share = limit / gradient.norm
    return tree_map(lambda one: one * share, gradient.values)
