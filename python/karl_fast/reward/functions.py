"""Python functions that score rows, of the signature that TRL's reward functions have."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from karl_fast.errors import ArgumentError, RewardError, UsageError
from karl_fast.functions import function
from karl_fast.near import nearest, question

if TYPE_CHECKING:
    from numpy.typing import NDArray

Scorer: TypeAlias = Callable[..., Sequence[float | None]]
"""``fn(completions, prompts=None, **columns)``, called by keyword: a reward a row, None where it does not apply."""


Namer: TypeAlias = Callable[[int], str]
"""What an error calls a row, by its place among those that are scored."""


@dataclass(frozen=True)
class Function:
    """A function, and where it comes from.

    Attributes:
        call: the function.
        place: file and name, as errors tell them.
    """

    call: Scorer
    place: str

    def wants(self) -> tuple[set[str], bool]:
        """The columns that it names among its parameters, and whether it takes any other.

        Raises:
            UsageError: nobody can tell.
        """
        try:
            parameters = inspect.signature(self.call).parameters.values()
        except (TypeError, ValueError) as error:
            raise UsageError(f"{self.place} does not say what it takes: {error}") from error
        named = {one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
        return named - {"completions"}, any(one.kind is one.VAR_KEYWORD for one in parameters)

    @classmethod
    def of(cls, named: Scorer | str, folder: str | Path = ".") -> Function:
        """A function as it is, by the name of a signal, or as ``file.py:name`` in a folder.

        Raises:
            UsageError: there is none, its file cannot be run, or it cannot be called.
        """
        from karl_fast.reward.signals import BY_NAME

        if isinstance(named, str):
            if named in BY_NAME:
                return cls(BY_NAME[named], named)
            if ".py:" not in named:
                error = UsageError(f"fn is {named!r}, wanted 'file.py:name' or the name of a signal")
                error.hint = question(nearest(named, BY_NAME)) or f"the signals are {', '.join(BY_NAME)}"
                raise error
            return cls(function(named, folder), str(Path(folder, named)))
        if not callable(named):
            raise UsageError(f"fn is {named!r}, wanted a function, 'file.py:name' or the name of a signal")
        code = getattr(named, "__code__", None)
        name = getattr(named, "__qualname__", type(named).__name__)
        return cls(named, f"{code.co_filename}:{name}" if code else name)


def scored(
    function: Function, completions: Sequence[Any], rows: Mapping[str, Sequence[Any]], named: Namer = "row {}".format
) -> NDArray[np.float64]:
    """What a function says of each row; NaN where it does not apply. [B]

    Args:
        function: whom to ask; called again with ever fewer rows where it raises, to find the one.
        completions: what was answered. [B]
        rows: the columns that it is given. [B] each
        named: what an error calls a row.

    Raises:
        RewardError: it raises, or gives something else.
    """
    try:
        found = list(function.call(completions=completions, **rows))
    except Exception as error:
        where = _blamed(function, completions, rows, named)
        raise RewardError(f"{function.place}{where} raised {type(error).__name__}: {error}") from error
    return checked(function.place, found, len(completions), named)


def _blamed(function: Function, completions: Sequence[Any], rows: Mapping[str, Sequence[Any]], named: Namer) -> str:
    """The row over which a function raises, found by halves; nothing where it raises over no row alone."""

    def raises(low: int, high: int) -> bool:
        try:
            function.call(completions=completions[low:high], **{name: row[low:high] for name, row in rows.items()})
        except Exception:
            return True
        return False

    low, high = 0, len(completions)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if raises(low, middle) else (middle, high)
    return f", {named(low)}," if high > low and raises(low, high) else ""


def checked(place: str, found: Sequence[Any], rows: int, named: Namer = "row {}".format) -> NDArray[np.float64]:
    """Rewards as numbers, None as NaN. [B]

    Raises:
        RewardError: another number of them, or one that is no finite number.
    """
    if len(found) != rows:
        among = f", {named(0)} and those after it" if rows else ""
        raise RewardError(f"{place} gave {len(found)} rewards, wanted one for each of {rows} rows{among}")
    numbers = np.empty(rows)
    for row, reward in enumerate(found):
        number = _number(reward)
        if number is None:
            raise RewardError(f"{place}, {named(row)}: the reward is {reward!r}, wanted a finite number, or None")
        numbers[row] = number
    return numbers


def _number(reward: Any) -> float | None:
    """A reward, NaN for None; None for what is no finite number."""
    if reward is None:
        return math.nan
    try:
        number = float(reward)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and not isinstance(reward, str) else None


def column_of(name: str, rows: dict[str, Sequence[Any]], count: int) -> NDArray[np.float64]:
    """A column of rewards; NaN and None are missing. [B]

    Raises:
        ArgumentError: it is not there, differs in rows, or holds what is no finite number.
    """
    if name not in rows:
        raise ArgumentError(f"there is no column {name}, wanted one: its part names no function")
    column = rows[name]
    if len(column) != count:
        raise ArgumentError(f"the column {name} has {len(column)} rows, wanted {count}")
    try:
        numbers = np.array([math.nan if value is None else value for value in column], dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ArgumentError(f"the column {name} holds something else than numbers: {error}") from error
    if np.isinf(numbers).any():
        raise ArgumentError(f"the column {name} is infinite in row {int(np.isinf(numbers).argmax())}")
    return numbers
