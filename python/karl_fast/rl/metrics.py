"""Metrics of a round, each number with its formula and its unit, and the alarms that stop a run by them.

An alarm has a message from the metrics and a hint on what to change; the first that fires stops the run
(`AlarmMonitor`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.diversity import best_at_k, distinct_n, self_bleu
from karl_fast.errors import AlarmError
from karl_fast.filter import differ
from karl_fast.objective.axes.correction import NoCorrection, mismatch
from karl_fast.objective.axes.set_score import directions
from karl_fast.rl.rollout import set_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from karl_fast.objective.axes.correction import Correction
    from karl_fast.rl.learner import LearningResult, PreparedBatch
    from karl_fast.rl.rollout import Rollout
    from karl_fast.rl.settings import Alarms

DRIFT = ("ratio", "ratio_std", "ratio_max", "ratio_min", "clip_low", "clip_high", "ratio_ess", "kl_old")
"""Statistics of an objective that a round logs: how far the policy has moved from the behaviour policy."""

UNCORRECTED = NoCorrection()

KINDS = ("mixed", "at_top", "at_bottom", "other", "missing")
"""Kinds of groups by their outcomes."""

HINTS = {
    "raised": "mend the function or the environment: without --quiet, a round says what it raised and on which line",
    "timeout": "raise timeout_seconds, or let the function give up by itself and return None",
    "length": "a reward function gives a number for each completion, an environment (observation, done) for each turn",
    "template": "give observations in roles that the chat template of the model takes, such as user",
    "number": "give a finite number within 1e100 in size; a function may give None where it has nothing to say",
    "calls": "set max_depth to 1, or more where sub-rollouts call others, too",
    "none": "give every rollout a component that has something to say of it",
    "tokens": "raise max_context, or ask shorter prompts",
    "entropy": "raise temperature or the upper bound of the clip (DAPO's 0.28), add a KL term, or lower learning_rate",
    "step_kl": "lower learning_rate (3e-5 in the place of 1e-4), add warmup, or take fewer epochs and minibatches",
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
    "MaxDeviation": "the outcomes of a group differ by more than the recipe takes: raise the limit of its filter, or "
    "give outcomes in a smaller range",
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
    "calls": "calls",
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


def reward_metrics(rollouts: Sequence[Rollout]) -> dict[str, Any]:
    """Return rewards before and after shaping, by component, and missing ones by reason."""
    from karl_fast.rl.rewards import count_missing

    outcomes, rewards = [rollout.outcome for rollout in rollouts], [rollout.reward for rollout in rollouts]
    parts: dict[str, list[float]] = {}
    for rollout in rollouts:
        for name, value in rollout.components.items():
            parts.setdefault(name, []).append(value)
    metrics: dict[str, Any] = {"outcome": _mean(outcomes), "outcome_std": _std(outcomes), "reward": _mean(rewards)}
    metrics |= {f"reward.{name}": _mean(values) for name, values in sorted(parts.items())}
    return metrics | {"missing": count_missing(rollouts)}


def outcome_range(earlier: Sequence[float], rollouts: Sequence[Rollout]) -> list[float]:
    """Return the lowest and highest outcome of a run, with those of before; empty without outcomes."""
    outcomes = [*earlier, *(rollout.outcome for rollout in rollouts if not math.isnan(rollout.outcome))]
    return [min(outcomes), max(outcomes)] if outcomes else []


def group_metrics(rollouts: Sequence[Rollout], extremes: Sequence[float]) -> dict[str, float]:
    """Return the shares of groups by kind.

    Args:
        rollouts: of a round.
        extremes: the lowest and the highest outcome of the run, this round included: `outcome_range`.

    Returns:
        mixed, missing (fewer than two outcomes), and of constant groups where they are: at the top or the bottom of the
        run, or other; all of them are other while the run has seen one value only, for there top is bottom.
    """
    by_group: dict[int, list[float]] = {}
    for rollout in rollouts:
        by_group.setdefault(rollout.group, []).append(rollout.outcome)
    outcomes = [[value for value in values if not math.isnan(value)] for values in by_group.values()]
    ends = dict(zip(extremes, ("at_bottom", "at_top"), strict=True)) if extremes and differ(*extremes) else {}
    kinds = [_kind(values, ends) for values in outcomes]
    return {f"groups_{kind}": kinds.count(kind) / len(kinds) for kind in KINDS}


def _kind(values: Sequence[float], ends: Mapping[float, str]) -> str:
    if len(values) < 2:
        return "missing"
    if differ(min(values), max(values)):
        return "mixed"
    return next((kind for end, kind in ends.items() if not differ(*sorted((end, values[0])))), "other")


def length_metrics(rollouts: Sequence[Rollout]) -> dict[str, float]:
    """Return tokens and turns of the policy, and the shares of ways in which rollouts ended."""
    tokens = [rollout.length for rollout in rollouts]
    ends = [rollout.finish for rollout in rollouts]
    metrics = {"tokens": _mean(tokens), "tokens_max": float(max(tokens))}
    metrics["turns"] = _mean([len(rollout.states) for rollout in rollouts])
    return metrics | {f"ended_{end}": ends.count(end) / len(ends) for end in ("stop", "length", "turns", "failed")}


def tree_metrics(rollouts: Sequence[Rollout]) -> dict[str, float]:
    """Return how many sub-rollouts a rollout has, at all depths, and tokens of its tree; empty where none has any."""
    if not any(rollout.callees for rollout in rollouts):
        return {}
    trees = [rollout.length + sum(callee.length for callee in rollout.callees) for rollout in rollouts]
    return {"sub_rollouts": _mean([len(rollout.callees) for rollout in rollouts]), "tree_tokens": _mean(trees)}


def diversity_metrics(rollouts: Sequence[Rollout]) -> dict[str, float]:
    """Return how different the rollouts of a round are, by the tokens of the policy.

    ``distinct_1`` and ``distinct_2`` are the shares of different tokens and pairs among all, ``self_bleu`` is the mean
    BLEU of a rollout with the others as references, ``unique`` the mean share of different rollouts in a group.
    """
    texts = [rollout.answer.astype(np.int64) for rollout in rollouts if rollout.length]
    if not texts:
        return {}
    columns = np.concatenate(texts), np.cumsum([0, *map(len, texts)], dtype=np.int64)
    metrics = {f"distinct_{n}": distinct_n(*columns, n) for n in (1, 2)}
    return metrics | {"self_bleu": _mean(self_bleu(*columns, 2).tolist()), "unique": _mean(_unique(rollouts))}


def _unique(rollouts: Sequence[Rollout]) -> list[float]:
    """Return the share of different rollouts of each group."""
    by_group: dict[int, list[bytes]] = {}
    for rollout in rollouts:
        by_group.setdefault(rollout.group, []).append(rollout.answer.tobytes())
    return [len(set(texts)) / len(texts) for texts in by_group.values()]


def vector_metrics(
    rollouts: Sequence[Rollout], weights: Mapping[str, float], candidates: int, seed: int = 0
) -> dict[str, float]:
    """Return how well a group serves different preferences; empty where rollouts have one reward.

    ``best_at_K`` is the expected best of K rollouts of a group by ``w . R`` on average over 16 uniform preferences w,
    the same in every round: of 1, of a set, and of the whole group. ``pool_l1`` is the mean L1 distance between the
    reward vectors of two rollouts of a set, or of a group without sets.
    """
    from karl_fast.rl.rewards import reward_vectors

    names, vectors, shares = reward_vectors(rollouts, weights)
    whole = ~np.isnan(vectors).any(axis=1)
    if len(names) < 2 or not whole.any():
        return {}
    groups = np.array([rollout.group for rollout in rollouts], dtype=np.int64)[whole]
    numbers = set_numbers(rollouts, candidates)[whole] if candidates > 1 else groups
    weighed = vectors[whole] * shares * len(names)
    wanted = directions(np.zeros(1, dtype=np.int64), 16, len(names), seed)[0]
    size = int(np.unique(groups, return_counts=True)[1].max())
    metrics = {}
    for k in dict.fromkeys((1, candidates, size)):
        best = [best_at_k(np.ascontiguousarray(weighed @ weight), groups, k=k) for weight in wanted]
        metrics[f"best_at_{k}"] = float(np.nanmean(best))
    apart = np.concatenate([_distances(vectors[whole][numbers == number]) for number in np.unique(numbers)])
    return metrics | ({"pool_l1": float(apart.mean())} if apart.size else {})


def _distances(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the L1 distance of each pair. [N, D] -> [N (N - 1) / 2]"""
    first, second = np.triu_indices(len(vectors), 1)
    return np.asarray(np.abs(vectors[first] - vectors[second]).sum(axis=1))


