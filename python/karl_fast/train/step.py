"""Step of training: the gradient of one or more batches as if they were one, its norm, and the update."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import chain, starmap
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np

from karl_fast.modeling.chunked_logp import GradientSum, global_norm, objective_gradient
from karl_fast.train.batching import pad_rows
from karl_fast.train.model_logprobs import Scorer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from karl_fast.modeling.chunked_logp import Columns, Trace
    from karl_fast.objective.batch import Scored
    from karl_fast.objective.evaluation import Evaluation
    from karl_fast.train.batching import PaddedBatch
    from karl_fast.train.examples import Example
    from karl_fast.train.recipe import OfflineObjective

    Unit = tuple[list["MicroBatchPass"], NDArray[np.bool_], Scored]

# A batch that passes through the model in parts, because not all of its rows are to be in memory at a time.


LARGEST_SEED = (1 << 31) - 1


class Parts:
    """The rows of a batch, and the parts of it that are in memory one at a time.

    Attributes:
        whole: the batch.
        parts: the same rows in the same order, a few at a time; the batch itself where it is small.
        rows: the rows of each part.
    """

    def __init__(self, examples: list[Example], most: int | None) -> None:
        """Split a batch of examples into parts of at most so many, or into one part for None."""
        self.whole = pad_rows(examples)
        most = most or len(examples)
        self.rows = [slice(start, start + most) for start in range(0, len(examples), most)]
        self.parts = [self.whole] if len(self.rows) == 1 else [pad_rows(examples[rows]) for rows in self.rows]

    def reference(self, scorer: Scorer) -> NDArray[np.float32]:
        """Compute log-probabilities under the model without its adapters, 0 for tokens not learned. [B, T]"""
        found = mx.concatenate([scorer.reference(part) for part in self.parts])
        return np.array(self.whole.spread(found))

    def passes(self, scorer: Scorer) -> list[MicroBatchPass]:
        """Return the pass of each part, with a seed where it passes twice: dropout leaves out the same twice."""
        if len(self.parts) == 1 and not scorer.long(self.whole):
            return [MicroBatchPass(scorer, self.whole, None)]
        seeds: list[int] = np.array(mx.random.randint(0, LARGEST_SEED, (len(self.parts),))).tolist()
        return [MicroBatchPass(scorer, part, seed) for part, seed in zip(self.parts, seeds, strict=True)]


@dataclass(frozen=True)
class MicroBatchPass:
    """A part of a batch on its way through the model, with the seed of its dropout."""

    scorer: Scorer
    part: PaddedBatch
    seed: int | None

    def forward(self) -> Columns:
        """Compute log-probabilities alone. [N]"""
        self._seed()
        return {"logp": np.array(self.scorer.trained_logp(self.part, self.seed))}

    def trace(self) -> Trace:
        """Prepare log-probabilities and their gradient."""
        self._seed()
        return self.scorer.trace(self.part, self.seed)

    def _seed(self) -> None:
        if self.seed is not None:
            mx.random.seed(self.seed)


@dataclass(frozen=True)
class Gradient:
    """Gradient of a step.

    Attributes:
        loss: loss of all its batches, as one.
        values: gradient of all trainable parameters, joined to vectors, not yet scaled down.
        norm: norm of all of them together.
        learned: number of tokens learned.
        real: number of tokens of the input, without padding.
    """

    loss: float
    values: dict[str, mx.array]
    norm: float
    learned: int
    real: int

    @property
    def finite(self) -> bool:
        """True if loss and norm are finite."""
        return bool(np.isfinite(self.norm) and np.isfinite(self.loss))


class Learner:
    """A model with its training data."""

    def __init__(
        self, model: Any, examples: list[Example], objective: OfflineObjective, segment_length: int | None = None
    ) -> None:
        self.model, self.examples, self.objective = model, examples, objective
        self.scorer = Scorer(model, segment_length)

    def gradient(self, batches: list[list[int]]) -> Gradient:
        """Compute the gradient of the mean over all batches: each adds its total over the denominator of them all.

        Args:
            batches: each a list of numbers of examples.
        """
        scored = [self._scored(rows) for rows in batches]
        count = max(1.0, sum(self.objective.family.denominator(one) for _, one in scored))
        loss, summed = 0.0, GradientSum()
        for passes, mask, one in chain.from_iterable(starmap(self._units, scored)):
            mx.eval(summed.vectors)  # what is left of a batch, before the next one needs the room
            evaluation, _, values = objective_gradient(passes, mask, partial(self._evaluated, one, count))
            loss += evaluation.loss
            summed.add(values)
        found = summed.result()
        size = global_norm(found)
        mx.eval(found, size)  # at once: each call waits for the device
        wholes = [parts.whole for parts, _ in scored]
        learned, real = sum(one.places.size for one in wholes), sum(one.real for one in wholes)
        return Gradient(loss, found, _number(size), learned, real)

    def _scored(self, rows: list[int]) -> tuple[Parts, Scored]:
        parts = Parts([self.examples[row] for row in rows], self.objective.most_rows)
        reference = parts.reference(self.scorer) if self.objective.grouped else None
        return parts, self.objective.scored(rows, parts.whole, reference)

    def _units(self, parts: Parts, scored: Scored) -> Iterator[Unit]:
        """Yield what the loss looks at together: a whole batch where it compares rows, else each part by itself."""
        passes, mask = parts.passes(self.scorer), parts.whole.mask
        if self.objective.family.whole_groups:
            yield passes, mask, scored
            return
        for rows, one in zip(parts.rows, passes, strict=True):
            yield [one], mask[rows], scored.rows(rows)

    def _evaluated(self, scored: Scored, count: float, columns: Columns) -> Evaluation:
        """Return the share of rows in the loss of a step."""
        found: Evaluation = self.objective.family(columns["logp"], scored, denominator=count)
        return found


def _number(value: mx.array) -> float:
    found: Any = value.item()
    return float(found)
