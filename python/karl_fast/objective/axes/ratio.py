"""Axis: the level at which the drift from the behaviour policy is measured. Ratios stay in log space.

With d_t = logp_t - logp_old_t, and sg for what carries no gradient:

| point | log ratio of a token | its gradient |
|---|---|---|
| `OnPolicy` | 0 | that of logp_t |
| `TokenRatio` | d_t | its own |
| `TurnRatio` | mean of d over its turn | the mean over the turn |
| `SequenceRatio` | mean of d over its rollout | the mean over the rollout |
| `SequenceProduct` | sum of d over its rollout | the sum over the rollout |
| `SequenceTokenRatio` | that of `SequenceRatio` as a constant | its own |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from karl_fast.objective.axes.point import Point
from karl_fast.objective.mlx_arrays import mx

if TYPE_CHECKING:
    from karl_fast.objective.batch import Scored

__all__ = [
    "OnPolicy",
    "Ratio",
    "SequenceProduct",
    "SequenceRatio",
    "SequenceTokenRatio",
    "TokenRatio",
    "TurnRatio",
]


class Ratio(Point, ABC):
    """Level at which drift is measured; ``level`` is its name in `karl_fast.ratio`."""

    level: ClassVar[str]

    @abstractmethod
    def __call__(self, logp: mx.array, scored: Scored) -> mx.array:
        """Return the log ratio of each token; ``logp`` is 0 outside the mask. [B, T] -> [B, T]"""


@dataclass(frozen=True)
class OnPolicy(Ratio):
    """``logp_t - sg(logp_t)``: the policy is the behaviour policy, the ratio 1; needs no ``logp_old``.

    Reference: Williams 1992, REINFORCE.
    """

    level: ClassVar[str] = "on-policy"

    def __call__(self, logp: mx.array, scored: Scored) -> mx.array:
        """Return 0, with the gradient of the log-probability."""
        return logp - mx.stop_gradient(logp)


@dataclass(frozen=True)
class TokenRatio(Ratio):
    """``d_t``: each token its own.

    Reference: Schulman et al. 2017, PPO (arXiv:1707.06347).
    """

    level: ClassVar[str] = "token"

    def __call__(self, logp: mx.array, scored: Scored) -> mx.array:
        """Return the log ratio of each token."""
        return token_log_ratio(logp, scored)


@dataclass(frozen=True)
class TurnRatio(Ratio):
    """The mean of d over the tokens of a turn; a token of no turn has 0."""

    level: ClassVar[str] = "turn"

    def __call__(self, logp: mx.array, scored: Scored) -> mx.array:
        """Return the mean over the turn, for each of its tokens."""
        member = scored.need("turns").astype(logp.dtype)
        sums = (member * token_log_ratio(logp, scored)[:, None, :]).sum(axis=2)
        means = sums / mx.maximum(member.sum(axis=2), 1)
        return (member * means[:, :, None]).sum(axis=1)


@dataclass(frozen=True)
class SequenceRatio(Ratio):
    """The mean of d over a rollout: the log of the geometric mean of its ratios (GSPO, SAMPO).

    Reference: Zheng et al. 2025, GSPO (arXiv:2507.18071).
    """

    level: ClassVar[str] = "sequence"

    def __call__(self, logp: mx.array, scored: Scored) -> mx.array:
        """Return the mean over the rollout, for each of its tokens."""
        return spread(mean_over(token_log_ratio(logp, scored), scored.mask), scored.mask)


@dataclass(frozen=True)
class SequenceProduct(Ratio):
    """The sum of d over a rollout: the log of its ratio as a whole (RLOO as TRL has it).

    Reference: Ahmadian et al. 2024, RLOO (arXiv:2402.14740).
    """

    level: ClassVar[str] = "sequence-product"

    def __call__(self, logp: mx.array, scored: Scored) -> mx.array:
        """Return the sum over the rollout, for each of its tokens."""
        return spread(token_log_ratio(logp, scored).sum(axis=1, keepdims=True), scored.mask)


@dataclass(frozen=True)
class SequenceTokenRatio(Ratio):
    """The value of `SequenceRatio`, the gradient of each token's own (GSPO-token).

    Reference: Zheng et al. 2025, GSPO (arXiv:2507.18071), section 4.3.
    """

    level: ClassVar[str] = "sequence-token"

    def __call__(self, logp: mx.array, scored: Scored) -> mx.array:
        """Return the mean over the rollout as a constant, plus the token's part of the gradient."""
        own = token_log_ratio(logp, scored)
        shared = spread(mean_over(own, scored.mask), scored.mask)
        return mx.stop_gradient(shared) + own - mx.stop_gradient(own)


def token_log_ratio(logp: mx.array, scored: Scored) -> mx.array:
    """Return ``logp - logp_old``, 0 outside the mask. [B, T] -> [B, T]"""
    return mx.where(scored.mask, logp - scored.need("logp_old"), 0.0)


def mean_over(values: mx.array, mask: mx.array) -> mx.array:
    """Return the mean of each row over the tokens that count; ``values`` are 0 elsewhere. [B, T] -> [B, 1]"""
    return values.sum(axis=1, keepdims=True) / mx.maximum(mask.sum(axis=1, keepdims=True), 1).astype(values.dtype)


def spread(values: mx.array, mask: mx.array) -> mx.array:
    """Spread one number a row to each token that counts. [B, 1] -> [B, T]"""
    return mx.where(mask, values, 0.0)
