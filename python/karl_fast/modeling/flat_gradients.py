"""Many small tensors as a few long vectors: an elementwise operation then runs once for all of them.

A LoRA of four layers is 56 tensors, and an update by Adam of each is a dozen operations, none of them worth its call.
"""

from __future__ import annotations

from collections import Counter
from itertools import accumulate, chain
from operator import is_
from typing import TYPE_CHECKING, Any

from karl_fast.modeling.parameters import flatten_tree, locate_leaf

if TYPE_CHECKING:
    from collections.abc import Iterable

    import mlx.core as mx

LONGEST_STRETCH = 1 << 22
"""Numbers that are put together: a tensor that is larger is worth operations of its own, and no copy."""


def join_leaves(tree: Any) -> dict[str, mx.array]:
    """Concatenate the leaves of a tree in the order of their names, to a vector for each type and stretch.

    Vectors that are joined again are themselves.
    """
    import mlx.core as mx

    leaves = flatten_tree(tree)
    return {
        vector: mx.concatenate([leaves[name].reshape(-1) for name in names])
        for vector, names in _names_together(leaves).items()
    }


def split_leaves(vectors: dict[str, mx.array], like: Any) -> Any:
    """Split vectors into the tree they were joined from, in the shapes of another such tree."""
    import mlx.core as mx
    from mlx.utils import tree_unflatten

    leaves = flatten_tree(like)
    found: list[tuple[str, mx.array]] = []
    for vector, names in _names_together(leaves).items():
        parts = mx.split(vectors[vector], _leaf_bounds(leaves[name] for name in names))
        found += [(name, part.reshape(leaves[name].shape)) for name, part in zip(names, parts, strict=True)]
    return tree_unflatten(found)


class FlatParameters:
    """Trainable parameters of a model as flat vectors, without a walk through its tree each time."""

    def __init__(self, model: Any) -> None:
        """Record the trainable parameters; their arrays may be replaced later, but not the set of them."""
        leaves = flatten_tree(model.trainable_parameters())
        self._last: dict[str, mx.array] = {}
        self._arrays: list[mx.array] = []
        self._stretches = [
            (
                vector,
                [(*locate_leaf(model, name), leaves[name].shape) for name in names],
                _leaf_bounds(leaves[name] for name in names),
            )
            for vector, names in _names_together(leaves).items()
        ]

    def joined(self) -> dict[str, mx.array]:
        """Return the trainable parameters joined; the vectors put last, if the model still has them."""
        import mlx.core as mx

        there = [[holder[key] for holder, key, _ in places] for _, places, _ in self._stretches]
        if self._last and all(map(is_, chain.from_iterable(there), self._arrays)):
            return self._last
        each = zip(self._stretches, there, strict=True)
        return {vector: mx.concatenate([leaf.reshape(-1) for leaf in leaves]) for (vector, *_), leaves in each}

    def put(self, vectors: dict[str, mx.array]) -> list[mx.array]:
        """Set the values of the model, and return them as stored."""
        import mlx.core as mx

        self._last, self._arrays = vectors, []
        for vector, places, ends in self._stretches:
            for (holder, key, shape), part in zip(places, mx.split(vectors[vector], ends), strict=True):
                holder[key] = part.reshape(shape)
                self._arrays.append(holder[key])
        return self._arrays


class GradientSum:
    """Sum of joined gradients, in float32 whatever the types of the parameters; a single one stays as it is.

    Attributes:
        vectors: what there is of the sum; to be evaluated before the next gradient needs the room.
    """

    def __init__(self) -> None:
        self.vectors: dict[str, mx.array] = {}
        self._types: dict[str, Any] = {}

    def add(self, gradient: dict[str, mx.array]) -> None:
        """Add a gradient, joined."""
        import mlx.core as mx

        if not self.vectors:
            self.vectors, self._types = gradient, {name: one.dtype for name, one in gradient.items()}
            return
        there = self.vectors.items()
        self.vectors = {name: one.astype(mx.float32) + gradient[name].astype(mx.float32) for name, one in there}

    def result(self) -> dict[str, mx.array]:
        """Return the sum in the types of the parameters."""
        return {name: one.astype(self._types[name]) for name, one in self.vectors.items()}


def global_norm(vectors: dict[str, mx.array]) -> mx.array:
    """Return the Euclidean norm of all vectors together, in float32."""
    import mlx.core as mx

    wide = [one.astype(mx.float32) for one in vectors.values()]
    return mx.sqrt(sum((mx.inner(one, one) for one in wide), start=mx.array(0.0)))


def clip_norm(vectors: dict[str, mx.array], size: float, limit: float) -> dict[str, mx.array]:
    """Return the vectors, scaled down if their norm is above the limit; 0 for no limit."""
    if not limit or size <= limit:
        return vectors
    return {name: one * (limit / size) for name, one in vectors.items()}


def _names_together(leaves: dict[str, mx.array]) -> dict[str, list[str]]:
    """Return the names of the leaves that begin in one stretch of their type."""
    before: Counter[str] = Counter()
    found: dict[str, list[str]] = {}
    for name, leaf in leaves.items():
        kind = str(leaf.dtype).rpartition(".")[2]
        found.setdefault(f"{kind}-{before[kind] // LONGEST_STRETCH:06d}", []).append(name)
        before[kind] += leaf.size
    return found


def _leaf_bounds(leaves: Iterable[mx.array]) -> list[int]:
    """Return the bounds between concatenated leaves."""
    return list(accumulate(leaf.size for leaf in leaves))[:-1]
