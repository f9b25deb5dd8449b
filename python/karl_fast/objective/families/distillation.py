"""Family: the divergence from a teacher on the policy's own rollouts, alone or beside a reward.

```text
loss = sum_it w_it [c_it clip(ratio_it, A_i + s_it) + coef D_it]
```

D is a divergence of whole distributions (`TeacherReverse`, `TeacherForward`, `TeacherTopK`), s an advantage of sampled
tokens (`TeacherSampled`), A the advantage of a reward, 0 with `NoReward`. The teacher is a frozen model, or the policy
itself with more in its prompt.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from karl_fast.errors import IncoherentObjectiveError
from karl_fast.objective.axes.advantage import Advantage
from karl_fast.objective.axes.aggregate import Aggregate
from karl_fast.objective.axes.clip import Clipper, Delight, LogWeight
from karl_fast.objective.axes.filter import Filter
from karl_fast.objective.axes.kl import NoKL
from karl_fast.objective.axes.ratio import Ratio
from karl_fast.objective.axes.teacher import NoReward, TeacherSignal
from karl_fast.objective.base import Objective
from karl_fast.objective.batch import scored
from karl_fast.objective.families.policy_gradient import PolicyGradient

if TYPE_CHECKING:
    from karl_fast.objective.batch import Batch, Scored


@dataclass(frozen=True)
class Distillation(Objective):
    """The divergence from a teacher on the policy's own rollouts, alone or beside a reward.

    Attributes:
        filter: which rollouts count.
        divergence: how the policy is pulled to the teacher.
        advantage: who gets credit by reward; `NoReward` for no one.
        ratio: at what level drift is measured, for advantages.
        clip: what bounds an update by advantages.
        aggregate: how tokens become one number.
    """

    filter: Filter
    divergence: TeacherSignal
    advantage: Advantage
    ratio: Ratio
    clip: Clipper
    aggregate: Aggregate

    def check(self) -> None:
        """Raise where points do not go together.

        Raises:
            IncoherentObjectiveError: they do not; the message says why.
        """
        if isinstance(self.clip, Delight | LogWeight):
            raise IncoherentObjectiveError(
                f"{type(self.clip).__name__} is not proportional to the advantage, to which the teacher's is added"
            )
        _ = self._policy_gradient

    @cached_property
    def _policy_gradient(self) -> PolicyGradient:
        """The term of advantages."""
        return PolicyGradient(self.filter, self.advantage, self.ratio, self.clip, NoKL(), self.aggregate)

    @property
    def reads_teacher(self) -> bool:
        """Always."""
        return True

    @property
    def reads_rewards(self) -> bool:
        """False where the teacher is all there is to learn from."""
        return not isinstance(self.advantage, NoReward)

    @property
    def reads_divergence(self) -> Literal["reverse", "forward"] | None:
        """Direction of the divergence from the teacher's whole distribution; None for sampled tokens."""
        return self.divergence.reads_divergence

    def score(self, batch: Batch) -> Scored:
        """Filter a batch, and give credit: once a batch, before any step.

        Args:
            batch: with what the axes need: ``logp_teacher`` and ``logp_old`` for `TeacherSampled`.

        Returns:
            What the call needs.

        Raises:
            ArgumentError, LayoutError, DTypeError: an array that an axis needs is missing or out of shape.
        """
        batch.check()
        keep = self.filter(batch)
        advantages = self.advantage(batch, keep)
        columns = advantages[:, None] if advantages.ndim == 1 else advantages
        return scored(batch, keep, advantages=np.asarray(columns + self.divergence.advantages(batch)))

    def count(self, scored: Scored) -> int:
        """Return the number of tokens or sequences that count, by the aggregate."""
        return self.aggregate.count(scored.mask)

    def _evaluate(self, tokens: dict[str, Any], scored: Scored, by: float, log_z: Any) -> Any:
        return self._policy_gradient._evaluate(tokens, scored, by, log_z)

    def _reader(self, name: str) -> object:
        return {"divergence": self.divergence}.get(name, super()._reader(name))

    def _terms(self) -> dict[str, tuple[float, Aggregate]]:
        return {"divergence": (self.divergence.coef, self.aggregate)}
