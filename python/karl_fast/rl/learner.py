"""Learning from a batch of rollouts: its preparation before the gradient line, then one or more steps.

```text
rollouts --> Preparer ---------------------> PreparedBatch --> PolicyLearner ----------------------> LearningResult
             forward passes of training:                       each epoch, each minibatch of whole
               logp_old, logp_ref                              groups, as one step:
             build_batch, objective.score:                       accumulate gradients of micro-batches
               advantages, weights, filters                      clip, update policy (and head of log Z)
```

The forward passes depend on tokens alone: `Preparer.begin` starts them as soon as rollouts are drawn, and the device
computes them while rewards are computed. After the first step the policy has moved, and the ratios of the objective
are real importance ratios.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.errors import DivergedError, UsageError
from karl_fast.modeling.chunked_logp import candidate_names, objective_gradient, scatter_tokens
from karl_fast.modeling.optimizer import LOG_Z, MODEL, accumulate
from karl_fast.objective.axes.advantage import AllActions, Anchored, Derived, GroupDecoupled
from karl_fast.objective.axes.balance import ReferencePolicy
from karl_fast.objective.axes.correction import Correction, NoCorrection
from karl_fast.objective.axes.empg import EntropyModulated
from karl_fast.objective.axes.kl import Divergence, DriftPenalty, NoKL
from karl_fast.objective.axes.kondo_gate import Gated, TopGated
from karl_fast.objective.axes.ratio import TurnRatio
from karl_fast.objective.axes.set_score import BestCandidate, SetScore
from karl_fast.objective.batch import Batch
from karl_fast.objective.families.target_policy import TargetPolicy
from karl_fast.rl.logprobs import RolloutPass
from karl_fast.rl.rewards import reward_vectors
from karl_fast.rl.rollout import pack, set_numbers
from karl_fast.rl.task_functions import NO_LABEL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from karl_fast.modeling.chunked_logp import Columns
    from karl_fast.modeling.optimizer import Vectors
    from karl_fast.objective.base import Objective
    from karl_fast.objective.batch import Evaluation, Scored
    from karl_fast.rl.log_z import Partition
    from karl_fast.rl.logprobs import Forward
    from karl_fast.rl.rollout import Packed, Rollout
    from karl_fast.rl.teacher import TeacherView


@dataclass(frozen=True)
class Passes:
    """Settings of learning from rollouts.

    Attributes:
        epochs: passes over them.
        minibatches: steps a pass.
        micro_batch: rollouts in memory at a time; the result of a step does not depend on it.
        max_grad_norm: maximum norm of the gradient, which is scaled down to it; 0 for no limit.
        reference: True to compute the reference policy even if the objective does not read it.
        candidates: rollouts of a group that make a set.
        weights: of the rewards that an objective reads one by one, by component.
    """

    epochs: int = 1
    minibatches: int = 1
    micro_batch: int = 32
    max_grad_norm: float = 1.0
    reference: bool = False
    candidates: int = 1
    weights: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class PreparedBatch:
    """The batch that the gradient is taken of, with all that is fixed before the first step.

    Attributes:
        packed: padded.
        batch: the inputs of the scores; without ``logp_old`` where the only step computes it.
        scored: the inputs of the loss.
        mask: True for tokens that count. [B, T]
        kept: True for rollouts that pass the filter of the recipe. [B]
        dropped: number of rollouts that each filter of the recipe drops, by its name; without those that drop none.
        view: what the teacher sees of the rollouts; None without a divergence from its whole distribution.
        logp_old: under the behaviour policy, except for tokens of which the step computes it: 0 there. [B, T]
    """

    packed: Packed
    batch: Batch
    scored: Scored
    mask: NDArray[np.bool_]
    kept: NDArray[np.bool_]
    logp_old: NDArray[np.float32]
    dropped: dict[str, int] = field(default_factory=dict)
    view: TeacherView | None = None

    @property
    def unscored(self) -> NDArray[np.bool_]:
        """True for rollouts with a reward but no finite float32 score of the recipe. [B]"""
        rewarded = self.batch.mask.any(1) & self.kept & ~np.isnan(self.batch.need("rewards"))
        return np.asarray(rewarded & ~self.mask.any(1))

    @property
    def on_policy(self) -> bool:
        """True if the learning policy is the behaviour policy, so that one forward pass gives both."""
        return self.batch.logp_old is None


@dataclass
class LearningResult:
    """Result of learning from a batch.

    Attributes:
        losses, norms: of each step, the norm before clipping.
        skipped: steps skipped because their gradient was not finite.
        drifts: statistics of the objective after each forward pass: how far the policy has moved.
        logp: under the policy when it was last computed, 0 where it was not. [B, T]
        logp_old: under the behaviour policy, for every token that it generated. [B, T]
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
        set_learning_rate: Callable[[int], None],
        meanwhile: Callable[[], object] = lambda: None,
    ) -> LearningResult:
        """Make all passes over a batch.

        Args:
            prepared: by `prepare`.
            seed: of the order of rollouts.
            set_learning_rate: called before each step, with its number in this batch from 0.
            meanwhile: called while the device computes a step; more than once where there are several.
        """
        result = LearningResult(
            prepared.logp_old.copy(), prepared.logp_old, np.zeros(len(prepared.mask), dtype=np.bool_)
        )
        for number, rows in enumerate(self._minibatches(prepared, seed)):
            set_learning_rate(number)
            self._step(prepared, rows, result, meanwhile)
        if prepared.on_policy:
            result.logp_old = check_finite(result.logp)
        return result

    def _minibatches(self, prepared: PreparedBatch, seed: int) -> Iterator[list[int]]:
        """Yield whole groups, shuffled each epoch; rollouts that do not count are left out."""
        ids, by_group = prepared.batch.need("group_ids").tolist(), dict[int, list[int]]()
        for row in np.flatnonzero(prepared.mask.any(1)).tolist():
            by_group.setdefault(ids[row], []).append(row)
        groups = [by_group[group] for group in sorted(by_group)]
        for epoch in range(self.passes.epochs):
            order = np.random.default_rng([seed, epoch]).permutation(len(groups))
            shares = [share for share in np.array_split(order, self.passes.minibatches) if len(share)]
            yield from ([row for group in sorted(share) for row in groups[group]] for share in shares)

    def _step(
        self, prepared: PreparedBatch, rows: list[int], result: LearningResult, meanwhile: Callable[[], object]
    ) -> None:
        """Make one update: losses of micro-batches add up, each divided by the denominator of them all."""
        units = [
            (parts, prepared.scored.rows(_adjacent_slice(_join_columns(parts))))
            for parts in self._units(prepared, rows)
        ]
        denominator = max(1.0, sum(self.objective.denominator(scored) for _, scored in units))
        statistics: list[dict[str, float]] = []  # of each micro-batch

        def backward(parts: list[list[int]], scored: Scored) -> tuple[float, list[tuple[str, Vectors]]]:
            evaluation, gradients = self._unit_gradient(prepared, parts, scored, denominator, result)
            statistics.append(evaluation.statistics)
            return evaluation.loss, gradients

        gradient = accumulate(partial(backward, *unit) for unit in units)
        meanwhile()
        if prepared.on_policy:
            check_finite(result.logp)
        alone = statistics[0] if len(units) == 1 else None
        drift = alone or self.objective.statistics(result.logp[rows], prepared.scored.rows(_adjacent_slice(rows)))
        result.drifts.append(drift | _mean_divergence(statistics))
        if not gradient.finite:
            result.skipped += 1
            return
        clipped = gradient.clip(self.passes.max_grad_norm)
        self.optimizer.update(self.forward.policy.model, clipped[MODEL])
        if self.partition is not None:
            self.partition.update(clipped[LOG_Z])
        result.rows[rows] = True
        result.losses.append(gradient.loss)
        result.norms.append(gradient.norms[MODEL])

    def _units(self, prepared: PreparedBatch, rows: list[int]) -> Iterator[list[list[int]]]:
        """Yield rollouts that the loss takes together, in micro-batches: whole groups where it compares them."""
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

    def _unit_gradient(
        self,
        prepared: PreparedBatch,
        parts: list[list[int]],
        scored: Scored,
        denominator: float,
        result: LearningResult,
    ) -> tuple[Evaluation, list[tuple[str, Vectors]]]:
        """Return the evaluation of rollouts and what they add to the gradients; their logp goes into the result."""
        tokens, mask, rows = prepared.packed.tokens, prepared.mask, _join_columns(parts)
        log_z = None if self.partition is None else self.partition.trace(self.forward, tokens[rows], mask[rows])
        inputs: dict[str, Any] = {} if log_z is None else dict(log_z.outputs())
        result.log_z += np.asarray(inputs.get("log_z", [])).tolist()
        others, view = self._other_tokens(prepared), prepared.view
        passes = [
            RolloutPass(
                self.forward,
                tokens[part],
                mask[part],
                self._names,
                None if others is None else others[part],
                None if view is None else view.rows(part),
            )
            for part in parts
        ]
        loss = partial(self._loss, scored, prepared.on_policy, denominator=denominator, **inputs)
        evaluation, columns, gradient = objective_gradient(passes, mask[rows], loss)
        gradients = [(MODEL, gradient)]
        if log_z is not None and evaluation.log_z_coefficients is not None:
            # One of the head, and one more of the model where the head lets it into the hidden states.
            gradients += log_z.pull({"log_z": evaluation.log_z_coefficients.astype(np.float32)}).items()
        result.logp[rows] = np.where(mask[rows], columns["logp"], result.logp[rows])
        return evaluation, gradients

    def _other_tokens(self, prepared: PreparedBatch) -> NDArray[np.int64] | None:
        """Return the tokens in the place of each whose log-probability the objective reads; None for none. [B, T, C]"""
        if self.objective.reads_candidates:
            return prepared.batch.candidates
        if self.objective.reads_labels and prepared.batch.labels is not None:
            return prepared.batch.labels[:, :, None]
        return None

    def _loss(self, scored: Scored, on_policy: bool, columns: Columns, **inputs: Any) -> Evaluation:
        """Evaluate the objective; in a first step the policy's log-probabilities are those of the behaviour policy."""
        if on_policy:
            scored = replace(scored, logp_old=np.where(scored.mask, columns["logp"], 0))
        candidates = candidate_names(self.objective.reads_candidates)
        terms: Any = {name: values for name, values in columns.items() if name not in ("logp", *candidates)}
        if candidates:
            terms["candidate_logp"] = np.stack([columns[name] for name in candidates], axis=2)
        return self.objective(columns["logp"], scored, **terms, **inputs)

    @property
    def _names(self) -> tuple[str, ...]:
        """Names of the quantities of each token that the objective reads."""
        reads = {
            "entropy": self.objective.reads_entropy,
            "divergence": self.objective.reads_divergence,
            "label_logp": self.objective.reads_labels,
        }
        candidates = candidate_names(self.objective.reads_candidates)
        return ("logp", *(name for name, read in reads.items() if read), *candidates)


