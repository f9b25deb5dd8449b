"""Points of the axes as functions of MLX arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np

from karl_fast.objective.axes import aggregate, balance, clip, correction, kl, labels, likelihood, ratio

if TYPE_CHECKING:
    from karl_fast.objective import Scored


@dataclass(frozen=True)
class Inputs:
    """A scored batch in MLX; ``turns`` says of each turn which tokens are its own. bool, [B, U, T]"""

    mask: mx.array
    logp_old: Any
    logp_ref: Any
    advantages: Any
    rewards: Any
    weights: Any
    targets: Any
    groups: Any
    turns: Any
    logp_rollout: Any
    ages: Any
    deviations: Any
    label_places: Any
    preferred: Any
    divergences: Any

    @classmethod
    def of(cls, scored: Scored) -> Inputs:
        found: dict[str, Any] = {}
        for name in cls.__dataclass_fields__:
            array = getattr(scored, name)
            if array is not None and name == "turns":
                last = int(array.max(initial=0))
                array = (array[:, None, :] == np.arange(last + 1)[None, :, None]) & scored.mask[:, None, :]
            if array is not None and array.dtype.kind == "f":
                found[name] = mx.array(array.astype(np.float64), dtype=mx.float64)
            else:
                found[name] = None if array is None else mx.array(array)
        return cls(**found)

    @property
    def counted(self) -> mx.array:
        return self.mask.any(axis=1)


def exact(value: float) -> mx.array:
    """A number that `mx.where` does not round to float32."""
    return mx.array(value, dtype=mx.float64)


def drift(logp: mx.array, inputs: Inputs) -> mx.array:
    """``logp - logp_old``, 0 outside the mask."""
    return mx.where(inputs.mask, logp - inputs.logp_old, 0.0)


def mean_over(values: mx.array, mask: mx.array) -> mx.array:
    """The mean of each row over the tokens that count; values are 0 elsewhere. [B, T] -> [B, 1]"""
    return values.sum(axis=1, keepdims=True) / mx.maximum(mask.sum(axis=1, keepdims=True), 1).astype(values.dtype)


def spread(values: mx.array, mask: mx.array) -> mx.array:
    return mx.where(mask, values, 0.0)


def log_ratio(point: ratio.Ratio, logp: mx.array, inputs: Inputs) -> mx.array:
    """The log ratio of each token at its level."""
    if isinstance(point, ratio.OnPolicy):
        return logp - mx.stop_gradient(logp)
    own = drift(logp, inputs)
    if isinstance(point, ratio.TokenRatio):
        return own
    if isinstance(point, ratio.TurnRatio):
        member = inputs.turns.astype(logp.dtype)
        means = (member * own[:, None, :]).sum(axis=2) / mx.maximum(member.sum(axis=2), 1)
        return (member * means[:, :, None]).sum(axis=1)
    if isinstance(point, ratio.SequenceProduct):
        return spread(own.sum(axis=1, keepdims=True), inputs.mask)
    shared = spread(mean_over(own, inputs.mask), inputs.mask)
    if isinstance(point, ratio.SequenceTokenRatio):
        return mx.stop_gradient(shared) + own - mx.stop_gradient(own)
    assert isinstance(point, ratio.SequenceRatio)
    return shared


def corrected(point: correction.Correction, inputs: Inputs) -> Inputs:
    """The batch with the weights of a correction in its advantages, or with another anchor."""
    if inputs.logp_rollout is None or isinstance(point, correction.NoCorrection):
        return inputs
    if isinstance(point, correction.RolloutAnchor):
        return replace(inputs, logp_old=inputs.logp_rollout)
    apart = mx.where(inputs.mask, inputs.logp_old - inputs.logp_rollout, 0.0)
    if isinstance(point, correction.SequenceTruncate | correction.SequenceMask):
        apart = spread(apart.sum(axis=1, keepdims=True), inputs.mask)
    if isinstance(point, correction.GeometricMask):
        apart = spread(mean_over(apart, inputs.mask), inputs.mask)
    weight = mx.exp(apart)
    if isinstance(point, correction.Truncated):
        weight = mx.minimum(weight, exact(point.cap))
    else:
        assert isinstance(point, correction.Masked)
        weight = mx.where((weight < point.low) | (weight > point.high), exact(0.0), weight)
    return replace(inputs, advantages=inputs.advantages * weight)


@dataclass(frozen=True)
class Drift:
    """What a clip is computed from: log ratio at its level, advantages, log-probabilities, mask; [B] of rollouts."""

    log_ratio: mx.array
    advantages: mx.array
    logp: mx.array
    mask: mx.array
    ages: Any = None
    deviations: Any = None


def bounded(it: Drift, low: float, high: float, bound: float = float("inf")) -> mx.array:
    """At most ``high`` where A > 0; at least ``low`` and at most ``bound`` where A < 0. Replaced before the exp."""
    value, gain, loss = mx.stop_gradient(mx.exp(it.log_ratio)), it.advantages > 0, it.advantages < 0
    above, below, far = gain & (value > high), loss & (value < low), loss & (value > bound)
    held = mx.where(above, exact(high), mx.where(below, exact(low), mx.where(far, exact(bound), exact(1.0))))
    out = above | below | far | (it.advantages == 0)
    return mx.where(out, held, mx.exp(mx.where(out, 0.0, it.log_ratio)))


@singledispatch
def update(point: Any, it: Drift) -> mx.array:
    """The loss of each token under a clip."""
    raise TypeError(point)


@update.register
def _(point: clip.Clip, it: Drift) -> mx.array:
    return -it.advantages * bounded(it, 1 - point.low, 1 + point.high)


@update.register
def _(point: clip.DualClip, it: Drift) -> mx.array:
    return -it.advantages * bounded(it, 1 - point.low, 1 + point.high, point.bound)


@update.register
def _(point: clip.TwoSided, it: Drift) -> mx.array:
    return -it.advantages * bounded(it, 1 - point.low, 1 + point.high, point.delta)


@update.register
def _(point: clip.NoClip, it: Drift) -> mx.array:
    return -it.advantages * bounded(it, 0.0, float("inf"))


@update.register
def _(point: clip.GeometricClip, it: Drift) -> mx.array:
    above = (it.advantages > 0) & (it.log_ratio > point.high)
    below = (it.advantages < 0) & (it.log_ratio < -point.low)
    held = mx.where(above, exact(point.high), mx.where(below, exact(-point.low), it.log_ratio))
    shared = replace(it, log_ratio=spread(mean_over(held, it.mask), it.mask))
    return -it.advantages * bounded(shared, 0.0, float("inf"))


@update.register
def _(point: clip.VariancePenalty, it: Drift) -> mx.array:
    value = mx.exp(it.log_ratio)
    return point.strength * (value - 1) ** 2 - value * it.advantages


@update.register
def _(point: clip.Cap, it: Drift) -> mx.array:
    weight = mx.clip(mx.exp(it.log_ratio), point.floor, point.ceiling)
    return -mx.stop_gradient(weight) * it.advantages * it.logp


@update.register
def _(point: clip.Flip, it: Drift) -> mx.array:
    value, gain = mx.exp(it.log_ratio), it.advantages > 0
    dropped = mx.where(gain, value > 1 + point.high, value < 1 - point.low)
    weight = mx.minimum(mx.exp(mx.where(gain, -it.log_ratio, it.log_ratio)), point.bound)
    return -mx.stop_gradient(mx.where(dropped, 0.0, weight)) * it.advantages * it.logp


@update.register
def _(point: clip.Delight, it: Drift) -> mx.array:
    gate = mx.sigmoid(-it.advantages * it.logp / point.temperature)
    return -mx.stop_gradient(gate) * it.advantages * it.logp


def gated(it: Drift, gate: mx.array) -> mx.array:
    return -mx.stop_gradient(gate) * it.advantages * it.logp


@update.register
def _(point: clip.FreshDelight, it: Drift) -> mx.array:
    fresh = mx.power(exact(float(np.exp(-point.decay))), it.ages.astype(mx.float64))
    return gated(it, mx.sigmoid(-it.advantages * it.logp / point.temperature) * fresh[:, None])


@update.register
def _(point: clip.GuardedDelight, it: Drift) -> mx.array:
    likely = mx.clip(mx.exp(it.logp) - point.mean, exact(0.0), exact(1.0))
    guard = mx.where(it.advantages > 0, 1 - point.strength * likely, exact(1.0))
    return gated(it, mx.sigmoid(-it.advantages * it.logp / point.temperature) * guard)


@update.register
def _(point: clip.UncertainDelight, it: Drift) -> mx.array:
    price = point.scale * it.deviations[:, None]
    return gated(it, mx.sigmoid((-it.advantages * it.logp - price) / point.temperature))


@update.register
def _(point: clip.InverseProbability, it: Drift) -> mx.array:
    return gated(it, mx.where(it.advantages > 0, mx.exp(-it.logp), exact(1.0)))


def right_tokens(point: labels.Labels, it: Drift, inputs: Inputs) -> mx.array:
    """The weight of each right token. [B, T]"""
    if isinstance(point, labels.GatedLabels):
        gate = mx.sigmoid(-it.advantages * it.logp / point.temperature)
        return mx.stop_gradient(inputs.label_places * gate)
    return inputs.label_places


@update.register
def _(point: clip.SoftGate, it: Drift) -> mx.array:
    value = mx.exp(mx.minimum(it.log_ratio, 20.0))
    steepness = mx.where(it.advantages > 0, exact(point.positive), exact(point.negative))
    return -4 / steepness * mx.sigmoid(steepness * (value - 1)) * it.advantages


@update.register
def _(point: clip.ProbabilityMask, it: Drift) -> mx.array:
    rise, gain = mx.exp(it.logp) - mx.exp(it.logp - it.log_ratio), it.advantages > 0
    dropped = mx.where(gain, rise > point.high, rise < -point.low)
    weight = mx.minimum(mx.exp(it.log_ratio), exact(point.ceiling))
    return -mx.stop_gradient(mx.where(dropped, exact(0.0), weight)) * it.advantages * it.logp


@update.register
def _(point: clip.ProbabilityBand, it: Drift) -> mx.array:
    rise = mx.stop_gradient(mx.exp(it.logp) - mx.exp(it.logp - it.log_ratio))
    return mx.where(mx.abs(rise) > point.width, exact(0.0), -mx.exp(it.log_ratio) * it.advantages)


@update.register
def _(point: clip.MaskNegatives, it: Drift) -> mx.array:
    left = (it.advantages < 0) & (mean_over(it.log_ratio, it.mask) < -point.delta)
    return update(point.clip, replace(it, advantages=mx.where(left, 0.0, it.advantages)))


def penalty(point: kl.Divergence, logp: mx.array, inputs: Inputs) -> mx.array:
    """The penalty in the loss of each token."""
    if isinstance(point, kl.DriftPenalty):
        return point.coef * drift(logp, inputs) ** 2
    if not isinstance(point, kl.K2 | kl.K3):
        return mx.zeros_like(logp)
    apart = mx.where(inputs.mask, logp - inputs.logp_ref, 0.0)
    if isinstance(point, kl.K2):
        value = 0.5 * apart**2
        return point.coef * (value * mx.stop_gradient(mx.exp(drift(logp, inputs))) if point.by_ratio else value)
    value = mx.exp(-apart) + apart - 1
    return point.coef * (value * mx.exp(drift(logp, inputs)) if point.by_ratio else value)


def total(point: aggregate.Aggregate, terms: mx.array, mask: mx.array) -> mx.array:
    """The sum of the terms of tokens, which are 0 outside the mask, as one number."""
    if isinstance(point, aggregate.SequenceMean):
        return (terms.sum(axis=1) / mx.maximum(mask.sum(axis=1), 1).astype(terms.dtype)).sum()
    return terms.sum() / (point.tokens if isinstance(point, aggregate.ConstantLength) else 1)


def count(point: aggregate.Aggregate, mask: mx.array) -> mx.array:
    """The denominator of that total."""
    return mask.sum() if isinstance(point, aggregate.TokenMean) else mask.any(axis=1).sum()


def length(point: balance.Length, values: mx.array, mask: mx.array) -> mx.array:
    """One number a rollout; ``values`` are 0 outside the mask. [B, T] -> [B]"""
    return mean_over(values, mask)[:, 0] if point.mean else values.sum(axis=1)


def choice(point: balance.TokenChoice, logp: mx.array, inputs: Inputs) -> mx.array:
    """The tokens of a residual."""
    if isinstance(point, balance.AllTokens):
        return inputs.mask
    assert isinstance(point, balance.TokenDrift)
    value, rewards = mx.stop_gradient(mx.exp(drift(logp, inputs))), inputs.rewards[:, None]
    gone = ((rewards > 0) & (value > 1 + point.high)) | ((rewards < 0) & (value < 1 - point.low))
    return inputs.mask & ~gone


def weight(point: balance.Weight, logp: mx.array, inputs: Inputs, mask: mx.array) -> mx.array:
    """The importance weight of each rollout."""
    if isinstance(point, balance.Unweighted):
        return mx.ones((len(logp),), dtype=logp.dtype)
    assert isinstance(point, balance.ProductWeight | balance.GeometricWeight)
    moved = mx.where(mask, drift(logp, inputs), 0.0)
    product = isinstance(point, balance.ProductWeight)
    each = moved.sum(axis=1) if product else mean_over(moved, mask)[:, 0]
    return mx.stop_gradient(mx.clip(mx.exp(each), point.floor, point.ceiling))


def cost(point: balance.Regression, residual: mx.array) -> mx.array:
    """The cost of each residual."""
    if isinstance(point, balance.Squared):
        return residual**2
    assert isinstance(point, balance.Huber)
    size = mx.abs(residual)
    return mx.where(size <= point.width, residual**2, point.width * (2 * size - point.width))


def term(point: likelihood.Term, logp: mx.array, mask: mx.array) -> mx.array:
    """The function of a log-probability that is minimised."""
    if isinstance(point, likelihood.LogLikelihood):
        return -logp
    if isinstance(point, likelihood.ProbabilityScaled):
        return -mx.stop_gradient(mx.exp(logp)) * logp
    gates = mx.sigmoid(point.kappa * (logp - point.gamma))
    return -mx.stop_gradient(gates / mean_over(spread(gates, mask), mask)) * logp


def together(inputs: Inputs) -> mx.array:
    """Pairs of rollouts that count and share a group; one without a group pairs with itself. [B, B]"""
    groups = inputs.groups
    same = (groups[:, None] == groups[None, :]) & (groups >= 0)[:, None]
    alone = mx.eye(len(groups)).astype(mx.bool_)
    return (same | alone) & inputs.counted[:, None] & inputs.counted[None, :]


def group_mean(values: mx.array, inputs: Inputs, weights: mx.array) -> mx.array:
    """The weighted mean of the group for each rollout; 0 for one that does not count."""
    shares = together(inputs).astype(values.dtype) * weights[None, :]
    sums = shares.sum(axis=1)
    return (shares * values[None, :]).sum(axis=1) / mx.where(sums == 0, 1.0, sums).astype(values.dtype)


def group_log_softmax(values: mx.array, inputs: Inputs) -> mx.array:
    """``log softmax`` over the group for each rollout; 0 for one that does not count."""
    member = together(inputs)
    peak = mx.where(inputs.counted, mx.where(member, values[None, :], -float("inf")).max(axis=1), 0.0)
    peak = mx.stop_gradient(peak)
    sums = mx.where(member, mx.exp(mx.where(member, values[None, :] - peak[:, None], 0.0)), 0.0).sum(axis=1)
    return mx.where(inputs.counted, values - peak - mx.log(mx.where(inputs.counted, sums, 1.0)), 0.0)
