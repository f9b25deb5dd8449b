"""Axis: the bound on an update, or a weight on it; `karl_core::objective` computes each with its gradient.

A weight that is a function of the log-probability itself, and not of a ratio, is computed here (`LogWeight`): it
carries no gradient, and multiplies the advantage of its token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from karl_fast import _core
from karl_fast.objective.axes.filter import group_deviations
from karl_fast.objective.axes.point import Point, check_number, check_point

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karl_fast.objective.batch import Batch, Scored

__all__ = [
    "Cap",
    "Clip",
    "Clipper",
    "Delight",
    "DualClip",
    "Flip",
    "FreshDelight",
    "GeometricClip",
    "GuardedDelight",
    "InverseProbability",
    "LogWeight",
    "MaskNegatives",
    "NoClip",
    "ProbabilityBand",
    "ProbabilityMask",
    "SoftGate",
    "TwoSided",
    "UncertainDelight",
    "VariancePenalty",
]


class Clipper(Point):
    """Bound on an update."""

    kind: ClassVar[str]


class Bound(Clipper):
    """Bound by clipping the ratio of each token, as `karl_fast.ratio.policy_loss` takes it."""

    def __post_init__(self) -> None:
        _core.check_clip(self)


@dataclass(frozen=True)
class Clip(Bound):
    """The pessimistic bound of PPO: ``-min(ratio * A, clip(ratio, 1 - low, 1 + high) * A)``.

    ``low`` and ``high`` are distances from 1; ``low`` is at most 1. DAPO's are 0.2 and 0.28, GSPO's 3e-4 and 4e-4.
    Reference: Schulman et al. 2017 (arXiv:1707.06347); Yu et al. 2025, DAPO (arXiv:2503.14476).
    """

    kind: ClassVar[str] = "clip"
    low: float
    high: float


@dataclass(frozen=True)
class DualClip(Bound):
    """`Clip`, and for A < 0 no more than ``-bound * A``; ``bound`` is a ratio, above ``1 + high`` (verl: 3).

    ``low`` and ``high`` as in `Clip`.
    Reference: Ye et al. 2020 (arXiv:1912.09729).
    """

    kind: ClassVar[str] = "dual-clip"
    low: float
    high: float
    bound: float


@dataclass(frozen=True)
class TwoSided(Bound):
    """`Clip` with the ratio of the unclipped branch at most ``delta``, which is above ``1 + high`` (TRL's ``delta``).

    The same function as `DualClip` with ``bound=delta``; ``low`` and ``high`` as in `Clip`.
    Reference: INTELLECT-2 2025 (arXiv:2505.07291).
    """

    kind: ClassVar[str] = "two-sided"
    low: float
    high: float
    delta: float


@dataclass(frozen=True)
class NoClip(Bound):
    """Ratio without a bound: ``-ratio * A``."""

    kind: ClassVar[str] = "none"


@dataclass(frozen=True)
class GeometricClip(Clipper):
    """Tokens are clipped before their geometric mean is taken: ``-A exp(mean_t clipped log ratio_t)`` (GMPO).

    The log ratio is at most ``high`` where A > 0 and at least ``-low`` where A < 0; both are distances of the log.
    Reference: Zhao et al. 2025, GMPO (arXiv:2507.20673).
    """

    kind: ClassVar[str] = "geometric-clip"
    low: float
    high: float

    def __post_init__(self) -> None:
        check_number("low", self.low)
        check_number("high", self.high)


@dataclass(frozen=True)
class VariancePenalty(Clipper):
    """``-(ratio * A - strength * (ratio - 1)^2)``: no bound, and a price on the variance of the ratio (R2VPO).

    The paper adapts ``strength``; here it is a constant.
    Reference: R2VPO (arXiv:2601.03320).
    """

    kind: ClassVar[str] = "variance-penalty"
    strength: float

    def __post_init__(self) -> None:
        check_number("strength", self.strength)


@dataclass(frozen=True)
class Cap(Bound):
    """A detached weight on the log-probability: ``-sg(min(ratio, ceiling)) * A * logp`` (CISPO).

    ``ceiling`` is a ratio of at least 1, not a distance from it: 5, where the ``high`` of `Clip` would be 4. ``floor``
    is the least that the ratio counts as, 0 in the paper; verl's defaults are ``Cap(1.2, floor=0.8)``. No token loses
    its gradient.
    Reference: MiniMax 2025, CISPO (arXiv:2506.13585).
    """

    kind: ClassVar[str] = "cap"
    ceiling: float
    floor: float = 0.0


@dataclass(frozen=True)
class Flip(Clipper):
    """``-sg(w) * A * logp`` with ``w = 1 / ratio`` for A > 0 and ``ratio`` for A < 0, at most ``bound`` (ASPO).

    A token beyond ``1 + high`` with A > 0, or below ``1 - low`` with A < 0, has w = 0. The bound is on the value alone:
    a token at it keeps its gradient.
    Reference: ASPO (arXiv:2510.06062).
    """

    kind: ClassVar[str] = "flip"
    low: float
    high: float
    bound: float

    def __post_init__(self) -> None:
        check_number("low", self.low, 0, 1)
        check_number("high", self.high)
        check_number("bound", self.bound, 1)


@dataclass(frozen=True)
class Delight(Clipper):
    """``-sg(sigmoid(-A * logp / temperature)) * A * logp``: a surprise that pays counts most (DG).

    Reference: Osband 2026, Delightful Policy Gradient (arXiv:2603.14608).
    """

    kind: ClassVar[str] = "delight"
    temperature: float = 1.0

    def __post_init__(self) -> None:
        check_number("temperature", self.temperature, above=True)


class LogWeight(Clipper):
    """A detached weight ``-sg(w) * A * logp``, with w of the log-probability itself: only under `OnPolicy`."""

    def columns(self, batch: Batch, keep: NDArray[np.bool_]) -> dict[str, NDArray[Any]]:
        """Return the fields of `Scored` that the weight reads besides the advantages; ``keep`` is of the filter."""
        return {}

    def weights(self, logp: NDArray[np.float64], scored: Scored) -> NDArray[np.float64]:
        """Return w of each token; ``logp`` is 0 outside the mask. [B, T] -> [B, T]"""
        raise NotImplementedError


@dataclass(frozen=True)
class FreshDelight(Delight, LogWeight):
    """`Delight` times ``exp(-decay * age)``, age in steps of the policy (``Batch.ages``); outside the gate (FreshDG).

    ``temperature`` is that of the gate.

    Reference: rl-experiments, ``FreshDGLoss``.
    """

    kind: ClassVar[str] = "fresh-delight"
    decay: float = 0.02

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("decay", self.decay)

    def columns(self, batch: Batch, keep: NDArray[np.bool_]) -> dict[str, NDArray[Any]]:
        """Return the ages of the rollouts."""
        return {"ages": batch.need("ages")}

    def weights(self, logp: NDArray[np.float64], scored: Scored) -> NDArray[np.float64]:
        """Return the gate, less the older the rollout is."""
        freshness: NDArray[np.float64] = np.exp(-self.decay * scored.need("ages"))
        return delight_gate(logp, scored, self.temperature) * freshness[:, None]


@dataclass(frozen=True)
class GuardedDelight(Delight, LogWeight):
    """`Delight`, less for a gain of a token that is likely already (DGEntropyGuard).

    ```text
    A > 0:  times 1 - strength * clamp(pi - mean, 0, 1)
    ```

    ``mean`` is the mean probability over the vocabulary, one over its size: 0 for that of a language model.
    ``temperature`` is that of the gate.
    Reference: rl-experiments, ``DGEntropyGuardLoss``.
    """

    kind: ClassVar[str] = "guarded-delight"
    strength: float = 0.5
    mean: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("strength", self.strength, 0, 1)
        check_number("mean", self.mean, 0, 1)

    def weights(self, logp: NDArray[np.float64], scored: Scored) -> NDArray[np.float64]:
        """Return the gate, less where a likely token gains."""
        guard = 1 - self.strength * np.clip(np.exp(np.minimum(logp, 0.0)) - self.mean, 0, 1)
        return delight_gate(logp, scored, self.temperature) * np.where(scored.need("advantages") > 0, guard, 1.0)


@dataclass(frozen=True)
class UncertainDelight(Delight, LogWeight):
    """`Delight` with the gate ``sigmoid((-A * logp - scale * u) / temperature)`` (UncertaintyDG).

    u is the deviation of the rewards of the group, ddof 0: where its rollouts disagree, less is learned.
    Reference: rl-experiments, ``UncertaintyDGLoss``.
    """

    kind: ClassVar[str] = "uncertain-delight"
    scale: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("scale", self.scale)

    def columns(self, batch: Batch, keep: NDArray[np.bool_]) -> dict[str, NDArray[Any]]:
        """Return the deviation of rewards in the group of each rollout."""
        rewards = np.where(keep, batch.need("rewards"), np.nan)
        return {"deviations": group_deviations(rewards, batch.need("group_ids"))}

    def weights(self, logp: NDArray[np.float64], scored: Scored) -> NDArray[np.float64]:
        """Return the gate, which the deviation of the group closes."""
        return delight_gate(logp, scored, self.temperature, self.scale * scored.need("deviations")[:, None])


@dataclass(frozen=True)
class InverseProbability(LogWeight):
    """``w = 1 / pi`` for A > 0 and 1 elsewhere: the gradient of the logarithm of the growth rate (LogGrowth).

    For rewards of 0 and 1 and rollouts of one token: a success of probability 1e-6 weighs a million.
    Reference: rl-experiments, ``LogGrowthLoss``.
    """

    kind: ClassVar[str] = "inverse-probability"

    def weights(self, logp: NDArray[np.float64], scored: Scored) -> NDArray[np.float64]:
        """Return the inverse of the probability of each success."""
        success = scored.mask & (scored.need("advantages") > 0)
        return np.exp(np.where(success, -logp, 0.0))


def delight_gate(
    logp: NDArray[np.float64], scored: Scored, temperature: float, price: NDArray[np.float64] | float = 0.0
) -> NDArray[np.float64]:
    """Return ``sigmoid((-A * logp - price) / temperature)`` of each token. [B, T] -> [B, T]"""
    exponent: NDArray[np.float64] = (scored.need("advantages") * logp + price) / temperature
    return np.exp(-np.logaddexp(0.0, exponent))  # no overflow, whatever the exponent


@dataclass(frozen=True)
class SoftGate(Clipper):
    """``-f(ratio) * A`` with ``f = (4 / t) sigmoid(t (ratio - 1))``: an update fades, and is never cut (SAPO).

    t is ``positive`` for A > 0 and ``negative`` elsewhere; the gate carries the gradient.
    Reference: SAPO (arXiv:2511.20347).
    """

    kind: ClassVar[str] = "soft-gate"
    positive: float
    negative: float

    def __post_init__(self) -> None:
        check_number("positive", self.positive, above=True)
        check_number("negative", self.negative, above=True)


@dataclass(frozen=True)
class ProbabilityMask(Clipper):
    """``-sg(min(ratio, ceiling)) * A * logp``, 0 where a probability has moved too far with its advantage (DPPO).

    With p = exp(logp): dropped are A > 0 with ``p - p_old > high``, and A < 0 with ``p - p_old < -low``. A rare token
    may double in probability; a likely one may not lose much of it.
    Reference: Qi et al. 2026, DPPO with binary total variation (arXiv:2602.04879).
    """

    kind: ClassVar[str] = "probability-mask"
    low: float
    high: float
    ceiling: float = 20.0

    def __post_init__(self) -> None:
        check_number("low", self.low, 0, 1)
        check_number("high", self.high, 0, 1)
        check_number("ceiling", self.ceiling, 1)


@dataclass(frozen=True)
class ProbabilityBand(Clipper):
    """``-ratio * A``, 0 where ``|p - p_old| > width``, whatever the sign of A (IPO of prime-rl).

    Reference: prime-rl, loss ``ipo``.
    """

    kind: ClassVar[str] = "probability-band"
    width: float

    def __post_init__(self) -> None:
        check_number("width", self.width, 0, 1)


@dataclass(frozen=True)
class MaskNegatives(Clipper):
    """``clip``, with advantage 0 for rollouts of negative advantage that the policy has fallen away from.

    ```text
    kept: A >= 0 or mean_t(logp_old - logp) <= delta        delta in nats a token
    ```

    The tokens stay in the denominator.
    Reference: SAMPO (arXiv:2602.21534), section 4; DeepSeek-V3.2.
    """

    kind: ClassVar[str] = "mask-negatives"
    clip: Clipper
    delta: float

    def __post_init__(self) -> None:
        check_point("clip", self.clip, Clipper)
        check_number("delta", self.delta)
