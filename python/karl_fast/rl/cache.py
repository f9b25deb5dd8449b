"""What a policy has computed of a rollout, carried from one turn to the next.

A context grows by what was said and by what answered it, and nothing before that changes: the keys and values of a turn
are a prefix of those of the next, which then computes what is new and no more.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import mlx.core as mx

    from karl_fast.rl.policy import Policy

CUT = {"keys", "values", "offset", "keep", "max_size", "_idx"}
"""The attributes of caches that are cut by their offset: whole ones of mlx-lm, and rotating ones that did not yet."""


@dataclass(frozen=True, eq=False)
class Heard:
    """A row of caches that other rollouts stand in too.

    Attributes:
        caches: one a layer.
        row: of the rollout.
        length: how many tokens of its context they hold.
    """

    caches: Sequence[Any]
    row: int
    length: int


def carried(caches: Sequence[Any]) -> bool:
    """Whether they can be cut back to what a rollout has of them: of a kind that is not known, nothing is kept."""
    return bool(caches) and all(
        hasattr(cache, "offset")
        and set(vars(cache)) <= CUT
        and cache.offset <= getattr(cache, "max_size", cache.offset)
        for cache in caches
    )


def repeat(caches: Sequence[Any], count: int, rows: mx.array) -> None:
    """Give caches the rows of others, in place: keys and values, recurrent states, and what else has one entry a row.

    Args:
        caches: one a layer, of any kind; they may hold others.
        count: rows that they have now.
        rows: the row that each new one is a copy of. [B]
    """
    for cache in caches:
        for name in list(vars(cache)) if hasattr(cache, "__dict__") else ("keys", "values"):
            setattr(cache, name, _rows(getattr(cache, name), count, rows))


def _rows(held: Any, count: int, rows: mx.array) -> Any:
    """Rows of each array in what a cache holds; anything else as it is."""
    import mlx.core as mx

    if isinstance(held, mx.array):
        return held[rows] if held.ndim and held.shape[0] == count else held
    if type(held) in (list, tuple):
        return type(held)(_rows(one, count, rows) for one in held)
    if type(held) is dict:
        return {name: _rows(one, count, rows) for name, one in held.items()}
    if hasattr(held, "update_and_fetch") or hasattr(held, "make_mask"):  # a cache in a list of caches
        repeat([held], count, rows)
    return held


def joined(policy: Policy, heard: Sequence[Heard], length: int) -> list[Any]:
    """Caches of some rollouts, a row each, with so many tokens."""
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


def _runs(heard: Sequence[Heard]) -> list[list[Heard]]:
    """Neighbours that stand in the same caches."""
    return [list(run) for _, run in groupby(heard, key=lambda one: id(one.caches))]
