"""Axes of a balance that read the behaviour policy: choice of tokens, and weight of a rollout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from karl_fast.objective.axes.point import Point, check_number
from karl_fast.objective.axes.ratio import mean_over, token_log_ratio
from karl_fast.objective.mlx_arrays import mx

if TYPE_CHECKING:
    from karl_fast.objective.batch import Scored


class TokenChoice(Point):
    """Choice of the tokens of a residual and its weight."""

    def __call__(self, logp: mx.array, scored: Scored) -> mx.array:
        """Return the mask that replaces that of the batch. [B, T]"""
        return scored.mask


@dataclass(frozen=True)
class AllTokens(TokenChoice):
    """All tokens that count."""


@dataclass(frozen=True)
class TokenDrift(TokenChoice):
    """Not those that have moved where their reward sends them: ratio > 1 + high, r > 0; ratio < 1 - low, r < 0.

    ``low`` and ``high`` are distances from 1.
    Reference: MiniMax 2025 (arXiv:2506.13585), eq. 6 and 7.
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        check_number("low", self.low, 0, 1)
        check_number("high", self.high)

    def __call__(self, logp: mx.array, scored: Scored) -> mx.array:
        """Return the mask without tokens beyond the bounds."""
        ratio = mx.stop_gradient(mx.exp(token_log_ratio(logp, scored)))
        rewards = scored.need("rewards")[:, None]
        gone = ((rewards > 0) & (ratio > 1 + self.high)) | ((rewards < 0) & (ratio < 1 - self.low))
        return scored.mask & ~gone


class Weight(Point):
    """Importance weight of a rollout drawn by the behaviour policy, detached."""

    def __call__(self, logp: mx.array, scored: Scored, mask: mx.array) -> mx.array | None:
        """Return the weight of each rollout. [B, T] -> [B]"""
        return None


@dataclass(frozen=True)
class Unweighted(Weight):
    """1: a balance is right for rollouts of any policy."""


@dataclass(frozen=True)
class ProductWeight(Weight):
    """``sg(clip(product of ratios, floor, ceiling))``; both are ratios."""

    floor: float = 0.0
    ceiling: float = float("inf")

    def __post_init__(self) -> None:
        check_number("floor", self.floor, 0, 1)
        check_number("ceiling", self.ceiling, 1)

    def __call__(self, logp: mx.array, scored: Scored, mask: mx.array) -> mx.array:
        """Return the bounded ratio of the whole rollout."""
        drift = mx.where(mask, token_log_ratio(logp, scored), 0.0).sum(axis=1)
        return mx.stop_gradient(mx.clip(mx.exp(drift), self.floor, self.ceiling))


@dataclass(frozen=True)
class GeometricWeight(Weight):
    """``sg(clip(geometric mean of ratios, floor, ceiling))``; both are ratios."""

    floor: float = 0.0
    ceiling: float = float("inf")

    def __post_init__(self) -> None:
        check_number("floor", self.floor, 0, 1)
        check_number("ceiling", self.ceiling, 1)

    def __call__(self, logp: mx.array, scored: Scored, mask: mx.array) -> mx.array:
        """Return the bounded mean ratio of a token."""
        drift = mean_over(mx.where(mask, token_log_ratio(logp, scored), 0.0), mask)[:, 0]
        return mx.stop_gradient(mx.clip(mx.exp(drift), self.floor, self.ceiling))
