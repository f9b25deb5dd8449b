"""Rewards into the records of a store."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from karl_fast import _core
from karl_fast.reward.baselines.typical_rewards import NEUTRAL, Baselines, counts, measured
from karl_fast.reward.engine.records import compute_advantage, compute_reward, weights
from karl_fast.reward.engine.store import REFUSED, domain_of, held, plainly, record_of, replace, stored_reward

if TYPE_CHECKING:
    from collections.abc import Hashable
    from pathlib import Path

    from karl_fast.reward.engine.records import Version

TAKEN = ("verification_score", "consistency_score", "motion_score")
"""The scores that v2 has and v1 has not."""


def backfill(store: Path, *, force: bool, version: Version) -> dict[str, Any]:
    """Score the records of a store; :func:`karl_fast.reward.backfill_rewards` has the contract."""
    if not store.exists():
        return {"total": 0, "scored": 0, "skipped": 0, "errors": 0}
    with held(store):
        rewards, rewarded = _core.karl_stored_rewards(store, version, partial(stored_pair, version=version))
        run = BackfillPass(force, version, measured(rewards, version))
        replace(store, partial(run.write, store, rewarded))
    return {
        "total": run.total,
        "scored": run.scored,
        "skipped": run.skipped,
        "errors": run.total - run.scored - run.skipped,
        "domain_baselines": run.baselines.means,
    }


def stored_pair(line: bytes, version: Version) -> tuple[bool, tuple[Hashable, float] | None]:
    """Return whether a line has a reward, and its domain and reward if they count for a baseline."""
    found = plainly(line, version)
    if found is None or found.reward is None:
        return False, None
    return True, (found.domain, found.reward) if counts(found.domain, found.reward) else None


@dataclass
class BackfillPass:
    """Second pass of a backfill, with its counts."""

    force: bool
    version: Version
    baselines: Baselines
    total: int = 0
    scored: int = 0
    skipped: int = 0

    def write(self, store: Path, rewarded: bytes, new: Path) -> bool:
        """Write the lines of the new store; return whether a record was scored."""
        means, deviations = self.baselines.means, self.baselines.deviations
        total, scored, skipped = _core.karl_backfill(
            store,
            new,
            version=self.version,
            weights=weights(),
            force=self.force,
            baselines={domain: (mean, deviations.get(domain, 1.0)) for domain, mean in means.items()},
            rewarded=rewarded,
            line=self.line,
        )
        self.total += total
        self.scored += scored
        self.skipped += skipped
        return self.scored > 0

    def line(self, line: bytes) -> bytes:
        """Return a line with its reward, or unchanged.

        Only for lines that the interpreter decides: nested deeper than 128 levels, with an integer of more than 640
        digits, or with a domain that is not text of Unicode. All others are written by Rust, with the same bytes.
        """
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
