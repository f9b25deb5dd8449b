"""Totals and moments of shards that are merged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karl_fast import _core
from karl_fast.sampling.draw import check_draw
from karl_fast.sampling.mergeable_state import MergeableState

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from karl_fast.typing import Reals


class VarOpt(MergeableState):
    """Sample of at most k items of a stream with weights of least variance: :func:`draw_var_opt` in parts.

    Which item goes when one comes is decided by the uniform of (seed, key of the one that comes). Merging is exact in
    law and not in bits: the estimates stay unbiased and add up to the true total, but every order of updates and
    merges is another draw. :class:`Priority` is the same to the bit in any order, at a little more variance. Keys have
    to differ.

    Args:
        k: number of items, 1 or more.
        seed: 0 to 2^64 - 1.

    Raises:
        ArgumentError: a number outside its range.

    References: Cohen, Duffield, Kaplan, Lund, Thorup 2009 (arXiv:0803.0473).
    """

    __slots__ = ()
    _state: _core.VarOpt

    def __init__(self, k: int, *, seed: int = 0) -> None:
        check_draw(k, seed)
        self._state = _core.VarOpt(k, seed=seed)

    def __repr__(self) -> str:
        return f"VarOpt({self._state.k}, seed={self._state.seed})"

    @classmethod
    def _read(cls, data: bytes) -> _core.VarOpt:
        return _core.VarOpt.from_bytes(data)

    def update(self, keys: NDArray[np.uint64], weights: Reals) -> None:
        """Take items in, one after the other.

        Args:
            keys: ``Log.keys``: low and high half of each item's id, and its ordinal. [B, 3]
            weights: finite, zero or more; 0 is never drawn. Float32 is widened once. [B]

        Raises:
            ArgumentError: a weight that is negative, NaN or infinite, or a total of all that overflows; nothing is
                taken then.
            DTypeError, LayoutError: an array that would have to be cast or copied.
        """
        self._state.update(keys, weights)

    def drawn(self) -> tuple[NDArray[np.uint64], NDArray[np.float64], float]:
        """Return the keys held, the weight of each in an estimate, and the threshold that replaces smaller weights.

        Shapes: [k, 3], [k].
        """
        return self._state.drawn()


class Moments(MergeableState):
    """Count, mean, variance and range of numbers, the same to the bit in any order and any parts.

    The sums of the numbers and of their squares are exact, and the variance is taken from them without rounding:

        sum (x - m)^2 / (n - ddof),    sum (x - m)^2 = sum x^2 - 2 m sum x + n m^2

    The length of a state is the count of its numbers; NaN is missing, and is not counted.
    """

    __slots__ = ()
    _state: _core.Moments

    def __init__(self) -> None:
        self._state = _core.Moments()

    def __repr__(self) -> str:
        return f"Moments(count={len(self)}, mean={self.mean!r})"

    @classmethod
    def _read(cls, data: bytes) -> _core.Moments:
        return _core.Moments.from_bytes(data)

    def update(self, values: Reals) -> None:
        """Take numbers in.

        Args:
            values: NaN is missing. Float32 is widened once. [B]

        Raises:
            ArgumentError: an infinite number, or more than 2^41 numbers in all; nothing is taken then.
            DTypeError, LayoutError: an array that would have to be cast or copied.
        """
        self._state.update(values)

    @property
    def mean(self) -> float:
        """The mean; NaN for none."""
        return self._state.mean

    @property
    def min(self) -> float:
        """The smallest; NaN for none."""
        return self._state.min

    @property
    def max(self) -> float:
        """The largest; NaN for none."""
        return self._state.max

    def variance(self, *, ddof: int = 0) -> float:
        """Return the variance; NaN for at most ``ddof`` numbers, infinite if squares overflow."""
        return self._state.variance(ddof=ddof)
