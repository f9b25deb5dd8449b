"""Composites, baselines of domains and skill weights, one row after the other."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def composite(row: Sequence[float | None], weights: Sequence[float]) -> float:
    whole = sum(abs(weight) for weight in weights)
    there = [(value, weight) for value, weight in zip(row, weights, strict=True) if value is not None]
    if not there:
        return math.nan
    share = sum(abs(weight) for _, weight in there) / whole
    return sum(value * weight for value, weight in there) / share


def mean(rewards: Sequence[float]) -> float:
    return math.fsum(rewards) / len(rewards)


def deviation(rewards: Sequence[float]) -> float:
    return math.sqrt(math.fsum((reward - mean(rewards)) ** 2 for reward in rewards) / len(rewards))


def shrunk(own: Sequence[float], whole: Sequence[float], strength: float) -> float:
    return (math.fsum(own) + strength * mean(whole)) / (len(own) + strength)


def partition(rewards: Sequence[float], inverse_temperature: float) -> float:
    return (
        math.log(math.fsum(math.exp(inverse_temperature * it) for it in rewards) / len(rewards)) / inverse_temperature
    )


def running(rewards: Sequence[float], alpha: float, start: float) -> float:
    for reward in rewards:
        start = (1 - alpha) * start + alpha * reward
    return start