def entropy_metrics(rollouts: Sequence[Rollout]) -> dict[str, float]:
    """Return the exact entropy of the distributions that tokens were drawn from, in nats a token."""
    entropies = np.concatenate([rollout.entropy for rollout in rollouts])
    return {"entropy": float(entropies.mean(dtype=np.float64)) if entropies.size else math.nan}


def divergence_metrics(
    prepared: PreparedBatch, logp_old: NDArray[np.float32], correction: Correction = UNCORRECTED
) -> dict[str, float]:
    """Return the divergence from the reference, and that of rollouts from the training forward.

    ``divergence`` is the mean of ``logp_old - logp_teacher``, an estimate of the reverse KL from the teacher.
    ``kl`` is k3 under the behaviour policy; ``mismatch`` is the mean of ``|logp drawn - logp_old|`` of rollouts of this
    round, ``mismatch_k3`` and ``mismatch_chi2`` are the divergences of the policy that drew them from the same weights
    in training. ``correction_low`` and ``correction_high`` are the shares of tokens with a weight out of the bounds of
    the correction, ``correction_ess`` the effective share of tokens by these weights; absent without one.
    """
    metrics: dict[str, float] = {}
    mask, batch = prepared.packed.mask, prepared.batch
    if batch.ages is not None and (fresh := mask & (batch.ages == 0)[:, None]).any():
        far = np.abs(prepared.packed.logp - logp_old)[fresh]
        metrics |= {"mismatch": float(far.mean()), "mismatch_max": float(far.max())}
        apart = mismatch(correction, logp_old, prepared.packed.logp, fresh)[1]
        metrics |= {f"mismatch_{name}": apart[name] for name in ("k3", "chi2")}
        if correction.bounds is not None:
            metrics |= {f"correction_{name}": apart[name] for name in ("low", "high", "ess")}
    if batch.logp_teacher is not None and mask.any():
        metrics["divergence"] = float((logp_old - batch.logp_teacher)[mask].mean(dtype=np.float64))
    if batch.logp_ref is not None and mask.any():
        far = (batch.logp_ref - logp_old)[mask].astype(np.float64)
        metrics["kl"] = float((np.exp(far) - 1 - far).mean())
    return metrics


