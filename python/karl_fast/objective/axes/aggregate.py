"""Axis: how tokens become one number.

Each point is a sum over a denominator, and both add up over the micro-batches of a batch: that is what makes
accumulation exact.

```text
loss = sum over micro-batches of total / sum over micro-batches of denominator
```
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from karl_fast.objective.axes.point import Point, check_number

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Aggregate", "ConstantLength", "SequenceMean", "SequenceSum", "TokenMean"]


class Aggregate(Point):
    """Aggregation of tokens to one number."""

    kind: ClassVar[str]

    def count(self, mask: NDArray[np.bool_]) -> int:
        """Return the denominator: the number of sequences with a token that counts. [B, T] -> []"""
        return int(mask.any(axis=1).sum())


@dataclass(frozen=True)
class SequenceMean(Aggregate):
    """The mean over sequences of the means of their tokens (GRPO, GSPO).

    A sequence of which no token counts is left out of the mean.
    """

    kind: ClassVar[str] = "sequence-mean"


@dataclass(frozen=True)
class TokenMean(Aggregate):
    """The mean over all tokens that count (DAPO, SAMPO)."""

    kind: ClassVar[str] = "token-mean"

    def count(self, mask: NDArray[np.bool_]) -> int:
        """Return the denominator: the number of tokens that count. [B, T] -> []"""
        return int(np.count_nonzero(mask))


@dataclass(frozen=True)
class SequenceSum(Aggregate):
    """The mean over sequences of the sums of their tokens (RLOO); at the sequence level it is LUSPO's."""

    kind: ClassVar[str] = "sequence-sum"


@dataclass(frozen=True)
class ConstantLength(Aggregate):
    """The mean over sequences of ``sum / tokens``, a constant whatever their lengths are (Dr. GRPO).

    ``tokens`` is the longest that a rollout may be. verl's ``seq-mean-token-sum-norm`` before 2026 divides by one
    sequence.
    """

    kind: ClassVar[str] = "constant-length"
    tokens: float

    def __post_init__(self) -> None:
        check_number("tokens", self.tokens, 1)
