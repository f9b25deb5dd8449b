"""Batches: the order of rows, and rows padded on the right to one array.

The order is a pure function of (seed, epoch), so that a run can be resumed anywhere. Rows of similar length are in one
batch, so that little of it is padding. In each epoch every row comes once:

```text
shuffle the rows --> pools of batches --> sort each pool by length --> cut it into batches --> shuffle the batches
```

A pool has 32 batches, and at most a quarter of the distinct rows: otherwise a small set would have the same batches in
every epoch, and the copies of a row, which are of one length, would be a batch of their own. The rest of a pool is a
smaller batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import mlx.core as mx
import numpy as np

from karl_fast import _core
from karl_fast.modeling.segments import used_width

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from karl_fast.train.examples import Example

MULTIPLE = 8
"""Inputs are padded to a multiple of it, so that a model sees few shapes."""

POOL, POOL_SHARE = 32, 4
"""Batches that are sorted by length together, and the part of the distinct rows that they may be: larger pools give
less padding, and less random batches. A quarter is what `group_by_length` of transformers takes."""

GOLDEN = 0x9E3779B97F4A7C15
"""2^64 over the golden ratio: its multiples are far apart (Weyl sequence)."""


class BatchOrder:
    """Batches without end, from any place on.

    Attributes:
        epoch, batch: the place of the batch that comes next.
        distinct: number of different units.
    """

    def __init__(
        self, lengths: Sequence[int], units: list[list[int]], rows: int, seed: int, distinct: int | None = None
    ) -> None:
        self.lengths, self.units, self.rows, self.seed = lengths, units, rows, seed
        self.distinct = len(units) if distinct is None else distinct
        self.epoch, self.batch = 0, 0
        self._known: tuple[int, list[list[int]]] | None = None

    def __next__(self) -> list[int]:
        batches = self.batches(self.epoch)
        rows = batches[self.batch]
        self.batch += 1
        if self.batch == len(batches):
            self.epoch, self.batch = self.epoch + 1, 0
        return rows

    def batches(self, number: int) -> list[list[int]]:
        """Return the batches of an epoch."""
        if self._known is None or self._known[0] != number:
            self._known = number, epoch_batches(self.lengths, self.units, self.rows, self.seed, number, self.distinct)
        return self._known[1]


def row_units(groups: NDArray[np.int64] | None, count: int) -> list[list[int]]:
    """Return each row by itself, or the rows of each group together; rows without a group are separate."""
    if groups is None:
        return [[row] for row in range(count)]
    units: dict[int, list[int]] = {}
    for row, group in enumerate(groups.tolist()):
        units.setdefault(group if group >= 0 else -1 - row, []).append(row)
    return list(units.values())


def epoch_batches(
    lengths: Sequence[int],
    units: Sequence[Sequence[int]],
    rows: int,
    seed: int,
    epoch: int,
    distinct: int | None = None,
) -> list[list[int]]:
    """Return the batches of one epoch.

    Args:
        lengths: tokens of each row.
        units: rows that stay together: each row alone, or the rows of a group.
        rows: a batch has at most so many, but for a unit that is larger.
        seed: of the run.
        epoch: its number, from 0.
        distinct: number of different units; None if all are.

    Returns:
        Numbers of rows, batch by batch: every row in one of them.
    """
    longest = [max(lengths[row] for row in unit) for unit in units]
    order = shuffle_numbers(len(units), seed, 2 * epoch)
    batches: list[list[int]] = []
    size = rows * max(1, min(POOL, (distinct or len(units)) // (POOL_SHARE * rows)))
    for start in range(0, len(order), size):
        pool = sorted(order[start : start + size].tolist(), key=lambda unit: longest[unit])
        batches += _cut([units[unit] for unit in pool], rows)
    return [batches[batch] for batch in shuffle_numbers(len(batches), seed, 2 * epoch + 1)]


def _cut(units: list[Sequence[int]], rows: int) -> Iterator[list[int]]:
    batch: list[int] = []
    for unit in units:
        if batch and len(batch) + len(unit) > rows:
            yield batch
            batch = []
        batch += unit
    if batch:
        yield batch


def shuffle_numbers(count: int, seed: int, number: int) -> NDArray[np.int64]:
    """Shuffle the numbers below `count`, by (seed, number)."""
    return np.argsort(_core.uniforms(count, seed=mix_seed(seed, number), purpose="order"), kind="stable")


def mix_seed(seed: int, number: int) -> int:
    """Mix a seed with a number, such as an epoch or a step. 0 <= number"""
    return (seed + (number + 1) * GOLDEN) % (1 << 64)


@dataclass(frozen=True)
class PaddedBatch:
    """A batch. Index t of a row scores its token t + 1.

    Attributes:
        tokens: 0 where padded. int32, [B, T + 1]
        mask: which of tokens[:, 1:] are learned; padding is not. bool, [B, T]
        places: the same as numbers into the flattened [B * T]. [N]
        real: tokens that are not padding.
    """

    tokens: mx.array
    mask: NDArray[np.bool_]
    places: mx.array
    real: int

    @property
    def inputs(self) -> int:
        """Number of inputs up to the last one that has a target, in the longest row."""
        return used_width(self.mask)

    def spread(self, logp: mx.array) -> mx.array:
        """Scatter values of the learned tokens to their places, 0 elsewhere. [N] -> [B, T]"""
        flat = mx.zeros(self.mask.size, logp.dtype).at[self.places].add(logp)
        return flat.reshape(self.mask.shape)


def pad_rows(examples: list[Example]) -> PaddedBatch:
    """Pad examples to one array."""
    longest = max(map(len, examples)) - 1
    inputs = -(-longest // MULTIPLE) * MULTIPLE
    tokens = np.zeros((len(examples), inputs + 1), dtype=np.int32)
    mask = np.zeros((len(examples), inputs), dtype=np.bool_)
    for row, example in enumerate(examples):
        tokens[row, : len(example)] = example.text.tokens
        mask[row, : len(example) - 1] = example.text.learned[1:]
    places = np.flatnonzero(mask).astype(np.int32)
    return PaddedBatch(mx.array(tokens), mask, mx.array(places), sum(map(len, examples)))
