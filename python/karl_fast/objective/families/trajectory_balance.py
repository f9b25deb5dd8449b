"""Family: a regression that is 0 where the policy is the Boltzmann target of the reward.

```text
residual_i = k (length(logp_i) - length(anchor_i)) + log_z - c r_i
loss       = mean_i  weight_i * g(residual_i)
```

It is 0 on all rollouts if and only if the policy is ``anchor * exp((c / k) r)`` over its sum, of which ``log_z / k`` is
then the logarithm (at the length TokenSumLength): every mode at its weight, where a policy gradient ends on one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from karl_fast.errors import IncoherentObjectiveError, UsageError
from karl_fast.objective.axes.advantage import Advantage
from karl_fast.objective.axes.balance import Anchor, Length, Regression, Scale, Squared, TokenChoice, Weight
from karl_fast.objective.axes.filter import Filter
from karl_fast.objective.axes.log_z import GroupOptimum, LogZ
from karl_fast.objective.base import Objective
from karl_fast.objective.mlx_arrays import mx
from karl_fast.objective.score import scored

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from karl_fast.objective.batch import Batch, Scored


@dataclass(frozen=True)
class TrajectoryBalance(Objective):
    """A regression that is 0 where the policy is the Boltzmann target of the reward.

    Attributes:
        filter: which rollouts count.
        reward: how the reward is shaped, by a point of the advantage axis that gives one number a rollout.
        anchor: which policy the target is a tilt of.
        length: how tokens become a rollout.
        scale: the units of the residual, and the temperature.
        log_z: the log partition function.
        regression: what a residual costs.
        tokens: which tokens a residual is made of.
        weight: the importance weight of a rollout.
    """

    filter: Filter
    reward: Advantage
    anchor: Anchor
    length: Length
    scale: Scale
    log_z: LogZ
    regression: Regression
    tokens: TokenChoice
    weight: Weight

    def check(self) -> None:
        """Raise where points do not go together.

        Raises:
            IncoherentObjectiveError: they do not; the message says why.

        Reference: none.
        """
        if self.reward.per_token:
            raise IncoherentObjectiveError(f"a balance needs one reward a rollout, {self.reward} gives one a token")
        if isinstance(self.log_z, GroupOptimum) and not isinstance(self.regression, Squared):
            raise IncoherentObjectiveError(f"GroupOptimum is the optimum of Squared, not of {self.regression}")

    @property
    def whole_groups(self) -> bool:
        """True if log Z is computed by group."""
        return self.log_z.grouped

    def score(self, batch: Batch) -> Scored:
        """Filter a batch, and shape its rewards: once a batch, before any step.

        Args:
            batch: with what the axes need.

        Returns:
            What the call needs.

        Raises:
            ArgumentError, LayoutError, DTypeError: an array that an axis needs is missing or out of shape.
            IncoherentObjectiveError: a shaping that gives a number a token.

        Reference: none.
        """
        batch.check()
        keep = self.filter(batch)
        rewards = self.reward(batch, keep)
        if rewards.ndim != 1:
            raise IncoherentObjectiveError(f"a balance needs one reward a rollout, {self.reward} gives one a token")
        values: NDArray[np.float64] = rewards - self.log_z.value(batch, rewards)
        return scored(batch, keep, rewards=values)

    def residual(self, logp: mx.array, scored: Scored, log_z: mx.array | None = None) -> mx.array:
        """Return the residual of each rollout, with log Z.

        Args:
            logp: log-probability of each token under the policy. [B, T]
            scored: of :meth:`score`.
            log_z: of each rollout's prompt, where it is `Learned`. [B]

        Returns:
            In the units of the scale. [B]

        Raises:
            UsageError: ``log_z`` where nothing is learned, or none where it is.

        Reference: Bartoldson et al. 2025, trajectory balance (arXiv:2503.18929).
        """
        if self.log_z.learned != (log_z is not None):
            wanted = "needs log_z of each rollout" if self.log_z.learned else "has no use for log_z"
            raise UsageError(f"{self.log_z} {wanted}", "log_z")
        found = self._residual(logp, scored)
        return found if log_z is None else found + log_z

    def total(self, logp: mx.array, scored: Scored, log_z: mx.array | None = None, **more: Any) -> mx.array:
        """Return the sum of the costs of all rollouts that count. [B, T] -> []"""
        weight = self._weight(logp, scored)
        residual = self.log_z(self.residual(logp, scored, log_z), weight, scored)
        costs = self.regression(mx.where(scored.counted, residual, 0.0))
        return (costs if weight is None else mx.where(scored.counted, weight * costs, 0.0)).sum()

    def count(self, scored: Scored) -> mx.array:
        """Return the number of rollouts that count."""
        return scored.counted.sum()

    def _residual(self, logp: mx.array, scored: Scored) -> mx.array:
        logp = mx.where(scored.mask, logp, 0.0)
        mask = self.tokens(logp, scored)
        drift = logp if self.anchor.column is None else logp - scored.need(self.anchor.column)
        length = self.length(mx.where(mask, drift, 0.0), mask)
        return self.scale.drift * length - self.scale.reward * scored.need("rewards")

    def _weight(self, logp: mx.array, scored: Scored) -> mx.array | None:
        logp = mx.where(scored.mask, logp, 0.0)
        return self.weight(logp, scored, self.tokens(logp, scored))
