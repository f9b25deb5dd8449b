"""Twins of replay: weights in plain space, one row at a time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def age_distribution(
    ages: Sequence[int], log_weights: Sequence[float], levels: Sequence[float]
) -> tuple[float, float, list[int]]:
    top = max(log_weights)
    weights = [math.exp(log - top) for log in log_weights]
    total = math.fsum(weights)
    p = [weight / total for weight in weights]
    mean = math.fsum(p_i * age for p_i, age in zip(p, ages, strict=True))
    return mean, 1.0 / math.fsum(x * x for x in p), [quantile(ages, weights, u) for u in levels]


def quantile(ages: Sequence[int], weights: Sequence[float], u: float) -> int:
    drawn = sorted({age for age, weight in zip(ages, weights, strict=True) if weight > 0.0})
    held = [math.fsum(w for a, w in zip(ages, weights, strict=True) if a <= age) for age in drawn]
    return next(age for age, weight in zip(drawn, held, strict=True) if weight >= u * held[-1])


def sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x)) if x > -700.0 else 0.0


def prioritised(priorities: Sequence[float], alpha: float, eps: float) -> list[float]:
    weights = [0.0 if math.isnan(p) else (p + eps) ** alpha for p in priorities]
    return [weight / math.fsum(weights) for weight in weights]


def importance_weights(p: Sequence[float], beta: float) -> list[float]:
    weights = [(1.0 / (len(p) * p_i)) ** beta if p_i > 0.0 else 0.0 for p_i in p]
    return [weight / max(weights) for weight in weights]


def accuracy_error(
    right: Sequence[bool], predicted: Sequence[float], ids: Sequence[int], successes_only: bool
) -> list[float]:
    errors = []
    for row, group in enumerate(ids):
        peers = [bool(right[other]) for other in range(len(ids)) if ids[other] == group]
        some = group >= 0 and (right[row] or not successes_only)
        errors.append(abs(sum(peers) / len(peers) - predicted[row]) if some else math.nan)
    return errors
