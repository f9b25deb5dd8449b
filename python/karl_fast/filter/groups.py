"""Groups that teach nothing, those that teach most, and what a mask leaves of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from karl_fast import _core
from karl_fast.filter.result import filtered

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from karl_fast.filter.result import Filtered
    from karl_fast.protocols import Integers, Reals


@dataclass(frozen=True)
class Starved:
    """What a mask left of the groups that could teach.

    Attributes:
        groups: those with enough rollouts, and a difference in reward, before it.
        short: those of them left with too few rollouts.
        constant: those left with enough rollouts, and with one reward.
    """

    groups: int
    short: int
    constant: int


def constant_groups(
    outcomes: Reals,
    groups: Integers | None = None,
    *,
    offsets: Integers | None = None,
    rewards: Reals | None = None,
) -> Filtered:
    """Drop groups whose outcomes are all equal: keep_i = max_g(outcome) > min_g(outcome).

    Judged by what a rollout is rewarded *for*. After shaping, a group that failed as a whole still differs (in length,
    in format), so a filter by the deviation of the shaped reward keeps it, and trains on advantages of nothing but
    shape. Equality is exact; a group of one is constant.

    Args:
        outcomes: before shaping, float64 or float32; NaN is missing: left out of its group, and dropped. [B]
        groups: the group of each row. [B]
        offsets: where each group begins and the last ends, instead of ``groups``. [P + 1]
        rewards: after shaping; only to tell constant groups that it hides (``phantom_group``) from others, and to drop
            rows whose reward is missing. [B]

    Raises:
        ArgumentError: an infinite number, or columns of two lengths.
        UsageError: both or none of ``groups`` and ``offsets``.
        DTypeError, LayoutError: an array that would have to be cast or copied.

    Reference: Yu et al. 2025, DAPO (arXiv:2503.14476), section 3.2.
    """
    return filtered(_core.constant_groups(outcomes, groups, offsets=offsets, rewards=rewards))


def mixed_groups(
    right: NDArray[np.bool_], groups: Integers | None = None, *, offsets: Integers | None = None
) -> Filtered:
    """Keep groups of which some rollouts are right and some are not: 0 < #right < G.

    :func:`constant_groups` over outcomes of 0 and 1, with ``all_right`` and ``all_wrong`` told apart.

    Args:
        right: whether each rollout succeeded. [B]
        groups: the group of each row. [B]
        offsets: where each group begins and the last ends, instead of ``groups``. [P + 1]

    Raises:
        ArgumentError, UsageError, DTypeError, LayoutError: as :func:`constant_groups`.

    References: SAMPO (arXiv:2602.21534), eq. 8; DAPO (arXiv:2503.14476), eq. 11.
    """
    return filtered(_core.mixed_groups(right, groups, offsets=offsets))


def variance_top_p(
    rewards: Reals,
    groups: Integers | None = None,
    *,
    p: float,
    offsets: Integers | None = None,
    ddof: int = 0,
) -> Filtered:
    """Keep the fewest groups that hold a share p of the variance of reward.

    v_g = sum_i (r_i - mean_g)^2 / (n_g - ddof), largest first; kept are the first m for which v_(1) + ... + v_(m) is at
    least p times the sum over all groups. Of equal variances the group that appears first comes first. A group whose
    rewards are all equal has variance exactly 0 and is never kept; p = 1 keeps all others.

    Args:
        rewards: float64 or float32; NaN is missing: left out of its group, and dropped. [B]
        groups: the group of each row. [B]
        p: from 0 to 1.
        offsets: where each group begins and the last ends, instead of ``groups``. [P + 1]
        ddof: 0 or 1. It matters where groups differ in size.

    Raises:
        ArgumentError: an infinite reward, a variance beyond float64, or a number outside its range.
        UsageError: both or none of ``groups`` and ``offsets``.
        DTypeError, LayoutError: an array that would have to be cast or copied.

    Reference: RAGEN-2 (2026).
    """
    return filtered(_core.variance_top(rewards, groups, offsets=offsets, p=p, ddof=ddof))


def variance_top_k(
    rewards: Reals,
    groups: Integers | None = None,
    *,
    k: int,
    offsets: Integers | None = None,
    ddof: int = 0,
) -> Filtered:
    """Keep the k groups of the largest variance of reward; all that have any where there are fewer.

    Arguments and errors are those of :func:`variance_top_p`.
    """
    return filtered(_core.variance_top(rewards, groups, offsets=offsets, k=k, ddof=ddof))


def starved(
    keep: NDArray[np.bool_],
    rewards: Reals,
    groups: Integers | None = None,
    *,
    offsets: Integers | None = None,
    min_group: int = 2,
) -> Starved:
    """Count the groups that a mask starves: left with fewer than ``min_group`` rollouts, or with equal rewards.

    Args:
        keep: the mask of any filter. [B]
        rewards: NaN is missing, and counts as no rollout. [B]
        groups: the group of each row. [B]
        offsets: where each group begins and the last ends, instead of ``groups``. [P + 1]
        min_group: how many rollouts a group needs, 1 or more.

    Raises:
        ArgumentError, UsageError, DTypeError, LayoutError: as :func:`constant_groups`.
    """
    return Starved(*_core.starved(keep, rewards, groups, offsets=offsets, min_group=min_group))
