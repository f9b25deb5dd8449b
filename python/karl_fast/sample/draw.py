"""k rows without replacement, in proportion to their weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karl_fast import _core
from karl_fast.errors import ArgumentError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from karl_fast.protocols import Floats


def draw(log_weights: Floats, k: int, *, seed: int = 0, keys: NDArray[np.uint64] | None = None) -> NDArray[np.int64]:
    """Draw k rows by Gumbel-top-k: key_i = log w_i - ln(-ln u_i), the k largest keys, largest first.

    The draw follows the Plackett-Luce law exactly: each next row is drawn in proportion to weight among those left.
    The chance of a row to be among the k is *not* k * p_i. u_i is a pure function of the seed and the row's key, so a
    draw does not change with threads, shards or order where keys are given.

    Args:
        log_weights: any constant may be added; minus infinity is never drawn. An array of NumPy, or an Arrow column
            without nulls. [B]
        k: how many; all rows that can be drawn where there are fewer.
        seed: 0 to 2^64 - 1.
        keys: ``Log.keys``; the index of each row where absent. [B, 3]

    Returns:
        Row numbers. [min(k, rows that can be drawn)]

    Raises:
        ArgumentError: a log-weight that is NaN or plus infinity.
        DTypeError, LayoutError: an array that would have to be cast or copied.

    Reference: Kool, van Hoof, Welling 2019 (arXiv:1903.06059).
    """
    if k < 0 or not 0 <= seed < 1 << 64:
        raise ArgumentError(f"k is {k} and seed {seed}, wanted k from 0 on and seed from 0 to 2^64 - 1")
    return _core.top(_core.gumbel_keys(log_weights, seed=seed, keys=keys), k)
