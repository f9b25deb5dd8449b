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


def derive_seed(seed: int, number: int) -> int:
    """Return a seed for each number. 0 <= number"""
    # Two odd multipliers keep (seed, number) and (seed + 1, number - 1) apart.
    return ((seed ^ seed >> 31) * GOLDEN + (number + 1) * 0xD1B54A32D192ED03) % (1 << 64)


@contextlib.contextmanager
def replace_calls(model: Any, call: Callable[[int, Any, Call], Call]) -> Iterator[None]:
    """Replace the call of each layer by `call(number, layer, its own call)` within this context.

    Each layer gets its own class; shared classes are not changed. A replacement within another takes its place.
    """
    kinds = [(layer, type(layer)) for layer in model.layers]
    for number, (layer, kind) in enumerate(kinds):
        plain = getattr(kind, "_plain", kind)
        layer.__class__ = _kind(plain, call(number, layer, partial(plain.__call__, layer)))
    try:
        yield
    finally:
        for layer, kind in kinds:
            layer.__class__ = kind


def _kind(plain: type, own: Call) -> type:
    def call(_: Any, *arguments: Any, **named: Any) -> Any:
        return own(*arguments, **named)

    return type(plain.__name__, (plain,), {"__call__": call, "_plain": plain})


def recompute_in_backward(function: Call) -> Call:
    """Return a function of trees that stores only its arrays, and is recomputed in the backward pass.

    MLX computes a graph in an order of its own. Here the second forward pass waits for the gradient of the results, and
    the gradients of all arrays are passed on together: of several such functions in a row, one is in memory at a time,
    where `mx.checkpoint` leaves to the end what the gradients of parameters need.
    """

    def recompute(*trees: Any) -> Any:
        output: Any = None

        def flat(*arrays: mx.array) -> list[mx.array]:
            nonlocal output
            output = function(*_put(trees, arrays))
            return arrays_of(output)

        stored = mx.custom_function(flat)

        @stored.vjp
        def gradient(inputs: Any, cotangents: Any, _: Any) -> Any:
            inputs, cotangents = (
                list(values) if isinstance(values, list | tuple) else [values] for values in (inputs, cotangents)
            )
            gradients = mx.vjp(flat, mx.depends(inputs, cotangents), cotangents)[1]
            return mx.depends(gradients, gradients)

        results: Any = stored(*arrays_of(trees))
        return _put(output, results)

    return recompute


def arrays_of(tree: Any) -> list[mx.array]:
    """Return the arrays of a tree that have a gradient."""
    arrays: list[mx.array] = []
    _mapped(arrays.append, tree)
    return arrays


def _put(tree: Any, arrays: Iterable[mx.array]) -> Any:
    """Return a tree with others in the place of those arrays, in turn."""
    replacements = iter(arrays)
    return _mapped(lambda _: next(replacements), tree)


def _mapped(function: Callable[[mx.array], Any], tree: Any) -> Any:
    def apply(leaf: Any) -> Any:
        differs = isinstance(leaf, mx.array) and mx.issubdtype(leaf.dtype, mx.inexact)
        return function(leaf) if differs else leaf

    return tree_map(apply, tree, is_leaf=leaves)


def recompute_layer(number: int, layer: Any, call: Call, *, seed: int | None = None) -> Call:
    """Return the call of a layer that stores its input, its parameters and its states, and recomputes the rest.

    The layer is one function of arrays: a state that it wrote by a side effect would lose its cotangent, and dropout
    that went on with the random numbers of the moment would leave out other numbers than it did before.
    """

    def recomputed(*arguments: Any, **named: Any) -> Any:
        states = [leaf for value in (*arguments, *named.values()) for leaf in leaves(value)]
        starts = [(getattr(state, "offset", 0), state.rows) for state in states]
        own_seed = _own_seed(layer, seed, number)

        def pure(parameters: Any, earlier: list[list[mx.array]], inputs: Any, named_inputs: Any) -> Any:
            layer.update(parameters)
            for state, arrays, start in zip(states, earlier, starts, strict=True):
                state.begin(arrays, *start)
            return call_with_seed(own_seed, call, *inputs, **named_inputs), [state.new for state in states]

        earlier = [state.before for state in states]
        output, new_states = recompute_in_backward(pure)(layer.trainable_parameters(), earlier, arguments, named)
        for state, arrays, start, own in zip(states, earlier, starts, new_states, strict=True):
            tokens = getattr(state, "offset", 0) - start[0]
            state.begin(arrays, *start)
            state.set_new(own, tokens)
        return output

    return recomputed


def seed_layer(number: int, layer: Any, call: Call, *, seed: int | None = None) -> Call:
    """Return the call of a layer with the random numbers that belong to it."""
    return partial(call_with_seed, None if seed is None else _own_seed(layer, seed, number), call)


def _own_seed(layer: Any, seed: int | None, number: int) -> int | None:
    """Return the seed of a layer, drawn where none is given; None for one without dropout."""
    if not has_dropout(layer):
        return None
    own: Any = mx.random.randint(0, LARGEST_SEED).item() if seed is None else seed
    return derive_seed(own, number)


def has_dropout(module: Any) -> bool:
    """Return whether a module leaves out numbers at random now."""
    kinds = nn.Dropout | nn.Dropout2d | nn.Dropout3d
    return any(isinstance(part, kinds) and part.training and part._p_1 < 1 for part in module.modules())


def call_with_seed(seed: int | None, call: Call, *arguments: Any, **named: Any) -> Any:
    """Call a function with the random numbers of a seed; with those of the moment for None."""
    if seed is not None:
        mx.random.seed(seed)
    return call(*arguments, **named)
