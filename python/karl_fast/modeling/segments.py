"""Segments of a batch: the tokens that pass through the model at a time, one segment after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Segment:
    """Inputs of the rows that are still there.

    Attributes:
        start, stop: of the inputs, in tokens of a row.
        rows: number of rows, the longest first.
        places: the targets, as numbers into the flattened [rows, stop - start]. [N']
        numbers: the same as numbers into the targets of the batch. [N']
    """

    start: int
    stop: int
    rows: int
    places: NDArray[np.int32]
    numbers: NDArray[np.int64]


def cut(mask: NDArray[np.bool_], length: int) -> tuple[NDArray[np.int64], list[Segment]]:
    """Cut a batch into segments.

    A row ends with the last input that has a target: nothing depends on what comes behind it. It leaves the batch at
    the segment in which it ends, so that no padding is ever part of a state that a later segment reads.

    Args:
        mask: which inputs have a target. [B, T]
        length: inputs of a segment.

    Returns:
        The order of the rows, the longest first, and the segments of the rows in that order.
    """
    ends = np.where(mask.any(1), mask.shape[1] - mask[:, ::-1].argmax(1), 0)
    order = np.argsort(-ends, kind="stable")
    numbers = np.cumsum(mask.ravel()).reshape(mask.shape) - 1
    mask, numbers, ends = mask[order], numbers[order], ends[order]
    found = []
    for start in range(0, int(ends.max(initial=0)), length):
        rows, stop = int((ends > start).sum()), min(start + length, int(ends[0]))
        part = mask[:rows, start:stop]
        found.append(
            Segment(start, stop, rows, np.flatnonzero(part).astype(np.int32), numbers[:rows, start:stop][part])
        )
    return order, found
