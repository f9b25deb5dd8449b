"""Losses of all recipes in torch, as their papers write them, for its autograd."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from karl_fast.objective import PolicyGradient, Preference, TargetPolicy, TrajectoryBalance, WeightedLikelihood
from karl_fast.objective.axes import aggregate, balance, clip, correction, kl, likelihood, log_z, preference, ratio

if TYPE_CHECKING:
    from collections.abc import Callable

    from karl_fast.objective import Objective, Scored


def loss(torch: Any, objective: Objective, logp: Any, scored: Scored, given: Any = None) -> Any:
    """The loss of a scored batch; ``given`` is log Z of each rollout. [B, T] -> []"""
    column = partial(_column, torch, scored)
    mask = torch.from_numpy(scored.mask)
    logp = torch.where(mask, logp, torch.zeros_like(logp))
    if isinstance(objective, PolicyGradient):
        return aggregated(objective.aggregate, policy_gradient(torch, objective, logp, mask, column), mask)
    if isinstance(objective, TrajectoryBalance):
        return balanced(torch, objective, logp, mask, column, given)
    if isinstance(objective, TargetPolicy):
        return cross_entropy(torch, objective, logp, mask, column)
    if isinstance(objective, Preference):
        return preferred(torch, objective, logp, mask, column)
    assert isinstance(objective, WeightedLikelihood)
    p = logp.detach().exp() if isinstance(objective.term, likelihood.ProbabilityScaled) else 1.0
    return aggregated(objective.aggregate, -p * logp * column("weights")[:, None], mask)


def _column(torch: Any, scored: Scored, name: str) -> Any:
    return torch.from_numpy(scored.need(name))


def mean_over(values: Any, mask: Any) -> Any:
    """The mean of each row over its tokens that count. [B, T] -> [B, 1]"""
    return (values * mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True).clamp(min=1)


def aggregated(point: aggregate.Aggregate, terms: Any, mask: Any) -> Any:
    """The terms of tokens as one number."""
    if isinstance(point, aggregate.TokenMean):
        return (terms * mask).sum() / mask.sum()
    rows = mean_over(terms, mask)[:, 0] if isinstance(point, aggregate.SequenceMean) else (terms * mask).sum(1)
    rows = rows / point.tokens if isinstance(point, aggregate.ConstantLength) else rows
    return rows.sum() / mask.any(1).sum()


def policy_gradient(torch: Any, objective: PolicyGradient, logp: Any, mask: Any, column: Callable[[str], Any]) -> Any:
    """The loss of each token."""
    anchored = isinstance(objective.correction, correction.RolloutAnchor)
    old = column("logp_rollout" if anchored else "logp_old")
    advantages, token = column("advantages"), (logp - old) * mask
    sequence = mean_over(token, mask)
    of_token = sequence.detach() + logp - logp.detach()
    log_ratio = {
        ratio.OnPolicy: logp - logp.detach(),
        ratio.TokenRatio: token,
        ratio.SequenceRatio: sequence.expand_as(token),
        ratio.SequenceTokenRatio: of_token,
        ratio.SequenceProduct: token.sum(1, keepdim=True).expand_as(token),
    }[type(objective.ratio)]
    if isinstance(objective.clip, clip.LogWeight):
        return -weighed(torch, objective.clip, advantages, logp, column).detach() * advantages * logp
    terms = -clipped(torch, objective.clip, log_ratio, advantages, logp, mask)
    if isinstance(objective.kl, kl.DriftPenalty):
        terms = terms + objective.kl.coef * token**2
    if isinstance(objective.kl, kl.K3):
        apart = (column("logp_ref") - logp) * mask
        terms = terms + objective.kl.coef * (apart.exp() - apart - 1)
    return terms


def weighed(torch: Any, point: clip.LogWeight, advantages: Any, logp: Any, column: Callable[[str], Any]) -> Any:
    """The weight of each token that is a function of its log-probability."""
    if isinstance(point, clip.InverseProbability):
        return torch.where(advantages > 0, (-logp).exp(), torch.ones_like(logp))
    assert isinstance(point, clip.Delight)
    delight = -advantages * logp
    if isinstance(point, clip.UncertainDelight):
        return torch.sigmoid((delight - point.scale * column("deviations")[:, None]) / point.temperature)
    gate = torch.sigmoid(delight / point.temperature)
    if isinstance(point, clip.FreshDelight):
        return gate * torch.exp(-point.decay * column("ages").double())[:, None]
    assert isinstance(point, clip.GuardedDelight)
    guard = 1 - point.strength * (logp.exp() - point.mean).clamp(0, 1)
    return gate * torch.where(advantages > 0, guard, torch.ones_like(guard))


def clipped(torch: Any, point: clip.Clipper, log_ratio: Any, advantages: Any, logp: Any, mask: Any) -> Any:
    """What is maximised at each token."""
    r = log_ratio.exp()
    if isinstance(point, clip.NoClip):
        return r * advantages
    if isinstance(point, clip.Clip):
        return torch.minimum(r * advantages, r.clamp(1 - point.low, 1 + point.high) * advantages)
    if isinstance(point, clip.Cap):
        return r.detach().clamp(point.floor, point.ceiling) * advantages * logp
    if isinstance(point, clip.Delight):
        return torch.sigmoid(-advantages * logp / point.temperature).detach() * advantages * logp
    if isinstance(point, clip.SoftGate):
        steep = torch.where(advantages > 0, point.positive * torch.ones_like(r), point.negative)
        return 4 / steep * torch.sigmoid(steep * (r - 1)) * advantages
    if isinstance(point, clip.VariancePenalty):
        return r * advantages - point.strength * (r - 1) ** 2
    if isinstance(point, clip.Flip):
        kept = torch.where(advantages > 0, r <= 1 + point.high, r >= 1 - point.low)
        weight = torch.where(advantages > 0, 1 / r, r).clamp(max=point.bound)
        return (kept * weight).detach() * advantages * logp
    if isinstance(point, clip.ProbabilityMask | clip.ProbabilityBand):
        rise = (logp.exp() - (logp - log_ratio).exp()).detach()
        if isinstance(point, clip.ProbabilityBand):
            return (rise.abs() <= point.width) * r * advantages
        kept = torch.where(advantages > 0, rise <= point.high, rise >= -point.low)
        return (kept * r.clamp(max=point.ceiling)).detach() * advantages * logp
    assert isinstance(point, clip.GeometricClip)
    sign = torch.sign(advantages)
    held = torch.minimum(sign * log_ratio, sign * log_ratio.clamp(-point.low, point.high)) * sign
    return mean_over(held, mask).exp() * advantages


def balanced(
    torch: Any, objective: TrajectoryBalance, logp: Any, mask: Any, column: Callable[[str], Any], given: Any
) -> Any:
    """The mean of the weighted squares of residuals."""
    rewards, kept, counts = column("rewards"), mask, mask.any(1)
    if isinstance(objective.tokens, balance.TokenDrift):
        r, gain = (logp - column("logp_old")).detach().exp(), rewards[:, None]
        high, low = 1 + objective.tokens.high, 1 - objective.tokens.low
        kept = mask & ~((gain > 0) & (r > high)) & ~((gain < 0) & (r < low))
    name = {balance.ReferencePolicy: "logp_ref", balance.BehaviourPolicy: "logp_old"}[type(objective.anchor)]
    drift = (logp - column(name)) * kept
    rows = mean_over(drift, kept)[:, 0] if objective.length.mean else drift.sum(1)
    residual = objective.scale.drift * rows - objective.scale.reward * rewards
    weight = torch.ones_like(residual)
    if isinstance(objective.weight, balance.ProductWeight):
        moved = ((logp - column("logp_old")) * kept).sum(1)
        weight = moved.detach().exp().clamp(objective.weight.floor, objective.weight.ceiling)
    if isinstance(objective.log_z, log_z.GroupOptimum):
        groups = column("groups")
        for group in groups.unique():
            some = (groups == group) & counts
            mean = (weight * residual)[some].sum() / weight[some].sum()
            residual = torch.where(some, residual - mean.detach(), residual)
    elif given is not None:
        residual = residual + given
    return (weight * residual**2)[counts].mean()


def cross_entropy(torch: Any, objective: TargetPolicy, logp: Any, mask: Any, column: Callable[[str], Any]) -> Any:
    """The mean over groups of the cross-entropy to their targets."""
    rows = mean_over(logp, mask)[:, 0] if objective.length.mean else (logp * mask).sum(1)
    groups, targets, counts = column("groups"), column("targets"), mask.any(1)
    some = [counts & (groups == group) for group in groups[counts].unique()]
    return sum(-(targets[one] * torch.log_softmax(rows[one], 0)).sum() for one in some) / len(some)


def preferred(torch: Any, objective: Preference, logp: Any, mask: Any, column: Callable[[str], Any]) -> Any:
    """The mean over pairs, or over answers with a label, as TRL's trainers have it."""
    from torch.nn.functional import logsigmoid

    over = logp if objective.anchor.column is None else (logp - column("logp_ref")) * mask
    rows = mean_over(over, mask)[:, 0] if objective.length.mean else (over * mask).sum(1)
    chosen, margin, point = column("preferred"), objective.margin, objective.link
    if isinstance(margin, preference.DivergenceBaseline):
        apart = margin.scale * (rows - column("divergences"))
        good, bad = 1 - torch.sigmoid(apart[chosen]), 1 - torch.sigmoid(-apart[~chosen])
        return torch.cat([margin.desirable * good, margin.undesirable * bad]).mean()
    pairs = column("groups")
    best, worst = (rows[side][pairs[side].argsort()] for side in (chosen, ~chosen))
    if isinstance(margin, preference.LogOddsDifference):
        odds = (best - worst) - (torch.log1p(-best.exp()) - torch.log1p(-worst.exp()))
        return (-mean_over(logp, mask)[chosen, 0]).mean() - point.coef * logsigmoid(odds).mean()
    apart = margin.scale * (best - worst) - margin.target
    if isinstance(point, preference.SquaredMargin):
        return ((apart - point.target) ** 2).mean()
    return -logsigmoid(apart).mean()
