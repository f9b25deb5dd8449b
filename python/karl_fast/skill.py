"""Evidence of skills, or of any domain of a log; and the log of a shadow router compared with the skills used.

```text
rows with a reward and a time, the oldest first -> w <- (1 - alpha) w + alpha r, a weight for each skill
newer half less older half -> trend             bootstrap of the rewards -> low, high
```
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from karl_fast import _core
from karl_fast.advantage import ema_baseline
from karl_fast.errors import UsageError
from karl_fast.log import Log, read
from karl_fast.settings.schema import STARTED_AT, Weighting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    Column = NDArray[np.float64]
    Codes = NDArray[np.int64]

CORRECTED = "outcome.corrected"

TOP = 3
"""Ranks at which a used skill counts as in the top of a router's list."""


@dataclass(frozen=True)
class Skill:
    """Evidence of one skill.

    Attributes:
        name: its name in the log.
        rows: number of its rows.
        rewarded: number of them with a reward.
        mean: mean reward; None without one.
        low, high: interval of the mean, by the bootstrap; None for fewer than two rewards.
        weight: its weight, as `weighting` of the report defines it; None without a timed reward.
        trend: mean reward of the newer half of its timed rewards less that of the older half; None for fewer than two.
        corrected: share of its rows that the user corrected, of those where it is known; None where it never is.
        corrected_known: number of rows where it is known.
    """

    name: str
    rows: int
    rewarded: int
    mean: float | None
    low: float | None
    high: float | None
    weight: float | None
    trend: float | None
    corrected: float | None
    corrected_known: int


@dataclass(frozen=True)
class Skills:
    """Evidence of all skills of a log.

    Attributes:
        skills: by weight, the largest first.
        weighting: definition of the weights.
        rows: number of rows of the log.
        without_skill: number of rows without a skill.
        without_time: number of rewarded rows of a skill without a time, which enter neither weights nor trends.
    """

    skills: list[Skill]
    weighting: Weighting
    rows: int
    without_skill: int
    without_time: int


@dataclass(frozen=True)
class Routing:
    """A router in the shadow of another, on rows with the skill that was used in fact.

    Attributes:
        rows: number of rows with a skill that was used.
        agreement: share of rows where the two routers name the same skill, of those where both name one.
        shadow_correct, router_correct: share of rows where each names the skill that was used; naming none is wrong.
        in_top: share of rows where the used skill is among the first three of the shadow router.
        reciprocal_rank: mean of 1 / rank of the used skill in the shadow router's list, 0 where it is not in it.
        by_skill: rows, and the share that the shadow router names right, for each skill that was used.
    """

    rows: int
    agreement: float | None
    shadow_correct: float | None
    router_correct: float | None
    in_top: float | None
    reciprocal_rank: float | None
    by_skill: dict[str, tuple[int, float]]


def skills(
    logs: str | Path | Iterable[str | Path],
    by: str,
    *,
    reward: Mapping[str, float] | None = None,
    time: str = STARTED_AT,
    weighting: Weighting = "ema",
    alpha: float = 0.1,
    level: float = 0.95,
) -> Skills:
    """Compute the evidence of each skill of a log.

    ```text
    ema    w <- (1 - alpha) w + alpha r for each reward in the order of time, from the mean of all rewards
    karl   0.5 + w, between 0.5 and 1.5, with w from 0.5
    ```

    KARL begins at 0.5, above which almost every session is: one with no evidence of success has 0.66. A skill of few
    sessions is then too low, and any comparison with 0.5 too kind. From the mean of all, few sessions say little.

    Args:
        logs: as `karl_fast.read` takes them.
        by: field with the skill, such as ``skill``, ``domain`` or ``source.git_branch``.
        reward: weight of each component of the reward; the log's own by default.
        time: field with the time of a row, as text that sorts by time.
        weighting: definition of the weights, ``ema`` or ``karl``.
        alpha: share of the newest reward.
        level: confidence of the intervals.

    Returns:
        The evidence.

    Raises:
        KarlError: as `karl_fast.read`.
        UsageError: an unknown weighting.
        ArgumentError: an alpha or a level outside of 0 to 1.

    Reference: Diomandeee/karl, ``karl/weight_updater.py``, commit 7d5ef32, for ``karl``.
    """
    if weighting not in ("ema", "karl"):
        raise UsageError(f"weighting is {weighting!r}, wanted ema or karl", "weighting")
    log = read(logs, domain=by, partition_by=time, reward=None if reward is None else dict(reward))
    corrected = _corrections(logs, by)
    rewards, codes, names = log.rewards, log.domains, log.domain_names
    order = _rows_by_time(log)
    timed = order[~np.isnan(rewards[order]) & (codes[order] >= 0)]
    weights = _weights(rewards[timed], codes[timed], weighting, alpha)
    known = (codes >= 0) & ~np.isnan(rewards)
    evidence = [
        _evidence_of(name, codes == code, rewards, timed[codes[timed] == code], weights.get(code), corrected, level)
        for code, name in enumerate(names)
    ]
    evidence.sort(key=lambda skill: (-np.inf if skill.weight is None else skill.weight, skill.name), reverse=True)
    without = int((codes < 0).sum())
    return Skills(evidence, weighting, len(log), without, int(known.sum()) - len(timed))


