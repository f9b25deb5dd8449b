"""Axes of `TrajectoryBalance`: the residual, its cost, the choice of tokens, and the weight of a rollout.

With D = length(logp) - length(anchor), the residual is ``k D + log_z - c r``, and its cost ``weight * g(residual)``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from karl_fast.objective.axes.point import Point, check_number

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "AllTokens",
    "Anchor",
    "BehaviourPolicy",
    "GeometricWeight",
    "Huber",
    "InverseTemperature",
    "Length",
    "NoAnchor",
    "ProductWeight",
    "ReferencePolicy",
    "Regression",
    "RewardUnits",
    "Scale",
    "Squared",
    "Temperature",
    "TokenChoice",
    "TokenDrift",
    "TokenMeanLength",
    "TokenSumLength",
    "Unweighted",
    "Weight",
]


class Anchor(Point):
    """Policy that the target tilts; ``column`` is its field of `Scored`, None for none."""

    column: ClassVar[str | None]


@dataclass(frozen=True)
class ReferencePolicy(Anchor):
    """``pi_ref exp(r / t) / Z``: the reference policy."""

    column: ClassVar[str | None] = "logp_ref"


@dataclass(frozen=True)
class BehaviourPolicy(Anchor):
    """``pi_old exp(r / t) / Z``: the policy that drew the rollouts."""

    column: ClassVar[str | None] = "logp_old"


@dataclass(frozen=True)
class NoAnchor(Anchor):
    """``exp(r / t) / Z``: none, the uniform one."""

    column: ClassVar[str | None] = None


class Length(Point):
    """Reduction of the log-probabilities of tokens to that of a rollout, as scores compute it too."""

    mean: ClassVar[bool]

    def of(self, values: NDArray[np.float64], mask: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return one number a rollout; ``values`` are 0 outside the mask. [B, T] -> [B]"""
        sums: NDArray[np.float64] = values.sum(1, dtype=np.float64)
        return sums / np.maximum(mask.sum(1), 1) if self.mean else sums


@dataclass(frozen=True)
class TokenSumLength(Length):
    """The sum: the log-probability of the rollout."""

    mean: ClassVar[bool] = False


@dataclass(frozen=True)
class TokenMeanLength(Length):
    """The mean a token, so that a long rollout is not a large residual; its target is another."""

    mean: ClassVar[bool] = True


class Scale(Point):
    """k and c of the residual ``k D + log_z - c r``: its units, and the temperature of the target."""

    @property
    def drift(self) -> float:
        """k: the factor of the log ratio."""
        return 1.0

    @property
    def reward(self) -> float:
        """c: the factor of the reward."""
        return 1.0


@dataclass(frozen=True)
class InverseTemperature(Scale):
    """k = 1, c = ``value``: in nats; FlowRL's beta."""

    value: float

    def __post_init__(self) -> None:
        check_number("value", self.value)

    @property
    def reward(self) -> float:
        """The inverse temperature."""
        return self.value


@dataclass(frozen=True)
class Temperature(Scale):
    """k = 1, c = 1 / ``value``: in nats; PACED's beta."""

    value: float

    def __post_init__(self) -> None:
        check_number("value", self.value, above=True)

    @property
    def reward(self) -> float:
        """Coefficient of the reward: one over the temperature."""
        return 1 / self.value


@dataclass(frozen=True)
class RewardUnits(Scale):
    """k = ``temperature``, c = 1: in units of the reward; the beta of OAPL, the tau of PMD-mean."""

    temperature: float

    def __post_init__(self) -> None:
        check_number("temperature", self.temperature, above=True)

    @property
    def drift(self) -> float:
        """The temperature."""
        return self.temperature


class Regression(Point):
    """g of the residual, by three laws: g(0) = 0, g even, g' of the sign of its argument; a line beyond ``width``."""

    width: float


@dataclass(frozen=True)
class Squared(Regression):
    """``residual^2``."""

    width: ClassVar[float] = math.inf  # type: ignore[misc]


@dataclass(frozen=True)
class Huber(Regression):
    """``residual^2`` up to ``width``, and from there on a line: one rollout moves the policy so much and no more.

    Reference: Huber 1964.
    """

    width: float

    def __post_init__(self) -> None:
        check_number("width", self.width, above=True)


class TokenChoice(Point):
    """Choice of the tokens of a residual and its weight."""


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


class Weight(Point):
    """Importance weight of a rollout drawn by the behaviour policy, detached."""

    @property
    def numbers(self) -> tuple[bool, float, float] | None:
        """True for the mean log ratio, with floor and ceiling; None for no weight."""
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

    @property
    def numbers(self) -> tuple[bool, float, float] | None:
        """True for the mean log ratio, with floor and ceiling."""
        return False, self.floor, self.ceiling


@dataclass(frozen=True)
class GeometricWeight(Weight):
    """``sg(clip(geometric mean of ratios, floor, ceiling))``; both are ratios."""

    floor: float = 0.0
    ceiling: float = float("inf")

    def __post_init__(self) -> None:
        check_number("floor", self.floor, 0, 1)
        check_number("ceiling", self.ceiling, 1)

    @property
    def numbers(self) -> tuple[bool, float, float] | None:
        """True for the mean log ratio, with floor and ceiling."""
        return True, self.floor, self.ceiling
