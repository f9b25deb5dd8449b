"""An online run from settings to adapter."""

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
from karl_fast.modeling.load import require
from karl_fast.modeling.memory import limit_memory
from karl_fast.modeling.model_views import checkpointed
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
)
from karl_fast.rl.rollout import RolloutLine, rollout_line
from karl_fast.rl.setup import prepare
from karl_fast.train.batching import mix_seed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from karl_fast.rl.curriculum import Curriculum
    from karl_fast.rl.episode import Collector
    from karl_fast.rl.learner import LearningResult, PreparedBatch
    from karl_fast.rl.rollout import FinishedRollouts, Rollout
    from karl_fast.rl.settings import Online
    from karl_fast.rl.setup import OnlineRun, OnlineViewer


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


class LastMetrics:
    """Does not look, but at the last line."""

    def __init__(self, viewer: OnlineViewer | None = None) -> None:
        self.viewer, self.last = viewer, dict[str, Any]()

    def started(self, run: OnlineRun) -> None:
        """Pass it on."""
        if self.viewer is not None:
            self.viewer.started(run)

    def said(self, metrics: dict[str, Any], rollouts: Sequence[Rollout], failures: Sequence[str]) -> None:
        """Keep the line, and pass it on."""
        self.last = metrics
        if self.viewer is not None:
            self.viewer.said(metrics, rollouts, failures)

    def judged(self, line: dict[str, Any], failures: Sequence[str]) -> None:
        """Pass it on."""
        if self.viewer is not None:
            self.viewer.judged(line, failures)

    def noted(self, remark: str) -> None:
        """Pass it on."""
        if self.viewer is not None:
            self.viewer.noted(remark)


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
    require()
    run, watch = prepare(settings, resume=resume, force=force), LastMetrics(viewer)
    try:
        room = run.need.total - run.need.weights
        with checkpointed(run.policy.model, settings.training.grad_checkpoint), limit_memory(room):
            run_rounds(run, watch)
    finally:
        run.close()
    best = None if run.held_out is None else run.held_out.best
    now = run.progress
    counts = (now.round, now.step, watch.last, best, now.rollouts, now.missing, now.idle_rounds, now.dropped)
    return RunResult(Path(settings.out), *counts)


# The loop.


def run_rounds(run: OnlineRun, viewer: OnlineViewer) -> None:
    """Make the rounds of a run that are left; every one can be the last, and a resumed run the same."""
    viewer.started(run)
    _evaluate(run, viewer)
    while run.progress.round < run.settings.rounds and not run.stopped:
        metrics, gathered = _run_round(run)
        _finish_round(run, viewer, metrics, gathered)


def _run_round(run: OnlineRun) -> tuple[dict[str, Any], RoundRollouts]:
    """Loop of drawing, rewarding, learning and logging; work on the CPU is done while the device computes."""
    begun, settings, now = time.perf_counter(), run.settings, run.progress
    prepare, seed = run.learner.prepare, mix_seed(settings.training.seed, now.round)
    again, replayed = run.buffer.take(now.step, seed)
    gathered = draw_round(
        run.collector,
        run.curriculum,
        settings,
        round=now.round,
        first=now.group,
        version=now.step,
        drawn=lambda fresh: prepare.begin([*fresh, *again], version=now.step),
        finished=run.finished,
    )
    drawn = time.perf_counter()
    prepared = prepare([*gathered.learned(), *again], version=now.step, seed=seed)
    gathered.said += _unscored_warning(int(prepared.unscored.sum()))
    account = RoundLog(run, gathered, prepared)
    learned = run.learner.learn(prepared, seed=seed, aim=run.aim, meanwhile=account.begin)
    metrics = account.metrics(learned) | replayed
    account.keep(learned)
    said = sum(rollout.length for rollout in gathered.rollouts)
    times = {"draw_seconds": drawn - begun, "seconds": time.perf_counter() - begun}
    return metrics | times | {"tokens_per_second": said / times["draw_seconds"]}, gathered


