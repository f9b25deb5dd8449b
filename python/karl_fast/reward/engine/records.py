"""Reward of one record."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from karl_fast import _core
from karl_fast.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

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
        version: as in :func:`compute_reward`.

    Returns:
        ``reward_score`` of each line; NaN where :func:`compute_reward` raises. [B]

    Raises:
        ArgumentError, UsageError: as :func:`compute_reward`.
        FileError, LogError: the file cannot be read, or is none.

    Reference:
        Diomandeee/karl, ``karl/reward_engine.py``, commits 7d5ef32 (v1) and c41d1c5 (v2).
    """
    if isinstance(lines, bytes):
        return _core.karl_rewards(lines, version, weights())
    return _core.karl_rewards_in(lines, version, weights())


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


def overrides() -> dict[str, float]:
    """Return the weights of v1 that the environment overrides, by variable.

    Raises:
        UsageError: a weight in the environment that is not a number.
    """
    found = dict(zip(WEIGHTS, weights(), strict=True))
    return {name: weight for name, weight in found.items() if weight != WEIGHTS[name]}


def weights() -> list[float]:
    """Return the weights of v1: outcome, process, efficiency."""
    found = []
    for name, usual in WEIGHTS.items():
        try:
            found.append(float(os.environ.get(name, usual)))
        except ValueError:
            found.append(math.nan)
        if not math.isfinite(found[-1]):
            raise UsageError(f"{name} is {os.environ[name]!r}, and has to be a number")
    return found


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
