"""The reward engine of KARL, in whose place it goes: the same names, arguments, numbers and keys.

| name | what it gives |
|---|---|
| :func:`compute_reward` | a record's reward, its signals and what they are made of |
| :func:`compute_rewards` | the rewards of a whole log, a file or its bytes, as an array |
| :func:`compute_call_rewards` | the rewards of trajectories whose calls are in columns (:class:`Calls`) |
| :func:`compute_advantage` | how far a reward is above the baseline of its domain |
| :func:`backfill_rewards` | writes rewards into the records of a store |
| :func:`get_reward_stats` | what rewards a store holds |
| :data:`STORE_PATH` | the store, unless a call names another |

Beside the engine:

| name | what it is |
|---|---|
| :class:`Composite`, :class:`Part` | one reward from signals, columns and Python functions; :data:`SIGNALS` by name |
| :class:`Shaped`, :class:`AsymmetricScale` | a reward before shaping and after |
| :func:`score_groups` | rewards that a trajectory has within its group |
| :class:`FixedBaseline`, :class:`MeanBaseline`, :class:`EmaBaseline` | what rewards a domain has |
| :class:`ShrunkBaseline`, :class:`PartitionBaseline` | the same, leaning on all domains; as a soft maximum |
| :class:`SkillWeights` | how much a skill is trusted |
| :func:`save`, :func:`load` | baselines and skill weights as files |

``version`` is ``"v1"`` (three signals, KARL v1.0.0) or ``"v2"`` (six signals, KARL's commit c41d1c5).
"""

from __future__ import annotations

from karl_fast.reward.baselines.files import load, save
from karl_fast.reward.baselines.merged import MeanBaseline, PartitionBaseline, ShrunkBaseline
from karl_fast.reward.baselines.moving import EmaBaseline, FixedBaseline
from karl_fast.reward.baselines.skills import SkillWeights
from karl_fast.reward.composite import Composite, Part, Rewards
from karl_fast.reward.engine.backfill import backfill_rewards
from karl_fast.reward.engine.columns import Calls, compute_call_rewards
from karl_fast.reward.engine.records import _compute_efficiency as _compute_efficiency
from karl_fast.reward.engine.records import _compute_outcome as _compute_outcome
from karl_fast.reward.engine.records import _compute_process as _compute_process
from karl_fast.reward.engine.records import _max_consecutive_failures as _max_consecutive_failures
from karl_fast.reward.engine.records import (
    compute_advantage,
    compute_reward,
    compute_rewards,
)
from karl_fast.reward.engine.statistics import get_reward_stats
from karl_fast.reward.engine.store import store_path
from karl_fast.reward.groups import GroupScorer, score_groups, shorter_is_better
from karl_fast.reward.shaped import Shaped
from karl_fast.reward.signals import SIGNALS
from karl_fast.settings.shaping import AsymmetricScale

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
"""Where the records are: ``KARL_STORE_PATH``, else ``trajectories.jsonl`` in ``KARL_DATA_DIR``, else in the folder
``data`` of ``KARL_DIR``, else of the working directory; read when the module is imported, as KARL reads its own."""
