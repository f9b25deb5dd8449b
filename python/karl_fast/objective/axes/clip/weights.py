"""Clips that are a detached weight on the log-probability: every token that has a weight keeps its gradient."""

from __future__ import annotations

from dataclasses import dataclass, replace

from karl_fast import ratio as kernels
from karl_fast.objective.axes.clip.point import Bounds, Clipper, Drift
from karl_fast.objective.axes.point import check_number, check_point
from karl_fast.objective.axes.ratio import mean_over
from karl_fast.objective.mlx_arrays import mx

FLAT = 20.0
"""Limit in nats: at a ratio of e^20 the gate of `SoftGate` is 1 to the last bit, and its slope 0."""


@dataclass(frozen=True)
class Cap(kernels.Cap, Clipper):
    """``-sg(min(ratio, ceiling)) * A * logp`` (CISPO); ``floor`` is the least that the ratio counts as.

    ``ceiling`` is a ratio of at least 1, not a distance from it. ``floor`` is 0 in the paper, 0.8 in verl.
    Reference: MiniMax 2025, CISPO (arXiv:2506.13585).
    """

    @property
    def bounds(self) -> Bounds:
        """The same for a gain and a loss: the weight is held, the gradient stays."""
        return Bounds(gain=(self.floor, self.ceiling), loss=(self.floor, self.ceiling))

    def __call__(self, drift: Drift) -> mx.array:
        """Return the loss of each token."""
        weight = mx.clip(mx.exp(drift.log_ratio), self.floor, self.ceiling)
        return -mx.stop_gradient(weight) * drift.advantages * drift.logp


@dataclass(frozen=True)
class Flip(Clipper):
    """``-sg(w) * A * logp`` with ``w = 1 / ratio`` for A > 0 and ``ratio`` for A < 0, at most ``bound`` (ASPO).

    A token beyond ``1 + high`` with A > 0, or below ``1 - low`` with A < 0, has w = 0. The bound is on the value alone:
    a token at it keeps its gradient.
    Reference: ASPO (arXiv:2510.06062).
    """

    low: float
    high: float
    bound: float

    def __post_init__(self) -> None:
        check_number("low", self.low, 0, 1)
        check_number("high", self.high)
        check_number("bound", self.bound, 1)

    @property
    def bounds(self) -> Bounds:
        """Ratios at which tokens are dropped, or their weight is limited to ``bound``."""
        return Bounds(gain=(1 / self.bound, 1 + self.high), loss=(1 - self.low, self.bound))

    def __call__(self, drift: Drift) -> mx.array:
        """Return the loss of each token."""
        ratio, gain = mx.exp(drift.log_ratio), drift.advantages > 0
        dropped = mx.where(gain, ratio > 1 + self.high, ratio < 1 - self.low)
        weight = mx.minimum(mx.exp(mx.where(gain, -drift.log_ratio, drift.log_ratio)), self.bound)
        return -mx.stop_gradient(mx.where(dropped, 0.0, weight)) * drift.advantages * drift.logp


@dataclass(frozen=True)
class Delight(Clipper):
    """``-sg(sigmoid(-A * logp / temperature)) * A * logp``: a surprise that pays counts most (DG).

    Reference: Osband 2026, Delightful Policy Gradient (arXiv:2603.14608).
    """

    temperature: float = 1.0

    def __post_init__(self) -> None:
        check_number("temperature", self.temperature, above=True)

    def __call__(self, drift: Drift) -> mx.array:
        """Return the loss of each token."""
        gate = mx.sigmoid(-drift.advantages * drift.logp / self.temperature)
        return -mx.stop_gradient(gate) * drift.advantages * drift.logp


@dataclass(frozen=True)
class SoftGate(Clipper):
    """``-f(ratio) * A`` with ``f = (4 / t) sigmoid(t (ratio - 1))``: an update fades, and is never cut (SAPO).

    t is ``positive`` for A > 0 and ``negative`` elsewhere; the gate carries the gradient.
    Reference: SAPO (arXiv:2511.20347).
    """

    positive: float
    negative: float

    def __post_init__(self) -> None:
        check_number("positive", self.positive, above=True)
        check_number("negative", self.negative, above=True)

    def __call__(self, drift: Drift) -> mx.array:
        """Return the loss of each token."""
        ratio = mx.exp(mx.minimum(drift.log_ratio, FLAT))
        steepness = mx.where(drift.advantages > 0, self.positive, self.negative).astype(ratio.dtype)
        return -4 / steepness * mx.sigmoid(steepness * (ratio - 1)) * drift.advantages


@dataclass(frozen=True)
class MaskNegatives(Clipper):
    """``clip``, with advantage 0 for rollouts of negative advantage that the policy has fallen away from.

    ```text
    kept: A >= 0 or mean_t(logp_old - logp) <= delta        delta in nats a token
    ```

    The tokens stay in the denominator.
    Reference: SAMPO (arXiv:2602.21534), section 4; DeepSeek-V3.2.
    """

    clip: Clipper
    delta: float

    def __post_init__(self) -> None:
        check_point("clip", self.clip, Clipper)
        check_number("delta", self.delta)

    @property
    def bounds(self) -> Bounds:
        """Bounds of ``clip``."""
        return self.clip.bounds

    def felt(self, drift: Drift) -> mx.array:
        """Return the advantages, 0 for excluded rollouts."""
        left = (drift.advantages < 0) & (mean_over(drift.log_ratio, drift.mask) < -self.delta)
        return mx.where(left, 0.0, drift.advantages)

    def __call__(self, drift: Drift) -> mx.array:
        """Return the loss of each token under ``clip``."""
        return self.clip(replace(drift, advantages=self.felt(drift)))