def _unscored_warning(count: int) -> list[str]:
    """Return that rollouts have a reward that nothing can be learned from, where some have."""
    why = "their rewards are outside its range, or their advantages beyond float32"
    return [f"the recipe has no number for {counted(count, 'rollout')}: {why}"] if count else []


def _finish_round(run: OnlineRun, viewer: OnlineViewer, metrics: dict[str, Any], gathered: RoundRollouts) -> None:
    """Report and save, and stop if an alarm fires."""
    for tracker in run.trackers:
        tracker.log(metrics)
    viewer.said(metrics, gathered.rollouts, gathered.said)
    if remark := run.learner.forward.sharing.remark():
        viewer.noted(remark)
    alarm = None
    try:
        run.monitor.look(metrics)
    except AlarmError as error:
        alarm = error
    _evaluate(run, viewer)
    last = alarm is not None or run.stopped or run.progress.round == run.settings.rounds
    if last or run.progress.round % run.settings.save_every == 0:
        run.save()
    if alarm is not None:
        raise alarm


def _evaluate(run: OnlineRun, viewer: OnlineViewer) -> None:
    """Attempt the held-out prompts if it is time to, and keep the weights if they are the best."""
    held, now = run.held_out, run.progress
    if held is None or not held.due(now.round, last=now.round == run.settings.rounds):
        return
    line, failures = held.evaluate(now.round, now.step)
    held.write(run.out)
    if held.best is line:
        run.keep_best()
    viewer.judged(line, failures)


# End of a round: its rollouts in the log, updates of curriculum and replay, and its metrics.


