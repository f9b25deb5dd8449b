"""Targets and partitions as their formulas read, one group after another."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.properties.naive import chain


def by_group(ids: Any) -> list[int]:
    """The groups in order of first appearance."""
    return list(dict.fromkeys(int(i) for i in ids if i >= 0))


def log_sum_exp_by(values: Any, ids: Any) -> Any:
    return np.array([chain.log_sum_exp(values[ids == group]) for group in by_group(ids)])


def kl(log_weights: Any) -> float:
    """From uniform over the rows that have a weight."""
    kept = log_weights[log_weights > -np.inf]
    p = np.exp(kept - chain.log_sum_exp(kept))
    return float(sum(x * math.log(x * len(p)) for x in p if x > 0))


def on_rows(ids: Any, one: Any) -> Any:
    found = np.full(len(ids), np.nan)
    for group in by_group(ids):
        found[ids == group] = one(np.flatnonzero(ids == group))
    return found


def soft_value(rewards: Any, ids: Any, temperature: float) -> Any:
    def one(rows: Any) -> float:
        present = rewards[rows][~np.isnan(rewards[rows])]
        if len(present) == 0:
            return math.nan
        if temperature == 0:
            return float(present.max())
        if temperature == math.inf:
            return float(present.mean())
        return temperature * (chain.log_sum_exp(present / temperature) - math.log(len(present)))

    return on_rows(ids, one)


def regression_intercept(rewards: Any, log_ratio: Any, ids: Any, temperature: float) -> Any:
    def one(rows: Any) -> float:
        terms = rewards[rows] / temperature - log_ratio[rows]
        return float(np.nanmean(terms)) if not np.isnan(terms).all() else math.nan

    return on_rows(ids, one)


def tpo(logp_old: Any, rewards: Any, ids: Any, temperature: float, anchored: bool) -> Any:
    found = np.zeros(len(ids))
    for group in by_group(ids):
        rows = np.flatnonzero((ids == group) & ~np.isnan(rewards))
        if len(rows):
            r = rewards[rows]
            u = r - r.mean() if r.std() <= 1e-6 else (r - r.mean()) / r.std()
            u = np.zeros(len(rows)) if r.max() == r.min() else u
            exponents = anchored * logp_old[rows] + u / temperature
            found[rows] = np.exp(exponents - chain.log_sum_exp(exponents))
    return found
