"""Gradient of the batches of a step: in parts that fit in memory, as if they were one batch.

```text
step --> batches --> parts: rows in memory at a time --> log-probabilities --> loss --> gradient --> their sum
```

Each part divides its loss by the denominator of the whole step. A recipe that compares the rows of a group needs the
log-probabilities of all parts before the gradient of any: a part then passes forward twice. Log-probabilities under the
model before training are computed once an example, whatever the number of epochs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, starmap
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np

from karl_fast.modeling.chunked_logp import objective_gradient, scatter_tokens
from karl_fast.modeling.optimizer import MODEL, accumulate
from karl_fast.train.batching import pad_rows
from karl_fast.train.model_logprobs import Scorer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
    """A model with its training data.

    Attributes:
        statistics: of the last gradient or loss, where the recipe has preferences: ``margin``, ``accuracy``,
            ``reward_chosen``, ``reward_rejected``; ``divergence`` for `kto`. None for what there was no answer of.
    """

    def __init__(
        self,
        model: Any,
        examples: list[Example],
        objective: OfflineObjective,
        segment_length: int | None = None,
        homes: Sequence[list[int]] = (),
    ) -> None:
        """Join a model and its data; `homes` are the batches that examples pass with before training."""
        self.model, self.examples, self.objective = model, examples, objective
        self.scorer = Scorer(model, segment_length)
        self.reference = Reference(self.scorer, examples, objective.most_rows, homes)
        self.mismatched = Mismatched(self.scorer, examples, homes)
        self.statistics: dict[str, float | None] = {}
        self._evaluated: list[tuple[Scored, dict[str, float]]] = []

    def gradient(self, batches: list[list[int]]) -> StepGradient:
        """Compute the gradient of the mean over all batches: each adds its total over the denominator of them all.

        Args:
            batches: each a list of numbers of examples.
        """
        scored, denominator, divergence = self._score_all(batches)
        units = chain.from_iterable(starmap(self._units, scored))
        result = accumulate(partial(self._unit_gradient, denominator, *unit) for unit in units)
        self._finish_statistics(divergence)
        return result

    def loss(self, batches: list[list[int]]) -> float:
        """Compute the mean over all batches without a gradient, and without dropout.

        Args:
            batches: each a list of numbers of examples.
        """
        scored, denominator, divergence = self._score_all(batches)
        total = 0.0
        for parts, batch in scored:
            logp = np.concatenate([np.array(self.scorer.logp(part)) for part in parts.parts])
            total += self._evaluate(scatter_tokens(logp, parts.whole.mask), batch, denominator).loss
        self._finish_statistics(divergence)
        return total

    def count_tokens(self, batches: list[list[int]]) -> tuple[int, int]:
        """Return the number of learned tokens of batches, and of all their tokens without padding."""
        examples = [self.examples[row] for row in chain.from_iterable(batches)]
        return sum(int(example.text.learned[1:].sum()) for example in examples), sum(map(len, examples))

    def _score_all(self, batches: list[list[int]]) -> tuple[list[tuple[Parts, Scored]], float, float]:
        """Return the inputs of the loss of each batch, their common denominator, and the log ratio of mismatches."""
        # What an answer is compared with is computed in one step of a run, and in another of a resumed one: random
        # numbers that the first pass of a model takes must not be missing in the step.
        seed: Any = mx.random.randint(0, LARGEST_SEED).item() if self.objective.anchored else None
        ratios = [ratio for rows in batches for ratio in self.mismatched.log_ratios(rows)]
        divergence = float(np.mean(ratios)) if ratios else np.nan
        scored = [self._score(rows, divergence) for rows in batches]
        if seed is not None:
            mx.random.seed(seed)
        denominator = max(1.0, sum(self.objective.family.denominator(batch) for _, batch in scored))
        return scored, denominator, divergence

    def _score(self, rows: list[int], divergence: float) -> tuple[Parts, Scored]:
        parts = Parts([self.examples[row] for row in rows], self.objective.most_rows)
        reference = self.reference(rows, parts.whole.mask) if self.objective.anchored else None
        return parts, self.objective.scored(rows, parts.whole, reference, divergence)

    def _evaluate(self, logp: NDArray[np.float32], scored: Scored, denominator: float) -> Evaluation:
        evaluation: Evaluation = self.objective.family(logp, scored, denominator=denominator)
        self._evaluated.append((scored, evaluation.statistics))
        return evaluation

    def _finish_statistics(self, divergence: float) -> None:
        evaluated, self._evaluated = self._evaluated, []
        self.statistics = {}
        if self.objective.preferences:
            self.statistics = join_statistics(evaluated)
            self.statistics |= {} if np.isnan(divergence) else {"divergence": divergence}

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
            return self._evaluate(columns["logp"], scored, denominator)

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

    def passes(self, scorer: Scorer) -> list[MicroBatchPass]:
        """Return the pass of each part, with a seed where it passes twice: dropout has to be the same both times."""
        if len(self.parts) == 1 and not scorer.long(self.whole):
            return [MicroBatchPass(scorer, self.whole, None)]
        seeds: list[int] = np.array(mx.random.randint(0, LARGEST_SEED, (len(self.parts),))).tolist()
        return [MicroBatchPass(scorer, part, seed) for part, seed in zip(self.parts, seeds, strict=True)]


class Reference:
    """Log-probabilities of examples under the model without its adapters, each computed once.

    An example passes with its batch of the first epoch, whichever batch asks for it: a run that was resumed in another
    epoch has the same bits as one that was not.
    """

    def __init__(
        self, scorer: Scorer, examples: list[Example], most_rows: int | None, homes: Sequence[list[int]]
    ) -> None:
        self.scorer, self.examples, self.most_rows = scorer, examples, most_rows
        self._homes = {row: batch for batch in homes for row in batch}
        self._known: dict[int, NDArray[np.float32]] = {}

    def __call__(self, rows: list[int], mask: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Return those of some rows, 0 for tokens that are not learned. [B, T]"""
        for row in rows:
            if row not in self._known:
                self._compute(self._homes.get(row, rows))
        return scatter_tokens(np.concatenate([self._known[row] for row in rows]), mask)

    def _compute(self, rows: list[int]) -> None:
        parts = Parts([self.examples[row] for row in rows], self.most_rows)
        logp = np.concatenate([np.array(self.scorer.reference(part)) for part in parts.parts])
        ends = np.cumsum(parts.whole.mask.sum(1))[:-1]
        self._known |= dict(zip(rows, np.split(logp, ends), strict=True))


