"""Age of rollouts, and the gap between the log-probabilities of the sampler and of the trainer.

```text
d = logp_trainer - logp_rollout     w = exp(d)       the weight of a token that the sampler drew
k3 = mean of w - 1 - d              of KL(rollout, trainer)
chi2 = mean of w^2 - 1              of chi-square(trainer, rollout)
beyond = share of tokens with w or 1/w above the cap
```

One engine that samples and another that learns give different numbers for equal weights; an old policy gives them too.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast import kl

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from karl_fast.audit.rollouts import Rollouts

    Column = NDArray[np.float64]

CAP = 2.0
"""Weight of a token beyond which verl's guide truncates it (`rollout_is_threshold`)."""

LARGEST_GAP = 20.0
"""Largest difference that enters a sum, in nats, as in verl: exp(20) is beyond any cap."""


@dataclass(frozen=True, eq=False)
class TokenSums:
    """Sums over the tokens of each rollout that has both log-probabilities. [B] each

    Attributes:
        tokens: their number.
        gap: of d.
        k3: of w - 1 - d.
        weight, square: of w and of its square.
        beyond: number of tokens with w or 1/w above the cap.
        largest: the largest size of d.
    """

    tokens: Column
    gap: Column
    k3: Column
    weight: Column
    square: Column
    beyond: Column
    largest: Column

    @classmethod
    def joined(cls, parts: Sequence[TokenSums]) -> TokenSums:
        """Return the sums of several windows as one."""
        names = cls.__dataclass_fields__
        empty = np.empty(0)
        return cls(**{name: np.concatenate([empty, *(getattr(part, name) for part in parts)]) for name in names})


def token_sums(drawn: Sequence[NDArray[np.float32] | None], learned: Sequence[NDArray[np.float32] | None]) -> TokenSums:
    """Return the sums of rollouts, given the log-probabilities of the sampler and of the trainer; 0 without both."""
    pairs = [
        (row, old, new)
        for row, (old, new) in enumerate(zip(drawn, learned, strict=True))
        if old is not None and new is not None and len(old)
    ]
    sums = {name: np.zeros(len(drawn)) for name in TokenSums.__dataclass_fields__}
    if not pairs:
        return TokenSums(**sums)
    rollout = np.concatenate([old for _, old, _ in pairs]).astype(np.float64)
    trainer = np.concatenate([new for _, _, new in pairs]).astype(np.float64)
    finite = np.isfinite(rollout) & np.isfinite(trainer)
    gap = np.clip(np.where(finite, trainer - rollout, 0.0), -LARGEST_GAP, LARGEST_GAP)
    # k3(policy, reference) = exp(-d) + d - 1 of d = policy - reference; the policy is the sampler.
    zero = np.zeros_like(gap)
    k3 = kl.estimate(zero, gap, estimator="k3")
    weight = np.exp(gap)
    beyond = finite & (np.abs(gap) > np.log(CAP))
    starts = np.cumsum([0, *(len(old) for _, old, _ in pairs)])[:-1]
    rows = np.array([row for row, _, _ in pairs])
    columns = {"tokens": finite, "gap": gap, "k3": k3, "weight": weight * finite, "square": weight**2 * finite}
    for name, values in (columns | {"beyond": beyond}).items():
        sums[name][rows] = np.add.reduceat(np.asarray(values, dtype=np.float64), starts)
    sums["largest"][rows] = np.maximum.reduceat(np.abs(gap), starts)
    return TokenSums(**sums)


def measure_mismatch(rollouts: Rollouts) -> dict[str, Any] | None:
    """Return the gap between sampler and trainer over all tokens, and of each step; None where it is not logged.

    Returns:
        ``tokens``; ``k3``, ``chi2``, ``beyond`` and ``mean`` of d a token; ``largest`` size of d; ``sequence_beyond``,
        the share of rollouts whose product of weights is above ``3`` or below a third; ``worst`` rows; ``steps``.
    """
    sums = rollouts.sums
    known = sums.tokens > 0
    if not known.any():
        return None
    tokens = float(sums.tokens.sum())
    per_token = np.where(known, sums.k3 / np.maximum(sums.tokens, 1), 0.0)
    worst = np.argsort(-per_token, kind="stable")[:5]
    return {
        "rows": int(known.sum()),
        "tokens": int(tokens),
        "mean": float(sums.gap.sum() / tokens),
        "k3": float(sums.k3.sum() / tokens),
        "chi2": float(sums.square.sum() / tokens - 1),
        "cap": CAP,
        "beyond": float(sums.beyond.sum() / tokens),
        "largest": float(sums.largest.max()),
        "sequence_cap": SEQUENCE_CAP,
        "sequence_beyond": float((np.abs(sums.gap[known]) > np.log(SEQUENCE_CAP)).mean()),
        "worst": [rollouts.names[row] for row in worst if known[row]],
        "steps": _by_step(rollouts, known),
    }


def read_run_mismatch(folder: Path) -> dict[str, Any] | None:
    """Return the gap that a run of `rl` measured itself, over all rounds; None where its folder has no such metrics.

    Args:
        folder: of the run: `rollouts.jsonl` has the log-probabilities of the sampler alone, `metrics.jsonl` has k3 and
            chi-square of fresh rollouts.

    Returns:
        As `measure_mismatch`, with means over the rounds, each a step; None for what the metrics do not have.
    """
    try:
        lines = [json.loads(line) for line in (folder / METRICS).read_text("utf-8").splitlines()]
    except (OSError, ValueError):  # a line may be half written while the run goes on
        return None
    rounds = [line for line in lines if isinstance(line, dict) and isinstance(line.get("mismatch_k3"), float)]
    if not rounds:
        return None
    unknown = dict.fromkeys(("rows", "tokens", "mean", "beyond", "sequence_beyond"))
    return unknown | {
        "k3": float(np.mean([line["mismatch_k3"] for line in rounds])),
        "chi2": float(np.mean([line.get("mismatch_chi2", np.nan) for line in rounds])),
        "cap": CAP,
        "largest": float(max(line.get("mismatch_max", 0.0) for line in rounds)),
        "sequence_cap": SEQUENCE_CAP,
        "worst": [],
        "steps": [{"step": float(line.get("round", 0)), "k3": line["mismatch_k3"]} for line in rounds],
    }


METRICS = "metrics.jsonl"
"""Metrics of a run of `rl`, a line a round, in its folder."""


SEQUENCE_CAP = 3.0
"""Product of the weights of a rollout beyond which TRL masks it (`vllm_importance_sampling_cap`)."""


def _by_step(rollouts: Rollouts, known: NDArray[np.bool_]) -> list[dict[str, float]]:
    sums, lines = rollouts.sums, []
    for step in np.unique(rollouts.steps[known & np.isfinite(rollouts.steps)]):
        rows = known & (rollouts.steps == step)
        tokens = float(sums.tokens[rows].sum())
        lines.append(
            {
                "step": float(step),
                "k3": float(sums.k3[rows].sum() / tokens),
                "beyond": float(sums.beyond[rows].sum() / tokens),
            }
        )
    return lines


def measure_staleness(rollouts: Rollouts) -> dict[str, Any] | None:
    """Return how old rollouts were when they were learned, in steps; None where no version is logged."""
    ages = rollouts.ages[np.isfinite(rollouts.ages)]
    if not len(ages):
        return None
    return {
        "rows": len(ages),
        "mean": float(ages.mean()),
        "median": float(np.median(ages)),
        "90%": float(np.quantile(ages, 0.9)),
        "largest": float(ages.max()),
        "stale": float((ages > 0).mean()),
    }
