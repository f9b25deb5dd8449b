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

import numpy as np

from karl_fast import _core
from karl_fast.errors import IncoherentObjectiveError
from karl_fast.objective.axes.advantage import Advantage
from karl_fast.objective.axes.balance import (
    Anchor,
    Length,
    Regression,
    Scale,
    Squared,
    TokenChoice,
    TokenDrift,
    Weight,
)
from karl_fast.objective.axes.filter import Filter
from karl_fast.objective.axes.log_z import GroupOptimum, LogZ
from karl_fast.objective.base import Objective, column
from karl_fast.objective.batch import scored

if TYPE_CHECKING:
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
        """
        batch.check()
        keep = self.filter(batch)
        rewards = self.reward(batch, keep)
        if rewards.ndim != 1:
            raise IncoherentObjectiveError(f"a balance needs one reward a rollout, {self.reward} gives one a token")
        values: NDArray[np.float64] = rewards - self.log_z.value(batch, rewards)
        return scored(batch, keep, rewards=values)

    @property
    def learns_log_z(self) -> bool:
        """True if log Z is the prediction of a head."""
        return self.log_z.learned

    def _reader(self, name: str) -> object:
        return self.log_z if name == "log_z" else super()._reader(name)

    def count(self, scored: Scored) -> int:
        """Return the number of rollouts that count."""
        return int(scored.counted.sum())

    def _evaluate(self, tokens: dict[str, Any], scored: Scored, by: float, log_z: Any) -> Any:
        dtype, anchor = tokens["logp"].dtype, self.anchor.column
        drift = self.weight.numbers is not None or isinstance(self.tokens, TokenDrift) or anchor == "logp_old"
        return _core.objective_balance(
            **tokens,
            rewards=column(scored.need("rewards"), np.float64),
            logp_old=column(scored.need("logp_old") if drift else scored.logp_old, dtype),
            logp_ref=column(scored.need("logp_ref"), dtype) if anchor == "logp_ref" else None,
            groups=column(scored.need("groups"), np.int64) if self.whole_groups else None,
            log_z=log_z,
            anchor=anchor,
            mean=self.length.mean,
            scale=(self.scale.drift, self.scale.reward),
            width=self.regression.width,
            choice=(self.tokens.low, self.tokens.high) if isinstance(self.tokens, TokenDrift) else None,
            weight=self.weight.numbers,
            denominator=by,
        )
