"""From a batch of rollouts to steps: log-probabilities, scores, and several updates with real importance ratios."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.errors import DivergedError
from karl_fast.objective.interop import to_numpy
from karl_fast.rl import score
from karl_fast.rl.measure import Drift, drift
from karl_fast.rl.rollout import pack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import mlx.core as mx
    from numpy.typing import NDArray

    from karl_fast.objective.batch import Batch, Scored
    from karl_fast.objective.family import Objective
    from karl_fast.rl.forward import Forward
    from karl_fast.rl.partition import Partition
    from karl_fast.rl.rollout import Packed, Rollout


@dataclass(frozen=True)
class Passes:
    """How often rollouts are learned from.

    Attributes:
        epochs: passes over them.
        minibatches: steps a pass.
        micro_batch: rollouts that are in memory at a time; what a step computes does not depend on it.
        max_grad_norm: the gradient is scaled down to this norm; 0 for not.
    """

    epochs: int = 1
    minibatches: int = 1
    micro_batch: int = 32
    max_grad_norm: float = 1.0


@dataclass(frozen=True, eq=False)
class Prepared:
    """Rollouts on the near side of the gradient line.

    Attributes:
        packed: padded.
        batch: what was scored.
        scored: what a loss needs.
        mask: which tokens count. [B, T]
    """

    packed: Packed
    batch: Batch
    scored: Scored
    mask: NDArray[np.bool_]


@dataclass
class Learned:
    """What became of a batch.

    Attributes:
        losses, norms: of each step, the norm before it was scaled down.
        skipped: steps that were not made because their gradient was not finite.
        drifts: how far the policy was from the behaviour policy, each step.
        logp: under the policy when it was last computed, 0 where it was not. [B, T]
    """

    logp: NDArray[np.float32]
    losses: list[float] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)
    skipped: int = 0
    drifts: list[Drift] = field(default_factory=list)


class PolicyLearner:
    """Steps of a policy towards an objective."""

    def __init__(
        self,
        forward: Forward,
        objective: Objective,
        optimizer: Any,
        passes: Passes,
        partition: Partition | None = None,
    ) -> None:
        """A learner; `partition` is the head of log Z where the objective learns one."""
        self.forward, self.objective, self.optimizer = forward, objective, optimizer
        self.passes, self.partition = passes, partition

    def prepare(self, rollouts: Sequence[Rollout], *, version: int, seed: int) -> Prepared:
        """Log-probabilities by the forward pass that is trained through, then scores: once, before any step.

        Raises:
            DivergedError: log-probabilities that are not finite.
        """
        packed = pack(rollouts)
        fresh = np.array([rollout.version == version for rollout in rollouts])
        # Of what comes back, the behaviour policy is gone: what was computed when it was there stands in the rollout.
        logp_old = np.where(fresh[:, None], self._logp(packed), packed.logp)
        logp_ref = None
        if score.needs_reference(self.objective):
            with self.forward.policy.reference():
                logp_ref = self._logp(packed)
        turns = score.looks_at_turns(self.objective)
        batch = score.batch(rollouts, packed, logp_old, logp_ref, version=version, seed=seed, turns=turns)
        scored = self.objective.score(batch)
        return Prepared(packed, batch, scored, to_numpy(scored.mask))

    def _logp(self, packed: Packed) -> NDArray[np.float32]:
        size = self.passes.micro_batch
        parts = [range(start, min(start + size, len(packed.mask))) for start in range(0, len(packed.mask), size)]
        found = np.concatenate([self.forward.logp(packed.rows(part)) for part in parts])
        if not np.isfinite(found).all():
            raise DivergedError("the policy gives log-probabilities that are not finite: its weights are spoiled")
        return found

    def learn(self, prepared: Prepared, *, seed: int, aim: Callable[[int], None]) -> Learned:
        """All passes over a batch.

        Args:
            prepared: by :meth:`prepare`.
            seed: of the order of rollouts.
            aim: sets the optimizer up for a step, by its number in this batch from 0.
        """
        learned = Learned(np.array(prepared.batch.need("logp_old")))
        for number, rows in enumerate(self._minibatches(prepared, seed)):
            aim(number)
            self._step(prepared, rows, learned)
        return learned

    def _minibatches(self, prepared: Prepared, seed: int) -> Iterator[list[int]]:
        """Whole groups, dealt anew each epoch; rollouts that do not count are left out."""
        counts = prepared.mask.any(1)
        ids = prepared.batch.need("group_ids")
        groups = [np.flatnonzero((ids == group) & counts).tolist() for group in np.unique(ids[counts])]
        for epoch in range(self.passes.epochs):
            order = np.random.default_rng([seed, epoch]).permutation(len(groups))
            share = [chosen for chosen in np.array_split(order, self.passes.minibatches) if len(chosen)]
            yield from ([row for group in sorted(chosen) for row in groups[group]] for chosen in share)

    def _step(self, prepared: Prepared, rows: list[int], learned: Learned) -> None:
        """One update: totals and denominators of micro-batches add up, and are divided once."""
        import mlx.core as mx
        import mlx.optimizers as optim
        from mlx.utils import tree_map

        parts = list(self._parts(prepared, rows))
        count = max(1.0, sum(self.objective.denominator(prepared.scored.rows(part)) for part in parts))
        loss, summed = mx.array(0.0), dict[str, Any]()
        for part in parts:
            value, logp, gradient = self._of_part(prepared, part, count)
            loss = loss + value
            summed = gradient if not summed else tree_map(mx.add, summed, gradient)
            mx.eval(loss, logp, summed)
            learned.logp[part] = np.where(prepared.mask[part], to_numpy(logp), learned.logp[part])
        limit = self.passes.max_grad_norm or float("inf")
        # Each part by itself: the residual of a balance would else scale the policy's gradient away.
        bounded = {name: optim.clip_grad_norm(part, limit) for name, part in summed.items()}
        norm = bounded["policy"][1]
        learned.drifts.append(drift(self.objective, learned.logp[rows], prepared.scored.rows(rows)))
        if not all(np.isfinite(to_numpy(one)) for one in (loss, *(size for _, size in bounded.values()))):
            learned.skipped += 1
            return
        self._update({name: part for name, (part, _) in bounded.items()})
        learned.losses.append(float(to_numpy(loss)))
        learned.norms.append(float(to_numpy(norm)))

    def _update(self, gradient: dict[str, Any]) -> None:
        import mlx.core as mx

        model = self.forward.policy.model
        self.optimizer.update(model, gradient["policy"])
        if self.partition is not None:
            self.partition.update(gradient["log_z"])
        mx.eval(model.trainable_parameters(), self.optimizer.state)

    def _parts(self, prepared: Prepared, rows: list[int]) -> Iterator[list[int]]:
        """Micro-batches: as many rollouts as fit; whole groups, one at least, where the objective needs them."""
        size = self.passes.micro_batch
        if not self.objective.whole_groups:
            yield from (rows[start : start + size] for start in range(0, len(rows), size))
            return
        ids = prepared.batch.need("group_ids")
        part: list[int] = []
        for _, group in groupby(rows, key=lambda row: int(ids[row])):
            members = list(group)
            if part and len(part) + len(members) > size:
                yield part
                part = []
            part += members
        yield part

    def _of_part(self, prepared: Prepared, rows: list[int], count: float) -> tuple[mx.array, mx.array, dict[str, Any]]:
        """The part's share of the loss, its log-probabilities [B, T], and its share of the gradients."""
        tokens, mask, scored = prepared.packed.tokens[rows], prepared.mask[rows], prepared.scored.rows(rows)
        more = {} if self.partition is None else {"log_z": self.partition(self.forward.policy, tokens, mask)}

        def loss(logp: mx.array) -> mx.array:
            return self.objective(logp, scored, denominator=count, **more)

        value, logp, gradient = self.forward.gradient(tokens, mask, loss)
        found = {"policy": gradient}
        if self.partition is not None:
            found["log_z"] = self.partition.gradient(
                lambda log_z: self.objective(logp, scored, denominator=count, log_z=log_z)
            )
        return value, logp, found
