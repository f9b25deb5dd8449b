"""Axis: how tokens become one number.

Each point is a sum over a denominator, and both add up over the micro-batches of a batch: that is what makes
accumulation exact.

```text
loss = sum over micro-batches of total / sum over micro-batches of denominator
```
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from karl_fast.objective.axes.point import Point, check_number
from karl_fast.objective.mlx_arrays import mx

__all__ = ["Aggregate", "ConstantLength", "SequenceMean", "SequenceSum", "TokenMean"]


class Aggregate(Point, ABC):
    """Aggregation of tokens to one number: a total and its denominator."""

    @abstractmethod
    def total(self, terms: mx.array, mask: mx.array) -> mx.array:
        """Return the sum of the terms, which are 0 outside the mask, as one number. [B, T], [B, T] -> []"""

    @abstractmethod
    def denominator(self, mask: mx.array) -> mx.array:
        """Return the denominator of the total. [B, T] -> []"""


@dataclass(frozen=True)
class SequenceMean(Aggregate):
    """The mean over sequences of the means of their tokens (GRPO, GSPO).

    A sequence of which no token counts is left out of the mean.
    """

    def total(self, terms: mx.array, mask: mx.array) -> mx.array:
        """Return the sum of the means of the sequences."""
        return (terms.sum(axis=1) / mx.maximum(mask.sum(axis=1), 1).astype(terms.dtype)).sum()

    def denominator(self, mask: mx.array) -> mx.array:
        """Return the number of sequences with a token."""
        return mask.any(axis=1).sum()


@dataclass(frozen=True)
class TokenMean(Aggregate):
    """The mean over all tokens that count (DAPO, SAMPO)."""

    def total(self, terms: mx.array, mask: mx.array) -> mx.array:
        """Return the sum of the terms."""
        return terms.sum()

    def denominator(self, mask: mx.array) -> mx.array:
        """Return the number of tokens that count."""
        return mask.sum()


@dataclass(frozen=True)
class SequenceSum(Aggregate):
    """The mean over sequences of the sums of their tokens (RLOO); at the sequence level it is LUSPO's."""

    def total(self, terms: mx.array, mask: mx.array) -> mx.array:
        """Return the sum of the terms."""
        return terms.sum()

    def denominator(self, mask: mx.array) -> mx.array:
        """Return the number of sequences with a token."""
        return mask.any(axis=1).sum()


@dataclass(frozen=True)
class ConstantLength(Aggregate):
    """The mean over sequences of ``sum / tokens``, a constant whatever their lengths are (Dr. GRPO).

    ``tokens`` is the longest that a rollout may be.
    """

    tokens: float

    def __post_init__(self) -> None:
        check_number("tokens", self.tokens, 1)

    def total(self, terms: mx.array, mask: mx.array) -> mx.array:
        """Return the sum of the terms over the constant."""
        return terms.sum() / self.tokens

    def denominator(self, mask: mx.array) -> mx.array:
        """Return the number of sequences with a token."""
        return mask.any(axis=1).sum()
