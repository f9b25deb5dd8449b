"""Axis: the weight of tokens that another arithmetic drew than the one that learns.

A rollout may be drawn with 8-bit caches or in 16 bits. Three policies are then apart: the one that drew it
(``logp_rollout``), the same weights in the arithmetic of training (``logp_old``), and the policy now (``logp``).
The ratio of an objective is of the last two; the correction is of the first two. With d_t = logp_old_t -
logp_rollout_t, a weight that carries no gradient multiplies the term of each token, except those of penalties:

| point | weight w of a token | out of its range |
|---|---|---|
| `NoCorrection` | 1 | |
| `TokenTruncate` | exp(d_t) | min(w, cap) (TIS) |
| `TokenMask` | exp(d_t) | 0 (IcePop, token MIS) |
| `SequenceTruncate` | exp(sum of d over its rollout) | min(w, cap) |
| `SequenceMask` | exp(sum of d over its rollout) | 0 (MIS) |
| `GeometricMask` | exp(mean of d over its rollout) | 0 |
| `RolloutAnchor` | 1 | none: the ratio of the objective is to ``logp_rollout`` itself |

A token with the weight 0 stays in every denominator. A batch without ``logp_rollout`` is not corrected.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from karl_fast import _core
from karl_fast.objective.axes.point import Point, check_number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karl_fast.objective.batch import Floats

__all__ = [
    "Correction",
    "GeometricMask",
    "NoCorrection",
    "RolloutAnchor",
    "SequenceMask",
    "SequenceTruncate",
    "TokenMask",
    "TokenTruncate",
    "mismatch",
]


class Correction(Point):
    """Weight of tokens that another arithmetic drew."""

    level: ClassVar[str] = "token"
    drops: ClassVar[bool] = False

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Return the least and the largest weight; None where no token is weighed."""
        return None


@dataclass(frozen=True)
class NoCorrection(Correction):
    """No weight: both arithmetics are taken for one."""


@dataclass(frozen=True)
class RolloutAnchor(Correction):
    """The ratio is to the policy that drew, in its own arithmetic: ``logp_rollout`` in the place of ``logp_old``.

    Reference: Qi et al. 2026, DPPO (arXiv:2602.04879), where a recomputed anchor fails; verl's bypass mode.
    """


@dataclass(frozen=True)
class Truncated(Correction):
    """A weight of at most ``cap``, a ratio of at least 1."""

    cap: float

    def __post_init__(self) -> None:
        check_number("cap", self.cap, 1)

    @property
    def bounds(self) -> tuple[float, float]:
        """Return 0 and the cap."""
        return 0.0, self.cap


@dataclass(frozen=True)
class TokenTruncate(Truncated):
    """Each token its own weight, at most ``cap`` (TIS).

    The 2 is `rollout_is_threshold` of verl's guide. Of a long rollout the product of small differences is far from 1:
    the weight of a token is not.
    Reference: Yao et al. 2025, Your Efficient RL Framework Secretly Brings You Off-Policy RL Training.
    """

    cap: float = 2.0


@dataclass(frozen=True)
class SequenceTruncate(Truncated):
    """All tokens of a rollout the product of their weights, at most ``cap``.

    The 3 is TRL's `vllm_importance_sampling_cap`.
    Reference: Liu et al. 2025 (arXiv:2512.23075).
    """

    level: ClassVar[str] = "sequence"
    cap: float = 3.0


@dataclass(frozen=True)
class Masked(Correction):
    """A weight in [``low``, ``high``], two ratios around 1; 0 out of it."""

    drops: ClassVar[bool] = True
    low: float
    high: float

    def __post_init__(self) -> None:
        check_number("low", self.low, 0, 1)
        check_number("high", self.high, 1)

    @property
    def bounds(self) -> tuple[float, float]:
        """Return both bounds."""
        return self.low, self.high


@dataclass(frozen=True)
class TokenMask(Masked):
    """Each token its own weight, 0 out of [``low``, ``high``] (IcePop).

    0.2 and 5 are `ratio_low` and `ratio_high` of prime-rl's loss `icepop`.
    Reference: Ling team 2025, Ring-1T (arXiv:2510.18855).
    """

    low: float = 0.2
    high: float = 5.0


@dataclass(frozen=True)
class SequenceMask(Masked):
    """All tokens of a rollout the product of their weights, 0 out of [``low``, ``high``] (MIS).

    0 and 3 are TRL's default: `sequence_mask` with a cap of 3, and no lower bound.
    Reference: Liu et al. 2025 (arXiv:2512.23075).
    """

    level: ClassVar[str] = "sequence"
    low: float = 0.0
    high: float = 3.0


@dataclass(frozen=True)
class GeometricMask(Masked):
    """All tokens of a rollout the geometric mean of their weights, 0 out of [``low``, ``high``].

    The mean does not grow with the length, and its bounds are near 1: 0.99 and 1.01 are ours, verl's guide names 1.001.
    Reference: verl's level `geometric` (docs/algo/rollout_corr_math.md).
    """

    level: ClassVar[str] = "geometric"
    low: float = 0.99
    high: float = 1.01


def _flat(array: Any, dtype: Any) -> Any:
    return np.ascontiguousarray(array, dtype=dtype).ravel()


def mismatch(
    point: Correction, old: Floats, rollout: Floats, mask: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], dict[str, float]]:
    """Compute the weights of a correction, and how far the two arithmetics are apart.

    Args:
        point: of the axis; without bounds every weight is 1.
        old: log-probabilities in the arithmetic of training. [B, T]
        rollout: the same in that of generation. [B, T]
        mask: tokens that count. [B, T]

    Returns:
        The weights, 0 outside the mask [B, T]; and over tokens ``k3`` in nats, ``chi2``, the shares ``low`` and
        ``high`` of weights out of the bounds, and ``ess``, the effective share of tokens.
    """
    low, high = point.bounds or (0.0, np.inf)
    rows, width = mask.shape
    weights, statistics = _core.objective_correction(
        _flat(old, old.dtype),
        _flat(rollout, old.dtype),
        np.ascontiguousarray(mask).ravel(),
        np.arange(rows + 1, dtype=np.int64) * width,
        level=point.level,
        low=low,
        high=high,
        drop=point.drops,
    )
    return (weights.reshape(mask.shape) if point.bounds else mask.astype(np.float64)), statistics