class Mismatched:
    """Prompts of examples with answers to others: how much likelier such an answer is than before training."""

    def __init__(self, scorer: Scorer, examples: list[Example], homes: Sequence[list[int]]) -> None:
        known = [(at, example.mismatched) for at, example in enumerate(examples) if example.mismatched is not None]
        self.scorer = scorer
        self.places = {at: place for place, (at, _) in enumerate(known)}
        self.examples = [replace(examples[at], text=text) for at, text in known]
        self.reference = Reference(scorer, self.examples, None, [batch for rows in homes if (batch := self._of(rows))])

    def log_ratios(self, rows: list[int]) -> list[float]:
        """Return the log ratio of those that some examples have."""
        places = self._of(rows)
        if not places:
            return []
        batch = pad_rows([self.examples[place] for place in places])
        logp = scatter_tokens(np.array(self.scorer.logp(batch)), batch.mask).astype(np.float64)
        ratios: list[float] = (logp - self.reference(places, batch.mask)).sum(1).tolist()
        return ratios

    def _of(self, rows: list[int]) -> list[int]:
        return [self.places[row] for row in rows if row in self.places]


def join_statistics(evaluated: list[tuple[Scored, dict[str, float]]]) -> dict[str, float | None]:
    """Return the statistics of preferences of a step from those of its batches; None for what no answer has."""
    totals, counts = dict[str, float](), dict[str, int]()
    for scored, statistics in evaluated:
        counted, preferred = scored.counted, scored.need("preferred")
        chosen, rejected = int((counted & preferred).sum()), int((counted & ~preferred).sum())
        weights = {"accuracy": chosen + rejected, "reward_chosen": chosen, "reward_rejected": rejected}
        for name, count in weights.items():
            totals[name] = totals.get(name, 0.0) + (count * statistics[name] if count else 0.0)
            counts[name] = counts.get(name, 0) + count
    means = {name: total / counts[name] if counts[name] else None for name, total in totals.items()}
    better, worse = means.get("reward_chosen"), means.get("reward_rejected")
    return {"margin": None if better is None or worse is None else better - worse, **means}


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
