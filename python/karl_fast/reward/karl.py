"""KARL's reward of a record, of a log, and of trajectories in columns.

```text
v1: .40 outcome + .35 process + .25 efficiency
v2: .25 outcome + .22 process + .13 efficiency + .13 verification + .13 consistency + .14 motion
```

The core computes it, with the same bits as KARL's Python. The signals are in the manual's page on rewards.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from karl_fast import _core
from karl_fast.errors import ArgumentError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from karl_fast.typing import Floats, Integers

Version: TypeAlias = Literal["v1", "v2"]

WEIGHTS = {"KARL_REWARD_W_OUTCOME": 0.40, "KARL_REWARD_W_PROCESS": 0.35, "KARL_REWARD_W_EFFICIENCY": 0.25}
"""The weights of v1 by the variable that overrides each; code: karl/config.py of v1.0.0."""


def compute_reward(record: dict[str, Any] | bytes, *, version: Version = "v1") -> dict[str, Any]:
    """Score one record.

        v1: .40 outcome + .35 process + .25 efficiency
        v2: .25 outcome + .22 process + .13 efficiency + .13 verification + .13 consistency + .14 motion

    The signals are in the manual's page on rewards. In v1 ``KARL_REWARD_W_OUTCOME``, ``KARL_REWARD_W_PROCESS`` and
    ``KARL_REWARD_W_EFFICIENCY`` override the weights. v2 makes what a record does not count from its ``tool_calls``.

    Args:
        record: a dict with ``outcome``, ``trajectory`` and ``timing``, or its JSON as bytes, which is not parsed but
            looked into, and is not checked outside of what is asked of it.
        version: of the formula.

    Returns:
        ``reward_score``, one score a signal and ``components``, rounded to four decimals, in KARL's order of keys.

    Raises:
        AttributeError, TypeError, ZeroDivisionError, OverflowError: where KARL raises that class: on a value of the
            wrong type, or a whole number beyond every float.
        ValueError: bytes that are not JSON.
        ArgumentError: another version.
        UsageError: a weight in the environment that is not a number.

    Reference:
        Diomandeee/karl, ``karl/reward_engine.py``, commits 7d5ef32 (v1) and c41d1c5 (v2).
    """
    return _core.karl_reward(record, version, weights())


def compute_rewards(lines: bytes | str | Path, *, version: Version = "v1") -> NDArray[np.float64]:
    """Score each line of a log, without building its records, on all cores.

    Args:
        lines: JSON Lines, or the path of a file of them, plain or packed by gzip or zstd, which is read 16 MiB at a
            time; blank lines are left out.
        version: as in `compute_reward`.

    Returns:
        ``reward_score`` of each line; NaN where `compute_reward` raises. [B]

    Raises:
        ArgumentError, UsageError: as `compute_reward`.
        FileError, LogError: the file cannot be read, or is not a log.

    Reference:
        Diomandeee/karl, ``karl/reward_engine.py``, commits 7d5ef32 (v1) and c41d1c5 (v2).
    """
    if isinstance(lines, bytes):
        return _core.karl_rewards(lines, version, weights())
    return _core.karl_rewards_in(lines, version, weights())


@dataclass(frozen=True, eq=False)
class Calls:
    """The calls of many trajectories, concatenated, and facts about each trajectory.

    Yes-or-no columns are int64: 1 for yes, 0 for no, below 0 for unknown.

    Attributes:
        offsets: start of the calls of each trajectory, int64. [B + 1]
        tools: index of each call's tool in ``names``, int64. [E]
        success: whether each call succeeded. [E]
        names: names of the tools; Bash, Write, Edit and NotebookEdit have a special role in the formula.
        correction, redo, build, continued: whether the user corrected the work, had it redone, the build succeeded, and
            the session went on; None if unknown. [B]
        seconds: duration of each trajectory, float64, NaN if unknown. [B]
        files: number of the file given to each call, from 0 and below E, or below 0 for none; only for v2. [E]
        commands: index of each call's command in ``texts``, below 0 for none; only for v2. [E]
        texts: texts of the commands.
    """

    offsets: Integers
    tools: Integers
    success: Integers
    names: Sequence[str]
    correction: Integers | None = None
    redo: Integers | None = None
    build: Integers | None = None
    continued: Integers | None = None
    seconds: Floats | None = None
    files: Integers | None = None
    commands: Integers | None = None
    texts: Sequence[str] = ()


def compute_call_rewards(calls: Calls, *, version: Version = "v1") -> NDArray[np.float64]:
    """Score trajectories with calls in columns.

        v1: .40 outcome + .35 process + .25 efficiency
        v2: .25 outcome + .22 process + .13 efficiency + .13 verification + .13 consistency + .14 motion

    The result is bit for bit that of `compute_reward` for a record with counts that match its events; the weights
    of v1 come from the same environment variables. Cost: one pass over the calls in v1, a few in v2, on all cores.

    Args:
        calls: the columns.
        version: version of the formula.

    Returns:
        ``reward_score`` of each trajectory. [B]

    Raises:
        ArgumentError: columns that differ in rows, a tool without a name, a repeated name, a command without a text, a
            file beyond the number of calls, infinite seconds, another version, or another type than Calls.
        DTypeError, LayoutError: a column that would have to be cast or copied, or offsets out of place.
        UsageError: as `compute_reward`.

    Reference:
        Diomandeee/karl, ``karl/reward_engine.py``, commits 7d5ef32 (v1) and c41d1c5 (v2).
    """
    if not isinstance(calls, Calls):
        raise ArgumentError(f"calls is a {type(calls).__name__}, wanted a Calls")
    repeated = [name for name, count in Counter(name or "unknown" for name in calls.names).items() if count > 1]
    if repeated:  # KARL calls a tool without a name so
        raise ArgumentError(
            f"names has {repeated[0]!r} twice (an empty name is 'unknown'), wanted a number for each tool"
        )
    return _core.karl_column_rewards(calls, version, weights())


def compute_advantage(
    record: object,
    reward_score: float,
    domain_baseline: float | None = None,
    beta: float = 1.0,
    domain_std: float | None = None,
) -> float:
    """Compute the advantage over the baseline: A = (reward - baseline) / s.

    s is ``domain_std`` where that is given and above .01 (v2), else ``beta``, which here is a divisor.

    Args:
        record: not looked at; KARL has it.
        reward_score: the reward.
        domain_baseline: .5 unless given.
        beta: the scale.
        domain_std: the standard deviation of the domain's rewards.

    Returns:
        A, not rounded.

    Raises:
        ZeroDivisionError: ``beta`` is 0.

    Reference:
        Diomandeee/karl, ``karl/reward_engine.py``, commits 7d5ef32 (v1) and c41d1c5 (v2).
    """
    baseline = 0.5 if domain_baseline is None else domain_baseline
    scale = domain_std if domain_std and domain_std > 0.01 else beta
    return (reward_score - baseline) / scale


def weights() -> list[float]:
    """Return the weights of v1: outcome, process, efficiency."""
    values = []
    for name, default in WEIGHTS.items():
        try:
            values.append(float(os.environ.get(name, default)))
        except ValueError:
            values.append(math.nan)
        if not math.isfinite(values[-1]):
            raise UsageError(f"{name} is {os.environ[name]!r}, and has to be a number")
    return values


def overrides() -> dict[str, float]:
    """Return the weights of v1 that the environment overrides, by variable.

    Raises:
        UsageError: a weight in the environment that is not a number.
    """
    by_variable = dict(zip(WEIGHTS, weights(), strict=True))
    return {name: weight for name, weight in by_variable.items() if weight != WEIGHTS[name]}


def _compute_outcome(outcome: object) -> tuple[float, dict[str, Any]]:
    """Return the outcome's score, not rounded, and its components."""
    return _core.karl_outcome(outcome)


def _compute_process(trajectory: object, *, version: Version = "v1") -> tuple[float, dict[str, Any]]:
    """Return the process score, not rounded, and its components."""
    return _core.karl_process(trajectory, version)


def _compute_efficiency(trajectory: object, timing: object, *, version: Version = "v1") -> tuple[float, dict[str, Any]]:
    """Return the efficiency's score, not rounded, and its components."""
    return _core.karl_efficiency(trajectory, timing, version)


def _max_consecutive_failures(events: Sequence[object]) -> int:
    """Return the longest run of events with a false ``success``."""
    return _core.karl_longest_failure(events)
