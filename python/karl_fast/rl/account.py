"""What a round leaves behind: its rollouts in the log, what the curriculum and the replay learn, and its numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.rl import measure, record

if TYPE_CHECKING:
    from karl_fast.rl.gather import Gathered
    from karl_fast.rl.learn import Learned, Prepared
    from karl_fast.rl.rollout import Rollout
    from karl_fast.rl.run import OnlineRun


def keep(run: OnlineRun, gathered: Gathered, prepared: Prepared, learned: Learned) -> None:
    """Log the rollouts, and let the curriculum and the replay know of them."""
    now, chosen = run.progress, set(gathered.chosen)
    fresh = [_computed(rollout, learned, row) for row, rollout in enumerate(gathered.learned())]
    known = {rollout.id: rollout for rollout in fresh}
    kept = [known.get(rollout.id, rollout) for rollout in gathered.rollouts]
    run.journal.write(record.line(rollout, now.round, learned=rollout.group in chosen) for rollout in kept)
    run.buffer.add(fresh)
    drifts = np.where(prepared.mask, learned.logp - learned.logp_old, 0.0).sum(1, dtype=np.float64)
    others = [rollout for rollout in kept if rollout.group not in chosen]
    run.curriculum.learn([*fresh, *others], np.pad(drifts[: len(fresh)], (0, len(others))))
    now.round, now.group = now.round + 1, now.group + gathered.draws * run.settings.prompts_per_round
    now.step += len(learned.losses)


def _computed(rollout: Rollout, learned: Learned, row: int) -> Rollout:
    """A rollout with its log-probabilities by the training forward, in the place of those that it was drawn with."""
    logp = np.zeros(len(rollout.tokens), dtype=np.float32)
    logp[1:] = learned.logp_old[row, : len(logp) - 1]
    return replace(rollout, logp=logp)


def metrics(run: OnlineRun, gathered: Gathered, prepared: Prepared, learned: Learned) -> dict[str, Any]:
    """The line of a round in ``metrics.jsonl``, but for its seconds."""
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
    values |= measure.lengths(gathered.rollouts) | measure.steps(learned)
    values |= measure.policy(gathered.rollouts, prepared, learned.logp_old)
    return measure.finite(values | {"peak_bytes": mx.get_peak_memory(), "cache_bytes": mx.get_cache_memory()})
