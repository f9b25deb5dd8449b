"""Twins of the curriculum: exact fractions, and every group of rollouts written out."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def mixed_group_probability(rate: float, size: int) -> float:
    q = Fraction(rate)
    return float(1 - q**size - (1 - q) ** size)


def moments(a: float, b: float, successes: int, trials: int) -> tuple[float, float]:
    """Mean and variance of Beta(a + successes, b + failures)."""
    a_, b_ = Fraction(a) + successes, Fraction(b) + trials - successes
    return float(a_ / (a_ + b_)), float(a_ * b_ / ((a_ + b_) ** 2 * (a_ + b_ + 1)))


def nearest_rate(rates: Sequence[float], k: int, target: float, ids: Sequence[int]) -> list[int]:
    rows = [row for row, rate in enumerate(rates) if rate == rate]
    return sorted(rows, key=lambda row: (abs(rates[row] - target), ids[row], row))[:k]
