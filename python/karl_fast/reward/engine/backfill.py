"""Rewards into the records of a store."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from karl_fast.reward.baselines.table import NEUTRAL, Baselines, counts, measured
from karl_fast.reward.engine.records import compute_advantage, compute_reward
from karl_fast.reward.engine.store import REFUSED, domain_of, held, record_of, rewrite, stored_reward, told

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator
    from pathlib import Path

    from karl_fast.reward.engine.records import Version

TAKEN = ("verification_score", "consistency_score", "motion_score")
"""The scores that v2 has and v1 has not."""


def backfill(store: Path, *, force: bool, version: Version) -> dict[str, Any]:
    """Score the records of a store; :func:`karl_fast.reward.backfill_rewards` has the contract."""
    if not store.exists():
        return {"total": 0, "scored": 0, "skipped": 0, "errors": 0}
    with held(store):
        run = Run(force, version, measured(Rewards(store, version), version))
        rewrite(store, run.lines(store), lambda: run.scored > 0)
    return {
        "total": run.total,
        "scored": run.scored,
        "skipped": run.skipped,
        "errors": run.total - run.scored - run.skipped,
        "domain_baselines": run.baselines.means,
    }


@dataclass(frozen=True)
class Rewards:
    """Domain and reward of each rewarded record of a store, read again for each iteration."""

    path: Path
    version: Version

    def __iter__(self) -> Iterator[tuple[Hashable, float]]:
        """Iterate from the first line."""
        for _, found in told(self.path, self.version):
            if found is not None and counts(found.domain, found.reward):
                yield found.domain, found.reward


@dataclass
class Run:
    """Second pass of a backfill, with its counts."""

    force: bool
    version: Version
    baselines: Baselines
    total: int = 0
    scored: int = 0
    skipped: int = 0

    def lines(self, path: Path) -> Iterator[bytes]:
        """Yield the lines of the new store."""
        for line, found in told(path, self.version):
            self.total += 1
            if found is not None and found.reward is not None and not self.force:
                self.skipped += 1
                yield line
            else:
                yield self.line(line)

    def line(self, line: bytes) -> bytes:
        """Return a line with its reward, or unchanged."""
        try:
            record = record_of(line)
            if stored_reward(record) is not None and not self.force:
                self.skipped += 1
                return line
            annotate(record, compute_reward(record, version=self.version), self.baselines, self.version)
            written = json.dumps(record, default=str).encode() + b"\n"
        except REFUSED:
            return line
        self.scored += 1
        return written


def annotate(record: dict[str, Any], reward: dict[str, Any], baselines: Baselines, version: Version) -> None:
    """Write a reward into a record, in KARL's order of keys."""
    domain = domain_of(record, version)
    baseline, deviation = baselines.means.get(domain, NEUTRAL), baselines.deviations.get(domain, 1.0)
    advantage = compute_advantage(record, reward["reward_score"], baseline, domain_std=deviation)
    outcome = record.setdefault("outcome", {})
    outcome["reward_score"] = reward["reward_score"]
    outcome["reward_components"] = reward["components"]
    for name in ("outcome_score", "process_score", "efficiency_score", *TAKEN):
        if name in reward:
            outcome[name] = reward[name]
    outcome["advantage"] = round(advantage, 4)
    outcome["annotation_status"] = "scored"
