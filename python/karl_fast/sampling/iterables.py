"""Draws in one pass over any Python iterable; only the items drawn are in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, overload

from karl_fast import _core
from karl_fast.sampling.draw import check_draw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")


def reservoir_of(items: Iterable[T], k: int, *, seed: int = 0) -> list[T]:
    """Draw k items, all alike, in one pass with skips: Algorithm L.

    It takes about 3 k ln(n / k) uniforms, which are hashes of the seed and their count, and one step of the iterator an
    item. The result depends on the order of the items; where they have ids, :class:`BottomK` does not.

    Args:
        items: anything that can be iterated over, once.
        k: number of items; all items if there are fewer.
        seed: 0 to 2^64 - 1.

    Returns:
        The items in the places of the reservoir: those of :func:`reservoir` for as many rows.

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

    Each next item is drawn in proportion to weight among those left (Plackett-Luce), as by :func:`draw`. It takes about
    k ln(n / k) uniforms. The result depends on the order of the items; where they have ids, :class:`TopK` does not.

    Args:
        items: pairs (tuples) of an item and its weight, or items that ``weight`` weighs.
        k: number of items; all items with a weight if there are fewer.
        weight: the weight of an item: finite, zero or more. An item of weight 0 is never drawn.
        seed: 0 to 2^64 - 1.

    Returns:
        The items by descending key.

    Raises:
        ArgumentError: a weight that is negative, NaN or infinite, something that is no pair, or a number outside its
            range; the message names the place.

    What the iterator or ``weight`` raises, it raises.

    References: Efraimidis and Spirakis 2006.

    >>> weighted_reservoir_of([("a", 0.0), ("b", 2.0)], 2)
    ['b']
    """
    check_draw(k, seed)
    return _core.weighted_reservoir_of(items, k, weight=weight, seed=seed)
