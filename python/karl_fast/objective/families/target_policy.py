"""Family: a target over the candidates of each prompt, and the cross-entropy of the policy to it.

```text
loss = mean over groups of -sum_i q_i log p_i,    p = softmax over the group of length(logp_i)
```
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast import _core
from karl_fast import target as kernels
from karl_fast.objective.axes.advantage import kept_rewards
from karl_fast.objective.axes.balance import Length
from karl_fast.objective.axes.filter import Filter
from karl_fast.objective.axes.point import OfGroups, Point, check_number
from karl_fast.objective.base import Objective, column
from karl_fast.objective.batch import scored

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karl_fast.objective.batch import Batch, Scored

__all__ = ["CandidateTarget", "TargetPolicy", "Tilted"]


class CandidateTarget(Point, ABC):
    """The wanted probability of each candidate within its group."""

    @abstractmethod
    def __call__(self, batch: Batch, keep: NDArray[np.bool_], logp_old: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probabilities; 0 for rows that are not candidates. ``logp_old`` is of whole ones. [B] -> [B]"""


@dataclass(frozen=True)
class Tilted(OfGroups, CandidateTarget):
    """``q = softmax(logp_old + u / temperature)``, u the z-score of the reward, ddof 0.

    ``anchored=False`` leaves out ``logp_old``.
    Reference: Kaddour 2026, Target Policy Optimization (arXiv:2604.06159).
    """

    temperature: float = 1.0
    anchored: bool = True

    def __post_init__(self) -> None:
        check_number("temperature", self.temperature, above=True)

    def __call__(self, batch: Batch, keep: NDArray[np.bool_], logp_old: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the behaviour policy, tilted by standardised rewards."""
        rewards = kept_rewards(batch, keep)
        how: Any = {"temperature": self.temperature, "anchored": self.anchored}
        return kernels.tpo_target(logp_old, rewards, batch.need("group_ids"), **how)


@dataclass(frozen=True)
class TargetPolicy(Objective):
    """A target over the candidates of each prompt, and the cross-entropy of the policy to it.

    Attributes:
        filter: which candidates count.
        target: their wanted probabilities.
        length: how tokens become a candidate.
    """

    filter: Filter
    target: CandidateTarget
    length: Length

    @property
    def whole_groups(self) -> bool:
        """Always: probabilities are over the candidates of a group."""
        return True

    def score(self, batch: Batch) -> Scored:
        """Filter a batch, and give each candidate its wanted probability: once a batch, before any step.

        Args:
            batch: with rewards, group_ids and logp_old.

        Returns:
            What the call needs.

        Raises:
            ArgumentError, LayoutError, DTypeError: an array that an axis needs is missing or out of shape.
        """
        batch.check()
        keep = self.filter(batch) & ~np.isnan(batch.need("rewards")) & (batch.need("group_ids") >= 0)
        mask = batch.mask & keep[:, None]
        logp_old = self.length.of(np.where(mask, batch.need("logp_old"), 0.0), mask)
        return scored(batch, keep, targets=self.target(batch, keep, logp_old))

    def count(self, scored: Scored) -> int:
        """Return the number of groups with a candidate."""
        groups = scored.need("groups")[scored.counted]
        return len(np.unique(groups[groups >= 0])) + int((groups < 0).sum())

    def _evaluate(self, tokens: dict[str, Any], scored: Scored, by: float, log_z: Any) -> Any:
        return _core.objective_target_policy(
            **tokens,
            targets=column(scored.need("targets"), np.float64),
            groups=column(scored.need("groups"), np.int64),
            logp_old=column(scored.logp_old, tokens["logp"].dtype),
            mean=self.length.mean,
            denominator=by,
        )
