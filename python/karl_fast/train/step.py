"""Gradient of the batches of a step: in parts that fit in memory, as if they were one batch.

```text
step --> batches --> parts: rows in memory at a time --> log-probabilities --> loss --> gradient --> their sum
```

Each part divides its loss by the denominator of the whole step. A recipe that compares the rows of a group needs the
log-probabilities of all parts before the gradient of any: a part then passes forward twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import chain, starmap
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np

from karl_fast.modeling.chunked_logp import objective_gradient
from karl_fast.modeling.optimizer import MODEL, accumulate
from karl_fast.train.batching import pad_rows
from karl_fast.train.model_logprobs import Scorer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from karl_fast.modeling.chunked_logp import Columns, Trace
    from karl_fast.modeling.optimizer import StepGradient, Vectors
    from karl_fast.objective.batch import Evaluation, Scored
    from karl_fast.train.batching import PaddedBatch
    from karl_fast.train.examples import Example
    from karl_fast.train.recipe import OfflineObjective

    Unit = tuple[list["MicroBatchPass"], NDArray[np.bool_], Scored]

LARGEST_SEED = (1 << 31) - 1


class Learner:
    """A model with its training data."""

    def __init__(
        self, model: Any, examples: list[Example], objective: OfflineObjective, segment_length: int | None = None
    ) -> None:
        self.model, self.examples, self.objective = model, examples, objective
        self.scorer = Scorer(model, segment_length)

    def gradient(self, batches: list[list[int]]) -> StepGradient:
        """Compute the gradient of the mean over all batches: each adds its total over the denominator of them all.

        Args:
            batches: each a list of numbers of examples.
        """
        scored = [self._score(rows) for rows in batches]
        denominator = max(1.0, sum(self.objective.family.denominator(batch) for _, batch in scored))
        units = chain.from_iterable(starmap(self._units, scored))
        return accumulate(partial(self._unit_gradient, denominator, *unit) for unit in units)

    def count_tokens(self, batches: list[list[int]]) -> tuple[int, int]:
        """Return the number of learned tokens of batches, and of all their tokens without padding."""
        examples = [self.examples[row] for row in chain.from_iterable(batches)]
        return sum(int(example.text.learned[1:].sum()) for example in examples), sum(map(len, examples))

    def _score(self, rows: list[int]) -> tuple[Parts, Scored]:
        parts = Parts([self.examples[row] for row in rows], self.objective.most_rows)
        reference = parts.reference(self.scorer) if self.objective.grouped else None
        return parts, self.objective.scored(rows, parts.whole, reference)

    def _units(self, parts: Parts, scored: Scored) -> Iterator[Unit]:
        """Yield what the loss takes together: a whole batch where it compares rows, else each part by itself."""
        passes, mask = parts.passes(self.scorer), parts.whole.mask
        if self.objective.family.whole_groups:
            yield passes, mask, scored
            return
        for rows, part in zip(parts.rows, passes, strict=True):
            yield [part], mask[rows], scored.rows(rows)

    def _unit_gradient(
        self, denominator: float, passes: list[MicroBatchPass], mask: NDArray[np.bool_], scored: Scored
    ) -> tuple[float, list[tuple[str, Vectors]]]:
        """Return the share of rows in the loss of a step, and in its gradient."""

        def loss(columns: Columns) -> Evaluation:
            evaluation: Evaluation = self.objective.family(columns["logp"], scored, denominator=denominator)
            return evaluation

        evaluation, _, gradient = objective_gradient(passes, mask, loss)
        return evaluation.loss, [(MODEL, gradient)]


class Parts:
    """The rows of a batch, and the parts of it that are in memory one at a time.

    Attributes:
        whole: the batch.
        parts: the same rows in the same order, a few at a time; the batch itself where it is small.
        rows: the rows of each part.
    """

    def __init__(self, examples: list[Example], most: int | None) -> None:
        """Split a batch of examples into parts of at most `most`, or into one part for None."""
        self.whole = pad_rows(examples)
        size = most or len(examples)
        self.rows = [slice(start, start + size) for start in range(0, len(examples), size)]
        self.parts = [self.whole] if len(self.rows) == 1 else [pad_rows(examples[rows]) for rows in self.rows]

    def reference(self, scorer: Scorer) -> NDArray[np.float32]:
        """Compute log-probabilities under the model without its adapters, 0 for tokens not learned. [B, T]"""
        logp = mx.concatenate([scorer.reference(part) for part in self.parts])
        return np.array(self.whole.spread(logp))

    def passes(self, scorer: Scorer) -> list[MicroBatchPass]:
        """Return the pass of each part, with a seed where it passes twice: dropout has to be the same both times."""
        if len(self.parts) == 1 and not scorer.long(self.whole):
            return [MicroBatchPass(scorer, self.whole, None)]
        seeds: list[int] = np.array(mx.random.randint(0, LARGEST_SEED, (len(self.parts),))).tolist()
        return [MicroBatchPass(scorer, part, seed) for part, seed in zip(self.parts, seeds, strict=True)]


@dataclass(frozen=True)
class MicroBatchPass:
    """Pass of a part of a batch through the model, with the seed of its dropout."""

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