def _mean_divergence(statistics: list[dict[str, float]]) -> dict[str, float]:
    """Return the mean divergence over the tokens of all micro-batches; empty where none is computed."""
    tokens = sum(each["tokens"] for each in statistics)
    if not tokens or "divergence" not in statistics[0]:
        return {}
    return {"divergence": sum(each["tokens"] * each["divergence"] for each in statistics) / tokens}


def _cut_rows(rows: list[int], size: int) -> list[list[int]]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def _join_columns(parts: list[list[int]]) -> list[int]:
    return list(chain.from_iterable(parts))


def _adjacent_slice(rows: list[int]) -> slice | list[int]:
    """Return adjacent rows as a slice, because NumPy copies rows taken by a list."""
    span = slice(rows[0], rows[-1] + 1)
    return span if rows == list(range(span.start, span.stop)) else rows


@dataclass(frozen=True, eq=False)
class _StartedPasses:
    """Forward passes over rollouts, some of which may still run on the device.

    Attributes:
        ids: ids of the rollouts.
        packed: the padded rollouts.
        fresh: True for those drawn by the learning policy. [B]
        old: under the behaviour policy, as far as it still exists; None if the step computes it. -> [B, T]
        ref: under the reference policy; None if it is not needed. -> [B, T]
        taught: under the teacher; None if it is not needed. -> [B, T]
    """

    ids: list[str]
    packed: Packed
    fresh: NDArray[np.bool_]
    old: Callable[[], NDArray[np.float32]] | None
    ref: Callable[[], NDArray[np.float32]] | None
    taught: Callable[[], NDArray[np.float32]] | None = None


