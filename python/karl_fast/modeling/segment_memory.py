"""The memory of a reverse sweep, of any model that can pass in segments. Nothing is computed for it.

```text
states      what every segment makes, for all of its rows and tokens
cotangents  the same numbers of trained layers, in float32
inputs      of each layer in a segment
layer       by the graph of one layer's gradient in the last segment, which attends to all tokens before it
```
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.modeling.block_attention import attention_by_blocks
from karl_fast.modeling.graph_memory import trace_memory
from karl_fast.modeling.held_activations import parabola
from karl_fast.modeling.layers import arrays_of, replaced
from karl_fast.modeling.model_views import training
from karl_fast.modeling.parameters import flatten_tree
from karl_fast.modeling.segment_boundaries import SegmentBoundaries
from karl_fast.modeling.segment_states import leaves
from karl_fast.modeling.segments import cut_segments

if TYPE_CHECKING:
    import mlx.core as mx

    from karl_fast.modeling.layers import Call
    from karl_fast.modeling.segment_states import State
    from karl_fast.modeling.stateful_model import StatefulModel

SHORT_SEGMENT = (16, 32, 64)
"""Tokens of a segment for which a graph that grows with them is built; beyond, its bytes go on as a parabola."""


@dataclass(frozen=True)
class SweepNeed:
    """Bytes of a sweep, by use."""

    states: int
    cotangents: int
    inputs: int
    layer: int


@dataclass(frozen=True)
class _LayerCall:
    """The call of a layer in a segment: its arguments, and its states with the arrays and tokens before them."""

    module: Any
    call: Call
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    states: list[tuple[State, list[mx.array], int]]

    def bytes(self) -> tuple[int, int]:
        """Return the peak bytes of its gradient, and the number of operations."""
        import mlx.core as mx

        hidden, rest = self.arguments[0], self.arguments[1:]
        parameters = list(flatten_tree(self.module.trainable_parameters()).items())
        there = [array for _, arrays, _ in self.states for array in arrays]

        def layer(*arrays: mx.array) -> list[mx.array]:
            self.module.load_weights([(name, one) for (name, _), one in zip(parameters, arrays, strict=False)], False)
            given = list(arrays[len(parameters) + 1 :])
            for state, before, offset in self.states:
                state.begin([given.pop(0) for _ in before], offset)
            output = self.call(arrays[len(parameters)], *rest, **self.named)
            return [*arrays_of(output), *(array for state, _, _ in self.states for array in state.made)]

        def gradient(*arrays: mx.array) -> list[mx.array]:
            shapes = layer(*arrays)
            return mx.vjp(layer, list(arrays), [mx.ones_like(one) for one in shapes])[1]

        before = [array for _, array in parameters]
        try:
            return trace_memory(gradient, *before, hidden, *there)
        finally:
            self.module.load_weights(list(parameters), strict=False)


class SweepMemory:
    """The arithmetic of a model that passes in segments."""

    def __init__(self, carrier: StatefulModel) -> None:
        self._carrier = carrier
        self._traced = cache(self._trace)

    def __call__(self, rows: int, tokens: int, length: int) -> SweepNeed:
        """Return the bytes of a batch below the head, in segments of so many tokens."""
        states = cotangents = 0
        for state, _, grows, shape, kind in self._made:
            size = rows * math.prod(_shape(shape, grows, tokens))
            states += size * kind.size * (1 if grows else -(-tokens // length))
            cotangents += size * 4 * self._carrier.trained[state]
        inputs, layer = self._segment(rows, tokens, length)
        return SweepNeed(states, cotangents, inputs, layer)

    def _segment(self, rows: int, tokens: int, length: int) -> tuple[int, int]:
        """Return the bytes of the inputs of layers, and the most that a layer takes."""
        if length <= max(SHORT_SEGMENT) or not self._grows:
            return self._traced(rows, tokens, length)[:2]
        known = [(short, self._traced(1, max(tokens, 2 * short), short)) for short in SHORT_SEGMENT]
        inputs, layer = (parabola(length, {short: one[which] for short, one in known}) for which in (0, 1))
        return rows * inputs, rows * layer

    @cached_property
    def _grows(self) -> bool:
        """True if the graph has separate operations for each token, like a recurrence."""
        few, more = (self._traced(1, 4 * short, short)[2] for short in SHORT_SEGMENT[:2])
        return more > 1.1 * few

    def _trace(self, rows: int, tokens: int, length: int) -> tuple[int, int, int]:
        """Return the bytes of inputs and of the largest layer in the last segment, and the most operations of one."""
        import mlx.core as mx

        borders, last = self._borders(rows, max(2, -(-tokens // length)) * length, length)
        for number in range(last):
            for state, place, grows, shape, kind in self._made:
                made = mx.zeros((rows, *_shape(shape, grows, length)), kind)
                borders.fill({(number, state, place): made})
        borders.begin(last)
        with self._carrier.unchanged(), training(self._carrier.model), attention_by_blocks():
            layers = self._layers(borders, rows, length)
            found = {_kind(one): one for one in layers}
            sizes = [one.bytes() for one in found.values()]
        inputs = sum(one.arguments[0].nbytes for one in layers)
        most, operations = (max((size[which] for size in sizes), default=0) for which in (0, 1))
        return inputs, most, operations

    def _layers(self, borders: SegmentBoundaries, rows: int, length: int) -> list[_LayerCall]:
        """Return the calls of the trained layers."""
        import mlx.core as mx

        found: list[_LayerCall] = []

        def noting(_: int, layer: Any, call: Call) -> Call:
            def noted(*arguments: Any, **named: Any) -> Any:
                states = [leaf for one in (*arguments, *named.values()) for leaf in leaves(one)]
                before = [(state, state.before, getattr(state, "offset", 0)) for state in states]
                if flatten_tree(layer.trainable_parameters()):
                    found.append(_LayerCall(layer, call, arguments, named, before))
                return call(*arguments, **named)

            return noted

        with replaced(self._carrier.model, noting):
            self._carrier.body(mx.zeros((rows, length), mx.int32), cache=borders.caches)
        return found

    @cached_property
    def _made(self) -> list[tuple[int, int, bool, tuple[int, ...], Any]]:
        """The arrays that a segment makes of a row: state, place, whether it grows, shape and type."""
        borders, _ = self._borders(1, SHORT_SEGMENT[0], SHORT_SEGMENT[0])
        with self._carrier.unchanged(), training(self._carrier.model):
            self._layers(borders, 1, SHORT_SEGMENT[0])
        growing = borders.growing
        return [
            (state, place, growing[state], array.shape[1:], array.dtype)
            for (_, state, place), array in borders.made(0).items()
        ]

    def _borders(self, rows: int, tokens: int, length: int) -> tuple[SegmentBoundaries, int]:
        """Return empty states of a batch, and the number of its last segment."""
        _, segments = cut_segments(np.ones((rows, tokens), dtype=np.bool_), length)
        return SegmentBoundaries(self._carrier.states(), segments), len(segments) - 1


def _kind(layer: _LayerCall) -> tuple[Any, ...]:
    """Return equal keys for layers that take the same memory."""
    shapes = tuple(array.shape for array in flatten_tree(layer.module.parameters()).values())
    before = tuple(array.shape for _, arrays, _ in layer.states for array in arrays)
    return type(layer.module), shapes, before


def _shape(shape: tuple[int, ...], grows: bool, tokens: int) -> tuple[int, ...]:
    """Return the shape of a row's array behind so many tokens."""
    return (shape[0], tokens, *shape[2:]) if grows else shape
