"""Clips that are a bound on the ratio: `karl_fast.ratio` has the same, with their gradients written out."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from karl_fast import ratio as kernels
from karl_fast.objective.axes.clip.point import Bounds, Clipper, Drift, bounded
from karl_fast.objective.axes.point import check_number
from karl_fast.objective.axes.ratio import mean_over, spread
from karl_fast.objective.mlx_arrays import mx


@dataclass(frozen=True)
class Clip(kernels.Clip, Clipper):
    """The pessimistic bound of PPO: ``-min(ratio * A, clip(ratio, 1 - low, 1 + high) * A)``.

    ``low`` and ``high`` are distances from 1.
    Reference: Schulman et al. 2017 (arXiv:1707.06347); Yu et al. 2025, DAPO (arXiv:2503.14476).
    """

    @property
    def bounds(self) -> Bounds:
        """The upper for a gain, the lower for a loss."""
        return Bounds(gain=(0.0, 1 + self.high), loss=(1 - self.low, math.inf))

    def __call__(self, drift: Drift) -> mx.array:
        """Return the loss of each token."""
        return -drift.advantages * bounded(drift, 1 - self.low, 1 + self.high)


@dataclass(frozen=True)
class DualClip(kernels.DualClip, Clipper):
    """`Clip`, and for A < 0 no more than ``-bound * A``; ``bound`` is a ratio, above ``1 + high`` (verl: 3).

    ``low`` and ``high`` as in `Clip`.
    Reference: Ye et al. 2020 (arXiv:1912.09729).
    """

    @property
    def bounds(self) -> Bounds:
        """Bounds of `Clip`, and ``bound`` for a loss."""
        return Bounds(gain=(0.0, 1 + self.high), loss=(1 - self.low, self.bound))

    def __call__(self, drift: Drift) -> mx.array:
        """Return the loss of each token."""
        return -drift.advantages * bounded(drift, 1 - self.low, 1 + self.high, self.bound)


@dataclass(frozen=True)
class TwoSided(kernels.TwoSided, Clipper):
    """`Clip` with the ratio of the unclipped branch at most ``delta`` (TRL); the same function as `DualClip`.

    ``low`` and ``high`` as in `Clip`.
    Reference: INTELLECT-2 2025 (arXiv:2505.07291).
    """

    @property
    def bounds(self) -> Bounds:
        """Bounds of `Clip`, and ``delta`` for a loss."""
        return Bounds(gain=(0.0, 1 + self.high), loss=(1 - self.low, self.delta))

    def __call__(self, drift: Drift) -> mx.array:
        """Return the loss of each token."""
        return -drift.advantages * bounded(drift, 1 - self.low, 1 + self.high, self.delta)


@dataclass(frozen=True)
class NoClip(kernels.NoClip, Clipper):
    """Ratio without a bound: ``-ratio * A``."""

    def __call__(self, drift: Drift) -> mx.array:
        """Return the loss of each token."""
        return -drift.advantages * bounded(drift, 0.0, float("inf"))


@dataclass(frozen=True)
class GeometricClip(Clipper):
    """Tokens are clipped before their geometric mean is taken: ``-A exp(mean_t clipped log ratio_t)`` (GMPO).

    The log ratio is at most ``high`` where A > 0 and at least ``-low`` where A < 0; both are distances of the log.
    Reference: Zhao et al. 2025, GMPO (arXiv:2507.20673).
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        check_number("low", self.low)
        check_number("high", self.high)

    @property
    def bounds(self) -> Bounds:
        """Bounds of a token's ratio: distances of the log, as ratios."""
        return Bounds(gain=(0.0, math.exp(self.high)), loss=(math.exp(-self.low), math.inf))

    def __call__(self, drift: Drift) -> mx.array:
        """Return the loss of the rollout for each token."""
        above = (drift.advantages > 0) & (drift.log_ratio > self.high)
        below = (drift.advantages < 0) & (drift.log_ratio < -self.low)
        held = mx.where(above, self.high, mx.where(below, -self.low, drift.log_ratio))
        shared = replace(drift, log_ratio=spread(mean_over(held.astype(drift.logp.dtype), drift.mask), drift.mask))
        return -drift.advantages * bounded(shared, 0.0, float("inf"))


@dataclass(frozen=True)
class VariancePenalty(Clipper):
    """``-(ratio * A - strength * (ratio - 1)^2)``: no bound, and a price on the variance of the ratio (R2VPO).

    The paper adapts ``strength``; here it is a constant.
    Reference: R2VPO (arXiv:2601.03320).
    """

    strength: float

    def __post_init__(self) -> None:
        check_number("strength", self.strength)

    def __call__(self, drift: Drift) -> mx.array:
        """Return the loss of each token."""
        ratio = mx.exp(drift.log_ratio)
        return self.strength * (ratio - 1) ** 2 - ratio * drift.advantages
