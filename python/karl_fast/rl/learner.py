"""The steps that a batch of rollouts is worth: several updates with real importance ratios."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np

from karl_fast.errors import DivergedError
from karl_fast.modeling.chunked_logp import GradientSum, clip_norm, global_norm, objective_gradient, scatter_tokens
from karl_fast.objective.axes.advantage import Anchored, Derived
from karl_fast.objective.axes.balance import ReferencePolicy
from karl_fast.objective.axes.empg import EntropyModulated
from karl_fast.objective.axes.kl import Divergence, NoKL
from karl_fast.objective.axes.kondo_gate import Gated, TopGated
from karl_fast.objective.axes.ratio import TurnRatio
from karl_fast.objective.batch import Batch
from karl_fast.objective.families.target_policy import TargetPolicy
from karl_fast.rl.logprobs import RolloutPass
from karl_fast.rl.rollout import pack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from karl_fast.modeling.chunked_logp import Columns
    from karl_fast.objective.base import Objective
    from karl_fast.objective.batch import Scored
    from karl_fast.objective.evaluation import Evaluation
    from karl_fast.rl.log_z_trainer import Partition
    from karl_fast.rl.logprobs import Forward
    from karl_fast.rl.rollout import Packed, Rollout


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
        units = [
            (parts, prepared.scored.rows(_adjacent_slice(_join_columns(parts))))
            for parts in self._units(prepared, rows)
        ]
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


# Preparation of rollouts for a step: log-probabilities by forward passes, then scores, before any step.
#
# The forward passes look at tokens alone: they begin when those are drawn, and the device computes them while rewards
# are given.


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


# Conversion of rollouts to the inputs of an objective, before the gradient line.


def needs_reference(objective: Objective) -> bool:
    """Return whether a point of the objective reads the reference policy."""
    points = objective.axes().values()
    return any(
        isinstance(point, ReferencePolicy) or (isinstance(point, Divergence) and not isinstance(point, NoKL))
        for point in points
    )


def reads_old_logp(objective: Objective) -> bool:
    """Return whether credit, a filter or a target depends on log-probabilities of the behaviour policy."""
    if isinstance(objective, TargetPolicy):
        return True
    return any(
        isinstance(point, Gated | TopGated) or getattr(point, "in_reward", False) for point in _points(objective)
    )


def _points(objective: Objective) -> Iterator[Any]:
    """Yield the points of the axes, and the advantages that others are computed from."""
    for point in objective.axes().values():
        yield point
        while isinstance(point, Derived):
            point = point.advantage
            yield point


def build_batch(
    rollouts: Sequence[Rollout],
    packed: Packed,
    logp_old: NDArray[np.float32] | None,
    logp_ref: NDArray[np.float32] | None,
    *,
    version: int,
    seed: int,
    turns: bool,
) -> Batch:
    """Return rollouts as a batch of `karl_fast.objective`.

    Args:
        rollouts: with their rewards.
        packed: the same, padded.
        logp_old, logp_ref: [B, T]
        version: number of steps that the policy has taken.
        seed: of what an axis draws.
        turns: True to include the columns of turns.
    """
    return Batch(
        mask=packed.mask,
        rewards=np.array([rollout.reward for rollout in rollouts]),
        outcomes=np.array([rollout.outcome for rollout in rollouts]),
        group_ids=np.array([rollout.group for rollout in rollouts], dtype=np.int64),
        logp_old=logp_old,
        logp_ref=logp_ref,
        entropies=scatter_tokens(np.concatenate([rollout.entropy for rollout in rollouts]), packed.mask),
        truncated=np.array([rollout.truncated for rollout in rollouts]),
        ages=np.array([version - rollout.version for rollout in rollouts], dtype=np.int64),
        seed=seed,
        **({"turns": packed.turns} | _join_turns(rollouts) if turns else {}),
    )


def _join_turns(rollouts: Sequence[Rollout]) -> dict[str, Any]:
    """Return turns, concatenated; the reward of a rollout is added to its last turn, beside the rewards of turns."""
    rewards, states = [], []
    for rollout in rollouts:
        given = np.array(rollout.turn_rewards, dtype=np.float64)[: len(rollout.states)]
        given = np.pad(given, (0, len(rollout.states) - len(given)))
        if given.size:
            given[-1] += rollout.reward
        rewards.append(given)
        states += [f"{rollout.group} {state}" for state in rollout.states]
    _, numbers = np.unique(np.array(states, dtype=np.str_), return_inverse=True)
    return {
        "turn_rewards": np.concatenate(rewards),
        "turn_offsets": np.cumsum([0, *map(len, rewards)], dtype=np.int64),
        "state_ids": numbers.astype(np.int64),
    }


def reads_turns(objective: Objective) -> bool:
    """Return whether it gives credit by turn, or has a ratio by turn."""
    return any(isinstance(point, Anchored | EntropyModulated | TurnRatio) for point in _points(objective))
