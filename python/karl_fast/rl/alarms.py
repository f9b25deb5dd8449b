"""Alarms that stop a run, with hints on what to change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from karl_fast.errors import AlarmError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from karl_fast.rl.settings import Alarms

HINTS = {
    "raised": "mend the function or the environment: without --quiet, a round says what it raised and on which line",
    "timeout": "raise timeout_seconds, or let the function give up by itself and return None",
    "length": "a reward function gives a number for each completion, an environment (observation, done) for each turn",
    "template": "give observations in roles that the chat template of the model takes, such as user",
    "number": "give a finite number within 1e100 in size; a function may give None where it has nothing to say",
    "none": "give every rollout a component that has something to say of it",
    "tokens": "raise max_context, or ask shorter prompts",
    "entropy": "raise temperature or the upper bound of the clip (DAPO's 0.28), add a KL term, or lower learning_rate",
    "kl": "lower learning_rate or epochs, or raise the coefficient of the KL term",
    "flat": "where all are right, this task is learned; else ask prompts of another difficulty (curriculum, draws), "
    "take a larger group_size, or give a reward with partial credit",
    "idle": "no reward differs from the others of its group in a way that the recipe counts",
    "DropConstantGroups": "the outcomes of a group are equal, whatever shapes its rewards: name the part of the reward "
    "that decides as outcome, ask prompts of another difficulty, or take a larger group_size",
    "MixedGroups": "a rollout is right where its outcome is above the threshold: name the reward function that says "
    "right or wrong as outcome; parts such as length are above 0 in every rollout",
    "DropTruncated": "rollouts reach max_tokens: raise it, or set overlong_tokens, which lowers the reward of long "
    "rollouts, and take a recipe that keeps them (karl-fast rl --print --toml writes one to change)",
    "MaxAge": "rollouts are older than the recipe takes: lower epochs, minibatches or replay.max_age",
    "VarianceTopP": "outcomes hardly vary in groups: ask prompts of another difficulty, or take a larger group_size",
    "skipped": "lower learning_rate or max_grad_norm; a model in float16 may overflow where bfloat16 does not",
    "stuck": "the policy says one thing only: raise temperature, or begin with a model that says several",
}
"""Hints by the cause of an alarm."""

MISSING = {
    "raised": "raised",
    "timeout": "timeout",
    "busy": "timeout",
    "length": "length",
    "bad_template": "template",
    "nan": "number",
    "infinite": "number",
    "not a number": "number",
    "none": "number",
    "not applicable": "none",
    "the prompt leaves no room": "tokens",
}
"""Key of the hint for missing rewards, by their reason."""

STUCK = 1e-3
"""Nats a token; a policy of less entropy draws one answer only."""


@dataclass
class AlarmMonitor:
    """Monitor of a run from round to round.

    Attributes:
        alarms: thresholds.
        flat: consecutive rounds without a group with different rewards.
        skipped: consecutive steps that were skipped.
        idle: rounds without a step, less the rounds with one since; never below 0.
    """

    alarms: Alarms
    flat: int = 0
    skipped: int = 0
    idle: int = 0

    def look(self, metrics: Mapping[str, Any]) -> None:
        """Raise if the metrics of a round show that the run should stop.

        Raises:
            AlarmError: they do; its hint says what to change.
        """
        self.flat = self.flat + 1 if metrics["groups_mixed"] == 0 else 0
        self.skipped = self.skipped + metrics["skipped"] if metrics["skipped"] else 0
        self.idle = max(0, self.idle + (-1 if metrics["learned"] else 1))
        for kind, rings in RINGS.items():
            if sentence := rings(self, metrics):
                raise AlarmError(
                    f"round {metrics['round'] + 1}: {sentence}",
                    hint=(hint_of(metrics["dropped"]) if kind == "idle" else HINTS[_alarm(kind, metrics)]),
                )


def _check_skipped(monitor: AlarmMonitor, metrics: Mapping[str, Any]) -> str | None:
    rings = 0 < monitor.alarms.skipped_steps <= monitor.skipped
    return f"{monitor.skipped} gradients in a row are not finite" if rings else None


def _check_missing(monitor: AlarmMonitor, metrics: Mapping[str, Any]) -> str | None:
    missing, most = sum(metrics["missing"].values()), monitor.alarms.missing_share
    if missing <= most * metrics["rollouts"]:
        return None
    of = f"{missing} of {metrics['rollouts']} rewards are missing, more than {most:.0%} of them"
    return f"{of}; the most for {_most(metrics)}"


def _most(metrics: Mapping[str, Any]) -> str:
    """Return the most frequent reason of missing rewards: function and kind."""
    counts = metrics["missing"]
    return str(max(counts, key=counts.get))


def _check_entropy(monitor: AlarmMonitor, metrics: Mapping[str, Any]) -> str | None:
    found, floor = metrics.get("entropy"), monitor.alarms.entropy_floor
    if found is None or found >= floor:
        return None
    return f"the entropy is {found:.4f} nats a token, below {floor}"


def _check_kl(monitor: AlarmMonitor, metrics: Mapping[str, Any]) -> str | None:
    found, ceiling = metrics.get("kl"), monitor.alarms.kl_ceiling
    if found is None or ceiling is None or found <= ceiling:
        return None
    return f"the KL is {found:.4f} nats a token, above {ceiling}"


def _check_flat(monitor: AlarmMonitor, metrics: Mapping[str, Any]) -> str | None:
    rings = 0 < monitor.alarms.flat_rounds <= monitor.flat
    rounds = f"in {monitor.flat} rounds in a row" if monitor.flat > 1 else "in this round"
    return f"{rounds} no group had rewards that differ: there is nothing to learn from" if rings else None


def _idle(monitor: AlarmMonitor, metrics: Mapping[str, Any]) -> str | None:
    if metrics["learned"] or not 0 < monitor.alarms.idle_rounds <= monitor.idle:
        return None
    more = f"{monitor.idle} more rounds made no step than made one"
    return f"{more}: {dropped(metrics['dropped'], metrics['rollouts'])}"


def dropped(counts: Mapping[str, int], rollouts: int) -> str:
    """Return a sentence on the filters of a recipe that dropped rollouts, the one that dropped most first."""
    if not counts:
        return "no rollout has a reward or an advantage that the recipe counts"
    most = sorted(counts, key=lambda name: -counts[name])
    return " and ".join(f"{name} drops {counts[name]:,} of {rollouts:,} rollouts" for name in most)


def hint_of(counts: Mapping[str, int]) -> str:
    """Return what to change where filters leave nothing to learn from."""
    return HINTS.get(max(counts, key=lambda name: counts[name]), HINTS["idle"]) if counts else HINTS["idle"]


def _alarm(kind: str, metrics: Mapping[str, Any]) -> str:
    """Return the key of the hint for an alarm, from its kind and the metrics."""
    if kind == "missing":
        return MISSING[_most(metrics).rpartition(": ")[2]]
    return "stuck" if kind == "flat" and metrics.get("entropy", STUCK) < STUCK else kind


RINGS: dict[str, Callable[[AlarmMonitor, Mapping[str, Any]], str | None]] = {
    "skipped": _check_skipped,
    "missing": _check_missing,
    "entropy": _check_entropy,
    "kl": _check_kl,
    "flat": _check_flat,
    "idle": _idle,
}
"""Test of each alarm, with its message; the first that fires is reported."""