class Preparer:
    """Prepares rollouts for the steps of an objective."""

    def __init__(self, forward: Forward, objective: Objective, passes: Passes) -> None:
        self.forward, self.objective, self.passes = forward, objective, passes
        self._started: _StartedPasses | None = None

    def begin(self, rollouts: Sequence[Rollout], *, version: int) -> None:
        """Start the passes over rollouts that are prepared next, which may have no rewards yet.

        Args:
            rollouts: in the order that they will have.
            version: number of steps that the policy has taken.
        """
        packed = pack(rollouts)
        fresh = np.array([rollout.version == version for rollout in rollouts])
        # One step by the policy that generated the batch: its own forward pass gives logp_old, too.
        old = None if self._one_step and fresh.all() else self._pass(packed)
        reads_reference = self.passes.reference or needs_reference(self.objective)
        ref = self._pass(packed, reference=True) if reads_reference else None
        taught = self._teacher_pass(rollouts, packed) if self._reads_teacher_logp else None
        self._started = _StartedPasses([rollout.id for rollout in rollouts], packed, fresh, old, ref, taught)

    def __call__(self, rollouts: Sequence[Rollout], *, version: int, seed: int) -> PreparedBatch:
        """Compute log-probabilities by the forward pass of training, then scores: once, before any step.

        If a batch has one step, by the policy that generated all of it, the ratio is 1 by definition: logp_old is then
        logp itself without a gradient, and costs no forward pass of its own.

        Raises:
            DivergedError: log-probabilities that are not finite.
        """
        if self._started is None or self._started.ids != [rollout.id for rollout in rollouts]:
            self.begin(rollouts, version=version)
        started, self._started = self._started, None
        assert started is not None
        packed, logp_old = started.packed, None
        if started.old is not None:
            # The behaviour policy of replayed rollouts no longer exists; they store its log-probabilities.
            logp_old = np.where(started.fresh[:, None], started.old(), packed.logp)
        logp_ref = None if started.ref is None else started.ref()
        turns = reads_turns(self.objective)
        batch = build_batch(rollouts, packed, logp_old, logp_ref, version=version, seed=seed, turns=turns)
        if reads_vectors(self.objective):
            _, vectors, weights = reward_vectors(rollouts, self.passes.weights)
            batch = replace(
                batch,
                reward_vectors=vectors,
                component_weights=weights,
                set_ids=set_numbers(rollouts, self.passes.candidates),
            )
        if started.taught is not None:
            batch = replace(batch, logp_teacher=started.taught())
        if correction_of(self.objective) != NoCorrection():
            batch = replace(batch, logp_rollout=packed.logp)
        if self.objective.reads_labels or self.objective.reads_candidates:
            check_labels(batch, self.forward.vocabulary)
        if self.objective.reads_candidates:
            batch = self._draw_candidates(batch, packed, seed)
        scored = self.objective.score(batch)
        mask = scored.mask
        objective: Any = self.objective  # each family has a filter
        roots, places = batch.roots()
        kept: NDArray[np.bool_] = objective.filter(roots)
        old = self._unlearned_logp(packed, mask) if logp_old is None else logp_old
        counts = {type(part).__name__: int((~part(roots)).sum()) for part in objective.filter.parts}
        kept = kept if places is None else kept[places]
        dropped = {name: count for name, count in counts.items() if count}
        teacher, view = self.forward.teacher, None
        if teacher is not None and self.objective.reads_divergence is not None:
            view = teacher.view(rollouts, packed, mask)
        return PreparedBatch(packed, batch, scored, mask, kept, old, dropped, view)

    def _draw_candidates(self, batch: Batch, packed: Packed, seed: int) -> Batch:
        """Draw candidates in the place of each token; the reward of one is 1 if it is the right token, and 0 if not."""
        stream = np.random.default_rng([seed, *b"candidates"])
        keys = stream.integers(1 << 64, size=(*packed.mask.shape, self.objective.reads_candidates), dtype=np.uint64)
        size = self.passes.micro_batch
        parts = [np.arange(start, min(start + size, len(keys))) for start in range(0, len(keys), size)]
        drawn, logp = zip(*(self.forward.draw(packed.rows(rows.tolist()), keys[rows]) for rows in parts), strict=True)
        candidates, labels = np.concatenate(drawn), batch.need("labels")[:, :, None]
        return replace(
            batch,
            candidates=candidates,
            candidate_logp_old=check_finite(np.concatenate(logp)),
            candidate_rewards=np.where(labels < 0, np.nan, candidates == labels),
        )

    @property
    def _reads_teacher_logp(self) -> bool:
        """True if the score reads the teacher's log-probabilities of the tokens."""
        return self.objective.reads_teacher and self.objective.reads_divergence is None

    def _teacher_pass(self, rollouts: Sequence[Rollout], packed: Packed) -> Callable[[], NDArray[np.float32]]:
        teacher = self.forward.teacher
        assert teacher is not None
        view = teacher.view(rollouts, packed, packed.mask)
        return lambda: check_finite(teacher.logp(view, packed.mask), "teacher")

    @property
    def _one_step(self) -> bool:
        alone = self.passes.epochs == self.passes.minibatches == 1
        return alone and not reads_old_logp(self.objective)

    def _unlearned_logp(self, packed: Packed, mask: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Return the log-probabilities of rollouts that no step computes, 0 for the others."""
        logp = np.zeros(mask.shape, dtype=np.float32)
        rows = np.flatnonzero((packed.mask & ~mask).any(1))
        if rows.size:
            logp[rows] = self._pass(packed.rows(rows.tolist()))()
        return logp

    def _pass(self, packed: Packed, *, reference: bool = False) -> Callable[[], NDArray[np.float32]]:
        """Start the first micro-batch; the others are computed one after the other when the result is read."""
        size, rows = self.passes.micro_batch, len(packed.mask)
        parts = [packed.rows(range(start, min(start + size, rows))) for start in range(0, rows, size)]
        first = self.forward.begin(parts[0], reference=reference)

        def logp() -> NDArray[np.float32]:
            chunks = [first(), *(self.forward.logp(part, reference=reference) for part in parts[1:])]
            return check_finite(np.concatenate(chunks))

        return logp


def check_labels(batch: Batch, vocabulary: int) -> None:
    """Check that labels are tokens of the policy.

    Raises:
        UsageError: one is not; MLX would gather beyond the end of the logits without an error.
    """
    if (largest := int(batch.need("labels").max(initial=NO_LABEL))) >= vocabulary:
        problem = f"labels gave the token {largest:,}, and the policy has tokens 0 to {vocabulary - 1:,}"
        raise UsageError(problem, "labels")


def check_finite(logp: NDArray[np.float32], model: str = "policy") -> NDArray[np.float32]:
    """Return log-probabilities of a model, after a check that they are finite.

    Raises:
        DivergedError: one is not finite.
    """
    if not np.isfinite(logp).all():
        raise DivergedError(f"the {model} gives log-probabilities that are not finite: its weights are not usable")
    return logp


def needs_reference(objective: Objective) -> bool:
    """Return whether a point of the objective reads the reference policy."""
    if objective.reads_candidates:
        return False  # a penalty of candidates is from the policy that drew
    points = objective.axes().values()
    return any(
        isinstance(point, ReferencePolicy)
        or (isinstance(point, Divergence) and not isinstance(point, NoKL | DriftPenalty))
        for point in points
    )


def correction_of(objective: Objective) -> Correction:
    """Return the correction of an objective; none where its family has no such axis."""
    return getattr(objective, "correction", NoCorrection())


def reads_old_logp(objective: Objective) -> bool:
    """Return whether credit, a filter or a target depends on log-probabilities of the behaviour policy."""
    if isinstance(objective, TargetPolicy):
        return True
    return any(
        isinstance(point, AllActions | Gated | TopGated) or getattr(point, "in_reward", False)
        for point in iterate_points(objective)
    )


def iterate_points(objective: Objective) -> Iterator[Any]:
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
        rollouts: with their rewards, and those that they called as rows of their own.
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
        parents=_join_parents(rollouts),
        logp_old=logp_old,
        logp_ref=logp_ref,
        entropies=scatter_tokens(np.concatenate([rollout.entropy for rollout in rollouts]), packed.mask),
        truncated=np.array([rollout.truncated for rollout in rollouts]),
        ages=np.array([version - rollout.version for rollout in rollouts], dtype=np.int64),
        tokens=packed.tokens[:, 1:].astype(np.int64),
        seed=seed,
        **({"turns": packed.turns} | _join_turns(rollouts) if turns else {}),
        baselines=np.array([rollout.baseline for rollout in rollouts]),
        token_rewards=_join_known(rollouts, packed.mask, "token_rewards", np.nan),
        labels=_join_known(rollouts, packed.mask, "labels", np.int64(NO_LABEL)),
    )


def _join_parents(rollouts: Sequence[Rollout]) -> NDArray[np.int64] | None:
    """Return the row of the rollout that called each, negative for none; None where no rollout was called. [B]"""
    if all(rollout.parent is None for rollout in rollouts):
        return None
    rows = {rollout.id: row for row, rollout in enumerate(rollouts)}
    return np.array([-1 if rollout.parent is None else rows[rollout.parent] for rollout in rollouts], dtype=np.int64)


def _join_known(rollouts: Sequence[Rollout], mask: NDArray[np.bool_], name: str, nothing: Any) -> NDArray[Any] | None:
    """Return what a function of the task knows of each token; None where no rollout has it. [B, T]"""
    rows = [getattr(rollout, name) for rollout in rollouts]
    if all(row is None for row in rows):
        return None
    known = np.full(mask.shape, nothing)
    known[mask] = np.concatenate(
        [np.full(rollout.length, nothing) if row is None else row for rollout, row in zip(rollouts, rows, strict=True)]
    )
    return known


def _join_turns(rollouts: Sequence[Rollout]) -> dict[str, Any]:
    """Return the columns of turns, concatenated; the reward of a rollout is added to that of its last turn."""
    rewards, states = [], []
    for rollout in rollouts:
        turn_rewards = np.array(rollout.turn_rewards, dtype=np.float64)[: len(rollout.states)]
        turn_rewards = np.pad(turn_rewards, (0, len(rollout.states) - len(turn_rewards)))
        if turn_rewards.size:
            turn_rewards[-1] += rollout.reward
        rewards.append(turn_rewards)
        states += [f"{rollout.group} {state}" for state in rollout.states]
    _, numbers = np.unique(np.array(states, dtype=np.str_), return_inverse=True)
    return {
        "turn_rewards": np.concatenate(rewards),
        "turn_offsets": np.cumsum([0, *map(len, rewards)], dtype=np.int64),
        "state_ids": numbers.astype(np.int64),
    }


def reads_vectors(objective: Objective) -> bool:
    """Return whether the objective reads rewards one by one, or the sets that rollouts make."""
    return any(isinstance(point, SetScore | BestCandidate | GroupDecoupled) for point in iterate_points(objective))


def reads_turns(objective: Objective) -> bool:
    """Return whether the objective has credit or a ratio by turn."""
    return any(isinstance(point, Anchored | EntropyModulated | TurnRatio) for point in iterate_points(objective))
