"""Rollouts in columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from karl_fast.errors import ArgumentError, DTypeError, LayoutError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Column: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Rollouts:
    """Rollouts in columns.

    Attributes:
        tokens: ids of tokens, tools or actions of all rollouts, concatenated, 0 or more. [T]
        offsets: where each rollout begins, and where the last one ends. [B + 1]
        categories: the strategy, domain or cluster of each rollout, from 0 up; negative for none. [B]
        category_count: K; by default one more than the largest category.
        prompts: the prompt of each rollout, negative for none. [B]

    Raises:
        ArgumentError: categories or prompts that are not one a rollout, or a negative ``category_count``.
        DTypeError, LayoutError: a column that is not a one-dimensional NumPy array of int64.
    """

    tokens: Column
    offsets: Column
    categories: Column | None = None
    category_count: int | None = None
    prompts: Column | None = None

    def __post_init__(self) -> None:
        for name in ("tokens", "offsets", "categories", "prompts"):
            if (column := getattr(self, name)) is not None:
                _check(column, name)
        if not len(self.offsets):
            raise LayoutError("offsets has length 0, wanted one more than there are rollouts")
        for name in ("categories", "prompts"):
            if (column := getattr(self, name)) is not None and len(column) != len(self):
                raise ArgumentError(f"{name} has length {len(column)}, wanted {len(self)}")
        if (self.category_count or 0) < 0:
            raise ArgumentError(f"category_count is {self.category_count}, wanted 0 or more")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def take(self, rows: Column) -> Rollouts:
        """Select some rows, in their order, with copies. The categories stay those of the whole.

        Args:
            rows: row numbers; a mask of bool is none. [rows]

        Returns:
            As many rollouts as there are rows.

        Raises:
            ArgumentError: a row that there is not.
            DTypeError, LayoutError: rows that are no NumPy array of int64 in one dimension.
        """
        _check(rows, "rows")
        wrong = np.flatnonzero((rows < 0) | (rows >= len(self)))
        if len(wrong):
            raise ArgumentError(
                f"row at index {wrong[0]} is {rows[wrong[0]]}, wanted one of 0 to {len(self)} exclusive"
            )
        lengths = np.diff(self.offsets)[rows]
        ends = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(ends[-1]) + np.repeat(self.offsets[:-1][rows] - ends[:-1], lengths)
        return Rollouts(
            self.tokens[places],
            ends,
            None if self.categories is None else self.categories[rows],
            self.category_count if self.categories is None else len(self.weights()),
            None if self.prompts is None else self.prompts[rows],
        )

    def weights(self) -> NDArray[np.float64]:
        """Return the number of rollouts of each category.

        Returns:
            One number a category; none where there are no categories. [K]

        Raises:
            ArgumentError: a category beyond ``category_count``.
        """
        if self.categories is None:
            return np.zeros(0)
        counts = np.bincount(self.categories[self.categories >= 0], minlength=self.category_count or 0)
        if self.category_count is not None and len(counts) > self.category_count:
            raise ArgumentError(f"categories hold {len(counts) - 1}, wanted less than {self.category_count}")
        return counts.astype(np.float64)


def _check(column: Column, name: str) -> None:
    if not isinstance(column, np.ndarray):
        raise DTypeError(f"{name} is a {type(column).__name__}, wanted a NumPy array of int64")
    if column.dtype != np.int64:
        raise DTypeError(f"{name} has dtype {column.dtype}, wanted int64")
    if column.ndim != 1:
        raise LayoutError(f"{name} has {column.ndim} dimensions, wanted 1")
