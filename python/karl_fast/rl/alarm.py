"""What stops a run of itself, and what to change then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from karl_fast.errors import AlarmError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karl_fast.rl.settings import Alarms

HINTS = {
    "entropy": "raise temperature or the upper bound of the clip (DAPO's 0.28), add a KL term, or lower learning_rate",
    "kl": "lower learning_rate or epochs, or raise the coefficient of the KL term",
    "flat": "where all are right, this task is learned; else ask prompts of another difficulty (curriculum, draws), "
    "take a larger group_size, or give a reward with partial credit",
    "skipped": "lower learning_rate or max_grad_norm; a model in float16 may overflow where bfloat16 does not",
    "missing": "look at the column missing of rollouts.jsonl: it names the reward function or environment, and why",
}


@dataclass
class Watch:
    """Watches a run from round to round.

    Attributes:
        alarms: when to stop.
        flat: rounds in a row without a group whose rewards differ.
        skipped: steps in a row that were not made.
    """

    alarms: Alarms
    flat: int = 0
    skipped: int = 0

    def look(self, metrics: Mapping[str, Any]) -> None:
        """Raise where the numbers of a round say that it is no use to go on.

        Raises:
            AlarmError: they do; its hint says what to change.
        """
        self.flat = self.flat + 1 if metrics["groups_mixed"] == 0 else 0
        self.skipped = self.skipped + metrics["skipped"] if metrics["skipped"] else 0
        for kind, rings, sentence in self._all(metrics):
            if rings:
                error = AlarmError(f"round {metrics['round'] + 1}: {sentence}")
                error.hint = HINTS[kind]
                raise error

    def _all(self, metrics: Mapping[str, Any]) -> list[tuple[str, bool, str]]:
        alarms, entropy, kl = self.alarms, metrics.get("entropy"), metrics.get("kl")
        missing = sum(metrics["missing"].values()) / metrics["rollouts"]
        ceiling = alarms.kl_ceiling
        return [
            ("skipped", 0 < alarms.skipped_steps <= self.skipped, f"{self.skipped} gradients in a row are not finite"),
            (
                "missing",
                missing > alarms.missing_share,
                f"{missing:.0%} of the rewards are missing, more than {alarms.missing_share:.0%}: "
                f"{max(metrics['missing'], key=metrics['missing'].get, default='')}",
            ),
            (
                "entropy",
                entropy is not None and entropy < alarms.entropy_floor,
                f"the entropy is {entropy or 0:.4f} nats a token, below {alarms.entropy_floor}",
            ),
            (
                "kl",
                kl is not None and ceiling is not None and kl > ceiling,
                f"the KL is {kl or 0:.4f}, above {ceiling}",
            ),
            (
                "flat",
                0 < alarms.flat_rounds <= self.flat,
                f"in {self.flat} rounds no group had rewards that differ: there is nothing to learn from",
            ),
        ]
