"""Weights of skills by the rewards of the work that used them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from karl_fast.errors import ArgumentError
from karl_fast.reward.baselines.moving import rows_by_domain
from karl_fast.reward.baselines.typical_rewards import Sums

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class SkillWeights:
    """Weight of each skill, moved towards its rewards.

        target = low + mean (high - low),    w <- clip((1 - alpha) w + alpha target, low, high)

    One call is one move by the mean of its rewards, added from left to right, as in KARL; a skill without a weight
    begins at ``start``.

    Attributes:
        weights: by skill.
        alpha: the share of the target, 0 to 1.
        low, high: the bounds, with low below high.
        start: the weight of a skill that is new.

    Raises:
        ArgumentError: an alpha outside 0 to 1, or bounds that are none.

    Reference: Diomandeee/karl, ``karl/weight_updater.py``, commit 7d5ef32.
    """

    weights: dict[str, float] = field(default_factory=dict)
    alpha: float = 0.1
    low: float = 0.5
    high: float = 1.5
    start: float = 1.0

    def __post_init__(self) -> None:
        if not (0 <= self.alpha <= 1 and self.low < self.high):
            raise ArgumentError(
                f"alpha is {self.alpha} and the bounds {self.low} and {self.high}, wanted 0 to 1 and low below high"
            )

    def update(self, rewards: NDArray[np.float64], skills: Sequence[str | None]) -> SkillWeights:
        """Return the weights after more rewards; missing ones (NaN), and rows without a skill, are ignored.

        Raises:
            ArgumentError: an infinite reward, or columns that differ in rows.
        """
        weights = dict(self.weights)
        for skill, rows in rows_by_domain(rewards, skills).items():
            sums = Sums()
            for reward in rewards[rows].tolist():
                if reward == reward:
                    sums.add(reward)
            if sums.count:
                target = self.low + sums.mean() * (self.high - self.low)
                moved = weights.get(skill, self.start) * (1 - self.alpha) + target * self.alpha
                weights[skill] = max(self.low, min(self.high, moved))
        return replace(self, weights=weights)
