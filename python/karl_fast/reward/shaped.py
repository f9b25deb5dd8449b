"""A reward that training sees, and the one that is true."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from karl_fast.errors import ArgumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karl_fast.settings.values import AsymmetricScale


@dataclass(frozen=True, eq=False)
class Shaped:
    """Rewards before shaping, for reports, and after it, for training.

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
        """Rewards after shaping. [B]"""
        return self.transform(self.rewards)
