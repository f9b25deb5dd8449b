"""The signals that a composite knows by name."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from karl_fast.reward.engine.records import compute_reward

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karl_fast.reward.engine.records import Version
    from karl_fast.reward.functions import Scorer

OF_VERSION: dict[Version, tuple[str, ...]] = {
    "v1": ("outcome", "process", "efficiency"),
    "v2": ("outcome", "process", "efficiency", "verification", "consistency", "motion"),
}


LOOKED_AT = ("outcome", "trajectory", "timing", "karl_fast_trajectory", "messages", "duration_seconds")
"""Fields the engine reads: the first three in KARL's records, the first and last three in a canonical trajectory."""


def of_karl(version: Version, key: str, /, completions: Sequence[Any], **columns: Sequence[Any]) -> list[float]:
    """Compute a score of KARL's engine from the columns it reads; missing ones, and None in a row, are left out."""
    names = [name for name in LOOKED_AT if name in columns]
    rewards = []
    for row in range(len(completions)):
        record: dict[str, Any] = {name: columns[name][row] for name in names if columns[name][row] is not None}
        rewards.append(compute_reward(record, version=version)[key])
    return rewards


BY_NAME: dict[str, Scorer] = {
    **{f"karl-{version}": partial(of_karl, version, "reward_score") for version in OF_VERSION},
    **{
        f"karl-{version}.{name}": partial(of_karl, version, f"{name}_score")
        for version, names in OF_VERSION.items()
        for name in names
    },
}
"""The function of each."""

SIGNALS = tuple(BY_NAME)
"""Names of signals for ``fn`` of a :class:`Part`."""
