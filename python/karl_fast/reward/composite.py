"""Composite reward from several signals, some of which do not apply to every row; and the reward that training sees.

```text
signals x_c with weights w_c -> Composite -> Rewards (true) -> Shaped(transform) -> what an objective takes
```
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.errors import ArgumentError, UsageError
from karl_fast.reward.functions import Function, reward_column, score_rows
from karl_fast.reward.validate import LARGEST

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from karl_fast.reward.signals import Scorer
    from karl_fast.settings.values import AsymmetricScale


@dataclass(frozen=True)
class Part:
    """Signal of a composite.

    Attributes:
        name: what it is called; without ``fn`` also the column that holds it.
        weight: finite and not 0; below 0 for a penalty.
        fn: a function of TRL's signature, ``"my.py:score"`` for one in a file, or the name of one of
            `karl_fast.reward.SIGNALS`; None for a column.
    """

    name: str
    weight: float = 1.0
    fn: Scorer | str | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.weight) and self.weight):
            raise UsageError(f"the weight of {self.name} is {self.weight}, wanted a finite number other than 0")


@dataclass(frozen=True, eq=False)
class Rewards:
    """Result of `Composite`.

    Attributes:
        rewards: the reward of each row; NaN where no signal applies, or a column is missing. [B]
        components: each signal by name; NaN where it does not apply. [B] each
    """

    rewards: NDArray[np.float64]
    components: dict[str, NDArray[np.float64]]


@dataclass(frozen=True)
class Composite:
    """Weighted sum of signals; the weight of one that does not apply is shared by the others.

        r_i = (sum_c |w_c| / sum_{c in A_i} |w_c|) sum_{c in A_i} w_c x_ci,   A_i = the signals that apply to row i

    If all signals apply it is a plain weighted sum. A function returns None for a row that it does not apply to, which
    is never treated as 0; a column that is missing (NaN) in a row makes the reward missing, as in a log.

    Attributes:
        parts: the signals, each name once.

    Raises:
        UsageError: no part, a repeated name, a weight that is 0 or not finite, or an unknown function.
    """

    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        names = [part.name for part in self.parts]
        if not names or len(set(names)) < len(names):
            raise UsageError(f"the parts of a composite are {names}, wanted one or more, each name once")
        # Found when it is built, so that a run does not end over a misspelt name.
        object.__setattr__(self, "parts", tuple(self.parts))
        for part in self.parts:
            if part.fn is not None:
                Function.of(part.fn)

    @classmethod
    def of(cls, table: Mapping[str, Any], folder: str | Path = ".") -> Composite:
        """Make the composite of a table ``[reward]``: a weight by name, or ``{ weight = 0.3, fn = "my.py:score" }``.

        Args:
            table: as TOML has it.
            folder: what the paths of functions are relative to.

        Raises:
            UsageError: as the class; or a value that is neither.
        """
        return cls(tuple(_part(name, value, folder) for name, value in table.items()))

    def __call__(
        self, completions: Sequence[Any], prompts: Sequence[Any] | None = None, **columns: Sequence[Any]
    ) -> Rewards:
        """Score rows.

        Args:
            completions: what was answered, texts or lists of messages. [B]
            prompts: what was asked, for functions that want it. [B]
            columns: whatever else is known of the rows, a list each. [B] each

        Raises:
            RewardError: a function raises, or gives another number of rewards, NaN or something else than a number
                within 1e100 in size; the message names file, function and row.
            ArgumentError: a column that is not there, or differs in rows, or holds something else than rewards.
        """
        rows = {"prompts": prompts, **columns} if prompts is not None else dict(columns)
        components = {part.name: self._component(part, completions, rows) for part in self.parts}
        required = {place for place, part in enumerate(self.parts) if part.fn is None}
        return Rewards(
            weigh_components([(part.weight, components[part.name]) for part in self.parts], required), components
        )

    def _component(self, part: Part, completions: Sequence[Any], rows: dict[str, Sequence[Any]]) -> NDArray[np.float64]:
        if part.fn is None:
            return reward_column(part.name, rows, len(completions))
        return score_rows(Function.of(part.fn), completions, rows)


def weigh_components(
    components: Sequence[tuple[float, NDArray[np.float64]]], required: Collection[int] = ()
) -> NDArray[np.float64]:
    """Return the rewards that some components make; NaN also for a sum beyond 1e100 in size. [B]

    Args:
        components: the weight and the values of each; NaN where it does not apply.
        required: places of those whose missing values make the reward missing.
    """
    rows = len(components[0][1])
    total, applied, full_weight = np.zeros(rows), np.zeros(rows), 0.0
    with np.errstate(all="ignore"):
        for place, (weight, values) in enumerate(components):
            applies = np.True_ if place in required else ~np.isnan(values)
            total += np.where(applies, weight * values, 0.0)
            applied += np.where(applies, abs(weight), 0.0)
            full_weight += abs(weight)
        # Exactly the plain sum where everything applies.
        rewards = np.where(
            applied == full_weight, total, np.where(applied > 0, total * (full_weight / applied), np.nan)
        )
        return np.where(np.abs(rewards) <= LARGEST, rewards, np.nan)


def _part(name: str, value: Any, folder: str | Path) -> Part:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Part(name, float(value))
    is_valid = isinstance(value, dict) and set(value) <= {"weight", "fn"} and isinstance(value.get("fn"), str)
    weight = value.get("weight", 1.0) if is_valid else None
    if not is_valid or isinstance(weight, bool) or not isinstance(weight, int | float):
        raise UsageError(f'reward.{name} is {value!r}, wanted a weight, or {{ weight = 0.3, fn = "my.py:score" }}')
    return Part(name, float(weight), Function.of(value["fn"], folder).call)


@dataclass(frozen=True, eq=False)
class Shaped:
    """Rewards before shaping, for reports, and after it, for training.

    Shaping moves the mean of a report and, within a group, only what the group's own scale does not take back; a report
    of ``shaped`` rewards compares with none of another run. So filters, reports and the test of a constant group take
    ``rewards``; only an objective takes ``shaped``.

    Attributes:
        rewards: before. [B]
        transform: how they are shaped.

    Raises:
        ArgumentError: rewards that are not float64 of one dimension, or infinite.
    """

    rewards: NDArray[np.float64]
    transform: AsymmetricScale

    def __post_init__(self) -> None:
        if not isinstance(self.rewards, np.ndarray) or self.rewards.dtype != np.float64 or self.rewards.ndim != 1:
            raise ArgumentError("rewards has another type, wanted a one-dimensional NumPy array of float64")
        if np.isinf(self.rewards).any():
            raise ArgumentError(f"rewards is infinite in row {int(np.isinf(self.rewards).argmax())}")

    @property
    def shaped(self) -> NDArray[np.float64]:
        """Rewards after shaping. [B]"""
        return self.transform(self.rewards)
