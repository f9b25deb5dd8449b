"""From a batch of rollouts to steps: log-probabilities, scores, and several updates with real importance ratios."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.errors import DivergedError
from karl_fast.objective.interop import to_numpy
from karl_fast.rl import score
from karl_fast.rl.measure import Drift, drift
from karl_fast.rl.rollout import pack
from karl_fast.train.vectors import added, bounded, joined, norm

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
        batch: what was scored; without ``logp_old`` where the one step that is made finds it.
        scored: what a loss needs.
        mask: which tokens count. [B, T]
        logp_old: under the behaviour policy, of what the step does not find; 0 elsewhere. [B, T]
    """

    packed: Packed
    batch: Batch
    scored: Scored
    mask: NDArray[np.bool_]
    logp_old: NDArray[np.float32]

    @property
    def found_by_the_step(self) -> bool:
        """Whether the policy that steps is the behaviour policy, so that the step's own forward pass is of both."""
        return self.batch.logp_old is None


@dataclass
class Learned:
    """What became of a batch.

    Attributes:
        losses, norms: of each step, the norm before it was scaled down.
        skipped: steps that were not made because their gradient was not finite.
        drifts: how far the policy was from the behaviour policy, each step.
        logp: under the policy when it was last computed, 0 where it was not. [B, T]
        logp_old: under the behaviour policy, of every token of its own. [B, T]
    """

    logp: NDArray[np.float32]
    logp_old: NDArray[np.float32]
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

        Where the one step of a batch is made by the policy that drew all of it, its ratio is 1 whatever was computed
        before: logp_old is then logp itself without a gradient, and costs no forward pass of its own.

        Raises:
            DivergedError: log-probabilities that are not finite.
        """
        packed = pack(rollouts)
        fresh = np.array([rollout.version == version for rollout in rollouts])
        logp_old = None
        if not (self._one_step and fresh.all()):
            # Of what comes back, the behaviour policy is gone: what was computed when it was there is in the rollout.
            logp_old = np.where(fresh[:, None], self._logp(packed), packed.logp)
        logp_ref = None
        if score.needs_reference(self.objective):
            with self.forward.policy.reference():
                logp_ref = self._logp(packed)
        turns = score.looks_at_turns(self.objective)
        batch = score.batch(rollouts, packed, logp_old, logp_ref, version=version, seed=seed, turns=turns)
        scored = self.objective.score(batch)
        mask = to_numpy(scored.mask)
        return Prepared(packed, batch, scored, mask, self._left_over(packed, mask) if logp_old is None else logp_old)

    @property
    def _one_step(self) -> bool:
        alone = self.passes.epochs == self.passes.minibatches == 1
        return alone and not score.looks_at_old(self.objective)

    def _left_over(self, packed: Packed, mask: NDArray[np.bool_]) -> NDArray[np.float32]:
        """The log-probabilities of rollouts that no step computes."""
        found = np.zeros(mask.shape, dtype=np.float32)
        rows = np.flatnonzero((packed.mask & ~mask).any(1))
        if rows.size:
            found[rows] = self._logp(packed.rows(rows.tolist()))
        return found

    def _logp(self, packed: Packed) -> NDArray[np.float32]:
        size = self.passes.micro_batch
        parts = [range(start, min(start + size, len(packed.mask))) for start in range(0, len(packed.mask), size)]
        return _finite(np.concatenate([self.forward.logp(packed.rows(part)) for part in parts]))

    def learn(self, prepared: Prepared, *, seed: int, aim: Callable[[int], None]) -> Learned:
        """All passes over a batch.

        Args:
            prepared: by :meth:`prepare`.
            seed: of the order of rollouts.
            aim: sets the optimizer up for a step, by its number in this batch from 0.
        """
        learned = Learned(prepared.logp_old.copy(), prepared.logp_old)
        for number, rows in enumerate(self._minibatches(prepared, seed)):
            aim(number)
            self._step(prepared, rows, learned)
        if prepared.found_by_the_step:
            learned.logp_old = _finite(learned.logp)
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

        parts = [(part, prepared.scored.rows(_place(part))) for part in self._parts(prepared, rows)]
        count = max(1.0, sum(self.objective.denominator(scored) for _, scored in parts))
        loss, summed, found = mx.array(0.0), dict[str, dict[str, mx.array]](), list[mx.array]()
        for part, scored in parts:
            mx.eval(loss, summed, found)  # what is left of a part, before the next one needs the room
            value, logp, gradient = self._of_part(prepared, part, scored, count)
            loss = loss + value
            summed = {name: added(summed.get(name, {}), one) for name, one in gradient.items()}
            found.append(logp)
        norms = {name: norm(one) for name, one in summed.items()}
        mx.eval(loss, summed, found, norms)  # at once: each call waits for the device
        for (part, _), logp in zip(parts, found, strict=True):
            learned.logp[part] = np.where(prepared.mask[part], to_numpy(logp), learned.logp[part])
        self._drifted(prepared, rows, learned)
        if not all(np.isfinite(to_numpy(one)) for one in (loss, *norms.values())):
            learned.skipped += 1
            return
        self._move(summed, norms)
        learned.losses.append(float(to_numpy(loss)))
        learned.norms.append(float(to_numpy(norms["policy"])))

    def _drifted(self, prepared: Prepared, rows: list[int], learned: Learned) -> None:
        if prepared.found_by_the_step:
            _finite(learned.logp)
        learned.drifts.append(drift(self.objective, learned.logp[rows], prepared.scored.rows(_place(rows))))

    def _move(self, gradient: dict[str, dict[str, mx.array]], norms: dict[str, mx.array]) -> None:
        """Each part by itself: the residual of a balance would else scale the policy's gradient away."""
        import mlx.core as mx

        limit = self.passes.max_grad_norm
        part = {name: bounded(gradient[name], float(to_numpy(size)), limit) for name, size in norms.items()}
        model = self.forward.policy.model
        self.optimizer.update(model, part["policy"])
        if self.partition is not None:
            self.partition.update(part["log_z"])
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

    def _of_part(
        self, prepared: Prepared, rows: list[int], scored: Scored, count: float
    ) -> tuple[mx.array, mx.array, dict[str, dict[str, mx.array]]]:
        """The part's share of the loss, its log-probabilities [B, T], and its share of the gradients, joined."""
        tokens, mask = prepared.packed.tokens[rows], prepared.mask[rows]
        more = {} if self.partition is None else {"log_z": self.partition(self.forward.policy, tokens, mask)}

        def loss(logp: mx.array, **more: mx.array) -> mx.array:
            known = _on_policy(scored, logp) if prepared.found_by_the_step else scored
            return self.objective(logp, known, denominator=count, **more)

        value, logp, gradient = self.forward.gradient(tokens, mask, lambda logp: loss(logp, **more))
        found = {"policy": joined(gradient)}
        if self.partition is not None:
            found["log_z"] = joined(self.partition.gradient(lambda log_z: loss(logp, log_z=log_z)))
        return value, logp, found


def _on_policy(scored: Scored, logp: mx.array) -> Scored:
    """With the log-probabilities of a policy that steps for the first time as those of the one that drew."""
    import mlx.core as mx

    return replace(scored, logp_old=mx.stop_gradient(mx.where(scored.mask, logp, 0.0)))


def _place(rows: list[int]) -> slice | list[int]:
    """Rows that stand side by side as a slice, which copies nothing."""
    beside = slice(rows[0], rows[-1] + 1)
    return beside if rows == list(range(beside.start, beside.stop)) else rows


def _finite(logp: NDArray[np.float32]) -> NDArray[np.float32]:
    if not np.isfinite(logp).all():
        raise DivergedError("the policy gives log-probabilities that are not finite: its weights are spoiled")
    return logp
