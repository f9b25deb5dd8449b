"""Axis: the log partition function of a balance, one number a prompt, in the units of the residual.

| point | log Z | needs |
|---|---|---|
| `Learned` | prediction of a head, with its gradient | ``log_z`` in the call |
| `GroupOptimum` | what makes the loss of the group least (VarGrad) | whole groups |
| `SoftValue` | -c t log mean exp(r / t) of the group; t infinite: -c mean r | rewards of whole groups, when scored |
| `NoLogZ` | 0 | |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from karl_fast import target as kernels
from karl_fast.objective.axes.point import OfGroups, Point, check_number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karl_fast.objective.batch import Batch

__all__ = ["GroupOptimum", "Learned", "LogZ", "NoLogZ", "SoftValue"]


class LogZ(Point):
    """The log partition function; ``learned`` if the call is given it, ``grouped`` if it needs whole groups."""

    learned: ClassVar[bool] = False
    grouped: ClassVar[bool] = False

    def value(self, batch: Batch, rewards: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the value to subtract from each reward, in units of the reward. [B]"""
        return np.zeros(len(rewards))


@dataclass(frozen=True)
class Learned(LogZ):
    """Prediction of a head from the prompt (`karl_fast.rl.log_z`), an argument of the call."""

    learned: ClassVar[bool] = True


@dataclass(frozen=True)
class NoLogZ(LogZ):
    """No log Z: the residual is used directly."""


@dataclass(frozen=True)
class GroupOptimum(OfGroups, LogZ):
    """Minimiser of the squared loss of the group: minus the weighted mean of the residual, detached.

    The loss is then the variance of the residual within the group, and has the same gradient.
    Reference: Zhang et al. 2023, log-partition variance (arXiv:2302.05446); Richter et al. 2020, VarGrad.
    """

    grouped: ClassVar[bool] = True


@dataclass(frozen=True)
class SoftValue(OfGroups, LogZ):
    """``t log mean exp(r / t)`` of the group's rewards: OAPL and A*PO; with t infinite their mean, PMD-mean.

    ``temperature`` is t, in units of the reward.
    Reference: OAPL (arXiv:2602.19362); A*PO (arXiv:2505.20686); Kimi k1.5 (arXiv:2501.12599).
    """

    temperature: float

    def __post_init__(self) -> None:
        check_number("temperature", self.temperature)

    def value(self, batch: Batch, rewards: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the soft value of each rollout's group."""
        return kernels.soft_value(rewards, batch.need("group_ids"), temperature=self.temperature)
