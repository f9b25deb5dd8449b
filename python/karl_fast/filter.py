"""Masks over rows, with the reason for every row that is dropped. A filter never reweights.

| function | drops | source |
|---|---|---|
| `constant_groups` | groups with equal outcomes | DAPO |
| `mixed_groups` | groups all right or all wrong | SAMPO, DAPO |
| `variance_top_p`, `variance_top_k` | groups with the least variance of reward | RAGEN-2 |
| `overlong` | rollouts cut at the limit of tokens | DAPO |
| `soft_overlong_penalty` | nothing: it is added to the reward before that limit | DAPO, verl, OpenRLHF |
| `stale` | rollouts of policies that are too old | |
| `low_ratio_negatives` | rollouts of negative advantage now unlikely under the policy | SAMPO, DeepSeek-V3.2 |
| `probability_difference` | tokens with a large enough change of probability | DPPO |
| `starved` | nothing: it counts the groups that a mask leaves without a signal | |

Groups are given as ids in any order (``group_ids``, negative for none) or as the bounds of contiguous groups
(``offsets``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from karl_fast import _core

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from karl_fast.typing import Integers, Reals

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

REASONS: tuple[str, ...] = tuple(_core.reasons())
"""The name of each code in ``Filtered.reasons``, by its number; 0 is ``kept``."""


@dataclass(frozen=True, eq=False)
class Filtered:
    """Result of a filter over rows (or tokens).

    Attributes:
        keep: True for those kept. [B]
        reasons: reason for each, as an index of `REASONS`; 0 for those kept. [B]
        counts: number for each reason that occurred, and ``kept``. They add up to B.
    """

    keep: NDArray[np.bool_]
    reasons: NDArray[np.uint8]
    counts: dict[str, int]


def _as_filtered(result: dict[str, Any]) -> Filtered:
    """Convert the result of a filter of the extension module."""
    return Filtered(result["keep"], result["reasons"], dict(result["counts"]))


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
    return _as_filtered(_core.constant_groups(outcomes, group_ids, offsets=offsets, rewards=rewards))


def mixed_groups(
    right: NDArray[np.bool_], group_ids: Integers | None = None, *, offsets: Integers | None = None
) -> Filtered:
    """Keep groups with both right and wrong rollouts.

    ```text
    keep_i = 0 < #right_g < G_g,   g the group of i
    ```

    This is `constant_groups` over outcomes of 0 and 1, with separate reasons ``all_right`` and ``all_wrong``.

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
    return _as_filtered(_core.mixed_groups(right, group_ids, offsets=offsets))


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
    return _as_filtered(_core.variance_top(rewards, group_ids, offsets=offsets, p=p, ddof=ddof))


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

    Ties and constant groups are as for `variance_top_p`.

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
    return _as_filtered(_core.variance_top(rewards, group_ids, offsets=offsets, k=k, ddof=ddof))


def overlong(lengths: Integers, *, max_tokens: int, truncated: NDArray[np.bool_] | None = None) -> Filtered:
    """Drop rollouts that were cut at the limit of tokens (overlong filtering).

    ```text
    keep_i = lengths_i < max_tokens,   with truncated:  keep_i = not truncated_i and lengths_i <= max_tokens
    ```

    Args:
        lengths: tokens of each rollout. [B]
        max_tokens: the limit, 0 to 2^32 - 1.
        truncated: which were cut; without it, all that reach the limit are taken as cut. With it, one longer than the
            limit is dropped too. [B]

    Returns:
        Which rows stay, and why the others do not.

    Raises:
        ArgumentError: a negative length, a limit outside its range, or columns that differ in length.
        DTypeError, LayoutError: an array that would have to be cast or copied.

    Reference: Yu et al. 2025, DAPO (arXiv:2503.14476), section 3.4.
    """
    return _as_filtered(_core.overlong(lengths, max_tokens=max_tokens, truncated=truncated))


def soft_overlong_penalty(
    lengths: Integers,
    *,
    max_tokens: int,
    cache_tokens: int,
    form: Literal["dapo", "verl", "openrlhf"] = "dapo",
    factor: float | None = None,
) -> NDArray[np.float64]:
    """Return the penalty to add to the reward of rollouts near the token limit.

    ```text
    x = (T - (L - C)) / C        T tokens of the rollout, L the limit, C the interval before it
    dapo      0 for x <= 0,  -x up to the limit,  -1 beyond it        (eq. 13; TRL)
    verl      factor * min(-x, 0), which has no floor
    openrlhf  -factor * clip(x, 0, 1)
    ```

    Args:
        lengths: T, tokens of each rollout. [B]
        max_tokens: L; 20480 in the paper.
        cache_tokens: C; 4096 in the paper.
        form: the implementation. Up to the limit all have the same slope.
        factor: factor of the last two, 1 by default.

    Returns:
        float64, 0 or less. [B]

    Raises:
        ArgumentError: a negative length, or a number outside its range.
        UsageError: an unknown form, or a factor for ``dapo``.
        DTypeError, LayoutError: an array that would have to be cast or copied.

    Reference: Yu et al. 2025, DAPO (arXiv:2503.14476), eq. 13.
    """
    return _core.soft_overlong_penalty(
        lengths, max_tokens=max_tokens, cache_tokens=cache_tokens, form=form, factor=factor
    )


