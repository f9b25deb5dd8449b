"""A batch that passes through the model in parts, because not all of its rows are to be in memory at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from karl_fast.train.batching import pad_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karl_fast.modeling.external_objective import Columns, Trace
    from karl_fast.train.batching import PaddedBatch
    from karl_fast.train.examples import Example
    from karl_fast.train.model_logprobs import Scorer

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
        import mlx.core as mx

        found = mx.concatenate([scorer.reference(part) for part in self.parts])
        return np.array(self.whole.spread(found))

    def passes(self, scorer: Scorer) -> list[MicroBatchPass]:
        """Return the pass of each part, with a seed where it passes twice: dropout leaves out the same twice."""
        import mlx.core as mx

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
        import mlx.core as mx

        if self.seed is not None:
            mx.random.seed(self.seed)
