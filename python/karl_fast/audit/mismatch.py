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
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.audit.token_sums import CAP

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from karl_fast.audit.rollouts import Rollouts

    Column = NDArray[np.float64]


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