def routing(log: str | Path, *, used: str = "actual_skill", router: str = "regex", shadow: str = "vector") -> Routing:
    """Judge the log of a shadow router by the skills that were used in fact.

    Args:
        log: the log, as `karl_fast.read` takes it, with a field ``reciprocal_rank``.
        used: field with the skill that was used.
        router, shadow: fields with the skills that the routers name.

    Returns:
        The shares; None where no row has the facts.

    Raises:
        KarlError: as `karl_fast.read`.

    Reference: Diomandeee/karl, ``karl/trajectory_bridge.py``; its lift compares rewards where the routers agree with
        those where they do not, with the sign inverted, and is left out.
    """
    rows = read(log, domain=used, group=router, partition_by=shadow, reward={"reciprocal_rank": 1.0})
    real, names = rows.domains, rows.domain_names
    known = real >= 0
    number = {name: code for code, name in enumerate(names)}
    first, second = (_codes_by_name(rows, column, number) for column in ("group", "partition"))
    ranks = np.nan_to_num(rows.rewards)
    is_correct = second == real
    both = known & (first != NONE) & (second != NONE)
    return Routing(
        rows=int(known.sum()),
        agreement=_share(first == second, both),
        shadow_correct=_share(is_correct, known),
        router_correct=_share(first == real, known),
        in_top=_share(ranks * TOP >= 1 - 1e-9, known),
        reciprocal_rank=_share(ranks, known),
        by_skill={
            name: (int((real == code).sum()), float(is_correct[real == code].mean())) for code, name in enumerate(names)
        },
    )


NONE = -1
"""Number of a skill that a router does not name."""


def _codes_by_name(log: Log, column: str, number: dict[str, int]) -> Codes:
    """Return the skills of a column by the numbers of the used ones; others have numbers of their own."""
    names = log.core.names(column)
    codes = np.array([number.setdefault(name, len(number)) for name in names] + [NONE], dtype=np.int64)
    return codes[log.core.codes(column)]  # -1, for none, takes the last


def _share(values: NDArray[np.bool_] | Column, rows: NDArray[np.bool_]) -> float | None:
    return float(values[rows].mean()) if rows.any() else None


def _corrections(logs: str | Path | Iterable[str | Path], by: str) -> dict[str, Column]:
    """Return whether the user corrected, 1 or 0, of the rows of each skill where it is known."""
    log = read(logs, domain=by, reward={CORRECTED: 1.0})
    values, codes = 1 - log.components[CORRECTED], log.domains  # undoes 1 - x, in which it enters a reward
    known = ~np.isnan(values)
    return {name: values[known & (codes == code)] for code, name in enumerate(log.domain_names)}


def _rows_by_time(log: Log) -> NDArray[np.int64]:
    """Return the rows with a time, the oldest first; rows of one time in the order of the log."""
    names = log.core.names("partition")
    places = np.empty(len(names) + 1, dtype=np.int64)
    places[np.argsort(np.array(names, dtype=np.str_), kind="stable")] = np.arange(len(names))
    places[-1] = -1  # the code -1, of rows without a time, takes the last place
    order = places[log.core.codes("partition")]
    rows = np.argsort(order, kind="stable")
    return rows[order[rows] >= 0]


def _weights(rewards: Column, codes: Codes, weighting: Weighting, alpha: float) -> dict[int, float]:
    if not len(rewards):
        return {}
    start = 0.5 if weighting == "karl" else float(rewards.mean())
    state = ema_baseline(rewards, codes, alpha=alpha, start=start).state
    values = np.clip(0.5 + state.baselines, 0.5, 1.5) if weighting == "karl" else state.baselines
    return dict(zip(state.ids.tolist(), values.tolist(), strict=True))


def _evidence_of(
    name: str,
    rows: NDArray[np.bool_],
    rewards: Column,
    timed: NDArray[np.int64],
    weight: float | None,
    corrected: dict[str, Column],
    level: float,
) -> Skill:
    values = rewards[rows]
    values = np.ascontiguousarray(values[~np.isnan(values)])
    low, high = _core.bootstrap_mean(values, level=level) if len(values) > 1 else (None, None)
    half, ordered = len(timed) // 2, rewards[timed]
    known = corrected.get(name, values[:0])
    return Skill(
        name=name,
        rows=int(rows.sum()),
        rewarded=len(values),
        mean=float(values.mean()) if len(values) else None,
        low=low,
        high=high,
        weight=weight,
        trend=float(ordered[-half:].mean() - ordered[:half].mean()) if half else None,
        corrected=float(known.mean()) if len(known) else None,
        corrected_known=len(known),
    )
