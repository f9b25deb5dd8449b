"""Common prefixes of the rows of a batch: which rows begin alike, and how far."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

LEAST_TOKENS = 64
"""Tokens of the shortest stretch that is computed by itself because rows share it."""

LEAST_SHARE = 1 / 8
"""Share of a segment's tokens that a border within it has to save: another call of the model has a cost of its own."""


class Prefixes:
    """Rows of a batch beside the rows before them.

    A stretch of inputs is shared if its targets are the same, too: then its states, its hidden states and its
    log-probabilities are.

    Attributes:
        reach: inputs that a row shares with the row before it that is most like it; -1 for the first. [B]
        nearest: the number of that row. [B]
    """

    def __init__(self, tokens: NDArray[np.int32]) -> None:
        """Compare each row with those before it. [B, T + 1]"""
        self.reach = np.full(len(tokens), -1)
        self.nearest = np.zeros(len(tokens), dtype=np.int64)
        for row in range(1, len(tokens)):
            other = tokens[:row] != tokens[row]
            alike = np.where(other.any(1), other.argmax(1), tokens.shape[1])
            self.nearest[row] = alike.argmax()
            self.reach[row] = alike.max() - 1

    def distinct(self, rows: int, stop: int) -> int:
        """Return how many of the first rows differ in the inputs up to `stop`, or their targets."""
        return int((self.reach[:rows] < stop).sum())

    def members(self, rows: int, stop: int) -> NDArray[np.int64]:
        """Return the number of the distinct row that each of the first rows is up to `stop`. [rows]"""
        found = np.zeros(rows, dtype=np.int64)
        count = 0
        for row in range(rows):
            alike = self.reach[row] >= stop
            found[row] = found[self.nearest[row]] if alike else count
            count += not alike
        return found

    def border(self, rows: int, start: int, stop: int) -> int:
        """Return the end of a segment of the first rows: where most tokens are saved by it, or `stop`."""
        least = start + min(LEAST_TOKENS, stop - start)
        places = [end for end in np.unique(self.reach[:rows]).tolist() if least <= end < stop]
        whole = self.distinct(rows, stop)
        saved = {end: (whole - self.distinct(rows, end)) * (end - start) for end in places}
        best = max(saved, key=saved.__getitem__, default=stop)
        return best if saved.get(best, 0) >= LEAST_SHARE * whole * (stop - start) else stop
