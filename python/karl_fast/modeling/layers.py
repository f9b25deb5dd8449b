"""Calls of single layers: recomputed in the backward pass, with a random state and with states of their own."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_map

from karl_fast.modeling.segment_states import leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Call = Callable[..., Any]

GOLDEN = 0x9E3779B97F4A7C15
"""2^64 over the golden ratio: multiples of it are far apart."""

LARGEST_SEED = (1 << 31) - 1


def derived(seed: int, number: int) -> int:
    """Return a seed for each number. 0 <= number"""
    return ((seed ^ seed >> 31) * GOLDEN + (number + 1) * 0xD1B54A32D192ED03) % (1 << 64)


@contextlib.contextmanager
def replaced(model: Any, call: Callable[[int, Any, Call], Call]) -> Iterator[None]:
    """Replace the call of each layer by `call(number, layer, its own call)` within this context.

    Each layer gets its own class; shared classes are not changed. A replacement within another takes its place.
    """
    before = [(layer, type(layer)) for layer in model.layers]
    for number, (layer, kind) in enumerate(before):
        plain = getattr(kind, "_plain", kind)
        layer.__class__ = _kind(plain, call(number, layer, partial(plain.__call__, layer)))
    try:
        yield
    finally:
        for layer, kind in before:
            layer.__class__ = kind


def _kind(plain: type, own: Call) -> type:
    def call(_: Any, *arguments: Any, **named: Any) -> Any:
        return own(*arguments, **named)

    return type(plain.__name__, (plain,), {"__call__": call, "_plain": plain})


def computed_again(function: Call) -> Call:
    """Return a function of trees that keeps its arrays alone, and computes the rest again going back.

    MLX computes a graph in an order of its own. Here the second forward pass waits for the gradient of the results, and
    the gradients of all arrays are passed on together: of several such functions in a row, one is in memory at a time,
    where `mx.checkpoint` leaves to the end what the gradients of parameters need.
    """

    def again(*trees: Any) -> Any:
        made: Any = None

        def flat(*arrays: mx.array) -> list[mx.array]:
            nonlocal made
            made = function(*_put(trees, arrays))
            return arrays_of(made)

        kept = mx.custom_function(flat)

        @kept.vjp
        def gradient(inputs: Any, cotangents: Any, _: Any) -> Any:
            inputs, cotangents = (list(one) if isinstance(one, list | tuple) else [one] for one in (inputs, cotangents))
            found = mx.vjp(flat, mx.depends(inputs, cotangents), cotangents)[1]
            return mx.depends(found, found)

        results: Any = kept(*arrays_of(trees))
        return _put(made, results)

    return again


def arrays_of(tree: Any) -> list[mx.array]:
    """Return the arrays of a tree that have a gradient."""
    found: list[mx.array] = []
    _mapped(found.append, tree)
    return found


def _put(tree: Any, arrays: Iterable[mx.array]) -> Any:
    """Return a tree with others in the place of those arrays, in turn."""
    others = iter(arrays)
    return _mapped(lambda _: next(others), tree)


def _mapped(function: Callable[[mx.array], Any], tree: Any) -> Any:
    def one(leaf: Any) -> Any:
        differs = isinstance(leaf, mx.array) and mx.issubdtype(leaf.dtype, mx.inexact)
        return function(leaf) if differs else leaf

    return tree_map(one, tree, is_leaf=leaves)


def recomputing(number: int, layer: Any, call: Call, *, seed: int | None = None) -> Call:
    """Return the call of a layer that stores its input, its parameters and its states, and computes the rest again.

    The layer is one function of arrays: a state that it wrote by a side effect would lose its cotangent, and dropout
    that went on with the random numbers of the moment would leave out other numbers than it did before.
    """

    def recomputed(*arguments: Any, **named: Any) -> Any:
        states = [leaf for one in (*arguments, *named.values()) for leaf in leaves(one)]
        starts = [(getattr(state, "offset", 0), state.rows) for state in states]
        own_seed = _own_seed(layer, seed, number)

        def pure(parameters: Any, before: list[list[mx.array]], given: Any, more: Any) -> Any:
            layer.update(parameters)
            for state, arrays, start in zip(states, before, starts, strict=True):
                state.begin(arrays, *start)
            return seeded(own_seed, call, *given, **more), [state.made for state in states]

        before = [state.before for state in states]
        output, made = computed_again(pure)(layer.trainable_parameters(), before, arguments, named)
        for state, arrays, start, own in zip(states, before, starts, made, strict=True):
            tokens = getattr(state, "offset", 0) - start[0]
            state.begin(arrays, *start)
            state.put(own, tokens)
        return output

    return recomputed


def seeding(number: int, layer: Any, call: Call, *, seed: int | None = None) -> Call:
    """Return the call of a layer with the random numbers that belong to it."""
    return partial(seeded, None if seed is None else _own_seed(layer, seed, number), call)


def _own_seed(layer: Any, seed: int | None, number: int) -> int | None:
    """Return the seed of a layer, drawn where none is given; None for one without dropout."""
    if not drops(layer):
        return None
    drawn: Any = mx.random.randint(0, LARGEST_SEED).item() if seed is None else seed
    return derived(drawn, number)


def drops(module: Any) -> bool:
    """Return whether a module leaves out numbers at random now."""
    kinds = nn.Dropout | nn.Dropout2d | nn.Dropout3d
    return any(isinstance(one, kinds) and one.training and one._p_1 < 1 for one in module.modules())


def seeded(seed: int | None, call: Call, *arguments: Any, **named: Any) -> Any:
    """Call a function with the random numbers of a seed; with those of the moment for None."""
    if seed is not None:
        mx.random.seed(seed)
    return call(*arguments, **named)
