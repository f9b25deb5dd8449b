"""Keys and values of a rollout, carried from one turn to the next.

A context only grows at its end: the keys and values of a turn are a prefix of those of the next, so only new tokens are
computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import mlx.core as mx

    from karl_fast.rl.policy import Policy

CUT = {"keys", "values", "offset", "keep", "max_size", "_idx"}
"""The attributes of caches that are cut by their offset: whole ones of mlx-lm, and rotating ones that did not yet."""


@dataclass(frozen=True, eq=False)
class CachedPrefix:
    """Row of caches that are shared with other rollouts.

    Attributes:
        caches: one a layer.
        row: of the rollout.
        length: number of tokens of its context in them.
    """

    caches: Sequence[Any]
    row: int
    length: int


def carried(caches: Sequence[Any]) -> bool:
    """Return whether caches can be cut back to the tokens of a rollout; unknown kinds are not kept."""
    return bool(caches) and all(
        hasattr(cache, "offset")
        and set(vars(cache)) <= CUT
        and cache.offset <= getattr(cache, "max_size", cache.offset)
        for cache in caches
    )


def repeat(caches: Sequence[Any], count: int, rows: mx.array) -> None:
    """Set rows of caches from others, in place: keys and values, recurrent states, and other entries by row.

    Args:
        caches: one a layer, of any kind; they may hold others.
        count: rows that they have now.
        rows: the row that each new one is a copy of. [B]
    """
    for cache in caches:
        _change([cache], count, lambda there: there[0][rows])


def stack(parts: Sequence[list[Any]], count: int) -> list[Any]:
    """Join rows of caches that were filled separately; each layer is freed once it is joined.

    Args:
        parts: caches of some rows, one a layer. All but the first are empty afterwards.
        count: rows of the first part.

    Returns:
        The caches of the first part, with the rows of all.
    """
    import mlx.core as mx

    first, *others = parts
    for layer, cache in enumerate(first if others else ()):
        _change([cache, *(part[layer] for part in others)], count, lambda there: mx.concatenate(there, axis=0))
        mx.eval(list(arrays(cache)))
        for part in others:
            part[layer] = None
    return first


def arrays(held: Any) -> Iterator[mx.array]:
    """Yield the arrays in a cache."""
    import mlx.core as mx

    if isinstance(held, mx.array):
        yield held
    elif isinstance(held, list | tuple | dict) or hasattr(held, "__dict__"):
        parts = held if isinstance(held, list | tuple) else (held if isinstance(held, dict) else vars(held)).values()
        for one in parts:
            yield from arrays(one)


def _change(caches: Sequence[Any], count: int, change: Callable[[list[mx.array]], mx.array]) -> None:
    """Apply a function to the arrays with a row each of all caches, and store the result in the first."""
    first = caches[0]
    for name in list(vars(first)) if hasattr(first, "__dict__") else ("keys", "values"):
        setattr(first, name, _changed([getattr(one, name) for one in caches], count, change))


def _changed(there: list[Any], count: int, change: Callable[[list[mx.array]], mx.array]) -> Any:
    """Return the changed content of caches; other values than arrays of `count` rows stay."""
    import mlx.core as mx

    held = there[0]
    if isinstance(held, mx.array):
        return change(there) if held.ndim and held.shape[0] == count else held
    if type(held) in (list, tuple):
        return type(held)(_changed(list(some), count, change) for some in zip(*there, strict=True))
    if type(held) is dict:
        return {name: _changed([one[name] for one in there], count, change) for name in held}
    if hasattr(held, "update_and_fetch") or hasattr(held, "make_mask"):  # a cache in a list of caches
        _change(there, count, change)
    return held


def joined(policy: Policy, heard: Sequence[CachedPrefix], length: int) -> list[Any]:
    """Join the caches of some rollouts, a row each, with so many tokens."""
    import mlx.core as mx

    runs = [(caches[0].caches, mx.array([one.row for one in caches])) for caches in _runs(heard)]
    found = policy.caches()
    for layer, cache in enumerate(found):
        for name in ("keys", "values"):
            parts = [getattr(caches[layer], name)[rows, :, :length] for caches, rows in runs]
            setattr(cache, name, mx.concatenate(parts, axis=0))
        for name in {"offset", "_idx"} & set(vars(cache)):
            setattr(cache, name, length)
    return found


def _runs(heard: Sequence[CachedPrefix]) -> list[list[CachedPrefix]]:
    """Group neighbours in the same caches."""
    return [list(run) for _, run in groupby(heard, key=lambda one: id(one.caches))]
