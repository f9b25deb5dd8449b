"""Segments of a batch: the tokens that pass through the model at a time, one segment after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from karl_fast.modeling.prefixes import LEAST_TOKENS, Prefixes

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Segment:
    """Inputs of the rows that are still there, each distinct one once.

    Attributes:
        start, stop: of the inputs, in tokens of a row.
        rows: the distinct rows, as numbers of rows of the batch, the longest first. [R]
        members: for each row that is still there, the number of the distinct row that it is up to here. [n]
        places: the targets, as numbers into the flattened [R, stop - start]. [N']
        numbers: targets of the batch, several of which may share a place. [M]
        which: the place of each, as a number into `places`. [M]
    """

    start: int
    stop: int
    rows: NDArray[np.int64]
    members: NDArray[np.int64]
    places: NDArray[np.int32]
    numbers: NDArray[np.int64]
    which: NDArray[np.int64]

    def gathered(self, coefficients: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the sum of the coefficients of each place, given those of the batch. [N] -> [N']"""
        summed = np.bincount(self.which, weights=coefficients[self.numbers], minlength=len(self.places))
        return summed.astype(np.float32)


def cut_segments(
    mask: NDArray[np.bool_], length: int, tokens: NDArray[np.int32] | None = None
) -> tuple[NDArray[np.int64], list[Segment]]:
    """Cut a batch into segments.

    A row ends with the last input that has a target: nothing depends on what comes behind it. It leaves the batch at
    the segment in which it ends, so that no padding is ever part of a state that a later segment reads.

    Where the tokens are given, rows that are the same up to the end of a segment pass through it as one, and a segment
    ends earlier where that saves enough.

    Args:
        mask: which inputs have a target. [B, T]
        length: most inputs of a segment.
        tokens: with the target of the last input; None to share nothing. [B, T + 1]

    Returns:
        The order of the rows, the longest first, and the segments of the rows in that order.
    """
    ends = np.where(mask.any(1), mask.shape[1] - mask[:, ::-1].argmax(1), 0)
    order = np.argsort(-ends, kind="stable")
    numbers = np.cumsum(mask.ravel()).reshape(mask.shape) - 1
    mask, numbers, ends = mask[order], numbers[order], ends[order]
    prefixes = None if tokens is None or len(tokens) < 2 else Prefixes(tokens[order])
    found: list[Segment] = []
    start, last = 0, int(ends.max(initial=0))
    while start < last:
        rows, stop = int((ends > start).sum()), min(start + length, last)
        members = np.arange(rows)
        if prefixes is not None:
            stop = prefixes.border(rows, start, stop)
            members = prefixes.members(rows, stop)
        found.append(_cut_segment(start, stop, members, mask[:rows], numbers[:rows]))
        start = stop
    return order, found


def _cut_segment(
    start: int, stop: int, members: NDArray[np.int64], mask: NDArray[np.bool_], numbers: NDArray[np.int64]
) -> Segment:
    part = mask[:, start:stop]
    row, at = np.nonzero(part)
    places, which = np.unique(members[row] * (stop - start) + at, return_inverse=True)
    _, rows = np.unique(members, return_index=True)
    return Segment(start, stop, rows, members, places.astype(np.int32), numbers[:, start:stop][part], which)


def used_width(mask: NDArray[np.bool_]) -> int:
    """Return the inputs up to the last one that has a target, in the longest row. [B, T]"""
    return int(np.flatnonzero(mask.any(0)).max(initial=-1)) + 1


def pass_alike(mask: NDArray[np.bool_], length: int, tokens: NDArray[np.int32]) -> bool:
    """Return whether several rows pass through a segment of at most so many tokens as one."""
    return len(mask) > 1 and any(len(one.rows) < len(one.members) for one in cut_segments(mask, length, tokens)[1])


def shares_prefix(mask: NDArray[np.bool_], tokens: NDArray[np.int32]) -> bool:
    """Return whether rows that pass whole have a common prefix that is worth a segment of its own."""
    inputs = used_width(mask)
    return len(mask) > 1 and inputs > LEAST_TOKENS and len(cut_segments(mask, inputs, tokens)[1]) > 1
