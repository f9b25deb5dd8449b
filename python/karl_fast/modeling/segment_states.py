"""States of a model at the border of two segments: caches that take arrays in and give arrays out.

The models of mlx-lm read and write their caches through few methods. The classes here have those methods, and keep
apart the arrays that come from the segments before and those that the segment itself makes: MLX then differentiates by
the first and takes cotangents of the second, without a line of the model changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mlx.core as mx

from karl_fast.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Sequence


Rows = slice | list[tuple[int, int]]
"""Rows of an array: a slice, or runs of a row and how often it comes."""


def read_rows(arrays: Sequence[mx.array], rows: Sequence[Rows]) -> list[mx.array]:
    """Return rows of arrays, or the arrays where no rows are given."""
    return [_rows(array, part) for array, part in zip(arrays, rows, strict=True)] if rows else list(arrays)


def _rows(array: mx.array, rows: Rows) -> mx.array:
    """Return rows of an array, which may come more than once: their cotangents then add up in float32.

    Runs are broadcast, because the cotangents of rows taken by number would add up in any order on a GPU.
    """
    if isinstance(rows, slice):
        return array[rows]
    wide = array.astype(mx.float32)
    runs = [mx.broadcast_to(wide[row : row + 1], (count, *wide.shape[1:])) for row, count in rows]
    return mx.concatenate(runs).astype(array.dtype)


class KeysValues:
    """Keys and values of attention. [B, H, T, D] each

    Attributes:
        grows: True: the state behind a segment is that before it and what the segment made.
        reach: number of earlier tokens that a token may attend to; None for all.
        offset: tokens before the next one.
        rows: the rows of this segment in each array from before; all of them where it is empty.
    """

    grows = True

    def __init__(self, reach: int | None = None) -> None:
        self.reach = reach
        self.begin([], 0)

    def begin(self, before: Sequence[mx.array], offset: int, rows: Sequence[Rows] = ()) -> None:
        """Start at a border, with the keys and values of each segment before it, in turn, from which on they reach."""
        self._before, self.offset, self.rows = list(before), offset, rows
        self._new: list[mx.array] = []

    @property
    def before(self) -> list[mx.array]:
        """The arrays from earlier segments."""
        return self._before

    @property
    def new(self) -> list[mx.array]:
        """The keys and the values of this segment."""
        return self._new

    def set_new(self, arrays: Sequence[mx.array], tokens: int) -> None:
        """Set the arrays of this segment, of so many tokens."""
        self._new = list(arrays)
        self.offset += tokens

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Take the keys and values of the segment, and return those that it may attend to."""
        earlier, count = read_rows(self._before, self.rows), self._count
        self.set_new([keys, values], keys.shape[2])
        return _append_tokens(earlier[::2], keys, count), _append_tokens(earlier[1::2], values, count)

    @property
    def _count(self) -> int:
        """Number of earlier tokens that the segment attends to."""
        return self.offset if self.reach is None else min(self.offset, self.reach)

    def make_mask(self, N: int, window_size: int | None = None, return_array: bool = False) -> Any:  # noqa: N803
        """Return the mask of attention of N tokens, as the caches of mlx-lm do."""
        from mlx_lm.models.base import create_causal_mask

        if self.reach is not None and (window_size or 0) > self.reach + 1:  # plamo3: whole rows see one token more
            raise ModelError(f"it attends to {window_size} tokens, and its cache keeps {self.reach + 1}")
        window = window_size if self.reach is None else window_size or self.reach + 1
        beyond = window is not None and self._count + N > window
        if beyond or return_array:
            return create_causal_mask(N, self._count, window_size=window)
        return "causal"


class Chunked(KeysValues):
    """Keys and values of attention in chunks, as in llama4: the model makes the mask from `start_position`."""

    def maybe_trim_front(self) -> None:
        """Do nothing: no more than a chunk is given out."""

    @property
    def start_position(self) -> int:
        """The position of the first key that is given out."""
        return self.offset - self._count


class Recurrent:
    """Arrays that a recurrent layer replaces at every segment, such as a convolution's tail and a matrix.

    Attributes:
        grows: False: the state behind a segment is what the segment made.
        rows: the rows of this segment in each array from before; all of them where it is empty.
        lengths, left_padding: None: every token of a segment counts.
    """

    grows, reach = False, None
    lengths: None = None
    left_padding: None = None

    def __init__(self, size: int) -> None:
        self._size = size
        self._there: list[int] = []
        self.begin([], 0)

    def begin(self, before: Sequence[mx.array], offset: int, rows: Sequence[Rows] = ()) -> None:
        """Start at a border, with what the segment before it made."""
        self._before, self.rows = list(before), rows
        self.cache: list[Any] = [None] * self._size
        for place, array in zip(self._there, read_rows(before, rows), strict=False):
            self.cache[place] = array

    @property
    def before(self) -> list[mx.array]:
        """The arrays of the segment before."""
        return self._before

    @property
    def new(self) -> list[mx.array]:
        """The arrays behind the segment."""
        self._there = [place for place, array in enumerate(self.cache) if array is not None]
        return [self.cache[place] for place in self._there]

    def set_new(self, arrays: Sequence[mx.array], tokens: int) -> None:
        """Set the arrays of this segment, of so many tokens."""
        for place, array in zip(self._there, arrays, strict=True):
            self.cache[place] = array

    def __getitem__(self, place: int) -> Any:
        return self.cache[place]

    def __setitem__(self, place: int, array: Any) -> None:
        self.cache[place] = array

    def advance(self, N: int) -> None:  # noqa: N803
        """Do nothing: there is no padding to count down."""

    def make_mask(self, N: int) -> None:  # noqa: N803
        """Return None: nothing is left out."""


State = KeysValues | Recurrent


class Several(tuple[State, ...]):
    """The states of a layer that has more than one."""


Layered = State | Several


def empty_states(model: Any) -> list[Layered]:
    """Return empty states for each cache of a model.

    Raises:
        ModelError: a cache of another kind, which cannot be carried from segment to segment.
    """
    from mlx_lm.models.cache import make_prompt_cache

    return [_state(cache) for cache in make_prompt_cache(model)]


def leaves(layered: Any) -> list[State]:
    """Return the single states in a state, or none for another object."""
    if isinstance(layered, Several):
        return list(layered)
    return [layered] if isinstance(layered, KeysValues | Recurrent) else []


def _state(cache: Any) -> Layered:
    from mlx_lm.models import cache as kinds

    match cache:
        case kinds.CacheList():
            return Several(_state(part) for part in cache.caches)  # type: ignore[misc]
        case kinds.KVCache() | kinds.ConcatenateKVCache():
            return KeysValues()
        case kinds.RotatingKVCache() if not cache.keep:
            return KeysValues(cache.max_size - 1)
        case kinds.ChunkedKVCache():
            return Chunked(cache.chunk_size)
        case kinds.ArraysCache():
            return Recurrent(len(cache.cache))
    raise ModelError(f"it has a cache of the kind {type(cache).__name__}")


def _append_tokens(earlier: list[mx.array], own: mx.array, count: int) -> mx.array:
    """Return the last `count` tokens of earlier arrays, and own ones behind them."""
    if not earlier:
        return own
    total = sum(array.shape[2] for array in earlier)
    first = earlier[0][:, :, max(0, total - count) :]
    return mx.concatenate([first, *earlier[1:], own], axis=2)
