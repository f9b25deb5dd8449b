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
