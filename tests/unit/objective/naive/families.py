"""The five families as functions of MLX arrays."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING, Any

import mlx.core as mx

from karl_fast.objective import Distillation, PolicyGradient, TargetPolicy, TrajectoryBalance, WeightedLikelihood
from karl_fast.objective.axes.log_z import GroupOptimum
from tests.unit.objective.naive import points
from tests.unit.objective.naive.points import Drift, Inputs

if TYPE_CHECKING:
    from karl_fast.objective import Objective, Scored


def loss(objective: Objective, logp: mx.array, scored: Scored, *, denominator: Any = None, **more: Any) -> mx.array:
    """The loss of a scored batch. [B, T] -> []"""
    inputs = Inputs.of(scored)
    total, count = sums(objective, mx.where(inputs.mask, logp, 0.0), inputs, **more)
    return total / (mx.maximum(count, 1).astype(total.dtype) if denominator is None else denominator)


@singledispatch
def sums(objective: Any, logp: mx.array, inputs: Inputs, **more: Any) -> tuple[mx.array, mx.array]:
    """The total of an objective and its denominator."""
    raise TypeError(objective)


@sums.register
def _(objective: PolicyGradient, logp: mx.array, inputs: Inputs, **more: Any) -> tuple[mx.array, mx.array]:
    inputs = points.corrected(objective.correction, inputs)
    log_ratio = points.log_ratio(objective.ratio, logp, inputs)
    moved = Drift(log_ratio, inputs.advantages, logp, inputs.mask, inputs.ages, inputs.deviations)
    terms = points.update(objective.clip, moved)
    terms = terms + points.penalty(objective.kl, logp, inputs)
    if "entropy" in more:
        terms = terms - objective.entropy.coef * more["entropy"]
    if "divergence" in more:
        terms = terms + objective.kl.coef * more["divergence"]  # type: ignore[attr-defined]
    if "label_logp" in more:
        weights = points.right_tokens(objective.labels, moved, inputs)
        terms = terms - objective.labels.coef * weights * more["label_logp"]
    terms = mx.where(inputs.mask, terms, 0.0)
    return points.total(objective.aggregate, terms, inputs.mask), points.count(objective.aggregate, inputs.mask)


@sums.register
def _(objective: Distillation, logp: mx.array, inputs: Inputs, **more: Any) -> tuple[mx.array, mx.array]:
    log_ratio = points.log_ratio(objective.ratio, logp, inputs)
    moved = Drift(log_ratio, inputs.advantages, logp, inputs.mask, inputs.ages, inputs.deviations)
    terms = points.update(objective.clip, moved)
    if "divergence" in more:
        terms = terms + objective.divergence.coef * more["divergence"]
    terms = mx.where(inputs.mask, terms, 0.0)
    return points.total(objective.aggregate, terms, inputs.mask), points.count(objective.aggregate, inputs.mask)


@sums.register
def _(objective: TrajectoryBalance, logp: mx.array, inputs: Inputs, **more: Any) -> tuple[mx.array, mx.array]:
    mask = points.choice(objective.tokens, logp, inputs)
    column = objective.anchor.column
    moved = logp if column is None else logp - getattr(inputs, column)
    drift = points.length(objective.length, mx.where(mask, moved, 0.0), mask)
    residual = objective.scale.drift * drift - objective.scale.reward * inputs.rewards
    residual = residual + more.get("log_z", 0.0)
    weight = points.weight(objective.weight, logp, inputs, mask)
    if isinstance(objective.log_z, GroupOptimum):
        residual = residual - mx.stop_gradient(points.group_mean(residual, inputs, weight))
    costs = points.cost(objective.regression, mx.where(inputs.counted, residual, 0.0))
    return mx.where(inputs.counted, weight * costs, 0.0).sum(), inputs.counted.sum()


@sums.register
def _(objective: TargetPolicy, logp: mx.array, inputs: Inputs, **more: Any) -> tuple[mx.array, mx.array]:
    rows = points.length(objective.length, logp, inputs.mask)
    earlier = mx.tril(points.together(inputs).astype(mx.int32), -1).sum(axis=1)
    total = -(inputs.targets * points.group_log_softmax(rows, inputs)).sum()
    return total, (inputs.counted & (earlier == 0)).sum()


@sums.register
def _(objective: WeightedLikelihood, logp: mx.array, inputs: Inputs, **more: Any) -> tuple[mx.array, mx.array]:
    terms = mx.where(inputs.mask, points.term(objective.term, logp) * inputs.weights[:, None], 0.0)
    return points.total(objective.aggregate, terms, inputs.mask), points.count(objective.aggregate, inputs.mask)