class RoundLog:
    """Rollouts and metrics of a round, to be logged. Most of it is computed while the device runs the first step."""

    def __init__(self, run: OnlineRun, gathered: RoundRollouts, prepared: PreparedBatch) -> None:
        self.run, self.gathered, self.prepared = run, gathered, prepared

    def begin(self) -> None:
        """Compute the metrics that do not depend on a step, without waiting for the device."""
        _ = self._numbers, self._lines

    @cached_property
    def _outcomes(self) -> list[float]:
        """The lowest and the highest of the run, this round among it."""
        return outcome_range(self.run.progress.outcomes, self.gathered.rollouts)

    @cached_property
    def _numbers(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Metrics before those of the steps, and after them."""
        rollouts = self.gathered.rollouts
        first = reward_metrics(rollouts) | group_metrics(rollouts, self._outcomes) | length_metrics(rollouts)
        return first, entropy_metrics(rollouts) | diversity_metrics(rollouts)

    @cached_property
    def _lines(self) -> list[RolloutLine]:
        return [rollout_line(one, self.run.progress.round) for one in self.gathered.rollouts]

    def _learned(self, learned: LearningResult) -> set[str]:
        """Return the ids of the rollouts of this round that a step that was made had in its loss."""
        return {one.id for one, row in zip(self.gathered.learned(), learned.rows, strict=False) if row}

    def metrics(self, learned: LearningResult) -> dict[str, Any]:
        """Return the line of the round in ``metrics.jsonl``, except its seconds."""
        first, entropy = self._numbers
        values = {
            "step": self.run.progress.step + len(learned.losses),
            "round": self.run.progress.round,
            "draws": self.gathered.draws,
            "rollouts": len(self.gathered.rollouts),
            "learned_groups": len(self.gathered.chosen),
            "learned": len(self._learned(learned)),
            "dropped": self.prepared.dropped,
            "learning_rate": self.run.rate(0),
        }
        values |= first | step_metrics(learned) | entropy
        values |= divergence_metrics(self.prepared, learned.logp_old) | advantage_metrics(self.prepared)
        values |= {"unscored": int(self.prepared.unscored.sum())}
        return drop_non_finite(values | {"peak_bytes": mx.get_peak_memory(), "cache_bytes": mx.get_cache_memory()})

    def keep(self, learned: LearningResult) -> None:
        """Log the rollouts, and update the curriculum and the replay.

        Their log-probabilities are by the training forward, in the place of those that they were drawn with.
        """
        run, now, fresh = self.run, self.run.progress, self.gathered.learned()
        columns = np.pad(learned.logp_old, ((0, 0), (1, 0)))  # at the place of the token itself
        logp = {one.id: one.own(column) for one, column in zip(fresh, columns[: len(fresh)], strict=True)}
        each, taken = zip(self._lines, self.gathered.rollouts, strict=True), self._learned(learned)
        run.journal.write(tell(logp.get(one.id, one.logp), learned=one.id in taken) for tell, one in each)
        run.buffer.add((one.but(logp=logp[one.id].copy()) for one in fresh), run.curriculum.estimate)
        drifts = np.where(self.prepared.mask, learned.logp - learned.logp_old, 0.0).sum(1, dtype=np.float64)
        others = [one for one in self.gathered.rollouts if one.id not in logp]
        run.curriculum.learn([*fresh, *others], np.append(drifts[: len(fresh)], np.zeros(len(others))))
        now.round, now.group = now.round + 1, now.group + self.gathered.draws * run.settings.prompts_per_round
        now.step, now.outcomes = now.step + len(learned.losses), self._outcomes
        now.rollouts += len(self.gathered.rollouts)
        if not learned.losses:
            now.idle_rounds += 1
            now.dropped = dict(Counter(now.dropped) + Counter(self.prepared.dropped))
        now.missing = dict(Counter(now.missing) + Counter(self._numbers[0]["missing"]))


# The rollouts of a round: once, or until enough groups have rewards that differ (DAPO's dynamic sampling).


@dataclass
class RoundRollouts:
    """Rollouts of a round.

    Attributes:
        rollouts: all of them.
        chosen: the numbers of the groups to learn from.
        draws: number of times that P groups were drawn.
        said: failures, in sentences.
    """

    rollouts: list[Rollout] = field(default_factory=list)
    chosen: list[int] = field(default_factory=list)
    draws: int = 0
    said: list[str] = field(default_factory=list)

    def learned(self) -> list[Rollout]:
        """Return the rollouts to learn from."""
        chosen = set(self.chosen)
        return [rollout for rollout in self.rollouts if rollout.group in chosen]

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
    drawn: Callable[[list[Rollout]], None],
    finished: FinishedRollouts | None = None,
) -> RoundRollouts:
    """Draw the groups of a round.

    Args:
        collector, curriculum, settings: those of the run.
        round: its number, from 0.
        first: the number of its first group.
        version: number of steps that the policy has taken.
        drawn: called with the rollouts to learn from before they are rewarded, if rewards do not decide the choice.
        finished: record of rollouts that a run was resumed with.

    Returns:
        All rollouts. With ``draws`` above 1, P groups with different outcomes are chosen, or fewer when the draws are
        used up; if there are none, or ``draws`` is 1, the groups of the first draw.
    """
    found, wanted, chooses = RoundRollouts(), settings.prompts_per_round, settings.draws > 1
    told: dict[str, Any] = {"finished": finished} | ({} if chooses else {"drawn": drawn})
    while found.draws < settings.draws and (not found.draws or len(found.mixed()) < wanted):
        prompts = curriculum.choose(wanted, round, found.draws)
        start = first + found.draws * wanted
        stream = np.random.SeedSequence([settings.training.seed, round, found.draws]).generate_state(1, np.uint64)
        rollouts, said = collector(prompts, first=start, seed=int(stream[0]), version=version, **told)
        found.rollouts += _add_length_penalty(rollouts, settings)
        found.said += said
        found.draws += 1
    plain = list(range(first, first + wanted))
    found.chosen = (found.mixed()[:wanted] or plain) if chooses else plain
    return found


def _add_length_penalty(rollouts: list[Rollout], settings: Online) -> list[Rollout]:
    if not settings.overlong_tokens:
        return rollouts
    lengths = np.array([rollout.length for rollout in rollouts], dtype=np.int64)
    added = soft_overlong_penalty(lengths, max_tokens=settings.max_tokens, cache_tokens=settings.overlong_tokens)
    return [one.but(reward=one.reward + float(more)) for one, more in zip(rollouts, added, strict=True)]
