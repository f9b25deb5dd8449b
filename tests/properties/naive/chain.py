"""Twins of the chain from rewards to a draw."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import xxhash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Column = NDArray[np.float64]
    Codes = NDArray[np.int64]

PURPOSES = {"draw": 1, "order": 2, "split": 3}
CAP = 1e4


def groups(ids: Codes, rewards: Column) -> Iterator[NDArray[np.int64]]:
    """The rows of each group that have a reward."""
    for group in sorted(set(ids[ids >= 0].tolist())):
        yield np.flatnonzero((ids == group) & ~np.isnan(rewards))


def scored(rewards: Column, ids: Codes, formula: Callable[[Column], Column]) -> Column:
    """A formula applied within each group; 0 in a group of one or without any difference (law 8), NaN elsewhere."""
    out = np.full(len(rewards), np.nan)
    for members in groups(ids, rewards):
        values = rewards[members]
        if len(values):
            out[members] = formula(values) if values.max() > values.min() else 0.0
    return out


def centre(rewards: Column, ids: Codes) -> Column:
    return scored(rewards, ids, lambda r: r - math.fsum(r) / len(r))


def zscore(rewards: Column, ids: Codes, ddof: int, eps: float) -> Column:
    def formula(r: Column) -> Column:
        mean = math.fsum(r) / len(r)
        std = math.sqrt(math.fsum((r - mean) ** 2) / (len(r) - ddof))
        return (r - mean) / (std + eps)

    return scored(rewards, ids, formula)


def leave_one_out(rewards: Column, ids: Codes) -> Column:
    def formula(r: Column) -> Column:
        return np.array([r[i] - math.fsum(np.delete(r, i)) / (len(r) - 1) for i in range(len(r))])

    return scored(rewards, ids, formula)


def log_sum_exp(values: Column) -> float:
    top = max(values, default=-math.inf)
    if top == -math.inf:
        return -math.inf
    return top + math.log(math.fsum(math.exp(value - top) for value in values))


def ess(log_weights: Column) -> float:
    total = log_sum_exp(log_weights)
    return 0.0 if total == -math.inf else math.exp(2 * total - log_sum_exp(2 * log_weights))


def share(scores: Column, b: float) -> float:
    """The ESS of one scope as a share of its rows."""
    return ess(b * scores) / len(scores)


def solve(scores: Column, wanted: float) -> float:
    """The smallest b up to the cap whose share is at most the one wanted, by plain bisection."""
    low, high = 0.0, CAP / (scores.max() - scores.min())
    for _ in range(200):
        middle = (low + high) / 2
        if share(scores, middle) <= wanted:
            high = middle
        else:
            low = middle
    return high


def uniform(seed: int, low: int, high: int, ordinal: int, purpose: str) -> float:
    words = (low, high, ordinal, PURPOSES[purpose])
    key = b"".join(word.to_bytes(8, "little") for word in words)
    top = xxhash.xxh3_64_intdigest(key, seed=seed) >> 12
    return (top + 0.5) * 2.0**-52


def gumbel_keys(log_weights: Column, seed: int, keys: NDArray[np.uint64]) -> Column:
    noise = [-math.log(-math.log(uniform(seed, *map(int, key), "draw"))) for key in keys]
    return log_weights + np.array(noise)


def top(keys: Column, count: int) -> list[int]:
    order = sorted(range(len(keys)), key=lambda row: (-keys[row], row))
    return [row for row in order if keys[row] > -math.inf][:count]


def inclusion(weights: list[float], k: int) -> list[float]:
    """The chance of each row to be among k drawn one after the other, by following every possible draw."""
    chance = [0.0] * len(weights)

    def follow(drawn: tuple[int, ...], probability: float) -> None:
        if len(drawn) == k:
            for row in drawn:
                chance[row] += probability
            return
        left = [row for row in range(len(weights)) if row not in drawn]
        total = math.fsum(weights[row] for row in left)
        for row in left:
            follow((*drawn, row), probability * weights[row] / total)

    follow((), 1.0)
    return chance
