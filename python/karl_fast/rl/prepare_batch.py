"""Preparation of rollouts for a step: log-probabilities by forward passes, then scores, before any step.

The forward passes look at tokens alone: they begin when those are drawn, and the device computes them while rewards are
given.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.errors import DivergedError
from karl_fast.rl.objective_batch import build_batch, needs_reference, reads_old_logp, reads_turns
from karl_fast.rl.rollout import pack

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from karl_fast.objective.base import Objective
    from karl_fast.objective.batch import Batch, Scored
    from karl_fast.rl.logprobs import Forward
    from karl_fast.rl.rollout import Packed, Rollout


@dataclass(frozen=True)
class Passes:
    """Settings of learning from rollouts.

    Attributes:
        epochs: passes over them.
        minibatches: steps a pass.
        micro_batch: rollouts in memory at a time; the result of a step does not depend on it.
        max_grad_norm: maximum norm of the gradient, which is scaled down to it; 0 for no limit.
        reference: True to compute the reference policy even if the objective does not read it.
    """

    epochs: int = 1
    minibatches: int = 1
    micro_batch: int = 32
    max_grad_norm: float = 1.0
    reference: bool = False


@dataclass(frozen=True, eq=False)
class PreparedBatch:
    """Rollouts on the near side of the gradient line.

    Attributes:
        packed: padded.
        batch: what was scored; without ``logp_old`` where the one step that is made finds it.
        scored: what a loss needs.
        mask: True for tokens that count. [B, T]
        kept: which rollouts the filter of the recipe left. [B]
        dropped: number of rollouts that each filter of the recipe drops, by its name; without those that drop none.
        logp_old: under the behaviour policy, of what the step does not find; 0 elsewhere. [B, T]
    """

    packed: Packed
    batch: Batch
    scored: Scored
    mask: NDArray[np.bool_]
    kept: NDArray[np.bool_]
    logp_old: NDArray[np.float32]
    dropped: dict[str, int] = field(default_factory=dict)

    @property
    def unscored(self) -> NDArray[np.bool_]:
        """True for rollouts with a reward but no finite float32 score of the recipe. [B]"""
        taken = self.batch.mask.any(1) & self.kept & ~np.isnan(self.batch.need("rewards"))
        return np.asarray(taken & ~self.mask.any(1))

    @property
    def found_by_the_step(self) -> bool:
        """True if the learning policy is the behaviour policy, so that one forward pass gives both."""
        return self.batch.logp_old is None


@dataclass(frozen=True, eq=False)
class _StartedPasses:
    """Forward passes over rollouts, some of which may still run on the device.

    Attributes:
        ids: ids of the rollouts.
        packed: the padded rollouts.
        fresh: True for those drawn by the learning policy. [B]
        old: under the behaviour policy, as far as it still exists; None if the step computes it. -> [B, T]
        ref: under the reference policy; None if it is not needed. -> [B, T]
    """

    ids: list[str]
    packed: Packed
    fresh: NDArray[np.bool_]
    old: Callable[[], NDArray[np.float32]] | None
    ref: Callable[[], NDArray[np.float32]] | None


class Preparer:
    """Prepares rollouts for the steps of an objective."""

    def __init__(self, forward: Forward, objective: Objective, passes: Passes) -> None:
        self.forward, self.objective, self.passes = forward, objective, passes
        self._begun: _StartedPasses | None = None

    def begin(self, rollouts: Sequence[Rollout], *, version: int) -> None:
        """Start the passes over rollouts that are prepared next, which may have no rewards yet.

        Args:
            rollouts: in the order that they will have.
            version: number of steps that the policy has taken.
        """
        packed = pack(rollouts)
        fresh = np.array([rollout.version == version for rollout in rollouts])
        found = self._one_step and bool(fresh.all())
        old = None if found else self._pass(packed)
        looked_at = self.passes.reference or needs_reference(self.objective)
        ref = self._pass(packed, reference=True) if looked_at else None
        self._begun = _StartedPasses([rollout.id for rollout in rollouts], packed, fresh, old, ref)

    def __call__(self, rollouts: Sequence[Rollout], *, version: int, seed: int) -> PreparedBatch:
        """Compute log-probabilities by the forward pass of training, then scores: once, before any step.

        Where the one step of a batch is made by the policy that drew all of it, its ratio is 1 whatever was computed
        before: logp_old is then logp itself without a gradient, and costs no forward pass of its own.

        Raises:
            DivergedError: log-probabilities that are not finite.
        """
        begun = self._taken(rollouts, version)
        packed, logp_old = begun.packed, None
        if begun.old is not None:
            # The behaviour policy of replayed rollouts no longer exists; they store its log-probabilities.
            logp_old = np.where(begun.fresh[:, None], begun.old(), packed.logp)
        logp_ref = None if begun.ref is None else begun.ref()
        turns = reads_turns(self.objective)
        batch = build_batch(rollouts, packed, logp_old, logp_ref, version=version, seed=seed, turns=turns)
        scored = self.objective.score(batch)
        mask = scored.mask
        objective: Any = self.objective  # each family has a filter
        kept: NDArray[np.bool_] = objective.filter(batch)
        old = self._left_over(packed, mask) if logp_old is None else logp_old
        counts = {type(part).__name__: int((~part(batch)).sum()) for part in objective.filter.parts}
        dropped = {name: count for name, count in counts.items() if count}
        return PreparedBatch(packed, batch, scored, mask, kept, old, dropped)

    def _taken(self, rollouts: Sequence[Rollout], version: int) -> _StartedPasses:
        """Return the passes begun for exactly these rollouts; begin them now if there are none."""
        if self._begun is None or self._begun.ids != [rollout.id for rollout in rollouts]:
            self.begin(rollouts, version=version)
        begun, self._begun = self._begun, None
        assert begun is not None
        return begun

    @property
    def _one_step(self) -> bool:
        alone = self.passes.epochs == self.passes.minibatches == 1
        return alone and not reads_old_logp(self.objective)

    def _left_over(self, packed: Packed, mask: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Return the log-probabilities of rollouts that no step computes."""
        found = np.zeros(mask.shape, dtype=np.float32)
        rows = np.flatnonzero((packed.mask & ~mask).any(1))
        if rows.size:
            found[rows] = self._pass(packed.rows(rows.tolist()))()
        return found

    def _pass(self, packed: Packed, *, reference: bool = False) -> Callable[[], NDArray[np.float32]]:
        """Start the first micro-batch; the others are computed one after the other when the result is read."""
        size, rows = self.passes.micro_batch, len(packed.mask)
        parts = [packed.rows(range(start, min(start + size, rows))) for start in range(0, rows, size)]
        first = self.forward.begin(parts[0], reference=reference)

        def logp() -> NDArray[np.float32]:
            found = [first(), *(self.forward.logp(part, reference=reference) for part in parts[1:])]
            return check_finite(np.concatenate(found))

        return logp


def check_finite(logp: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return log-probabilities, after a check that they are finite.

    Raises:
        DivergedError: one is not finite.
    """
    if not np.isfinite(logp).all():
        raise DivergedError("the policy gives log-probabilities that are not finite: its weights are not usable")
    return logp
