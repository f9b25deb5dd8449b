"""Shaping of a reward before it is scored."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from karl_fast import _core
from karl_fast.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from karl_fast.typing import Floats


@dataclass(frozen=True)
class AsymmetricScale:
    """Separate scales for good and bad rewards.

        s(r) = up * (r - centre) + centre for r > centre, down * (r - centre) + centre below

    Both scales are above 0, so that the order of rewards is kept.

    Attributes:
        up: the scale above the centre.
        down: the scale below it.
        centre: the fixed point.

    Raises:
        UsageError: a scale that is not a finite number above 0, or a centre that is not finite.

    Reference: Archer222arc/LLM-for-OR, ``scripts/training/train_grpo_ablation.py``, run ``asym_clip`` with up 1.4.
    """

    up: float = 1.4
    down: float = 1.0
    centre: float = 0.0

    def __post_init__(self) -> None:
        if not (0 < self.up < math.inf and 0 < self.down < math.inf and math.isfinite(self.centre)):
            raise UsageError(f"up, down and centre are {self.up}, {self.down} and {self.centre}, wanted scales above 0")

    def __call__(self, rewards: Floats) -> NDArray[np.float64]:
        """Return the shaped rewards; missing ones stay missing. [B]

        Raises:
            ArgumentError: an infinite reward, or a shaped one beyond float64.
            DTypeError, LayoutError: rewards that are no contiguous column of float64.
        """
        return _core.shaped(rewards, up=self.up, down=self.down, centre=self.centre)

    @property
    def numbers(self) -> tuple[float, float, float]:
        """Up, down and centre, as the extension takes them."""
        return self.up, self.down, self.centre
