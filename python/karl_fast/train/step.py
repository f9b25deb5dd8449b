"""One step: the gradient of one or more batches as if they were one, its norm, and the update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.train.batch import Padded, padded
from karl_fast.train.scorer import Scorer
from karl_fast.train.tensors import flat

if TYPE_CHECKING:
    import mlx.core as mx

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


class Learner:
    """A model, and what it is to learn from."""

    def __init__(self, model: Any, examples: list[Example], objective: Objective) -> None:
        self.model, self.examples, self.objective = model, examples, objective
        self.scorer = Scorer(model)

    def gradient(self, batches: list[list[int]]) -> Gradient:
        """The gradient of the mean over all batches: totals and denominators add up, and are divided once.

        Args:
            batches: each a list of numbers of examples.
        """
        import mlx.core as mx
        from mlx.utils import tree_map

        values, count, learned, real = [], 0.0, 0, 0
        summed = None
        for rows in batches:
            if summed is not None:
                mx.eval(summed, values)  # what is left of a batch, before the next one needs the room
            batch = padded([self.examples[row] for row in rows])
            value, over, gradient = self._of_batch(rows, batch)
            summed = gradient if summed is None else tree_map(mx.add, summed, gradient)
            values.append(value)
            count, learned, real = count + over, learned + int(batch.places.size), real + batch.real
        share = 1 / max(count, 1.0)
        mean = tree_map(lambda one: one * share, summed)
        norm = _norm(mean)
        mx.eval(values, mean, norm)  # at once: each call waits for the device
        return Gradient(share * sum(map(_number, values)), mean, _number(norm), learned, real)

    def _of_batch(self, rows: list[int], batch: Padded) -> tuple[mx.array, float, Any]:
        reference = self.scorer.reference(batch) if self.objective.grouped else None
        scored = self.objective.scored(rows, batch, reference)
        family = self.objective.family

        def total(logp: mx.array) -> mx.array:
            value: mx.array = family.total(batch.spread(logp), scored)
            return value

        value, gradient = self.scorer.backward(batch, total)
        return value, float(family.denominator(scored)), gradient


def _norm(gradient: Any) -> mx.array:
    """The Euclidean norm of all gradients together, in float32."""
    import mlx.core as mx

    return mx.sqrt(mx.stack([mx.square(one.astype(mx.float32)).sum() for one in flat(gradient).values()]).sum())


def _number(value: mx.array) -> float:
    found: Any = value.item()
    return float(found)


def clipped(gradient: Gradient, limit: float) -> Any:
    """The gradient, scaled down where its norm is above the limit; 0 is no limit."""
    from mlx.utils import tree_map

    if not limit or gradient.norm <= limit:
        return gradient.values
    share = limit / gradient.norm
    return tree_map(lambda one: one * share, gradient.values)
