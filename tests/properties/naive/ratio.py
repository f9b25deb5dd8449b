"""Twins of ratios, clips and aggregates: a loop over sequences and tokens, with the formulas of the papers.

The gradient is the derivative of those formulas written out, term by term; it shares nothing with the ranges of ratios
that the kernels turn every clip into.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np


def term(clip: Any, ratio: float, advantage: float, logp: float) -> tuple[float, float]:
    """The loss of a token, and its derivative by the log of its ratio (by `logp` where the weight is detached)."""
    if clip.kind == "cap":
        weight = min(max(ratio, clip.floor), clip.ceiling)
        return -weight * advantage * logp, -weight * advantage
    free = ratio * advantage
    slope = free
    if clip.kind == "none":
        return -free, -slope
    if clip.kind == "two-sided":
        free, slope = (clip.delta * advantage, 0.0) if ratio > clip.delta else (free, slope)
    clipped = min(max(ratio, 1 - clip.low), 1 + clip.high) * advantage
    loss, slope = (-free, -slope) if free <= clipped else (-clipped, 0.0)
    if clip.kind == "dual-clip" and advantage < 0 and loss > -clip.bound * advantage:
        loss, slope = -clip.bound * advantage, 0.0
    return loss, slope


def divided(aggregate: Any) -> tuple[Any, float | None]:
    """An aggregate, and what it divides by where that is given."""
    return aggregate if isinstance(aggregate, tuple) else (aggregate, None)


def weights(aggregate: Any, lengths: list[int]) -> list[float]:
    """The weight of each token, by its sequence."""
    aggregate, denominator = divided(aggregate)
    sequences = denominator or sum(length > 0 for length in lengths)
    if aggregate.kind == "token-mean":
        return [1 / (denominator or sum(lengths) or 1)] * len(lengths)
    if aggregate.kind == "sequence-mean":
        return [1 / (sequences * length) if length else 0.0 for length in lengths]
    each = aggregate.tokens if aggregate.kind == "constant-length" else 1
    return [1 / (sequences * each) if length else 0.0 for length in lengths]


def clamped(log_ratio: float, bound: float | None) -> tuple[float, float]:
    """A log ratio between two bounds, and its slope."""
    if bound is None or abs(log_ratio) <= bound:
        return log_ratio, 1.0
    return math.copysign(bound, log_ratio), 0.0


def exp(value: float) -> float:
    return math.exp(value) if value < 709 else math.inf


def policy_loss(batch: Any, level: str, clip: Any, aggregate: Any, clamp: float | None = None) -> dict[str, Any]:
    """`batch` has logp, old, per-token advantages, offsets, mask and turn_offsets; all in f64."""
    kept = [[t for t in range(a, b) if batch.mask[t]] for a, b in pairwise(batch.offsets)]
    weight = weights(aggregate, [len(row) for row in kept])
    coefficient, terms, ratios = np.zeros(len(batch.logp)), [], []
    for row, w in zip(kept, weight, strict=True):
        for unit in units(row, level, batch.turn_offsets):
            log_ratios = [batch.logp[t] - batch.old[t] for t in unit]
            mean = level != "sequence-product"
            total = math.fsum(log_ratios) / (len(unit) if mean else 1)
            ratios += [exp(total)] * len(unit)  # one a token
            log_ratio, flows = clamped(total, clamp)
            pairs = [term(clip, exp(log_ratio), batch.advantages[t], batch.logp[t]) for t in unit]
            pairs = [pair if batch.advantages[t] else (0.0, 0.0) for t, pair in zip(unit, pairs, strict=True)]
            terms += [w * loss for loss, _ in pairs]
            slopes = [w * slope * (1.0 if clip.kind == "cap" else flows) for _, slope in pairs]
            if clip.kind == "cap" or level == "sequence-token":
                coefficient[unit] = slopes
            else:  # every term has the slope of the shared log ratio, a mean or a sum over the unit
                coefficient[unit] = math.fsum(slopes) / (len(unit) if mean else 1)
    return {"loss": math.fsum(terms), "coefficient": coefficient, "ratios": np.array(ratios)}


def units(row: list[int], level: str, turn_offsets: Any) -> list[list[int]]:
    """The tokens that share a ratio."""
    if level == "token":
        return [[t] for t in row]
    if level == "turn":
        cut = [[t for t in row if a <= t < b] for a, b in pairwise(turn_offsets)]
        return [unit for unit in cut if unit]
    return [row] if row else []
