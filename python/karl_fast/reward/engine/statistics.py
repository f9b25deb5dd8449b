"""Statistics of the rewards in a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karl_fast.reward.baselines.typical_rewards import Sums, counts
from karl_fast.reward.engine.store import told

if TYPE_CHECKING:
    from collections.abc import Hashable
    from pathlib import Path

    from karl_fast.reward.engine.records import Version


def statistics(store: Path, version: Version) -> dict[str, Any]:
    """Sum up the rewards of a store; :func:`karl_fast.reward.get_reward_stats` has the contract."""
    if not store.exists():
        return {}
    whole, least, most = Sums(), float("inf"), float("-inf")
    channels: dict[Hashable, Sums] = {}
    domains: dict[Hashable, Sums] = {}
    for _, found in told(store, version):
        if found is None or not (counts(found.domain, found.reward) and counts(found.channel, found.reward)):
            continue
        channel, domain, reward = found
        whole.add(reward)
        least, most = min(least, reward), max(most, reward)
        channels.setdefault(channel, Sums()).add(reward)
        domains.setdefault(domain, Sums()).add(reward)
    if not whole.count:
        return {"scored": 0}
    return {
        "scored": whole.count,
        "mean": round(whole.mean(), 4),
        "min": round(least, 4),
        "max": round(most, 4),
        "by_channel": by(channels),
        "by_domain": by(domains),
    }


def by(sums: dict[Hashable, Sums]) -> dict[Hashable, dict[str, Any]]:
    """Count and mean of each."""
    return {name: {"count": found.count, "mean": round(found.mean(), 4)} for name, found in sums.items()}
