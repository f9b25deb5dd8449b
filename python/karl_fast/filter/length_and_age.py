"""Rollouts too long, and rollouts too old."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from karl_fast import _core
from karl_fast.filter.result import filtered

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from karl_fast.filter.result import Filtered
    from karl_fast.typing import Integers


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
    return filtered(_core.overlong(lengths, max_tokens=max_tokens, truncated=truncated))


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
    return filtered(_core.stale(versions, now=now, max_age=max_age))
