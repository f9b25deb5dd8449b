"""A reward that training sees, and the one that is true."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from karl_fast.errors import ArgumentError, UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class AsymmetricScale:
    """Good rewards and bad ones, scaled apart.

    ::

        s(r) = up * (r - centre) + centre for r > centre, down * (r - centre) + centre below

    Both scales are above 0, so that no two rewards change places.

    Attributes:
        up: the scale above the centre.
        down: the scale below it.
        centre: what stays.

    Raises:
        UsageError: a scale that is not a finite number above 0, or a centre that is not finite.

    Reference: Archer222arc/LLM-for-OR, ``scripts/training/train_grpo_ablation.py``, whose run ``asym_clip`` has up 1.4.
    """

    up: float = 1.4
    down: float = 1.0
    centre: float = 0.0

    def __post_init__(self) -> None:
        if not (0 < self.up < math.inf and 0 < self.down < math.inf and math.isfinite(self.centre)):
            raise UsageError(f"up, down and centre are {self.up}, {self.down} and {self.centre}, wanted scales above 0")

    def __call__(self, rewards: NDArray[np.float64]) -> NDArray[np.float64]:
        """The shaped rewards; missing stays missing. [B]"""
        apart = rewards - self.centre
        return np.where(apart > 0, self.up, self.down) * apart + self.centre


@dataclass(frozen=True, eq=False)
class Shaped:
    """Rewards before shaping and after: what is reported, and what is trained on.

    Shaping moves the mean of a report and, within a group, only what the group's own scale does not take back; a report
    of ``shaped`` rewards compares with none of another run. So filters, reports and the test of a constant group take
    ``rewards``; only an objective takes ``shaped``.

    Attributes:
        rewards: before. [B]
        transform: how they are shaped.

    Raises:
        ArgumentError: rewards that are not float64 of one dimension, or infinite.
    """

    rewards: NDArray[np.float64]
    transform: AsymmetricScale

    def __post_init__(self) -> None:
        if not isinstance(self.rewards, np.ndarray) or self.rewards.dtype != np.float64 or self.rewards.ndim != 1:
            raise ArgumentError("rewards has another type, wanted a one-dimensional NumPy array of float64")
        if np.isinf(self.rewards).any():
            raise ArgumentError(f"rewards is infinite in row {int(np.isinf(self.rewards).argmax())}")

    @property
    def shaped(self) -> NDArray[np.float64]:
        """After. [B]"""
        return self.transform(self.rewards)
