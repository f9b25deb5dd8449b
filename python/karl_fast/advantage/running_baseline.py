"""A baseline that follows the rewards of a group as they come."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast import _core
from karl_fast.errors import ArgumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karl_fast.typing import Integers, Reals


@dataclass(frozen=True, eq=False)
class Ema:
    """The running baselines of `ema_baseline`.

    Attributes:
        ids: the groups that were seen, in order of appearance. [P]
        baselines: the baseline of each. [P]
    """

    ids: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    baselines: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True, eq=False)
class EmaAdvantages:
    """Result of `ema_baseline`.

    Attributes:
        advantages: r_i - b_g; NaN where the reward or the group is missing. [B]
        state: the baselines after the last row, for the next call.
    """

    advantages: NDArray[np.float64]
    state: Ema


def ema_baseline(
    rewards: Reals,
    group_ids: Integers | None = None,
    *,
    offsets: Integers | None = None,
    alpha: float = 0.1,
    start: float = 0.5,
    state: Ema | None = None,
) -> EmaAdvantages:
    """Subtract a running mean of the earlier rewards of the group.

        A_i = r_i - b_g,    then  b_g <- (1 - alpha) b_g + alpha r_i

    Rows are taken in the order given, which is time. Two calls, the second with the state of the first, give the same
    as one call over all rows. The defaults are those of karl 1.0.0, with skill weight b_g + 0.5.

    Args:
        rewards: as in `centre`. [B]
        group_ids: the group of each row, int64, negative for none. [B]
        offsets: instead of ids, where each group begins: group i is known to the state as i. [P + 1]
        alpha: the weight of the newest reward, 0 to 1.
        start: the baseline of a group that is not in the state.
        state: the state returned by an earlier call.

    Returns:
        The advantages, and the state after the last row.

    Raises:
        ArgumentError: an infinite reward, an alpha outside 0 to 1, a start that is not finite, or a state of another
            type or with a group twice.
        UsageError: both or neither of group_ids and offsets.
        DTypeError, LayoutError: an array that would have to be cast or copied, or offsets out of place.

    Reference: karl 1.0.0, ``weight_updater.py``.
    """
    earlier = Ema() if state is None else state
    if not isinstance(earlier, Ema):
        raise ArgumentError(f"state is a {type(earlier).__name__}, wanted an Ema or None")
    how: Any = {"alpha": alpha, "start": start, "ids": earlier.ids, "baselines": earlier.baselines}
    result = _core.ema_baseline(rewards, group_ids, offsets=offsets, **how)
    return EmaAdvantages(result["advantages"], Ema(result["ids"], result["baselines"]))