def advantage_metrics(prepared: PreparedBatch) -> dict[str, float]:
    """Return statistics of advantages of tokens that count, and their share of rollouts."""
    metrics = {"kept": float(prepared.mask.any(1).mean())}
    if prepared.scored.advantages is None or not prepared.mask.any():
        return metrics
    advantages = np.broadcast_to(prepared.scored.advantages, prepared.mask.shape)[prepared.mask].astype(np.float64)
    return metrics | {"advantage": float(advantages.mean()), "advantage_std": float(advantages.std())}


def step_metrics(learned: LearningResult) -> dict[str, float]:
    """Return mean loss and norm over the steps of a round, and the drift of its last."""
    metrics: dict[str, float] = {"skipped": learned.skipped}
    if learned.losses:
        metrics |= {"loss": _mean(learned.losses), "grad_norm": _mean(learned.norms)}
    if learned.log_z:
        metrics |= {"log_z": _mean(learned.log_z)}
    if learned.drifts:
        last = learned.drifts[-1]
        metrics |= {name: last[name] for name in (*DRIFT, "divergence") if name in last}
    return metrics


def drop_non_finite(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return metrics without numbers that are not finite, which JSON lacks."""
    return {name: value for name, value in values.items() if not isinstance(value, float) or np.isfinite(value)}


def _mean(values: Sequence[float]) -> float:
    """Return the mean of finite values; for few numbers a list is faster than an array."""
    numbers = [value for value in values if not math.isnan(value)]
    return math.fsum(numbers) / len(numbers) if numbers else math.nan


def _std(values: Sequence[float]) -> float:
    mean = _mean(values)
    return math.sqrt(_mean([(value - mean) ** 2 for value in values]))


@dataclass
class AlarmMonitor:
    """Monitor of a run from round to round.

    Attributes:
        alarms: thresholds.
        rewards: False where nothing is learned from rewards: equal or missing ones stop no run.
        flat: consecutive rounds without a group with different rewards.
        skipped: consecutive steps that were skipped.
        idle: rounds without a step, less the rounds with one since; never below 0.
    """

    alarms: Alarms
    rewards: bool = field(default=True, kw_only=True)
    flat: int = 0
    skipped: int = 0
    idle: int = 0

    def check(self, metrics: Mapping[str, Any]) -> None:
        """Raise if the metrics of a round show that the run should stop.

        Raises:
            AlarmError: they do; its hint says what to change.
        """
        self.flat = self.flat + 1 if metrics["groups_mixed"] == 0 and self.rewards else 0
        self.skipped = self.skipped + metrics["skipped"] if metrics["skipped"] else 0
        self.idle = max(0, self.idle + (-1 if metrics["learned"] else 1))
        for kind, check in ALARMS.items():
            if sentence := check(self, metrics):
                raise AlarmError(
                    f"round {metrics['round'] + 1}: {sentence}",
                    hint=(filter_hint(metrics["dropped"]) if kind == "idle" else HINTS[_hint_key(kind, metrics)]),
                )


def _check_skipped(monitor: AlarmMonitor, metrics: Mapping[str, Any]) -> str | None:
    fires = 0 < monitor.alarms.skipped_steps <= monitor.skipped
    return f"{monitor.skipped} gradients in a row are not finite" if fires else None


def _check_missing(monitor: AlarmMonitor, metrics: Mapping[str, Any]) -> str | None:
    missing, most = sum(metrics["missing"].values()), monitor.alarms.missing_share
    if missing <= most * metrics["rollouts"] or not monitor.rewards:
        return None
    shares = f"{missing} of {metrics['rollouts']} rewards are missing, more than {most:.0%} of them"
    return f"{shares}; the most for {_most_frequent(metrics)}"


def _most_frequent(metrics: Mapping[str, Any]) -> str:
    """Return the most frequent reason of missing rewards: function and kind."""
    counts = metrics["missing"]
    return str(max(counts, key=counts.get))


def _check_entropy(monitor: AlarmMonitor, metrics: Mapping[str, Any]) -> str | None:
    entropy, floor = metrics.get("entropy"), monitor.alarms.entropy_floor
    if entropy is None or entropy >= floor:
        return None
    return f"the entropy is {entropy:.4f} nats a token, below {floor}"


def _check_kl(monitor: AlarmMonitor, metrics: Mapping[str, Any]) -> str | None:
    kl, ceiling = metrics.get("kl"), monitor.alarms.kl_ceiling
    if kl is None or ceiling is None or kl <= ceiling:
        return None
    return f"the KL is {kl:.4f} nats a token, above {ceiling}"


def _check_step_kl(monitor: AlarmMonitor, metrics: Mapping[str, Any]) -> str | None:
    kl, ceiling = metrics.get("kl_old"), monitor.alarms.step_kl_ceiling
    if kl is None or not 0 < ceiling < kl:
        return None
    return f"the steps of this round moved the policy by {kl:.4f} nats a token, more than {ceiling}"


def _check_flat(monitor: AlarmMonitor, metrics: Mapping[str, Any]) -> str | None:
    fires = 0 < monitor.alarms.flat_rounds <= monitor.flat
    rounds = f"in {monitor.flat} rounds in a row" if monitor.flat > 1 else "in this round"
    return f"{rounds} no group had rewards that differ: there is nothing to learn from" if fires else None


def _check_idle(monitor: AlarmMonitor, metrics: Mapping[str, Any]) -> str | None:
    if metrics["learned"] or not 0 < monitor.alarms.idle_rounds <= monitor.idle:
        return None
    rounds = f"{monitor.idle} more rounds made no step than made one"
    return f"{rounds}: {describe_dropped(metrics['dropped'], metrics['rollouts'])}"


def describe_dropped(counts: Mapping[str, int], rollouts: int) -> str:
    """Return a sentence on the filters of a recipe that dropped rollouts, the one that dropped most first."""
    if not counts:
        return "no rollout has a reward or an advantage that the recipe counts"
    most = sorted(counts, key=lambda name: -counts[name])
    return " and ".join(f"{name} drops {counts[name]:,} of {rollouts:,} rollouts" for name in most)


def filter_hint(counts: Mapping[str, int]) -> str:
    """Return what to change where filters leave nothing to learn from."""
    return HINTS.get(max(counts, key=lambda name: counts[name]), HINTS["idle"]) if counts else HINTS["idle"]


def _hint_key(kind: str, metrics: Mapping[str, Any]) -> str:
    """Return the key of the hint for an alarm, from its kind and the metrics."""
    if kind == "missing":
        return MISSING[_most_frequent(metrics).rpartition(": ")[2]]
    return "stuck" if kind == "flat" and metrics.get("entropy", STUCK) < STUCK else kind


ALARMS: dict[str, Callable[[AlarmMonitor, Mapping[str, Any]], str | None]] = {
    "skipped": _check_skipped,
    "missing": _check_missing,
    "entropy": _check_entropy,
    "kl": _check_kl,
    "step_kl": _check_step_kl,
    "flat": _check_flat,
    "idle": _check_idle,
}
"""Test of each alarm, with its message; the first that fires is reported."""
