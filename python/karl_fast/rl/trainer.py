"""The loop."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from karl_fast._safe_text import counted
from karl_fast.errors import AlarmError
from karl_fast.rl.dynamic_sampling import draw_round
from karl_fast.rl.round_log import RoundLog
from karl_fast.train.data_order import mix_seed

if TYPE_CHECKING:
    from karl_fast.rl.dynamic_sampling import RoundRollouts
    from karl_fast.rl.setup import OnlineRun, OnlineViewer


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
