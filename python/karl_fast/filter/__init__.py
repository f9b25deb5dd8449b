"""Masks over rows, with the reason for every row that is dropped. A filter never reweights.

| function | drops | source |
|---|---|---|
| :func:`constant_groups` | groups with equal outcomes | DAPO |
| :func:`mixed_groups` | groups all right or all wrong | SAMPO, DAPO |
| :func:`variance_top_p`, :func:`variance_top_k` | groups with the least variance of reward | RAGEN-2 |
| :func:`overlong` | rollouts cut at the limit of tokens | DAPO |
| :func:`soft_overlong_penalty` | nothing: it is added to the reward before that limit | DAPO, verl, OpenRLHF |
| :func:`stale` | rollouts of policies that are too old | |
| :func:`low_ratio_negatives` | rollouts of negative advantage now unlikely under the policy | SAMPO, DeepSeek-V3.2 |
| :func:`probability_difference` | tokens with a large enough change of probability | DPPO |
| :func:`starved` | nothing: it counts the groups that a mask leaves without a signal | |

Groups are given as ids in any order (``group_ids``, negative for none) or as the bounds of contiguous groups
(``offsets``).
"""

from karl_fast.filter.groups import (
    Starved,
    constant_groups,
    mixed_groups,
    starved,
    variance_top_k,
    variance_top_p,
)
from karl_fast.filter.length_and_age import overlong, soft_overlong_penalty, stale
from karl_fast.filter.off_policy import low_ratio_negatives, probability_difference
from karl_fast.filter.result import REASONS, Filtered

__all__ = [
    "REASONS",
    "Filtered",
    "Starved",
    "constant_groups",
    "low_ratio_negatives",
    "mixed_groups",
    "overlong",
    "probability_difference",
    "soft_overlong_penalty",
    "stale",
    "starved",
    "variance_top_k",
    "variance_top_p",
]
