"""The steps that a batch of rollouts is worth: several updates with real importance ratios."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.modeling.external_objective import objective_gradient
from karl_fast.modeling.flat_gradients import GradientSum, clip_norm, global_norm
from karl_fast.rl.logprobs import RolloutPass
from karl_fast.rl.prepare_batch import Preparer, check_finite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import mlx.core as mx
    from numpy.typing import NDArray

    from karl_fast.modeling.external_objective import Columns
    from karl_fast.objective.base import Objective
    from karl_fast.objective.batch import Scored
    from karl_fast.objective.evaluation import Evaluation
    from karl_fast.rl.log_z_trainer import Partition
    from karl_fast.rl.logprobs import Forward
    from karl_fast.rl.prepare_batch import Passes, PreparedBatch


@dataclass
class LearningResult:
    """Result of learning from a batch.

    Attributes:
        losses, norms: of each step, the norm before clipping.
        skipped: steps skipped because their gradient was not finite.
        drifts: statistics of the objective after each forward pass: how far the policy has moved.
        logp: under the policy when it was last computed, 0 where it was not. [B, T]
        logp_old: under the behaviour policy, for every token of its own. [B, T]
        rows: True for rollouts in the loss of at least one step. [B]
        log_z: of the learned head, for each rollout in each step before it; empty where none is learned.
    """

    logp: NDArray[np.float32]
    logp_old: NDArray[np.float32]
    rows: NDArray[np.bool_]
    losses: list[float] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)
    skipped: int = 0
    drifts: list[dict[str, float]] = field(default_factory=list)
    log_z: list[float] = field(default_factory=list)


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
        prepared: PreparedBatch,
        *,
        seed: int,
        aim: Callable[[int], None],
        meanwhile: Callable[[], object] = lambda: None,
    ) -> LearningResult:
        """Make all passes over a batch.

        Args:
            prepared: by `prepare`.
            seed: of the order of rollouts.
            aim: sets the optimizer up for a step, by its number in this batch from 0.
            meanwhile: called while the device computes a step; more than once where there are several.
        """
        learned = LearningResult(
            prepared.logp_old.copy(), prepared.logp_old, np.zeros(len(prepared.mask), dtype=np.bool_)
        )
        for number, rows in enumerate(self._minibatches(prepared, seed)):
            aim(number)
            self._step(prepared, rows, learned, meanwhile)
        if prepared.found_by_the_step:
            learned.logp_old = check_finite(learned.logp)
        return learned

    def _minibatches(self, prepared: PreparedBatch, seed: int) -> Iterator[list[int]]:
        """Yield whole groups, shuffled each epoch; rollouts that do not count are left out."""
        ids, by_group = prepared.batch.need("group_ids").tolist(), dict[int, list[int]]()
        for row in np.flatnonzero(prepared.mask.any(1)).tolist():
            by_group.setdefault(ids[row], []).append(row)
        groups = [by_group[group] for group in sorted(by_group)]
        for epoch in range(self.passes.epochs):
            order = np.random.default_rng([seed, epoch]).permutation(len(groups))
            share = [chosen for chosen in np.array_split(order, self.passes.minibatches) if len(chosen)]
            yield from ([row for group in sorted(chosen) for row in groups[group]] for chosen in share)

    def _step(
        self, prepared: PreparedBatch, rows: list[int], learned: LearningResult, meanwhile: Callable[[], object]
    ) -> None:
        """Make one update: totals and denominators of micro-batches add up, and are divided once."""
        import mlx.core as mx

        units = [(parts, prepared.scored.rows(_adjacent_slice(_join_columns(parts)))) for parts in self._units(prepared, rows)]
        count = max(1.0, sum(self.objective.denominator(scored) for _, scored in units))
        loss, sums = 0.0, dict[str, GradientSum]()
        for parts, scored in units:
            mx.eval([one.vectors for one in sums.values()])  # before the next part needs the room
            evaluation, logp, gradients = self._of_unit(prepared, parts, scored, count, learned)
            loss += evaluation.loss
            for name, gradient in gradients:
                sums.setdefault(name, GradientSum()).add(gradient)
            part = _join_columns(parts)
            learned.logp[part] = np.where(prepared.mask[part], logp, learned.logp[part])
        summed = {name: one.result() for name, one in sums.items()}
        norms = {name: global_norm(one) for name, one in summed.items()}
        mx.async_eval(summed, norms)  # at once: each call waits for the device
        meanwhile()
        if prepared.found_by_the_step:
            check_finite(learned.logp)
        alone = evaluation.statistics if len(units) == 1 else None
        learned.drifts.append(alone or self._statistics(prepared, rows, learned))
        if not all(np.isfinite((loss, *map(_number, norms.values())))):
            learned.skipped += 1
            return
        self._move(summed, norms)
        learned.rows[rows] = True
        learned.losses.append(loss)
        learned.norms.append(_number(norms["policy"]))

    def _statistics(self, prepared: PreparedBatch, rows: list[int], learned: LearningResult) -> dict[str, float]:
        """Return the statistics of a step with several micro-batches, over all of their rollouts."""
        return self.objective.statistics(learned.logp[rows], prepared.scored.rows(_adjacent_slice(rows)))

    def _move(self, gradient: dict[str, dict[str, mx.array]], norms: dict[str, mx.array]) -> None:
        """Update each part by itself: otherwise the residual of a balance would scale the policy's gradient away."""
        limit = self.passes.max_grad_norm
        part = {name: clip_norm(gradient[name], _number(size), limit) for name, size in norms.items()}
        self.optimizer.update(self.forward.policy.model, part["policy"])
        if self.partition is not None:
            self.partition.update(part["log_z"])

    def _units(self, prepared: PreparedBatch, rows: list[int]) -> Iterator[list[list[int]]]:
        """Yield rollouts that the loss looks at together, in micro-batches: whole groups where it compares them."""
        size = self.passes.micro_batch
        if not self.objective.whole_groups:
            yield from ([part] for part in _cut_rows(rows, size))
            return
        ids = prepared.batch.need("group_ids")
        unit: list[int] = []
        for _, group in groupby(rows, key=lambda row: int(ids[row])):
            members = list(group)
            if unit and len(unit) + len(members) > size:
                yield _cut_rows(unit, size)
                unit = []
            unit += members
        yield _cut_rows(unit, size)

    def _of_unit(
        self, prepared: PreparedBatch, parts: list[list[int]], scored: Scored, count: float, learned: LearningResult
    ) -> tuple[Evaluation, NDArray[np.float32], list[tuple[str, dict[str, mx.array]]]]:
        """Return the evaluation of rollouts, their log-probabilities [B, T], and what they add to gradients by name."""
        tokens, mask, rows = prepared.packed.tokens, prepared.mask, _join_columns(parts)
        log_z = None if self.partition is None else self.partition.trace(self.forward, tokens[rows], mask[rows])
        more: dict[str, Any] = {} if log_z is None else dict(log_z.outputs())
        learned.log_z += np.asarray(more.get("log_z", [])).tolist()
        passes = [RolloutPass(self.forward, tokens[part], mask[part], self._names) for part in parts]
        loss = partial(self._loss, scored, prepared.found_by_the_step, denominator=count, **more)
        evaluation, columns, gradient = objective_gradient(passes, mask[rows], loss)
        found = [("policy", gradient)]
        if log_z is not None and evaluation.log_z_coefficients is not None:
            found += log_z.pull({"log_z": evaluation.log_z_coefficients.astype(np.float32)}).items()
        return evaluation, columns["logp"], found

    def _loss(self, scored: Scored, on_policy: bool, columns: Columns, **more: Any) -> Evaluation:
        """Evaluate the objective; in a first step the policy's log-probabilities are those of the behaviour policy."""
        if on_policy:
            scored = replace(scored, logp_old=np.where(scored.mask, columns["logp"], 0))
        further: Any = {name: values for name, values in columns.items() if name != "logp"}
        return self.objective(columns["logp"], scored, **further, **more)

    @property
    def _names(self) -> tuple[str, ...]:
        """Names of what the objective reads of each token."""
        read = {"entropy": self.objective.reads_entropy, "divergence": self.objective.reads_divergence}
        return ("logp", *(name for name, wanted in read.items() if wanted))


def _cut_rows(rows: list[int], size: int) -> list[list[int]]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def _join_columns(parts: list[list[int]]) -> list[int]:
    return list(chain.from_iterable(parts))


def _number(value: mx.array) -> float:
    found: Any = value.item()
    return float(found)


def _adjacent_slice(rows: list[int]) -> slice | list[int]:
    """Return adjacent rows as a slice, which avoids a copy."""
    beside = slice(rows[0], rows[-1] + 1)
    return beside if rows == list(range(beside.start, beside.stop)) else rows
