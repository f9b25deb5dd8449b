"""Python functions that score rows, of the signature that TRL's reward functions have, and scorers of groups.

```text
fn(completions, prompts=None, **columns) -> a reward a row, None where it does not apply
```

`try_scoring` never raises: whatever fails is a missing reward with its reason. `score_rows` raises for it.
"""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from karl_fast._safe_text import counted
from karl_fast._signals import Stopped
from karl_fast._suggest import ask_whether, nearest
from karl_fast._user_code import describe_user_error, load_function
from karl_fast.errors import ArgumentError, RewardError, UsageError
from karl_fast.reward.signals import BY_NAME, Scorer
from karl_fast.reward.validate import DEFECTS, LENGTH, NAN, RAISED, NoReward, as_row_values, parse_reward

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from numpy.typing import NDArray

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
        named = {
            parameter.name
            for parameter in parameters
            if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        }
        return named - {"completions"}, any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)

    @classmethod
    def of(cls, named: Scorer | str, folder: str | Path = ".") -> Function:
        """Make a function from a callable, the name of a signal, or ``file.py:name`` in a folder.

        Raises:
            UsageError: there is none, its file cannot be run, or it cannot be called.
        """
        if isinstance(named, str):
            if named in BY_NAME:
                return cls(BY_NAME[named], named)
            if ".py:" not in named:
                raise UsageError(
                    f"fn is {named!r}, wanted 'file.py:name' or the name of a signal",
                    hint=ask_whether(nearest(named, BY_NAME)) or f"the signals are {', '.join(BY_NAME)}",
                )
            return cls(load_function(named, folder), str(Path(folder, named)))
        if not callable(named):
            raise UsageError(f"fn is {named!r}, wanted a function, 'file.py:name' or the name of a signal")
        code = getattr(named, "__code__", None)
        name = getattr(named, "__qualname__", type(named).__name__)
        return cls(named, f"{code.co_filename}:{name}" if code else name)


def score_rows(
    function: Function, completions: Sequence[Any], rows: Mapping[str, Sequence[Any]]
) -> NDArray[np.float64]:
    """Score rows; NaN where the function does not apply. [B]

    Args:
        function: called again with ever fewer rows where it raises, to find the one.
        completions: what was answered. [B]
        rows: the columns that it is given. [B] each

    Raises:
        RewardError: it raises, or gives something else.
    """
    return as_numbers(function.place, try_scoring(function, completions, rows))


