"""Rows in proportion to their weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from karl_fast import _core
from karl_fast.errors import ArgumentError, UsageError
from karl_fast.settings.schema import Sampler

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from karl_fast.typing import Reals


def draw(
    log_weights: Reals,
    k: int,
    *,
    sampler: Sampler = "gumbel",
    seed: int = 0,
    keys: NDArray[np.uint64] | None = None,
) -> NDArray[np.int64]:
    """Draw k rows.

    - ``gumbel``, ``weighted-reservoir``: without replacement. key_i = log w_i - ln(-ln u_i), the k largest keys,
      largest first, which follows the Plackett-Luce law exactly: each next row is drawn in proportion to weight among
      those left. The chance of a row to be among the k is *not* k * p_i.
    - ``reservoir``: without replacement, every set of k rows alike.
    - ``systematic``: with replacement, by k evenly spaced points on the cumulative weights: a row of probability p is
      drawn floor(k p) or ceil(k p) times.
    - ``multinomial``: with replacement, by k independent points.
    - ``all``: the first k rows that have a weight, in row order.

    u_i is a pure function of the seed and the row's key, so a draw without replacement does not change with threads,
    shards or order where keys are given. Points belong to the seed, and fall on rows in the order given.

    Args:
        log_weights: any constant may be added; minus infinity is never drawn. Float64, or float32, which is widened
            once: an array of NumPy, or an Arrow column without nulls. [B]
        k: number of rows; without replacement, all rows that can be drawn if there are fewer.
        sampler: by which law.
        seed: 0 to 2^64 - 1.
        keys: ``Log.keys``; the index of each row where absent. They are taken as they are: ``karl_fast.sample`` with
            weighted-reservoir has the hash of a record's bytes for an ordinal, not its rank. [B, 3]

    Returns:
        Row numbers; with replacement in row order, copies side by side. [k, or rows that can be drawn]

    Raises:
        ArgumentError: a log-weight that is NaN or plus infinity, or a number outside its range.
        UsageError: a sampler that there is not.
        DTypeError, LayoutError: an array that would have to be cast or copied.

    References: Kool, van Hoof, Welling 2019 (arXiv:1903.06059); Madow 1949.
    """
    check_draw(k, seed)
    if sampler not in get_args(Sampler):
        raise UsageError(f"sampler is {sampler!r}, wanted one of {', '.join(get_args(Sampler))}")
    return _core.draw(log_weights, k, sampler=sampler, seed=seed, keys=keys)


def reservoir(rows: int, k: int, *, seed: int = 0) -> NDArray[np.int64]:
    """Draw k of the numbers below ``rows``, all alike, in one pass with skips: Algorithm L.

    It takes about 3 k ln(rows / k) uniforms, which are hashes of the seed and their count; unlike :func:`draw`, the
    result depends on the number of rows and their order.

    Args:
        rows: number of rows, 0 to 2^63 - 1.
        k: number of rows; all rows if there are fewer.
        seed: 0 to 2^64 - 1.

    Returns:
        The numbers in the places of the reservoir. [k, or rows]

    Raises:
        ArgumentError: a number outside its range.

    References: Li 1994.
    """
    check_draw(k, seed)
    if not 0 <= rows < 1 << 63:
        raise ArgumentError(f"rows is {rows}, wanted 0 to 2^63 - 1")
    return _core.reservoir(rows, k, seed=seed)


def weighted_reservoir(log_weights: Reals, k: int, *, seed: int = 0) -> NDArray[np.int64]:
    """Draw k rows without replacement in one pass with jumps: A-ExpJ.

    The law is that of :func:`draw`. It takes about k ln(B / k) uniforms, which are hashes of the seed and their count;
    unlike :func:`draw`, the result depends on the order of the rows.

    Args:
        log_weights: any constant may be added; minus infinity is never drawn. Float32 is widened once. [B]
        k: number of rows; all rows that can be drawn if there are fewer.
        seed: 0 to 2^64 - 1.

    Returns:
        Row numbers by descending key. [k, or rows that can be drawn]

    Raises:
        ArgumentError: a log-weight that is NaN or plus infinity, or a number outside its range.
        DTypeError, LayoutError: an array that would have to be cast or copied.

    References: Efraimidis and Spirakis 2006.
    """
    check_draw(k, seed)
    return _core.weighted_reservoir(log_weights, k, seed=seed)


def check_draw(k: int, seed: int) -> None:
    """Refuse a count or a seed that no draw can take, by name."""
    if not 0 <= k < 1 << 32:
        raise ArgumentError(f"k is {k}, wanted 0 to 2^32 - 1")
    if not 0 <= seed < 1 << 64:
        raise ArgumentError(f"seed is {seed}, wanted 0 to 2^64 - 1")
