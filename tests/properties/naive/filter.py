"""Twins of the filters: one row, one group and one token at a time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.float64]
    Codes = NDArray[np.int64]


def members(ids: Codes) -> Iterator[list[int]]:
    """The rows of each group, by first appearance."""
    for group in dict.fromkeys(i for i in ids.tolist() if i >= 0):
        yield [row for row, i in enumerate(ids) if i == group]


def differ(values: Iterable[float]) -> bool:
    """Return whether values are more than rounding apart: 2^-43 of the largest, or of 1/8 where all are smaller."""
    there = list(values)
    return bool(there) and max(there) - min(there) > 2.0**-43 * max(0.125, *map(abs, there))


def constant_groups(outcomes: Column, ids: Codes, rewards: Column | None) -> list[str]:
    names = ["missing_group"] * len(ids)
    for rows in members(ids):
        present = {outcomes[row] for row in rows if not math.isnan(outcomes[row])}
        shaped = {rewards[row] for row in rows if not math.isnan(rewards[row])} if rewards is not None else set()
        verdict = "kept" if differ(present) else "phantom_group" if differ(shaped) else "constant_group"
        for row in rows:
            if math.isnan(outcomes[row]):
                names[row] = "missing_outcome"
            elif rewards is not None and math.isnan(rewards[row]):
                names[row] = "missing_reward"
            else:
                names[row] = verdict
    return names


def mixed_groups(right: Sequence[bool], ids: Codes) -> list[str]:
    names = ["missing_group"] * len(ids)
    for rows in members(ids):
        count = sum(bool(right[row]) for row in rows)
        for row in rows:
            names[row] = "all_right" if count == len(rows) else "all_wrong" if count == 0 else "kept"
    return names


def variances(rewards: Column, ids: Codes, ddof: int) -> list[tuple[list[int], float]]:
    found = []
    for rows in members(ids):
        r = [rewards[row] for row in rows if not math.isnan(rewards[row])]
        mean = math.fsum(r) / len(r) if r else 0.0
        different = differ(r)
        found.append((rows, math.fsum((x - mean) ** 2 for x in r) / (len(r) - ddof) if different else 0.0))
    return found


def variance_top(
    rewards: Column, ids: Codes, *, p: float | None = None, k: int | None = None, ddof: int = 0
) -> list[str]:
    found = variances(rewards, ids, ddof)
    ranked = sorted((at for at in range(len(found)) if found[at][1] > 0.0), key=lambda at: -found[at][1])
    if p is not None:
        total = math.fsum(found[at][1] for at in ranked)
        k = len(ranked)
        for m in range(len(ranked) + 1):
            if p < 1.0 and math.fsum(found[at][1] for at in ranked[:m]) >= p * total:
                k = m
                break
    names = ["missing_group"] * len(ids)
    for at, (rows, variance) in enumerate(found):
        verdict = "kept" if at in ranked[:k] else "low_variance" if variance > 0.0 else "constant_group"
        for row in rows:
            names[row] = "missing_reward" if math.isnan(rewards[row]) else verdict
    return names


def starved(keep: Sequence[bool], rewards: Column, ids: Codes, least: int) -> tuple[int, int, int]:
    groups = short = constant = 0
    for rows in members(ids):
        before = [rewards[row] for row in rows if not math.isnan(rewards[row])]
        after = [rewards[row] for row in rows if not math.isnan(rewards[row]) and keep[row]]
        if len(before) >= least and differ(before):
            groups += 1
            short += len(after) < least
            constant += len(after) >= least and not differ(after)
    return groups, short, constant


def low_ratio_negatives(
    logp: Column, logp_old: Column, offsets: Codes, advantages: Column, delta: float, mask: Sequence[bool]
) -> list[str]:
    names = []
    for row, advantage in enumerate(advantages):
        tokens = [t for t in range(offsets[row], offsets[row + 1]) if mask[t]]
        fall = math.fsum(float(logp_old[t]) - float(logp[t]) for t in tokens) / max(len(tokens), 1)
        kept = "kept" if advantage >= 0.0 or fall <= delta else "low_ratio"
        names.append("missing_advantage" if math.isnan(advantage) else kept)
    return names


def probability_difference(
    logp: Column, logp_old: Column, offsets: Codes, advantages: Column, low: float, high: float, mask: Sequence[bool]
) -> list[str]:
    names = ["kept"] * len(logp)
    for row, advantage in enumerate(advantages):
        for t in range(offsets[row], offsets[row + 1]):
            moved = math.exp(logp[t]) - math.exp(logp_old[t])
            if not mask[t]:
                continue
            if math.isnan(advantage):
                names[t] = "missing_advantage"
            elif advantage > 0.0 and moved > high:
                names[t] = "above_high"
            elif advantage < 0.0 and moved < -low:
                names[t] = "below_low"
    return names
