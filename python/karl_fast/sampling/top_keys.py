"""Items of the largest keys: any shards in any order, merged, leave the bytes of the whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from karl_fast import _core
from karl_fast.sampling.draw import check_draw
from karl_fast.sampling.mergeable_state import MergeableState

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from karl_fast.typing import Reals


@dataclass(frozen=True, eq=False)
class Held:
    """Items drawn by a state of keys.

    Attributes:
        keys: low and high half of each item's id, and its ordinal. [k, 3]
        ranks: ranks that decide the draw, in descending order. [k]
        sizes: the log-weights of :class:`TopK`, the weights of :class:`Priority`; 0 in :class:`BottomK`. [k]
        inclusion: the probability of each item to be drawn, given the ranks of all others: the divisor of its value in
            an estimate of a total. [k]
        threshold: the rank of the first item not drawn; None if all were.
    """

    keys: NDArray[np.uint64]
    ranks: NDArray[np.float64]
    sizes: NDArray[np.float64]
    inclusion: NDArray[np.float64]
    threshold: float | None


class _Keyed(MergeableState):
    """The k + 1 items of the largest ranks, each a function of (seed, key, size) alone."""

    __slots__ = ()
    _law: ClassVar[Literal["gumbel", "uniform", "priority"]]
    _state: _core.Top

    def __init__(self, k: int, *, seed: int = 0) -> None:
        check_draw(k, seed)
        self._state = _core.Top(self._law, k, seed=seed)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._state.k}, seed={self._state.seed})"

    @classmethod
    def _read(cls, data: bytes) -> _core.Top:
        return _core.Top.from_bytes(cls._law, data)

    def drawn(self) -> Held:
        """Return the items drawn so far, by descending rank; all with a weight if there are at most k."""
        return Held(**self._state.drawn())


class TopK(_Keyed):
    """k items without replacement by Gumbel keys, of shards that are merged: the draw of :func:`draw` over all of them.

    An item that comes twice with one log-weight counts once; with two, it is two items. Log-weights of shards have to
    be relative to one constant: scores times an inverse temperature, with no log Z of a shard taken off.

    Args:
        k: number of items; 32 bytes each are held for up to twice as many.
        seed: 0 to 2^64 - 1.

    References: Cohen and Kaplan 2007; Kool, van Hoof, Welling 2019 (arXiv:1903.06059).
    """

    __slots__ = ()
    _law = "gumbel"

    def update(self, keys: NDArray[np.uint64], log_weights: Reals) -> None:
        """Take items in.

        Args:
            keys: ``Log.keys``: low and high half of each item's id, and its ordinal. [B, 3]
            log_weights: minus infinity is never drawn. Float32 is widened once. [B]

        Raises:
            ArgumentError: a log-weight that is NaN or plus infinity; nothing is taken then.
            DTypeError, LayoutError: an array that would have to be cast or copied.
        """
        self._state.update(keys, ("log_weights", log_weights))


class BottomK(_Keyed):
    """k items, every set alike, by their smallest uniforms: ``draw(..., sampler="reservoir")`` over merged shards.

    An item that comes twice counts once, so ``k / threshold`` estimates the number of distinct items (ranks are minus
    the uniforms).

    Args:
        k: how many.
        seed: 0 to 2^64 - 1.

    References: Cohen and Kaplan 2007.
    """

    __slots__ = ()
    _law = "uniform"

    def update(self, keys: NDArray[np.uint64]) -> None:
        """Take items in.

        Args:
            keys: ``Log.keys``: low and high half of each item's id, and its ordinal. [B, 3]

        Raises:
            DTypeError, LayoutError: an array that would have to be cast or copied.
        """
        self._state.update(keys)


class Priority(_Keyed):
    """k items by priority w / u, of shards that are merged: the draw of :func:`draw_priority` over all of them.

    ``sizes / inclusion`` is what each item counts for, max(w, threshold).

    Args:
        k: how many.
        seed: 0 to 2^64 - 1.

    References: Duffield, Lund, Thorup 2007.
    """

    __slots__ = ()
    _law = "priority"

    def update(self, keys: NDArray[np.uint64], weights: Reals) -> None:
        """Take items in.

        Args:
            keys: ``Log.keys``: low and high half of each item's id, and its ordinal. [B, 3]
            weights: finite, zero or more; 0 is never drawn. Float32 is widened once. [B]

        Raises:
            ArgumentError: a weight that is negative, NaN or infinite; nothing is taken then.
            DTypeError, LayoutError: an array that would have to be cast or copied.
        """
        self._state.update(keys, ("weights", weights))
