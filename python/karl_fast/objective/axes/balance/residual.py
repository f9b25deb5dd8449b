"""Axes of a residual: anchor, length, scale and regression.

With D = length(logp) - length(anchor), the residual is ``k D + log_z - c r``, and its cost ``weight * g(residual)``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from karl_fast.objective.axes.point import Point, check_number
from karl_fast.objective.axes.ratio import mean_over
from karl_fast.objective.mlx_arrays import mx

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
    """Reduction of the log-probabilities of tokens to that of a rollout, on both sides of the gradient line."""

    mean: ClassVar[bool]

    def __call__(self, values: mx.array, mask: mx.array) -> mx.array:
        """Return one number a rollout; ``values`` are 0 outside the mask. [B, T] -> [B]"""
        return mean_over(values, mask)[:, 0] if self.mean else values.sum(axis=1)

    def of(self, values: NDArray[np.float64], mask: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the same before the gradient line. [B, T] -> [B]"""
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


class Regression(Point, ABC):
    """g of the residual, by three laws: g(0) = 0, g even, g' of the sign of its argument."""

    @abstractmethod
    def __call__(self, residual: mx.array) -> mx.array:
        """Return the cost of each residual. [B] -> [B]"""


@dataclass(frozen=True)
class Squared(Regression):
    """``residual^2``."""

    def __call__(self, residual: mx.array) -> mx.array:
        """Return the square."""
        return residual**2


@dataclass(frozen=True)
class Huber(Regression):
    """``residual^2`` up to ``width``, and from there on a line: one rollout moves the policy so much and no more.

    Reference: Huber 1964.
    """

    width: float

    def __post_init__(self) -> None:
        check_number("width", self.width, above=True)

    def __call__(self, residual: mx.array) -> mx.array:
        """Return the square, or its tangent beyond the bound."""
        size = mx.abs(residual)
        return mx.where(size <= self.width, residual**2, self.width * (2 * size - self.width))
