"""Ranges of numbers."""

from __future__ import annotations

import math
import sys
from typing import NamedTuple


class Range(NamedTuple):
    """Range of a number, which is finite.

    Attributes:
        low, high: smallest and largest value.
        above, below: limits that are no values themselves.
        also: a value outside of the range, such as -1 for all.
        words: description of the range; made from the limits where it is empty.
    """

    low: float | None = None
    high: float | None = None
    above: float | None = None
    below: float | None = None
    also: int | None = None
    words: str = ""

    def hold(self, value: float) -> bool:
        """Return True for a finite number in the range."""
        if value == self.also:
            return True
        return _is_finite(value) and not (
            (self.low is not None and value < self.low)
            or (self.high is not None and value > self.high)
            or (self.above is not None and value <= self.above)
            or (self.below is not None and value >= self.below)
        )

    def of(self, kind: type) -> str:
        """Return the allowed numbers of a type in words."""
        if self.words:
            return self.words
        limits = {"from {} on": self.low, "above {}": self.above, "up to {}": self.high, "below {}": self.below}
        given = [text.format(_short(limit)) for text, limit in limits.items() if limit is not None]
        number = "a whole number" if kind is int else "a number" if self.high or self.below else "a finite number"
        also = "" if self.also is None else f", or {self.also} for all"
        return " ".join([number, " and ".join(given)]).rstrip() + also


def _is_finite(value: float) -> bool:
    """Return True for a finite number: an int up to 2**64, for larger ones overflow in a run."""
    return abs(value) <= (1 << 64 if isinstance(value, int) else sys.float_info.max)


def _short(limit: float) -> str:
    """Write a large power of two as one."""
    exponent = math.log2(limit) if limit > 0 else 0.0
    return f"2**{exponent:.0f}" if exponent >= 16 and exponent.is_integer() else f"{limit:g}"


NO_BOUNDS = Range()
POSITIVE = Range(above=0)
FROM_ZERO = Range(low=0)
FROM_ONE = Range(low=1)
COUNT = Range(low=1, below=1 << 32)
SEED = Range(low=0, below=1 << 64)
SHARE = Range(above=0, high=1)
