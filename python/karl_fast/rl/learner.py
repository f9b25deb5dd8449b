"""The steps that a batch of rollouts is worth: several updates with real importance ratios."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.modeling.flat_gradients import added, bounded, joined, norm
from karl_fast.objective.batch import Scored
from karl_fast.objective.mlx_arrays import to_numpy
from karl_fast.rl.metrics import Drift, drift
from karl_fast.rl.prepare_batch import Preparer, finite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import mlx.core as mx
    from numpy.typing import NDArray

    from karl_fast.objective.base import Objective
    from karl_fast.rl.forward import Forward
    from karl_fast.rl.log_z_trainer import Partition
    from karl_fast.rl.prepare_batch import Passes, Prepared

    Known = dict[str, Any]


@dataclass
class Learned:
    """Result of learning from a batch.

    Attributes:
        losses, norms: of each step, the norm before clipping.
        skipped: steps skipped because their gradient was not finite.
        drifts: drift of the policy from the behaviour policy, each step.
        logp: under the policy when it was last computed, 0 where it was not. [B, T]
        logp_old: under the behaviour policy, for every token of its own. [B, T]
        rows: True for rollouts in the loss of at least one step. [B]
    """

    logp: NDArray[np.float32]
    logp_old: NDArray[np.float32]
    rows: NDArray[np.bool_]
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
        """Make a learner; `partition` is the head of log Z if the objective learns one."""
        self.prepare = Preparer(forward, objective, passes)
        self.forward, self.objective, self.optimizer = forward, objective, optimizer
        self.passes, self.partition = passes, partition

    def learn(
        self,
        prepared: Prepared,
        *,
        seed: int,
        aim: Callable[[int], None],
        meanwhile: Callable[[], object] = lambda: None,
    ) -> Learned:
        """Make all passes over a batch.

        Args:
            prepared: by `prepare`.
            seed: of the order of rollouts.
            aim: sets the optimizer up for a step, by its number in this batch from 0.
            meanwhile: called while the device computes a step; more than once where there are several.
        """
        learned = Learned(prepared.logp_old.copy(), prepared.logp_old, np.zeros(len(prepared.mask), dtype=np.bool_))
        for number, rows in enumerate(self._minibatches(prepared, seed)):
            aim(number)
            self._step(prepared, rows, learned, meanwhile)
        if prepared.found_by_the_step:
            learned.logp_old = finite(learned.logp)
        return learned

    def _minibatches(self, prepared: Prepared, seed: int) -> Iterator[list[int]]:
        """Yield whole groups, shuffled each epoch; rollouts that do not count are left out."""
        ids, by_group = prepared.batch.need("group_ids").tolist(), dict[int, list[int]]()
        for row in np.flatnonzero(prepared.mask.any(1)).tolist():
            by_group.setdefault(ids[row], []).append(row)
        groups = [by_group[group] for group in sorted(by_group)]
        for epoch in range(self.passes.epochs):
            order = np.random.default_rng([seed, epoch]).permutation(len(groups))
            share = [chosen for chosen in np.array_split(order, self.passes.minibatches) if len(chosen)]
            yield from ([row for group in sorted(chosen) for row in groups[group]] for chosen in share)

    def _step(self, prepared: Prepared, rows: list[int], learned: Learned, meanwhile: Callable[[], object]) -> None:
        """Make one update: totals and denominators of micro-batches add up, and are divided once."""
        import mlx.core as mx

        parts = [(part, prepared.scored.rows(_place(part))) for part in self._parts(prepared, rows)]
        count = max(1.0, sum(self.objective.denominator(scored) for _, scored in parts))
        loss, summed, found = mx.array(0.0), dict[str, dict[str, mx.array]](), list[mx.array]()
        for part, scored in parts:
            if found:
                mx.eval(loss, summed, found)  # what is left of a part, before the next one needs the room
            value, logp, gradient = self._of_part(prepared, part, scored, count)
            loss = loss + value
            summed = {name: added(summed.get(name, {}), one) for name, one in gradient.items()}
            found.append(logp)
        norms = {name: norm(one) for name, one in summed.items()}
        mx.async_eval(loss, summed, found, norms)  # at once: each call waits for the device
        meanwhile()
        for (part, _), logp in zip(parts, found, strict=True):
            learned.logp[part] = np.where(prepared.mask[part], to_numpy(logp), learned.logp[part])
        self._drifted(prepared, rows, learned)
        if not all(np.isfinite(to_numpy(one)) for one in (loss, *norms.values())):
            learned.skipped += 1
            return
        self._move(summed, norms)
        learned.rows[rows] = True
        learned.losses.append(float(to_numpy(loss)))
        learned.norms.append(float(to_numpy(norms["policy"])))

    def _drifted(self, prepared: Prepared, rows: list[int], learned: Learned) -> None:
        if prepared.found_by_the_step:
            finite(learned.logp)
        learned.drifts.append(drift(self.objective, learned.logp[rows], prepared.scored.rows(_place(rows))))

    def _move(self, gradient: dict[str, dict[str, mx.array]], norms: dict[str, mx.array]) -> None:
        """Update each part by itself: otherwise the residual of a balance would scale the policy's gradient away."""
        limit = self.passes.max_grad_norm
        part = {name: bounded(gradient[name], float(to_numpy(size)), limit) for name, size in norms.items()}
        self.optimizer.update(self.forward.policy.model, part["policy"])
        if self.partition is not None:
            self.partition.update(part["log_z"])

    def _parts(self, prepared: Prepared, rows: list[int]) -> Iterator[list[int]]:
        """Yield micro-batches: as many rollouts as fit; whole groups, at least one, if the objective needs them."""
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
        """Return the part's share of the loss, its log-probabilities [B, T], and its share of the gradients, joined."""
        import mlx.core as mx

        tokens, mask = prepared.packed.tokens[rows], prepared.mask[rows]
        known: Known = {"scored": vars(scored), "denominator": mx.array(count)}
        if self.partition is not None:
            known["log_z"] = self.partition(self.forward.policy, tokens, mask)
        loss = self._loss_on_policy if prepared.found_by_the_step else self._loss
        value, logp, gradient = self.forward.gradient(tokens, mask, loss, known)
        found = {"policy": gradient}
        if self.partition is not None:
            found["log_z"] = joined(self.partition.gradient(lambda log_z: loss(logp, known | {"log_z": log_z})))
        return value, logp, found

    def _loss(self, logp: mx.array, known: Known) -> mx.array:
        more = {name: known[name] for name in ("denominator", "log_z") if name in known}
        return self.objective(logp, Scored(**known["scored"]), **more)

    def _loss_on_policy(self, logp: mx.array, known: Known) -> mx.array:
        """Compute the loss of a first step: the policy's log-probabilities are also those of the behaviour policy."""
        import mlx.core as mx

        drew = mx.stop_gradient(mx.where(known["scored"]["mask"], logp, 0.0))
        return self._loss(logp, known | {"scored": known["scored"] | {"logp_old": drew}})


def _place(rows: list[int]) -> slice | list[int]:
    """Return adjacent rows as a slice, which avoids a copy."""
    beside = slice(rows[0], rows[-1] + 1)
    return beside if rows == list(range(beside.start, beside.stop)) else rows
