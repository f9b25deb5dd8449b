"""One step: the gradient of one or more batches as if they were one, its norm, and the update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.train.batch import Padded, padded
from karl_fast.train.scorer import Scorer
from karl_fast.train.tensors import flat

if TYPE_CHECKING:
    from collections.abc import Callable

    import mlx.core as mx

    from karl_fast.objective.batch import Scored
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
        """The gradient of the mean over all batches: each adds its total over the denominator of them all.

        Args:
            batches: each a list of numbers of examples.
        """
        import mlx.core as mx
        from mlx.utils import tree_map

        parts = [self._scored(rows) for rows in batches]
        count = max(1.0, sum(self.objective.family.denominator(scored) for _, scored in parts))
        values, summed = [], None
        for batch, scored in parts:
            if summed is not None:
                mx.eval(summed, values)  # what is left of a batch, before the next one needs the room
            value, gradient = self.scorer.backward(batch, self._loss(batch, scored, count))
            summed = gradient if summed is None else tree_map(mx.add, summed, gradient)
            values.append(value)
        size = norm(summed)
        mx.eval(values, summed, size)  # at once: each call waits for the device
        learned, real = (sum(sizes) for sizes in zip(*((one.places.size, one.real) for one, _ in parts), strict=True))
        return Gradient(sum(map(_number, values)), summed, _number(size), learned, real)

    def _scored(self, rows: list[int]) -> tuple[Padded, Scored]:
        batch = padded([self.examples[row] for row in rows])
        reference = self.scorer.reference(batch) if self.objective.grouped else None
        return batch, self.objective.scored(rows, batch, reference)

    def _loss(self, batch: Padded, scored: Scored, count: float) -> Callable[[mx.array], mx.array]:
        """The part that a batch has in the loss of a step. [N] -> []"""
        return lambda logp: self.objective.family(batch.spread(logp), scored, denominator=count)


def norm(gradient: Any) -> mx.array:
    """The Euclidean norm of all gradients together, in float32."""
    import mlx.core as mx

    leaves = [one.astype(mx.float32).reshape(-1) for one in flat(gradient).values()]
    return mx.sqrt(mx.stack([mx.inner(one, one) for one in leaves]).sum())


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
