"""What rewards a store holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karl_fast.reward.baselines.table import Sums, counts
from karl_fast.reward.engine.store import chosen, told

if TYPE_CHECKING:
    from collections.abc import Hashable
    from pathlib import Path

    from karl_fast.reward.engine.records import Version


def get_reward_stats(path: str | Path | None = None, *, version: Version = "v1") -> dict[str, Any]:
    """Sum up the rewards of a store: how many, mean, least and most, and count and mean by channel and by domain.

    Numbers are rounded to four decimals, and keys stand in KARL's order. Records without a reward that is a finite
    number, and lines that are no records, are left out; KARL stops at some of them.

    Args:
        path: the store; :data:`karl_fast.reward.STORE_PATH` unless given.
        version: where the domain of a record is: v1 in its skill, v2 beside it.

    Returns:
        Nothing where there is no store, and ``{"scored": 0}`` where no record has a reward.

    Raises:
        OSError: the store could not be read.

    Reference:
        Diomandeee/karl, ``karl/reward_engine.py``, commits 7d5ef32 (v1) and c41d1c5 (v2).
    """
    store = chosen(path)
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
