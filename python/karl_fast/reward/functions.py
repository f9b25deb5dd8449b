"""Python functions that score rows, of the signature that TRL's reward functions have."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast._safe_text import counted
from karl_fast._signals import Stopped
from karl_fast._suggest import nearest, question
from karl_fast._user_code import function, raised
from karl_fast.errors import ArgumentError, RewardError, UsageError
from karl_fast.reward.validate import CAME, LENGTH, NAN, RAISED, NoReward, listed, reward

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from karl_fast.reward.scorer import Scorer
    from karl_fast.reward.validate import Reward


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
        """Return the columns named by its parameters, and whether it takes any others.

        Raises:
            UsageError: its signature is unknown.
        """
        try:
            parameters = inspect.signature(self.call).parameters.values()
        except (TypeError, ValueError) as error:
            raise UsageError(f"{self.place} does not say what it takes: {error}") from error
        named = {one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
        return named - {"completions"}, any(one.kind is one.VAR_KEYWORD for one in parameters)

    @classmethod
    def of(cls, named: Scorer | str, folder: str | Path = ".") -> Function:
        """Make a function from a callable, the name of a signal, or ``file.py:name`` in a folder.

        Raises:
            UsageError: there is none, its file cannot be run, or it cannot be called.
        """
        from karl_fast.reward.signals import BY_NAME

        if isinstance(named, str):
            if named in BY_NAME:
                return cls(BY_NAME[named], named)
            if ".py:" not in named:
                raise UsageError(
                    f"fn is {named!r}, wanted 'file.py:name' or the name of a signal",
                    hint=question(nearest(named, BY_NAME)) or f"the signals are {', '.join(BY_NAME)}",
                )
            return cls(function(named, folder), str(Path(folder, named)))
        if not callable(named):
            raise UsageError(f"fn is {named!r}, wanted a function, 'file.py:name' or the name of a signal")
        code = getattr(named, "__code__", None)
        name = getattr(named, "__qualname__", type(named).__name__)
        return cls(named, f"{code.co_filename}:{name}" if code else name)


INTERRUPTS: tuple[type[BaseException], ...] = (KeyboardInterrupt, Stopped)
"""Exceptions that a signal raises inside a function in the main thread."""


def answers(
    call: Callable[[], Any], count: int, interrupts: tuple[type[BaseException], ...] = INTERRUPTS
) -> list[Reward]:
    """Return the rewards that a call gives for some rows; whatever fails is a missing reward that says why. [B]

    Args:
        call: of a caller's function.
        count: number of rows.
        interrupts: what is raised again, for it is not the function's.
    """
    try:
        found = listed(call(), count)
        if isinstance(found, str):
            return [NoReward(LENGTH, f"{found} for {counted(count, 'completion')}")] * count
        return [reward(value) for value in found]
    except interrupts:
        raise
    except BaseException as error:  # whatever it is, SystemExit too, it is the function's
        return [NoReward(RAISED, raised(error))] * count


def judged(function: Function, completions: Sequence[Any], rows: Mapping[str, Sequence[Any]]) -> list[Reward]:
    """Score rows without ever raising: an invalid reward becomes a missing one with its reason. [B]

    A function that raises is called again with ever fewer rows, so that only those which it raises over go without.

    Args:
        function: called by keyword.
        completions: what was answered. [B]
        rows: the columns that it is given. [B] each
    """
    count = len(completions)
    found = answers(partial(function.call, completions=completions, **rows), count)
    if count < 2 or not (isinstance(found[0], NoReward) and found[0].kind == RAISED):
        return found
    parts = (slice(0, count // 2), slice(count // 2, count))
    return [one for part in parts for one in judged(function, completions[part], _part(rows, part))]


def _part(rows: Mapping[str, Sequence[Any]], part: slice) -> dict[str, Sequence[Any]]:
    return {name: row[part] for name, row in rows.items()}


def scored(function: Function, completions: Sequence[Any], rows: Mapping[str, Sequence[Any]]) -> NDArray[np.float64]:
    """Score rows; NaN where the function does not apply. [B]

    Args:
        function: called again with ever fewer rows where it raises, to find the one.
        completions: what was answered. [B]
        rows: the columns that it is given. [B] each

    Raises:
        RewardError: it raises, or gives something else.
    """
    return checked(function.place, judged(function, completions, rows))


def checked(place: str, found: Sequence[Reward]) -> NDArray[np.float64]:
    """Return rewards as numbers, None as NaN. [B]

    Raises:
        RewardError: one is missing for another reason.
    """
    for row, one in enumerate(found):
        if isinstance(one, NoReward):
            raise RewardError(_refusal(place, one, row))
    return np.array([math.nan if one is None else one for one in found], dtype=np.float64)


def _refusal(place: str, one: NoReward, row: int) -> str:
    if one.kind == RAISED:
        return f"{place}, row {row}, raised {one.said}"
    if one.kind == LENGTH:
        return f"{place} gave {one.said}, from row {row} on"
    return f"{place}, row {row}: the reward is {one.said}, wanted a finite number within 1e100 in size, or None"


def column_of(name: str, rows: dict[str, Sequence[Any]], count: int) -> NDArray[np.float64]:
    """Return a column of rewards; NaN and None are missing. [B]

    Raises:
        ArgumentError: it is not there, differs in rows, or holds something else than rewards, None and NaN.
    """
    if name not in rows:
        raise ArgumentError(f"there is no column {name}, wanted one: its part names no function")
    column = rows[name]
    if len(column) != count:
        raise ArgumentError(f"the column {name} has {len(column)} rows, wanted {count}")
    found = [reward(value) for value in column]
    wrong = next(((row, one) for row, one in enumerate(found) if isinstance(one, NoReward) and one.kind != NAN), None)
    if wrong is not None:
        row, one = wrong
        raise ArgumentError(f"the column {name} has {CAME[one.kind]} in row {row}: {one.said}")
    return np.array([one if isinstance(one, float) else math.nan for one in found], dtype=np.float64)
