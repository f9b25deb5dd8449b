"""Filters of groups by their learning signal, and the effect of a mask on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from karl_fast import _core
from karl_fast.filter.result import filtered

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from karl_fast.filter.result import Filtered
    from karl_fast.typing import Integers, Reals


@dataclass(frozen=True)
class Starved:
    """Effect of a mask on the groups with a learning signal.

    Attributes:
        groups: groups with enough rollouts and different rewards before the mask.
        short: those left with too few rollouts.
        constant: those left with enough rollouts but equal rewards.
    """

    groups: int
    short: int
    constant: int


def differ(least: float, largest: float) -> bool:
    """Return whether the least and the largest of some rewards differ by more than rounding.

    It is the test of the Rust core (``numeric::float::differ``) for what is compared in Python.
    """
    return largest - least > 2.0**-43 * max(abs(least), abs(largest), 0.125)


def constant_groups(
    outcomes: Reals,
    group_ids: Integers | None = None,
    *,
    offsets: Integers | None = None,
    rewards: Reals | None = None,
) -> Filtered:
    """Drop groups in which all outcomes are equal.

    ```text
    keep_i = max_g(outcome) - min_g(outcome) > 2^-43 max(|outcome|, 1/8),   g the group of i
    ```

    The test uses outcomes before shaping. After shaping, the rewards of a group that failed as a whole still differ (by
    length or format), so a filter on the deviation of shaped rewards would keep it and train on shape alone. Outcomes
    that differ by rounding only (``0.1 + 0.2`` and ``0.3``) are equal, here as in every score; a group of one is
    constant.

    Args:
        outcomes: before shaping, float64 or float32; NaN is missing: ignored in its group, and dropped. [B]
        group_ids: the group of each row, negative for none. [B]
        offsets: where each group begins and the last ends, instead of ``group_ids``. [P + 1]
        rewards: rewards after shaping; only to separate constant groups that they hide (``phantom_group``) from others,
            and to drop rows with a missing reward. [B]

    Returns:
        The rows kept, and the reason for each dropped one.

    Raises:
        ArgumentError: an infinite number, or columns that differ in length.
        UsageError: both or none of ``group_ids`` and ``offsets``.
        DTypeError, LayoutError: an array that would have to be cast or copied, or offsets out of place.

    Reference: Yu et al. 2025, DAPO (arXiv:2503.14476), section 3.2.
    """
    return filtered(_core.constant_groups(outcomes, group_ids, offsets=offsets, rewards=rewards))


def mixed_groups(
    right: NDArray[np.bool_], group_ids: Integers | None = None, *, offsets: Integers | None = None
) -> Filtered:
    """Keep groups with both right and wrong rollouts.

    ```text
    keep_i = 0 < #right_g < G_g,   g the group of i
    ```

    This is :func:`constant_groups` over outcomes of 0 and 1, with separate reasons ``all_right`` and ``all_wrong``.

    Args:
        right: True for rollouts that succeeded. [B]
        group_ids: the group of each row, negative for none. [B]
        offsets: where each group begins and the last ends, instead of ``group_ids``. [P + 1]

    Returns:
        The rows kept, and the reason for each dropped one.

    Raises:
        ArgumentError: columns that differ in length.
        UsageError: both or none of ``group_ids`` and ``offsets``.
        DTypeError, LayoutError: an array that would have to be cast or copied, or offsets out of place.

    Reference: SAMPO (arXiv:2602.21534), eq. 8; DAPO (arXiv:2503.14476), eq. 11.
    """
    return filtered(_core.mixed_groups(right, group_ids, offsets=offsets))


def variance_top_p(
    rewards: Reals,
    group_ids: Integers | None = None,
    *,
    p: float,
    offsets: Integers | None = None,
    ddof: int = 0,
) -> Filtered:
    """Keep the fewest groups that hold a share p of the variance of reward.

    ```text
    v_g = sum_i (r_i - mean_g)^2 / (n_g - ddof),   v_(1) >= v_(2) >= ...
    kept: the first m, the least for which v_(1) + ... + v_(m) >= p * sum_g v_g
    ```

    Of equal variances the group that appears first comes first. A group with equal rewards has variance exactly 0 and
    is never kept; p = 1 keeps all others.

    Args:
        rewards: float64 or float32; NaN is missing: ignored in its group, and dropped. [B]
        group_ids: the group of each row, negative for none. [B]
        p: from 0 to 1.
        offsets: where each group begins and the last ends, instead of ``group_ids``. [P + 1]
        ddof: 0 or 1. It matters where groups differ in size.

    Returns:
        The rows kept, and the reason for each dropped one.

    Raises:
        ArgumentError: an infinite reward, a variance beyond float64, a number outside its range, or columns that differ
            in length.
        UsageError: both or none of ``group_ids`` and ``offsets``.
        DTypeError, LayoutError: an array that would have to be cast or copied, or offsets out of place.

    Reference: RAGEN-2 (arXiv:2604.06268).
    """
    return filtered(_core.variance_top(rewards, group_ids, offsets=offsets, p=p, ddof=ddof))


def variance_top_k(
    rewards: Reals,
    group_ids: Integers | None = None,
    *,
    k: int,
    offsets: Integers | None = None,
    ddof: int = 0,
) -> Filtered:
    """Keep the k groups of the largest variance of reward; all that have any where there are fewer.

    ```text
    v_g = sum_i (r_i - mean_g)^2 / (n_g - ddof),   kept: v_(1) >= ... >= v_(k)
    ```

    Ties and constant groups are as for :func:`variance_top_p`.

    Args:
        rewards: float64 or float32; NaN is missing: left out of its group, and dropped. [B]
        group_ids: the group of each row, negative for none. [B]
        k: 0 or more.
        offsets: where each group begins and the last ends, instead of ``group_ids``. [P + 1]
        ddof: 0 or 1. It matters where groups differ in size.

    Returns:
        Which rows stay, and why the others do not.

    Raises:
        ArgumentError: an infinite reward, a variance beyond float64, a number outside its range, or columns that differ
            in length.
        UsageError: both or none of ``group_ids`` and ``offsets``.
        DTypeError, LayoutError: an array that would have to be cast or copied, or offsets out of place.

    Reference: RAGEN-2 (arXiv:2604.06268), with a count in place of its share.
    """
    return filtered(_core.variance_top(rewards, group_ids, offsets=offsets, k=k, ddof=ddof))


def starved(
    keep: NDArray[np.bool_],
    rewards: Reals,
    group_ids: Integers | None = None,
    *,
    offsets: Integers | None = None,
    min_group: int = 2,
) -> Starved:
    """Count the groups that a mask starves: left with fewer than ``min_group`` rollouts, or with equal rewards.

    Args:
        keep: the mask of any filter. [B]
        rewards: float64 or float32; NaN is missing, and counts as no rollout. [B]
        group_ids: the group of each row, negative for none. [B]
        offsets: where each group begins and the last ends, instead of ``group_ids``. [P + 1]
        min_group: number of rollouts that a group needs, 1 or more.

    Returns:
        The number of groups with a signal, and of those that lost it.

    Raises:
        ArgumentError: an infinite reward, a ``min_group`` below 1, or columns that differ in length.
        UsageError: both or none of ``group_ids`` and ``offsets``.
        DTypeError, LayoutError: an array that would have to be cast or copied, or offsets out of place.
    """
    return Starved(*_core.starved(keep, rewards, group_ids, offsets=offsets, min_group=min_group))
