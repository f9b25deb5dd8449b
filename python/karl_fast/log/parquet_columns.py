"""Columns of Parquet files that are kept in their records, and those that are not."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    Needed = Callable[[list[str]], Collection[str] | None]
    """Function from the columns of a table to those that have to be kept; None for all."""


class SummedReward(NamedTuple):
    """A reward that is no column of a table, and the columns that it is the sum of."""

    name: str
    columns: list[str]


class LeftOut(NamedTuple):
    """A column that is not needed and has a type without a JSON form."""

    column: str
    type: str
