"""Credit assignment: advantages from rewards.

| function | formula |
|---|---|
| `centre` | r - mean of the group (Dr. GRPO) |
| `zscore` | (r - mean) / (std + eps) over group, batch or everything (GRPO) |
| `leave_one_out` | r - mean of the others (RLOO) |
| `maxrl` | (r - mean) / (mean + eps) |
| `gdpo` | several rewards, each a z-score before they are added |
| `shrunk` | r - mean of the group, shrunk towards the mean of all rows |
| `partition_baseline` | r - (1/b) log mean exp(b r) |
| `best_of_k` | what a rollout adds to the best of k (pass@k) |
| `segment_weights`, `tree_roots` | shares of the reward of a trajectory that called others |
| `fixed_baseline`, `ema_baseline` | r - a number; r - a running mean |
| `whiten`, `reinforce_plus_plus`, `reinforce_plus_plus_baseline` | over all tokens |
| `discounted_returns`, `gigpo`, `empg` | steps of trajectories |
| `by_convention` | what another trainer does, defects included |

Groups come as ``group_ids`` in any order, or as ``offsets`` of groups end to end; rewards are float64 or float32,
results float64. A group with equal rewards has advantage exactly 0, and so has a group of one; a missing
reward stays missing. Functions that differ from that say so.
"""

from karl_fast._core import (
    best_of_k,
    by_convention,
    centre,
    discounted_returns,
    empg,
    fixed_baseline,
    gdpo,
    leave_one_out,
    maxrl,
    partition_baseline,
    reinforce_plus_plus,
    reinforce_plus_plus_baseline,
    segment_weights,
    shrunk,
    tree_roots,
    whiten,
    zscore,
)
from karl_fast.advantage.running_baseline import Ema, EmaAdvantages, ema_baseline
from karl_fast.advantage.steps import Gigpo, gigpo, state_ids
from karl_fast.advantage.trainers import CONVENTIONS, Convention

__all__ = [
    "CONVENTIONS",
    "Convention",
    "Ema",
    "EmaAdvantages",
    "Gigpo",
    "best_of_k",
    "by_convention",
    "centre",
    "discounted_returns",
    "ema_baseline",
    "empg",
    "fixed_baseline",
    "gdpo",
    "gigpo",
    "leave_one_out",
    "maxrl",
    "partition_baseline",
    "reinforce_plus_plus",
    "reinforce_plus_plus_baseline",
    "segment_weights",
    "shrunk",
    "state_ids",
    "tree_roots",
    "whiten",
    "zscore",
]
