"""States of draws that shards fill without knowledge of each other, and that are merged.

| class | holds | merged |
|---|---|---|
| `TopK` | k items without replacement, by Gumbel keys | the same to the bit in any order |
| `BottomK` | k items, every set alike | the same to the bit in any order |
| `Priority` | k items that totals are estimated from | the same to the bit in any order |
| `VarOpt` | the same, of the least variance | exact in law, not in bits |
| `Moments` | count, mean, variance and range of numbers | the same to the bit in any order |
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from karl_fast import _core
from karl_fast.errors import ArgumentError
from karl_fast.sampling.draw import check_draw

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from karl_fast.typing import Reals


class MergeableState:
    """A state that is filled in parts, on shards that know nothing of each other, and merged."""

    __slots__ = ("_state",)
    _state: Any

    def __len__(self) -> int:
        return len(self._state)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return self.to_bytes() == other.to_bytes()

    __hash__ = None  # type: ignore[assignment]

    def merge(self, other: Self) -> None:
        """Merge another state into this one.

        Raises:
            ArgumentError: a state of another kind or of other settings; nothing is taken then.
        """
        if not isinstance(other, type(self)):
            raise ArgumentError(f"other is a {type(other).__name__}, wanted a {type(self).__name__}")
        self._state.merge(other._state)

    def to_bytes(self) -> bytes:
        """Return the state as bytes: kind and version, little-endian numbers, and a hash of them."""
        state: bytes = self._state.to_bytes()
        return state

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read a state.

        Raises:
            ArgumentError: bytes that are not a state of this kind and version.
        """
        state = cls.__new__(cls)
        state._state = cls._read(data)
        return state

    @classmethod
    @abstractmethod
    def _read(cls, data: bytes) -> Any: ...

    def __reduce__(self) -> tuple[Callable[[bytes], Self], tuple[bytes]]:
        return type(self).from_bytes, (self.to_bytes(),)


@dataclass(frozen=True, eq=False)
class Held:
    """Items drawn by a state of keys.

    Attributes:
        keys: low and high half of each item's id, and its ordinal. [k, 3]
        ranks: ranks that decide the draw, in descending order. [k]
        sizes: the log-weights of `TopK`, the weights of `Priority`; 0 in `BottomK`. [k]
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
    """k items without replacement by Gumbel keys, of shards that are merged: the draw of `draw` over all of them.

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
    """k items by priority w / u, of shards that are merged: the draw of `draw_priority` over all of them.

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


class VarOpt(MergeableState):
    """Sample of at most k items of a stream with weights of least variance: `draw_var_opt` in parts.

    Which item goes when one comes is decided by the uniform of (seed, key of the one that comes). Merging is exact in
    law and not in bits: the estimates stay unbiased and add up to the true total, but every order of updates and
    merges is another draw. `Priority` is the same to the bit in any order, at a little more variance. Keys have
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
