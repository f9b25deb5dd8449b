"""Draws of rows in proportion to their weights: of columns, of any iterable, and by one table many times.

```text
gumbel   key_i = log w_i - ln(-ln u_i),  the k largest keys win     u_i = hash of the seed and the row's key
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, get_args, overload

from karl_fast import _core
from karl_fast.errors import ArgumentError, UsageError
from karl_fast.settings.schema import Sampler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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

    It takes about 3 k ln(rows / k) uniforms, which are hashes of the seed and their count; unlike `draw`, the
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

    The law is that of `draw`. It takes about k ln(B / k) uniforms, which are hashes of the seed and their count;
    unlike `draw`, the result depends on the order of the rows.

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


T = TypeVar("T")


def reservoir_of(items: Iterable[T], k: int, *, seed: int = 0) -> list[T]:
    """Draw k items, all alike, in one pass with skips: Algorithm L.

    It takes about 3 k ln(n / k) uniforms, which are hashes of the seed and their count, and one step of the iterator an
    item. The result depends on the order of the items; where they have ids, `BottomK` does not.

    Args:
        items: anything that can be iterated over, once.
        k: number of items; all items if there are fewer.
        seed: 0 to 2^64 - 1.

    Returns:
        The items in the places of the reservoir: those of `reservoir` for as many rows.

    Raises:
        ArgumentError: a number outside its range.

    What the iterator raises, it raises.

    References: Li 1994.

    >>> reservoir_of((line for line in ["a", "b"]), 5)
    ['a', 'b']
    """
    check_draw(k, seed)
    return _core.reservoir_of(items, k, seed=seed)


@overload
def weighted_reservoir_of(items: Iterable[T], k: int, *, weight: Callable[[T], float], seed: int = 0) -> list[T]: ...


@overload
def weighted_reservoir_of(
    items: Iterable[tuple[T, float]], k: int, *, weight: None = None, seed: int = 0
) -> list[T]: ...
def weighted_reservoir_of(
    items: Iterable[T] | Iterable[tuple[T, float]],
    k: int,
    *,
    weight: Callable[[T], float] | None = None,
    seed: int = 0,
) -> list[T]:
    """Draw k items without replacement in proportion to weight, in one pass with jumps: A-ExpJ.

    Each next item is drawn in proportion to weight among those left (Plackett-Luce), as by `draw`. It takes about
    k ln(n / k) uniforms. The result depends on the order of the items; where they have ids, `TopK` does not.

    Args:
        items: pairs (tuples) of an item and its weight, or items that ``weight`` weighs.
        k: number of items; all items with a weight if there are fewer.
        weight: the weight of an item: finite, zero or more. An item of weight 0 is never drawn.
        seed: 0 to 2^64 - 1.

    Returns:
        The items by descending key.

    Raises:
        ArgumentError: a weight that is negative, NaN or infinite, an item that is not a pair, or a number outside its
            range; the message names the place.

    What the iterator or ``weight`` raises, it raises.

    References: Efraimidis and Spirakis 2006.

    >>> weighted_reservoir_of([("a", 0.0), ("b", 2.0)], 2)
    ['b']
    """
    check_draw(k, seed)
    return _core.weighted_reservoir_of(items, k, weight=weight, seed=seed)


class Alias:
    """An alias table: each draw costs two hashes and one look, whatever the number of rows.

    The table has one cell a row, of one size; a cell holds a part of its own row and is filled up with a part of one
    other (Vose's construction). Weights are whole numbers, multiples of 2^-62 of the largest, so that the parts of a
    row add up to its weight without rounding; a row below that is never drawn.

    Args:
        log_weights: any constant may be added; minus infinity is never drawn. [B]

    Raises:
        ArgumentError: a log-weight that is NaN or plus infinity, or no row that has a weight.
        DTypeError, LayoutError: an array that would have to be cast or copied.

    Cost: 32 bytes a row; one exponential a row to build.

    References: Walker 1977; Vose 1991.

    >>> import numpy as np
    >>> table = Alias(np.log([1.0, 3.0]))
    >>> table.probabilities()
    array([0.25, 0.75])
    """

    __slots__ = ("_table",)

    def __init__(self, log_weights: Reals) -> None:
        self._table = _core.Alias(log_weights)

    def __len__(self) -> int:
        return len(self._table)

    def probabilities(self) -> NDArray[np.float64]:
        """Return the probability of each row by the table as built: the weights over their total. [B]"""
        return self._table.probabilities()

    def draw(self, count: int, *, seed: int = 0) -> NDArray[np.int64]:
        """Draw ``count`` rows with replacement, each by itself.

        Draw j is a function of the seed and j, so the first draws of a longer call are those of a shorter one.

        Raises:
            ArgumentError: a number outside its range.
        """
        check_draw(count, seed)
        return self._table.draw(count, seed=seed)


def check_draw(k: int, seed: int) -> None:
    """Refuse a count or a seed that no draw can take, by name."""
    if not 0 <= k < 1 << 32:
        raise ArgumentError(f"k is {k}, wanted 0 to 2^32 - 1")
    if not 0 <= seed < 1 << 64:
        raise ArgumentError(f"seed is {seed}, wanted 0 to 2^64 - 1")