def stale(versions: Integers, *, now: int, max_age: int) -> Filtered:
    """Drop rollouts of policies more than ``max_age`` versions behind.

    ```text
    keep_i = now - version_i <= max_age
    ```

    Args:
        versions: number of steps of the policy when each rollout began. [B]
        now: its number of steps now.
        max_age: maximum age; 0 keeps on-policy rollouts only.

    Returns:
        The rows kept, and the reason for each dropped one.

    Raises:
        ArgumentError: a version above ``now``, or a negative ``max_age``.
        DTypeError, LayoutError: an array that would have to be cast or copied.
    """
    return _as_filtered(_core.stale(versions, now=now, max_age=max_age))


def low_ratio_negatives(
    logp: Reals,
    logp_old: Reals,
    offsets: Integers,
    advantages: Reals,
    *,
    delta: float = 0.223,  # SAMPO; near ln 1.25, a geometric mean ratio of 0.8
    mask: NDArray[np.bool_] | None = None,
) -> Filtered:
    """Drop rollouts of negative advantage that the policy has fallen away from.

    ```text
    keep_i = A_i >= 0  or  mean_t(logp_old_t - logp_t) <= delta,   t the tokens of i that the mask takes
    ```

    A rollout without such a token is kept.

    Args:
        logp: log-probabilities under the policy, in nats, float32 or float64. [T]
        logp_old: under the behaviour policy. [T]
        offsets: where each rollout begins and the last ends. [B + 1]
        advantages: float64 or float32; NaN drops the rollout (``missing_advantage``). [B]
        delta: in nats a token.
        mask: which tokens are the policy's own; the others are not read. [T]

    Returns:
        Which rollouts stay, and why the others do not. [B]

    Raises:
        ArgumentError: a log-probability that is not finite, an infinite advantage, or columns that do not fit.
        DTypeError, LayoutError: an array that would have to be cast or copied; offsets that fit no tokens.

    Reference: SAMPO (arXiv:2602.21534); the off-policy sequence mask of DeepSeek-V3.2.
    """
    return _as_filtered(_core.low_ratio_negatives((logp, logp_old, offsets, mask), advantages, delta))


def probability_difference(
    logp: Reals,
    logp_old: Reals,
    offsets: Integers,
    advantages: Reals,
    *,
    low: float,
    high: float,
    mask: NDArray[np.bool_] | None = None,
) -> Filtered:
    """Drop tokens with a large change of probability in the direction of their advantage.

    ```text
    d_t = exp(logp_t) - exp(logp_old_t)
    A > 0: keep_t = d_t <= high,   A < 0: keep_t = d_t >= -low,   A = 0: keep_t
    ```

    Tokens outside the mask are kept; a missing advantage drops all tokens of its rollout. The result is over tokens.

    Args:
        logp: log-probabilities under the policy, in nats, float32 or float64. [T]
        logp_old: under the behaviour policy. [T]
        offsets: where each rollout begins and the last ends. [B + 1]
        advantages: float64 or float32; NaN drops the tokens (``missing_advantage``). [B]
        low, high: bounds on a difference of probabilities, not on a ratio; zero or more.
        mask: True for tokens of the policy; the others are not read. [T]

    Returns:
        The tokens kept, and the reason for each dropped one. [T]

    Raises:
        ArgumentError: a log-probability that is not finite, an infinite advantage, a negative bound, or columns of
            different lengths.
        DTypeError, LayoutError: an array that would have to be cast or copied; offsets that do not fit the tokens.

    Reference: DPPO with binary total variation (arXiv:2602.04879); the default loss of prime-rl has this mask.
    """
    return _as_filtered(_core.probability_difference((logp, logp_old, offsets, mask), advantages, low, high))


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


def differ(least: float, largest: float) -> bool:
    """Return whether the least and the largest of some rewards differ by more than rounding.

    It is the test of the Rust core (``numeric::float::differ``) for what is compared in Python.
    """
    return largest - least > 2.0**-43 * max(abs(least), abs(largest), 0.125)
