"""Sums over groups on the far side of the gradient line, in an order that no device changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karl_fast.objective.mlx_arrays import mx

if TYPE_CHECKING:
    from karl_fast.objective.batch import Scored


def together(scored: Scored) -> mx.array:
    """Return True for pairs of rollouts that count and share a group; one without a group pairs with itself. [B, B]"""
    groups = scored.need("groups")
    same = (groups[:, None] == groups[None, :]) & (groups >= 0)[:, None]
    alone = mx.eye(len(groups)).astype(mx.bool_)
    return (same | alone) & scored.counted[:, None] & scored.counted[None, :]


def group_mean(values: mx.array, scored: Scored, weight: mx.array | None = None) -> mx.array:
    """Return the weighted mean of the group for each rollout; 0 for one that does not count. [B] -> [B]"""
    shares = together(scored).astype(values.dtype)
    if weight is not None:
        shares = shares * weight[None, :]
    sums = shares.sum(axis=1)
    return (shares * values[None, :]).sum(axis=1) / mx.where(sums == 0, 1.0, sums).astype(values.dtype)


def group_log_softmax(values: mx.array, scored: Scored) -> mx.array:
    """Return ``log softmax`` over the group for each rollout; 0 for one that does not count. [B] -> [B]"""
    member = together(scored)
    spread = mx.where(member, values[None, :], -float("inf"))
    peak = mx.stop_gradient(mx.where(scored.counted, spread.max(axis=1), 0.0))
    total = mx.where(member, mx.exp(mx.where(member, values[None, :] - peak[:, None], 0.0)), 0.0).sum(axis=1)
    found = values - peak - mx.log(mx.where(scored.counted, total, 1.0))
    return mx.where(scored.counted, found, 0.0)
