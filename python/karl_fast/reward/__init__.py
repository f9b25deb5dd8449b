"""Drop-in replacement of KARL's reward engine: the same names, arguments, numbers and keys.

| name | result |
|---|---|
| `compute_reward` | a record's reward, its signals and their parts |
| `compute_rewards` | the rewards of a whole log, a file or its bytes, as an array |
| `compute_call_rewards` | the rewards of trajectories with calls in columns (`Calls`) |
| `compute_advantage` | a reward less the baseline of its domain |
| `backfill_rewards` | writes rewards into the records of a store |
| `get_reward_stats` | statistics of the rewards in a store |
| `STORE_PATH` | path of the default store |

Beside the engine:

| name | meaning |
|---|---|
| `Composite`, `Part` | one reward from signals, columns and Python functions; `SIGNALS` by name |
| `Shaped`, `AsymmetricScale` | a reward before shaping and after |
| `score_groups` | rewards of a trajectory within its group |
| `FixedBaseline`, `MeanBaseline`, `EmaBaseline` | running reward of a domain |
| `ShrunkBaseline`, `PartitionBaseline` | the same, shrunk to all domains; as a soft maximum |
| `SkillWeights` | weights of skills |
| `save`, `load` | baselines and skill weights as files |

``version`` is ``"v1"`` (three signals, KARL v1.0.0) or ``"v2"`` (six signals, KARL's commit c41d1c5).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from karl_fast.reward.baselines import (
    EmaBaseline,
    FixedBaseline,
    MeanBaseline,
    PartitionBaseline,
    ShrunkBaseline,
    SkillWeights,
    load,
    save,
)
from karl_fast.reward.composite import Composite, Part, Rewards, Shaped
from karl_fast.reward.functions import GroupScorer, score_groups
from karl_fast.reward.karl import (
    Calls,
    Version,
    compute_advantage,
    compute_call_rewards,
    compute_reward,
    compute_rewards,
)
from karl_fast.reward.karl import _compute_efficiency as _compute_efficiency
from karl_fast.reward.karl import _compute_outcome as _compute_outcome
from karl_fast.reward.karl import _compute_process as _compute_process
from karl_fast.reward.karl import _max_consecutive_failures as _max_consecutive_failures
from karl_fast.reward.karl_store import backfill, statistics, store_path
from karl_fast.reward.signals import SIGNALS, shorter_is_better
from karl_fast.settings.values import AsymmetricScale

__all__ = [
    "SIGNALS",
    "AsymmetricScale",
    "Calls",
    "Composite",
    "EmaBaseline",
    "FixedBaseline",
    "GroupScorer",
    "MeanBaseline",
    "Part",
    "PartitionBaseline",
    "Rewards",
    "Shaped",
    "ShrunkBaseline",
    "SkillWeights",
    "backfill_rewards",
    "compute_advantage",
    "compute_call_rewards",
    "compute_reward",
    "compute_rewards",
    "get_reward_stats",
    "load",
    "save",
    "score_groups",
    "shorter_is_better",
]

STORE_PATH = store_path()
"""Path of the store: ``KARL_STORE_PATH``, else ``trajectories.jsonl`` in ``KARL_DATA_DIR``, else in the folder
``data`` of ``KARL_DIR``, else of the working directory; read when the module is imported, as KARL reads its own."""


def backfill_rewards(force: bool = False, *, path: str | Path | None = None, version: Version = "v1") -> dict[str, Any]:
    """Score the records of a store that have no reward, and write the rewards into them.

    Baselines come from the rewards that the store holds before the call, by domain. A scored record gets its reward,
    components, signals, ``advantage`` (four decimals) and ``annotation_status`` in its ``outcome``, and is written as
    ``json.dumps`` writes it; every other line keeps its bytes. A line that KARL would raise on is counted as an error
    and kept; a stored reward that is not a finite number does not enter a baseline, where KARL stops.

    The store is replaced whole or not at all, and only where a record was scored, under the lock that KARL's writers
    take; what a waiting writer appends to the old file is carried over, which KARL loses. A writer that opened the old
    file and takes more than ten milliseconds to write once the lock is free is not seen. Cost: two passes over the
    lines, on all cores. Memory: 8 MiB of lines or the longest line, and what they become; a byte a line, and the
    rewards that the store holds.

    Args:
        force: also score the records that have a reward.
        path: the store; `karl_fast.reward.STORE_PATH` unless given.
        version: as in `compute_reward`.

    Returns:
        ``total`` lines, ``scored``, ``skipped``, ``errors``, and ``domain_baselines`` unless there is no store.

    Raises:
        OSError: the store could not be read or replaced, where KARL returns zeros; then it is as it was.

    Reference:
        Diomandeee/karl, ``karl/reward_engine.py``, commits 7d5ef32 (v1) and c41d1c5 (v2).
    """
    return backfill(_store(path), force=force, version=version)


def get_reward_stats(path: str | Path | None = None, *, version: Version = "v1") -> dict[str, Any]:
    """Sum up the rewards of a store: how many, mean, least and most, and count and mean by channel and by domain.

    Numbers are rounded to four decimals, and keys are in KARL's order. Records without a reward that is a finite
    number, and lines that are not records, are left out; KARL stops at some of them.

    Args:
        path: the store; `karl_fast.reward.STORE_PATH` unless given.
        version: where the domain of a record is: v1 in its skill, v2 beside it.

    Returns:
        Nothing where there is no store, and ``{"scored": 0}`` where no record has a reward.

    Raises:
        OSError: the store could not be read.

    Reference:
        Diomandeee/karl, ``karl/reward_engine.py``, commits 7d5ef32 (v1) and c41d1c5 (v2).
    """
    return statistics(_store(path), version)


def _store(path: str | Path | None) -> Path:
    """Return the store that a call means; of a link, the file that it leads to, which others append to."""
    return Path(STORE_PATH if path is None else path).resolve()
