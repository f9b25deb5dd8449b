"""The loop."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from karl_fast.errors import AlarmError
from karl_fast.rl import account
from karl_fast.rl.gather import gather
from karl_fast.train.order import mixed

if TYPE_CHECKING:
    from karl_fast.rl.gather import Gathered
    from karl_fast.rl.run import OnlineRun, Viewer


def rounds(run: OnlineRun, viewer: Viewer) -> None:
    """Make the rounds of a run that are left; every one can be the last, and a resumed run the same."""
    settings, now = run.settings, run.progress
    viewer.started(run)
    while now.round < settings.rounds:
        begun = time.perf_counter()
        seed = mixed(settings.training.seed, now.round)
        gathered = gather(run.collector, run.curriculum, settings, round=now.round, first=now.group, version=now.step)
        again, replayed = run.buffer.take(now.step, seed)
        drawn = time.perf_counter()
        prepared = run.learner.prepare([*gathered.learned(), *again], version=now.step, seed=seed)
        learned = run.learner.learn(prepared, seed=seed, aim=run.aim)
        metrics = account.metrics(run, gathered, prepared, learned) | replayed
        account.keep(run, gathered, prepared, learned)
        metrics |= {"draw_seconds": drawn - begun, "seconds": time.perf_counter() - begun}
        _close(run, viewer, metrics, gathered)


def _close(run: OnlineRun, viewer: Viewer, metrics: dict[str, Any], gathered: Gathered) -> None:
    """Tell, save, and stop where an alarm says so."""
    for tracker in run.trackers:
        tracker.log(metrics)
    viewer.said(metrics, gathered.rollouts, gathered.said)
    alarm = None
    try:
        run.sentry.look(metrics)
    except AlarmError as error:
        alarm = error
    last = alarm is not None or run.progress.round == run.settings.rounds
    if last or run.progress.round % run.settings.save_every == 0:
        run.save()
    if alarm is not None:
        raise alarm
