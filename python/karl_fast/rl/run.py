"""The training loop of `karl-fast rl`: draw rollouts, reward them, learn from them, log, save.

```text
for each round:   prompts of the curriculum --> groups of rollouts --> rewards --> + replayed groups
                  (again while too few groups have rewards that differ: DAPO's dynamic sampling)
                  --> scores of the recipe --> one or more steps (`PolicyLearner`)
                  --> rollouts.jsonl, metrics.jsonl --> alarms --> held-out prompts --> checkpoint
```

A run may stop after any round and resume with the same result: all that a round needs is in `Progress` and the
checkpoint.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np

from karl_fast._safe_text import counted
from karl_fast.errors import AlarmError
from karl_fast.filter import constant_groups, soft_overlong_penalty
from karl_fast.modeling.checkpoint import METRICS_FILE
from karl_fast.modeling.load import require_mlx_lm
from karl_fast.modeling.memory import cache_bytes, limit_memory
from karl_fast.modeling.model_views import checkpoint_layers
from karl_fast.rl.learner import correction_of
from karl_fast.rl.metrics import (
    advantage_metrics,
    divergence_metrics,
    diversity_metrics,
    drop_non_finite,
    entropy_metrics,
    group_metrics,
    length_metrics,
    outcome_range,
    reward_metrics,
    step_metrics,
    tree_metrics,
    vector_metrics,
)
from karl_fast.rl.rollout import RolloutLine, rollout_line, with_callees
from karl_fast.rl.setup import prepare
from karl_fast.train.batching import mix_seed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from karl_fast.rl.curriculum import Curriculum
    from karl_fast.rl.episode import Collector
    from karl_fast.rl.learner import LearningResult, PreparedBatch
    from karl_fast.rl.rollout import FinishedRollouts, Rollout
    from karl_fast.rl.settings import Online
    from karl_fast.rl.setup import OnlineRun, OnlineViewer
    from karl_fast.rl.student import Student


@dataclass(frozen=True)
class RunResult:
    """Result of a run.

    Attributes:
        out: the folder: an adapter that mlx-lm loads, ``metrics.jsonl``, and ``rollouts.jsonl`` for `karl-fast sample`.
        rounds: number of rounds made.
        steps: updates of the weights.
        metrics: the last line of ``metrics.jsonl``.
        best: the best line of ``held_out.jsonl``, whose weights are in the folder ``best``; None without held-out
            prompts.
        rollouts: rollouts of all rounds.
        missing: missing rewards of all rounds by why, as in ``metrics.jsonl``.
        idle_rounds: rounds in which no step was made.
        dropped: number of rollouts that each filter of the recipe dropped in those rounds.
    """

    out: Path
    rounds: int
    steps: int
    metrics: dict[str, Any]
    best: dict[str, Any] | None = None
    rollouts: int = 0
    missing: dict[str, int] = field(default_factory=dict)
    idle_rounds: int = 0
    dropped: dict[str, int] = field(default_factory=dict)

    def _repr_html_(self) -> str:
        """Return a table and the curves of the run, for the output of a cell of a notebook."""
        from karl_fast._plots import counts_table, fragment, metric_plots, row_of_plots

        facts: dict[str, object] = {"rounds": self.rounds, "steps": self.steps, "rollouts": self.rollouts}
        facts |= {
            "missing rewards": sum(self.missing.values()),
            "outcome of the last round": self.metrics.get("outcome"),
        }
        if self.best is not None:
            facts |= {"best held-out reward": self.best.get("reward"), "after round": self.best.get("round")}
        names = {"outcome": "Outcome", "entropy": "Entropy, nats a token", "loss": "Loss"}
        return fragment(counts_table(facts), row_of_plots(metric_plots(self.out / METRICS_FILE, names)))


class SilentViewer:
    """Viewer that ignores the progress."""

    def on_start(self, run: OnlineRun) -> None:
        """Do nothing."""

    def on_round(self, metrics: dict[str, Any], rollouts: Sequence[Rollout], failures: Sequence[str]) -> None:
        """Do nothing."""

    def on_evaluation(self, line: dict[str, Any], failures: Sequence[str]) -> None:
        """Do nothing."""

    def on_message(self, remark: str) -> None:
        """Do nothing."""


def rl(settings: Online, *, resume: bool = False, force: bool = False, viewer: OnlineViewer | None = None) -> RunResult:
    """Train a policy on the rewards of its rollouts.

    The bytes of its weights and of ``rollouts.jsonl`` are a function of the settings, the prompts, the reward functions
    and the machine's arithmetic: a run that is killed at any point and resumed gives the same bytes as one that was
    not.

    Args:
        settings: all settings.
        resume: continue from the last checkpoint; start anew if there is no run.
        force: start anew over an existing run; with ``resume``, only if it has no checkpoint. A run that was killed in
            its first round is always started anew.
        viewer: called with the progress of the run.

    Returns:
        The result of the run.

    Raises:
        UsageError: conflicting settings, a recipe that this loop cannot train, a group size of 1 for a recipe that
            compares the rollouts of a group, or fewer rounds than the resumed run has made.
        OutputForeignError: the path is a file, or a folder with other content than a run, without `resume` or `force`.
        ModelError: the model is missing, cannot be trained, or has caches that do not work over a group.
        OutputExistsError: the folder already has a run.
        CheckpointError: the run to resume has no checkpoint, or a damaged one, or one of another run: of other
            settings, prompts, or files of functions.
        AlarmError: an alarm stopped the run; its last checkpoint is kept.
        DivergedError: the weights are not finite; an earlier checkpoint may be intact.
        FileError: a file cannot be read or written; the last checkpoint is kept.
    """
    require_mlx_lm()
    run = prepare(settings, resume=resume, force=force)
    try:
        room = run.need.total - run.need.weights
        mx.set_cache_limit(cache_bytes(run.settings.training, run.need.total))
        with checkpoint_layers(run.policy.model, settings.training.grad_checkpoint), limit_memory(room):
            metrics = run_rounds(run, viewer or SilentViewer())
    finally:
        run.close()
    best = None if run.held_out is None else run.held_out.best
    now = run.progress
    counts = (now.rollouts, now.missing, now.idle_rounds, now.dropped)
    return RunResult(Path(settings.out), now.round, now.step, metrics, best, *counts)


def run_rounds(run: OnlineRun, viewer: OnlineViewer) -> dict[str, Any]:
    """Make the remaining rounds of a run, and return the metrics of the last one; empty if there was none."""
    metrics: dict[str, Any] = {}
    viewer.on_start(run)
    _evaluate(run, viewer)
    while run.progress.round < run.settings.rounds and not run.stopped:
        metrics, rollouts = _run_round(run)
        _finish_round(run, viewer, metrics, rollouts)
    return metrics


def _run_round(run: OnlineRun) -> tuple[dict[str, Any], RoundRollouts]:
    """Draw, reward, learn and log; work on the CPU is done while the device computes."""
    start, settings, now = time.perf_counter(), run.settings, run.progress
    prepare, seed = run.learner.prepare, mix_seed(settings.training.seed, now.round)
    replayed, replay_metrics = run.buffer.draw(now.step, seed)
    drawn = draw_round(
        run.collector,
        run.curriculum,
        settings,
        round=now.round,
        first=now.group,
        version=now.step,
        on_rollouts=lambda fresh: prepare.begin(with_callees([*fresh, *replayed]), version=now.step),
        finished=run.finished,
        student=run.student,
    )
    draw_seconds = time.perf_counter() - start
    prepared = prepare(with_callees([*drawn.learned(), *replayed]), version=now.step, seed=seed)
    if unscored := int(prepared.unscored.sum()):
        why = "their rewards are outside its range, or their advantages beyond float32"
        drawn.failures.append(f"the recipe has no number for {counted(unscored, 'rollout')}: {why}")
    log = RoundLog(run, drawn, prepared)
    learned = run.learner.learn(
        prepared, seed=seed, set_learning_rate=run.set_learning_rate, meanwhile=log.compute_before_step
    )
    metrics = log.metrics(learned) | replay_metrics
    if run.student is not None:
        metrics |= run.student.learn(drawn.learned(), seed=seed, set_learning_rate=run.set_rate_of)
    log.write(learned)
    metrics |= {"draw_seconds": draw_seconds, "seconds": time.perf_counter() - start}
    tokens = sum(rollout.length for rollout in with_callees(drawn.rollouts))
    return metrics | {"tokens_per_second": tokens / draw_seconds}, drawn


def _finish_round(run: OnlineRun, viewer: OnlineViewer, metrics: dict[str, Any], drawn: RoundRollouts) -> None:
    """Report and save, and stop if an alarm fires."""
    for tracker in run.trackers:
        tracker.log(metrics)
    viewer.on_round(metrics, drawn.rollouts, drawn.failures)
    if remark := run.learner.forward.sharing.remark():
        viewer.on_message(remark)
    alarm = None
    try:
        run.monitor.check(metrics)
    except AlarmError as error:
        alarm = error  # raised below, after the round is saved
    _evaluate(run, viewer)
    last = alarm is not None or run.stopped or run.progress.round == run.settings.rounds
    if last or run.is_save_due():
        run.save()
    if alarm is not None:
        raise alarm


def _evaluate(run: OnlineRun, viewer: OnlineViewer) -> None:
    """Attempt the held-out prompts when it is due, and keep the weights if they are the best."""
    held_out, now = run.held_out, run.progress
    if held_out is None or not held_out.due(now.round, last=now.round == run.settings.rounds):
        return
    line, failures = held_out.evaluate(now.round, now.step)
    held_out.write(run.out)
    if held_out.best is line:
        run.keep_best()
    viewer.on_evaluation(line, failures)


@dataclass
class RoundRollouts:
    """Rollouts of a round.

    Attributes:
        rollouts: all of them.
        groups: the numbers of the groups to learn from.
        draws: number of times that P groups were drawn.
        failures: of rewards and environments, in sentences.
    """

    rollouts: list[Rollout] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    draws: int = 0
    failures: list[str] = field(default_factory=list)

    def learned(self) -> list[Rollout]:
        """Return the rollouts to learn from."""
        groups = set(self.groups)
        return [rollout for rollout in self.rollouts if rollout.group in groups]

    def mixed(self) -> list[int]:
        """Return the groups with different outcomes, in the order they were drawn."""
        groups = np.array([rollout.group for rollout in self.rollouts], dtype=np.int64)
        outcomes = np.array([rollout.outcome for rollout in self.rollouts], dtype=np.float64)
        return list(dict.fromkeys(groups[constant_groups(outcomes, groups).keep].tolist()))


def draw_round(
    collector: Collector,
    curriculum: Curriculum,
    settings: Online,
    *,
    round: int,
    first: int,
    version: int,
    on_rollouts: Callable[[list[Rollout]], None],
    finished: FinishedRollouts | None = None,
    student: Student | None = None,
) -> RoundRollouts:
    """Draw the groups of a round.

    Args:
        collector, curriculum, settings: those of the run.
        round: its number, from 0.
        first: the number of its first group.
        version: number of steps that the policy has taken.
        on_rollouts: called with the rollouts to learn from before they are rewarded, if the choice of groups does not
            depend on rewards.
        finished: record of rollouts that a run was resumed with.
        student: whose learnability enters the rewards; None without one.

    Returns:
        All rollouts. With ``draws`` above 1, P groups with different outcomes are chosen, or fewer when the draws are
        used up; if there are none, or ``draws`` is 1, the groups of the first draw.
    """
    result, count, chooses = RoundRollouts(), settings.prompts_per_round, settings.draws > 1
    options: dict[str, Any] = {"finished": finished} | ({} if chooses else {"on_rollouts": on_rollouts})
    while result.draws < settings.draws and (not result.draws or len(result.mixed()) < count):
        prompts = curriculum.choose(count, round, result.draws)
        start = first + result.draws * count
        stream = np.random.SeedSequence([settings.training.seed, round, result.draws]).generate_state(1, np.uint64)
        rollouts, failures = collector(prompts, first=start, seed=int(stream[0]), version=version, **options)
        rollouts = _add_length_penalty(rollouts, settings)
        result.rollouts += rollouts if student is None else student.reward(rollouts)
        result.failures += failures
        result.draws += 1
    first_draw = list(range(first, first + count))
    result.groups = (result.mixed()[:count] or first_draw) if chooses else first_draw
    return result


def _add_length_penalty(rollouts: list[Rollout], settings: Online) -> list[Rollout]:
    if not settings.overlong_tokens:
        return rollouts
    lengths = np.array([rollout.length for rollout in rollouts], dtype=np.int64)
    penalties = soft_overlong_penalty(lengths, max_tokens=settings.max_tokens, cache_tokens=settings.overlong_tokens)
    return [
        rollout.but(reward=rollout.reward + float(penalty))
        for rollout, penalty in zip(rollouts, penalties, strict=True)
    ]


class RoundLog:
    """End of a round: its metrics, its rollouts in the log, and updates of curriculum and replay.

    Most of it is computed while the device runs the first step.
    """

    def __init__(self, run: OnlineRun, drawn: RoundRollouts, prepared: PreparedBatch) -> None:
        self.run, self.drawn, self.prepared = run, drawn, prepared

    def compute_before_step(self) -> None:
        """Compute the metrics that do not depend on a step, without waiting for the device."""
        _ = self._numbers, self._lines

    @cached_property
    def _outcomes(self) -> list[float]:
        """The lowest and the highest outcome of the run, this round included."""
        return outcome_range(self.run.progress.outcomes, self.drawn.rollouts)

    @cached_property
    def _numbers(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Metrics before those of the steps, and after them."""
        rollouts = self.drawn.rollouts
        first = reward_metrics(rollouts) | group_metrics(rollouts, self._outcomes) | length_metrics(rollouts)
        passes = self.run.learner.passes
        vectors = vector_metrics(rollouts, passes.weights, passes.candidates)
        more = entropy_metrics(with_callees(rollouts)) | diversity_metrics(rollouts) | tree_metrics(rollouts)
        return first, more | vectors

    @cached_property
    def _lines(self) -> list[RolloutLine]:
        return [rollout_line(rollout, self.run.progress.round) for rollout in with_callees(self.drawn.rollouts)]

    def _learned_ids(self, learned: LearningResult) -> set[str]:
        """Return the ids of the rollouts of this round that a step that was made had in its loss."""
        return {rollout.id for rollout, row in zip(self._learned, learned.rows, strict=False) if row}

    @cached_property
    def _learned(self) -> list[Rollout]:
        """The rollouts of this round to learn from, with those that they called: the first rows of the batch."""
        return with_callees(self.drawn.learned())

    def metrics(self, learned: LearningResult) -> dict[str, Any]:
        """Return the line of the round in ``metrics.jsonl``, except its seconds."""
        first, entropy = self._numbers
        values = {
            "step": self.run.progress.step + len(learned.losses),
            "round": self.run.progress.round,
            "draws": self.drawn.draws,
            "rollouts": len(self.drawn.rollouts),
            "learned_groups": len(self.drawn.groups),
            "learned": len(self._learned_ids(learned) & {rollout.id for rollout in self.drawn.rollouts}),
            "dropped": self.prepared.dropped,
            "learning_rate": self.run.rate(0),
        }
        values |= first | step_metrics(learned) | entropy
        correction = correction_of(self.run.learner.objective)
        values |= divergence_metrics(self.prepared, learned.logp_old, correction) | advantage_metrics(self.prepared)
        values |= {"unscored": int(self.prepared.unscored.sum())}
        return drop_non_finite(values | {"peak_bytes": mx.get_peak_memory(), "cache_bytes": mx.get_cache_memory()})

    def write(self, learned: LearningResult) -> None:
        """Log the rollouts, and update the curriculum and the replay.

        Their log-probabilities are by the training forward, in place of those of generation.
        """
        run, now, fresh = self.run, self.run.progress, self._learned
        columns = np.pad(learned.logp_old, ((0, 0), (1, 0)))  # index t of a mask scores token t + 1
        logp = {rollout.id: rollout.own(column) for rollout, column in zip(fresh, columns[: len(fresh)], strict=True)}
        ids, pairs = self._learned_ids(learned), zip(self._lines, with_callees(self.drawn.rollouts), strict=True)
        run.journal.write(
            line(logp.get(rollout.id, rollout.logp), learned=rollout.id in ids) for line, rollout in pairs
        )
        run.buffer.add((_set_logp(rollout, logp) for rollout in self.drawn.learned()), run.curriculum.estimate)
        drifts = np.where(self.prepared.mask, learned.logp - learned.logp_old, 0.0).sum(1, dtype=np.float64)
        unlearned = [rollout for rollout in self.drawn.rollouts if rollout.id not in logp]
        run.curriculum.learn([*fresh, *unlearned], np.append(drifts[: len(fresh)], np.zeros(len(unlearned))))
        now.round, now.group = now.round + 1, now.group + self.drawn.draws * run.settings.prompts_per_round
        now.step, now.outcomes = now.step + len(learned.losses), self._outcomes
        now.rollouts += len(self.drawn.rollouts)
        if not learned.losses:
            now.idle_rounds += 1
            now.dropped = dict(Counter(now.dropped) + Counter(self.prepared.dropped))
        now.missing = dict(Counter(now.missing) + Counter(self._numbers[0]["missing"]))


def _set_logp(rollout: Rollout, logp: dict[str, NDArray[np.float32]]) -> Rollout:
    """Return a rollout, and those that it called, with other log-probabilities, which are copied."""
    callees = tuple(_set_logp(callee, logp) for callee in rollout.callees)
    return rollout.but(logp=logp[rollout.id].copy(), callees=callees)
