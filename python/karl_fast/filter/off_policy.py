"""Filters of rollouts and tokens by the change of their log-probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karl_fast import _core
from karl_fast.filter.result import filtered

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from karl_fast.filter.result import Filtered
    from karl_fast.typing import Integers, Reals


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
    return filtered(_core.low_ratio_negatives((logp, logp_old, offsets, mask), advantages, delta))


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
    return filtered(_core.probability_difference((logp, logp_old, offsets, mask), advantages, low, high))
