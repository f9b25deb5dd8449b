"""End of a round: its rollouts in the log, updates of curriculum and replay, and its metrics."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.rl.metrics import advantage_metrics, divergence_metrics, diversity_metrics, drop_non_finite, entropy_metrics, group_metrics, length_metrics, outcome_range, reward_metrics, step_metrics
from karl_fast.rl.rollout_log import RolloutLine, rollout_line

if TYPE_CHECKING:
    from karl_fast.rl.dynamic_sampling import RoundRollouts
    from karl_fast.rl.learner import LearningResult
    from karl_fast.rl.prepare_batch import PreparedBatch
    from karl_fast.rl.setup import OnlineRun


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
        import mlx.core as mx

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
