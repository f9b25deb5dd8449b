"""The loop."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.errors import AlarmError
from karl_fast.rl import measure, record
from karl_fast.rl.gather import gather
from karl_fast.train.order import mixed

if TYPE_CHECKING:
    from karl_fast.rl.gather import Gathered
    from karl_fast.rl.learn import Learned, Prepared
    from karl_fast.rl.rollout import Rollout
    from karl_fast.rl.run import Run, Viewer


def rounds(run: Run, viewer: Viewer) -> None:
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
        learned = run.learner.learn(prepared, seed=seed, rate=run.rate)
        metrics = _metrics(run, gathered, prepared, learned) | replayed
        _keep(run, gathered, prepared, learned)
        metrics |= {"draw_seconds": drawn - begun, "seconds": time.perf_counter() - begun}
        _close(run, viewer, metrics, gathered)


def _close(run: Run, viewer: Viewer, metrics: dict[str, Any], gathered: Gathered) -> None:
    """Tell, save, and stop where an alarm says so."""
    for tracker in run.trackers:
        tracker.log(metrics)
    viewer.said(metrics, gathered.rollouts, gathered.said)
    alarm = None
    try:
        run.watch.look(metrics)
    except AlarmError as error:
        alarm = error
    last = alarm is not None or run.progress.round == run.settings.rounds
    if last or run.progress.round % run.settings.training.save_every == 0:
        run.save()
    if alarm is not None:
        raise alarm


def _keep(run: Run, gathered: Gathered, prepared: Prepared, learned: Learned) -> None:
    """Log the rollouts, and let the curriculum and the replay know of them."""
    now, chosen = run.progress, set(gathered.chosen)
    fresh = [_computed(rollout, prepared, row) for row, rollout in enumerate(gathered.learned())]
    known = {rollout.id: rollout for rollout in fresh}
    kept = [known.get(rollout.id, rollout) for rollout in gathered.rollouts]
    run.journal.write(record.line(rollout, now.round, learned=rollout.group in chosen) for rollout in kept)
    run.buffer.add(fresh)
    drifts = np.where(prepared.mask, learned.logp - prepared.batch.need("logp_old"), 0.0).sum(1, dtype=np.float64)
    others = [rollout for rollout in kept if rollout.group not in chosen]
    run.curriculum.learn([*fresh, *others], np.pad(drifts[: len(fresh)], (0, len(others))))
    now.round, now.group = now.round + 1, now.group + gathered.draws * run.settings.prompts_per_round
    now.step += len(learned.losses)


def _computed(rollout: Rollout, prepared: Prepared, row: int) -> Rollout:
    """A rollout with its log-probabilities by the training forward, in the place of those that it was drawn with."""
    logp = np.zeros(len(rollout.tokens), dtype=np.float32)
    logp[1:] = prepared.batch.need("logp_old")[row, : len(logp) - 1]
    return replace(rollout, logp=logp)


def _metrics(run: Run, gathered: Gathered, prepared: Prepared, learned: Learned) -> dict[str, Any]:
    import mlx.core as mx

    values = {
        "step": run.progress.step + len(learned.losses),
        "round": run.progress.round,
        "draws": gathered.draws,
        "rollouts": len(gathered.rollouts),
        "learned_groups": len(gathered.chosen),
        "learning_rate": run.rate(0),
    }
    values |= measure.rewards(gathered.rollouts) | measure.groups(gathered.rollouts)
    values |= measure.lengths(gathered.rollouts) | measure.policy(gathered.rollouts, prepared) | measure.steps(learned)
    return measure.finite(values | {"peak_bytes": mx.get_peak_memory(), "cache_bytes": mx.get_cache_memory()})
