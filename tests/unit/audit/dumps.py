"""Dumps of rollouts as a trainer writes them, from a seed: an honest run, to which a test adds one fault."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import karl_fast
from tests import rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from karl_fast.audit.result import Audit

WORDS = [f"w{number}" for number in range(400)]


@dataclass(frozen=True)
class Shape:
    """Size of a dump."""

    steps: int = 8
    groups: int = 6
    members: int = 8
    seed: int = 0


def honest(shape: Shape = Shape()) -> list[dict[str, Any]]:
    """Return rollouts whose answers are right by chance: harder prompts have longer answers, rightness has no length.

    Sampler and trainer differ by the rounding of 16 bits, and each rollout is one step old.
    """
    rng, records = np.random.default_rng(shape.seed), []
    for step in range(shape.steps):
        for group in range(shape.groups):
            hard = rng.uniform(0.2, 0.8)
            for member in range(shape.members):
                length = int(rng.integers(10, 30) + 40 * hard)
                drawn = -rng.exponential(0.7, length)
                records.append(
                    {
                        "id": f"{step}-{group}-{member}",
                        "group": f"{step}-{group}",
                        "step": step + 1,
                        "policy_version": step,
                        "prompt": f"What is {group} and {step}?",
                        "completion": " ".join(rng.choice(WORDS, length)),
                        "reward": float(rng.random() > hard),
                        "completion_tokens": length,
                        "rollout_log_probs": drawn.tolist(),
                        "old_log_probs": (drawn + rng.normal(0, 0.01, length)).tolist(),
                    }
                )
    return records


def by_group(records: list[dict[str, Any]], formula: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> None:
    """Log advantages by a formula over the rewards of each group, as a trainer does."""
    by_key(records, "group", formula)


def by_key(
    records: list[dict[str, Any]], key: str, formula: Callable[[NDArray[np.float64]], NDArray[np.float64]]
) -> None:
    """Log advantages by a formula over the rewards of the rows that share a value."""
    for value in {record[key] for record in records}:
        own = [record for record in records if record[key] == value]
        advantages = formula(np.array([record["reward"] for record in own]))
        for record, advantage in zip(own, advantages.tolist(), strict=True):
            record["advantage"] = advantage


def audit(folder: Path, records: list[dict[str, Any]], **choices: Any) -> Audit:
    """Write a dump and audit it."""
    rows.write(folder / "dump.jsonl", records)
    return karl_fast.audit(folder / "dump.jsonl", **choices)


def wrong(found: Audit) -> list[str]:
    """Return the kinds of findings that say that something is wrong."""
    return [finding.kind for finding in found.findings if finding.weight >= 0.5]