def try_scoring(function: Function, completions: Sequence[Any], rows: Mapping[str, Sequence[Any]]) -> list[Reward]:
    """Score rows without ever raising: an invalid reward becomes a missing one with its reason. [B]

    A function that raises is called again with ever fewer rows, so that only those which it raises over go without.

    Args:
        function: called by keyword.
        completions: what was answered. [B]
        rows: the columns that it is given. [B] each
    """
    count = len(completions)
    rewards = call_for_rewards(partial(function.call, completions=completions, **rows), count)
    if count < 2 or not (isinstance(rewards[0], NoReward) and rewards[0].kind == RAISED):
        return rewards
    parts = (slice(0, count // 2), slice(count // 2, count))
    columns = [{name: column[part] for name, column in rows.items()} for part in parts]
    halves = zip(parts, columns, strict=True)
    return [reward for part, some in halves for reward in try_scoring(function, completions[part], some)]


INTERRUPTS: tuple[type[BaseException], ...] = (KeyboardInterrupt, Stopped)
"""Exceptions that a signal raises inside a function in the main thread."""


def call_for_rewards(
    call: Callable[[], Any],
    count: int,
    interrupts: tuple[type[BaseException], ...] = INTERRUPTS,
    parse: Callable[[Any], Any] = parse_reward,
) -> list[Any]:
    """Return the rewards that a call gives for some rows; whatever fails is a missing reward that says why. [B]

    Args:
        call: of a caller's function.
        count: number of rows.
        interrupts: what is raised again, because it is not the function's.
        parse: the value of a row to its reward.
    """
    try:
        values = as_row_values(call(), count)
        if isinstance(values, str):
            return [NoReward(LENGTH, f"{values} for {counted(count, 'completion')}")] * count
        return [parse(value) for value in values]
    except interrupts:
        raise
    except BaseException as error:  # even SystemExit: the function raised it
        return [NoReward(RAISED, describe_user_error(error))] * count


def as_numbers(place: str, rewards: Sequence[Reward]) -> NDArray[np.float64]:
    """Return rewards as numbers, None as NaN. [B]

    Raises:
        RewardError: one is missing for another reason.
    """
    for row, reward in enumerate(rewards):
        if isinstance(reward, NoReward):
            raise RewardError(_refusal_text(place, reward, row))
    return np.array([math.nan if reward is None else reward for reward in rewards], dtype=np.float64)


def _refusal_text(place: str, missing: NoReward, row: int) -> str:
    if missing.kind == RAISED:
        return f"{place}, row {row}, raised {missing.said}"
    if missing.kind == LENGTH:
        return f"{place} gave {missing.said}, from row {row} on"
    return f"{place}, row {row}: the reward is {missing.said}, wanted a finite number within 1e100 in size, or None"


def reward_column(name: str, rows: dict[str, Sequence[Any]], count: int) -> NDArray[np.float64]:
    """Return a column of rewards; NaN and None are missing. [B]

    Raises:
        ArgumentError: it is not there, differs in rows, or holds something else than rewards, None and NaN.
    """
    if name not in rows:
        raise ArgumentError(f"there is no column {name}, wanted one: its part names no function")
    column = rows[name]
    if len(column) != count:
        raise ArgumentError(f"the column {name} has {len(column)} rows, wanted {count}")
    rewards = [parse_reward(value) for value in column]
    invalid = next(
        ((row, reward) for row, reward in enumerate(rewards) if isinstance(reward, NoReward) and reward.kind != NAN),
        None,
    )
    if invalid is not None:
        row, reward = invalid
        raise ArgumentError(f"the column {name} has {DEFECTS[reward.kind]} in row {row}: {reward.said}")
    return np.array([reward if isinstance(reward, float) else math.nan for reward in rewards], dtype=np.float64)


class GroupScorer(Protocol):
    """Something that scores the trajectories of one group together."""

    def __call__(self, trajectories: Sequence[Any]) -> Sequence[float | None]:
        """Return a reward for each trajectory, None if it has none."""
        ...


def score_groups(
    scorer: GroupScorer, trajectories: Sequence[Any], groups: Sequence[Hashable | None]
) -> NDArray[np.float64]:
    """Score trajectories group by group, in order of appearance.

    Args:
        scorer: called once a group with its trajectories, in their order.
        trajectories: whatever the scorer takes. [B]
        groups: the group of each; None for none, which is not scored. [B]

    Returns:
        The rewards; NaN where the scorer says None, and without a group. [B]

    Raises:
        ArgumentError: as many groups as trajectories were wanted.
        RewardError: the scorer raises, or gives another number of rewards, or a value that is not a finite number;
            the message names file, function, group and row.

    Reference: a reward function of TRL that sees one group at a time.
    """
    if len(groups) != len(trajectories):
        raise ArgumentError(f"there are {len(groups)} groups, wanted one for each of {len(trajectories)} trajectories")
    places: dict[Hashable, list[int]] = {}
    for row, group in enumerate(groups):
        if group is not None:
            places.setdefault(group, []).append(row)
    place, rewards = Function.of(scorer).place, np.full(len(trajectories), np.nan)
    for group, rows in places.items():
        group_rewards = call_for_rewards(partial(scorer, [trajectories[row] for row in rows]), len(rows))
        rewards[rows] = as_numbers(f"{place}, group {group!r}", group_rewards)
    return rewards
