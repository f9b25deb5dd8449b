"""The families as functions of MLX arrays."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING, Any

import mlx.core as mx

from karl_fast.objective import (
    Distillation,
    PolicyGradient,
    Preference,
    TargetPolicy,
    TrajectoryBalance,
    WeightedLikelihood,
)
from karl_fast.objective.axes.log_z import GroupOptimum
from karl_fast.objective.axes.preference import DivergenceBaseline, LogOddsDifference, LogSigmoid, SquaredMargin
from tests.unit.objective.naive import points
from tests.unit.objective.naive.points import Drift, Inputs

if TYPE_CHECKING:
    from karl_fast.objective import Objective, Scored


def loss(objective: Objective, logp: mx.array, scored: Scored, *, denominator: Any = None, **more: Any) -> mx.array:
    """The loss of a scored batch. [B, T] -> []"""
    inputs = Inputs.of(scored)
    if scored.candidates is not None:
        drawn, flat = Inputs.of(scored.candidates), more["candidate_logp"].reshape(-1, 1)
        total, _ = sums(objective.of_rollouts, mx.where(drawn.mask, flat, 0.0), drawn)  # type: ignore[attr-defined]
        return total / (int(scored.mask.sum()) if denominator is None else denominator)
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
    terms = mx.where(inputs.mask, points.term(objective.term, logp, inputs.mask) * inputs.weights[:, None], 0.0)
    return points.total(objective.aggregate, terms, inputs.mask), points.count(objective.aggregate, inputs.mask)


@sums.register
def _(objective: Preference, logp: mx.array, inputs: Inputs, **more: Any) -> tuple[mx.array, mx.array]:
    column = objective.anchor.column
    apart = logp if column is None else mx.where(inputs.mask, logp - getattr(inputs, column), 0.0)
    score, margin = points.length(objective.length, apart, inputs.mask), objective.margin
    chosen = inputs.counted & inputs.preferred
    costs = mx.where(chosen, -objective.likelihood.factor * points.mean_over(logp, inputs.mask)[:, 0], 0.0)
    if isinstance(margin, DivergenceBaseline):
        sign = mx.where(inputs.preferred, points.exact(1.0), points.exact(-1.0))
        weight = mx.where(inputs.preferred, points.exact(margin.desirable), points.exact(margin.undesirable))
        paid = weight * link(objective.link, sign * margin.scale * (score - inputs.divergences))
        return (costs + mx.where(inputs.counted, paid, 0.0)).sum(), inputs.counted.sum()
    if isinstance(margin, LogOddsDifference):
        scaled = score - mx.log(1 - mx.exp(mx.where(inputs.counted, score, -1.0)))
        target = 0.0
    else:
        scaled, target = margin.scale * score, margin.target
    mate = points.together(inputs) & ~inputs.preferred[None, :]
    other = mx.where(mate, scaled[None, :], points.exact(0.0)).sum(axis=1)
    return (costs + mx.where(chosen, link(objective.link, scaled - other - target), 0.0)).sum(), chosen.sum()


def link(point: Any, margin: mx.array) -> mx.array:
    """What a margin costs; of sigmoid alone, for which the tests have all digits."""
    if isinstance(point, SquaredMargin):
        return point.coef * (margin - point.target) ** 2
    if isinstance(point, LogSigmoid):
        right, wrong = mx.log(mx.sigmoid(margin)), mx.log(mx.sigmoid(-margin))
        return -point.coef * ((1 - point.smoothing) * right + point.smoothing * wrong)
    return point.coef * (1 - mx.sigmoid(margin))
