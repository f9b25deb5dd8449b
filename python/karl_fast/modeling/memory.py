"""The memory plan: the bytes that a gradient will need, before it needs them.

```text
weights      bytes of all parameters
adapter      trainable bytes * 6: the value, its successor, the gradient and its sum, two moments of Adam; the sum is in
             float32
activations  by the graph of the gradient: what it holds at its peak, with what MLX allocates ahead
head         12 chunks of logits, and B * T * E * 8 of slopes
states       of rows in segments: the states of all their tokens, and the cotangents of trained layers in float32
cache        freed buffers that MLX keeps: up to `cache_limit`, and no more than the limit leaves beside all of these
```

Rows that pass in segments take activations and head of one segment only:

```text
activations  the inputs of each layer in a segment, and the graph of one layer's gradient in the last segment, which
             attends to all tokens before it
```

`karl_fast.train.memory` adds the length of rows that fits, `karl_fast.rl.memory` adds generation. Activations come from
`karl_fast.modeling.graph_memory`, which has MLX build the graph of a batch without computing it: the graph holds the
states that a recurrent layer leaves for each token, attention's scores and the width of a feed-forward part, for any
architecture.
"""

from __future__ import annotations

import contextlib
import math
import os
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np

from karl_fast._safe_text import in_gigabytes
from karl_fast.errors import ModelError, UsageError
from karl_fast.modeling.block_attention import attention_by_blocks
from karl_fast.modeling.chunked_logp import IN_FLIGHT, chunk_rows
from karl_fast.modeling.graph_memory import trace_memory
from karl_fast.modeling.layers import arrays_of, replace_calls
from karl_fast.modeling.model_views import training_mode
from karl_fast.modeling.parameters import flatten_tree, locate_leaf
from karl_fast.modeling.segment_states import leaves
from karl_fast.modeling.segments import SegmentBoundaries, cut_segments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from karl_fast.modeling.layers import Call
    from karl_fast.modeling.segment_states import State
    from karl_fast.modeling.segments import StatefulModel
    from karl_fast.train.settings import Training

    Sweeps = Callable[[int, int, int], "SweepNeed"]

SHORTEST = 16
"""Tokens of a row below which there is nothing to choose."""

SEGMENTS = tuple(1 << power for power in range(6, 12))
"""Tokens of a segment that are chosen from: longer ones take more memory, and are no faster."""


@dataclass(frozen=True)
class TrainingMemory:
    """Memory plan of one model and one way to train it.

    Attributes:
        shape: of the model.
        activations: rows and tokens a row to the bytes that a gradient holds below the head.
        settings: the limit, and the maximum tokens of a row.
        checkpoints: True if layers can be recomputed in the backward pass.
        sweeps: the plan of segments; it raises a ModelError where the model cannot pass in segments.
    """

    shape: ModelSizes
    activations: Callable[[int, int], int]
    settings: Training
    checkpoints: bool = True
    sweeps: Callable[[], Sweeps] | None = None

    def need(self, rows: int, tokens: int) -> Need:
        """Return the memory for a batch of so many rows of so many tokens, in segments where the settings say so."""
        length = self.settings.segment_tokens or tokens
        return self._whole(rows, tokens) if tokens <= length else self.need_in_segments(rows, tokens, length)

    def _whole(self, rows: int, tokens: int) -> Need:
        shape = self.shape
        return Need(shape.weights, shape.adapter, self.activations(rows, tokens), self._head_bytes(rows * tokens))

    def need_in_segments(self, rows: int, tokens: int, length: int) -> Need:
        """Return the memory for a batch in segments of so many tokens.

        Raises:
            ModelError: the model cannot pass in segments.
        """
        shape, sweep = self.shape, self.segment_plan()(rows, tokens, length)
        states = sweep.states + sweep.cotangents
        head = self._head_bytes(rows * length)
        return Need(shape.weights, shape.adapter, sweep.inputs + sweep.layer, head, states)

    def _head_bytes(self, tokens: int) -> int:
        """Return the bytes of the logits of the chunks computed at a time, and of the slopes in hidden states."""
        return IN_FLIGHT * chunk_bytes(self.shape, tokens) + tokens * self.shape.hidden * 8

    def segment_plan(self) -> Sweeps:
        """Return the plan of segments.

        Raises:
            ModelError: the model cannot pass in segments.
        """
        if self.sweeps is None:
            raise ModelError("the policy is not a model of mlx-lm: its rows cannot pass in segments")
        return self.sweeps()

    @cached_property
    def segment_obstacle(self) -> str | None:
        """Reason why rows cannot pass in segments; None where they can."""
        try:
            self.segment_plan()
        except ModelError as error:
            return str(error)
        return None

    @property
    def saves_by_checkpoints(self) -> bool:
        """True if `grad_checkpoint` is off and would save memory."""
        return self.checkpoints and not self.settings.grad_checkpoint

    @property
    def limit(self) -> int:
        """The memory limit in bytes."""
        return limit_bytes(self.settings)


@dataclass(frozen=True)
class ModelSizes:
    """Sizes of a model that the arithmetic takes.

    Attributes:
        hidden: size of a hidden state.
        vocabulary: logits a token.
        weights: bytes of all parameters.
        trainable: bytes of those that are trained.
        wider: bytes that a sum of gradients in float32 takes beyond those.
    """

    hidden: int
    vocabulary: int
    weights: int
    trainable: int
    wider: int = 0

    @property
    def adapter(self) -> int:
        """Bytes of trained parameters, of their gradients and of the optimizer."""
        return 6 * self.trainable + self.wider


@dataclass(frozen=True)
class Need:
    """Bytes, by use."""

    weights: int
    adapter: int
    activations: int
    head: int
    states: int = 0

    @property
    def total(self) -> int:
        """Sum of all parts."""
        return sum(vars(self).values())

    def __str__(self) -> str:
        return ", ".join(f"{name} {in_gigabytes(value)}" for name, value in vars(self).items() if value)


def estimate_training(
    model: Any,
    body: Any,
    vocabulary: int,
    settings: Training,
    layers: int,
    carrier: Callable[[], StatefulModel] | None = None,
) -> TrainingMemory:
    """Return the memory plan of a model with gradients through its last `layers`, adapted as in training.

    Args:
        model, body: the model, and its tokens to hidden states.
        vocabulary: logits a token.
        settings: of the run.
        layers: that are trained.
        carrier: the model with the states of segments; None where rows pass whole.
    """
    if settings.grad_checkpoint and (why := no_checkpoints(model)):
        raise UsageError(f"grad_checkpoint is true, and {why}", "grad_checkpoint")
    size = int(body(mx.array([[1]])).shape[-1])  # a shape is known without computing
    weights = sum(value.nbytes for value in flatten_tree(model.parameters()).values())
    trained = flatten_tree(model.trainable_parameters()).values()
    trainable = sum(value.nbytes for value in trained)
    activations = Activations(model, body, layers=layers, hidden=size, checkpoint=settings.grad_checkpoint)
    shape = ModelSizes(size, vocabulary, weights, trainable, sum(4 * value.size for value in trained) - trainable)
    sweeps = None if carrier is None else cache(lambda: SweepMemory(carrier()))
    return TrainingMemory(shape, activations, settings, no_checkpoints(model) is None, sweeps)


def no_checkpoints(model: Any) -> str | None:
    """Return why the layers of a model cannot be recomputed in the backward pass; None where they can."""
    kind = getattr(model, "model_type", type(model).__name__)
    if getattr(model, "shares_caches", False):
        return f"layers of model type {kind} share keys and values: they cannot be computed one by one"
    if not isinstance(getattr(model, "layers", None), list | tuple):
        return f"{kind} has no list `layers` of the modules that would be computed again"
    return None


def chunk_bytes(shape: ModelSizes, tokens: int) -> int:
    """Return the bytes of the logits of a chunk, in float32."""
    return 4 * min(chunk_rows(shape.vocabulary), tokens) * shape.vocabulary


def limit_bytes(settings: Training) -> int:
    """Return the memory limit: that of the settings, or what the GPU recommends, or four fifths of the machine's."""
    if settings.memory_limit is not None:
        return int(settings.memory_limit * 1e9)
    recommended = mx.device_info().get("max_recommended_working_set_size") if mx.metal.is_available() else None
    return int(recommended or 0.8 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def cache_bytes(settings: Training, peak: int) -> int:
    """Return the bytes of freed buffers that MLX may keep, so that they and the peak stay within the memory limit."""
    return max(0, min(int(settings.cache_limit * 1e9), limit_bytes(settings) - peak))


def describe_plan(need: Any, settings: Training) -> str:
    """Return a plan in words: what is needed of what there is, each part of it, and the cache beside it."""
    cache = in_gigabytes(cache_bytes(settings, need.total))
    return f"about {in_gigabytes(need.total)} of {in_gigabytes(limit_bytes(settings))}: {need}; cache up to {cache}"


def largest(most: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number up to `most` that fits, by bisection; 0 if 1 does not."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def refuse_excess(what: str, need: Any, limit: int, hint: Callable[[], str]) -> None:
    """Raise if more memory is needed than there is.

    Raises:
        UsageError: `need`, which has a `total`, exceeds the limit; the hint names sizes that fit.
    """
    if need.total > limit:
        why = f"needs about {in_gigabytes(need.total)} ({need}), and there are {in_gigabytes(limit)}"
        raise UsageError(f"{what}, {why}", hint=hint())


def choose_segments(
    memory: TrainingMemory, batches: Sequence[tuple[int, int]], whole: int, fits: Callable[[TrainingMemory], bool]
) -> TrainingMemory:
    """Return the plan with a number for the tokens of a segment: those of a row where rows fit whole.

    Args:
        memory: the plan.
        batches: rows and tokens a row of each batch.
        whole: tokens that no row exceeds.
        fits: whether a run with a plan fits in memory.

    Raises:
        ModelError: the settings want segments, and the model cannot pass in them.
    """
    settings = memory.settings
    if settings.segment_tokens is not None:
        if settings.segment_tokens < max(tokens for _, tokens in batches):
            memory.segment_plan()
        return memory
    shorter = [length for length in reversed(SEGMENTS) if length < whole]
    # Whole rows first: whether the model can pass in segments is tried only if they do not fit.
    lengths = chain([whole], (length for length in shorter if memory.segment_obstacle is None))
    plans = (replace(memory, settings=replace(settings, segment_length=length)) for length in lengths)
    first = next(plans)
    return next((plan for plan in chain([first], plans) if fits(plan)), first)


@contextlib.contextmanager
def limit_memory(room: int) -> Iterator[None]:
    """Let MLX take at most `room` bytes more than now before it waits for operations to free some, in this context.

    MLX allocates results ahead of the operations that are being computed, and before these have freed their arguments.
    At its memory limit it waits for them; no allocation fails by that.
    """
    limit = mx.set_memory_limit(mx.get_active_memory() + room)
    try:
        yield
    finally:
        mx.set_memory_limit(limit)


SHORT = (8, 16, 32)
"""Token counts at which a graph that grows with them is built; beyond, its bytes are extrapolated by a parabola."""

LAYERS_AT_A_TIME = 2
"""Layers with their activations in memory at a time under checkpointing: results of the next are allocated ahead."""

ARRAYS = 8
"""Arrays of the width of a linear layer that are stored for each, if there is no graph."""


class Activations:
    """Bytes that a gradient holds below the head, by rows and tokens a row. Nothing is computed for it.

    With checkpointing, each layer keeps its input, and `LAYERS_AT_A_TIME` of them all their activations.
    """

    def __init__(self, model: Any, body: Any, *, layers: int, hidden: int, checkpoint: bool) -> None:
        """Plan a model whose last `layers` are differentiated, with hidden states of `hidden` numbers."""
        self._model, self._body = model, body
        self._layers, self._hidden, self._checkpoint = layers, hidden, checkpoint
        self._forward_graph, self._gradient_graph = _Graph(self._forward), _Graph(self._backward)

    def __call__(self, rows: int, tokens: int) -> int:
        """Return the bytes of a batch."""
        whole = self._gradient_graph.bytes(rows, tokens)
        if not self._checkpoint:
            return whole
        inputs = rows * tokens * self._hidden * 4 * self._layers
        inside = whole * LAYERS_AT_A_TIME * max(1 / self._layers, self._widest)
        return int(min(whole, inputs + inside))

    def forward(self, rows: int, tokens: int) -> int:
        """Return the bytes that a forward pass over contexts holds below the head."""
        return self._forward_graph.bytes(rows, tokens)

    def _forward(self, rows: int, tokens: int) -> tuple[int, int]:
        """Return the peak bytes of a forward pass, and its number of operations."""
        try:
            return self._trace(self._body, rows, tokens, backward=False)
        except ValueError:
            return rows * tokens * 4 * ARRAYS * max(self._widths), 0

    def _backward(self, rows: int, tokens: int) -> tuple[int, int]:
        """Return the peak bytes of a gradient, and its number of operations."""
        try:
            with training_mode(self._model):
                return self._trace(self._gradient, rows, tokens)
        except ValueError as error:
            if "VJP" not in str(error):  # a forward pass that looks at its numbers (dbrx), or what MLX cannot export
                return rows * tokens * 4 * ARRAYS * sum(self._widths[-self._layers :]), 0
            message = " ".join(str(error).split())[:200]
            kind = getattr(self._model, "model_type", type(self._model).__name__)
            raise ModelError(f"a model of type {kind} cannot be trained: MLX says: {message}") from error

    def _trace(
        self, function: Callable[[mx.array], Any], rows: int, tokens: int, *, backward: bool = True
    ) -> tuple[int, int]:
        """Call `trace_memory`, and restore the parameters of the model, which tracing a gradient replaces."""
        arrays = [
            (*locate_leaf(self._model, name), array) for name, array in flatten_tree(self._model.parameters()).items()
        ]
        try:
            return trace_memory(function, mx.zeros((rows, tokens), mx.int32), backward=backward)
        finally:
            for holder, key, array in arrays:
                holder[key] = array

    @cached_property
    def _widths(self) -> list[int]:
        """Summed output widths of the linear layers in each layer, in numbers a token."""
        layers = getattr(self._model, "layers", None) or [self._model]
        return [sum(_width(module) for module in layer.modules()) for layer in layers]

    @property
    def _widest(self) -> float:
        """Share of the widest layer in those that are differentiated."""
        widths = self._widths[-self._layers :]
        return max(widths) / max(1, sum(widths))

    def _gradient(self, tokens: mx.array) -> list[mx.array]:
        def total() -> mx.array:
            hidden: mx.array = self._body(tokens)
            return hidden.astype(mx.float32).sum()

        value, gradient = nn.value_and_grad(self._model, total)()
        return [value, *flatten_tree(gradient).values()]


class _Graph:
    """Bytes of a graph by rows and tokens a row; of a graph that grows with tokens, extrapolated from short rows."""

    def __init__(self, trace: Callable[[int, int], tuple[int, int]]) -> None:
        self._trace = cache(trace)

    def bytes(self, rows: int, tokens: int) -> int:
        """Return the bytes at the peak."""
        if tokens <= max(SHORT) or not self._grows:
            return self._trace(rows, tokens)[0]
        return rows * parabola(tokens, {short: self._trace(1, short)[0] for short in SHORT})

    @cached_property
    def _grows(self) -> bool:
        """True if the graph has separate operations for each token, like a recurrence."""
        few, many = (self._trace(1, short)[1] for short in SHORT[:2])
        return many > 1.1 * few


def parabola(at: int, points: dict[int, int]) -> int:
    """Return the value of the parabola through three points, or of a straight line if it would bend down."""
    (x0, y0), (x1, y1), (x2, y2) = points.items()
    first, second = (y1 - y0) / (x1 - x0), (y2 - y1) / (x2 - x1)
    bend = max(0.0, (second - first) / (x2 - x0))
    return int(y2 + (at - x2) * (second + bend * (at - x1)))


def _width(module: Any) -> int:
    weight = module.get("weight")
    return int(weight.shape[-2]) if weight is not None and weight.ndim > 1 else 0


SHORT_SEGMENT = (16, 32, 64)
"""Tokens of a segment at which a graph that grows with them is built; beyond, bytes are extrapolated by a parabola."""


@dataclass(frozen=True)
class SweepNeed:
    """Bytes of the forward and reverse sweep over segments, by use."""

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
        hidden, rest = self.arguments[0], self.arguments[1:]
        parameters = list(flatten_tree(self.module.trainable_parameters()).items())
        earlier = [array for _, arrays, _ in self.states for array in arrays]

        def layer(*arrays: mx.array) -> list[mx.array]:
            weights = [(name, array) for (name, _), array in zip(parameters, arrays, strict=False)]
            self.module.load_weights(weights, False)
            carried = iter(arrays[len(parameters) + 1 :])
            for state, earlier_arrays, offset in self.states:
                state.begin([next(carried) for _ in earlier_arrays], offset)
            output = self.call(arrays[len(parameters)], *rest, **self.named)
            return [*arrays_of(output), *(array for state, _, _ in self.states for array in state.new)]

        def gradient(*arrays: mx.array) -> list[mx.array]:
            outputs = layer(*arrays)
            return mx.vjp(layer, list(arrays), [mx.ones_like(output) for output in outputs])[1]

        try:
            return trace_memory(gradient, *(array for _, array in parameters), hidden, *earlier)
        finally:
            self.module.load_weights(list(parameters), strict=False)


class SweepMemory:
    """Memory plan of a model that passes in segments. Nothing is computed for it."""

    def __init__(self, carrier: StatefulModel) -> None:
        self._carrier = carrier
        self._traced = cache(self._trace)

    def __call__(self, rows: int, tokens: int, length: int) -> SweepNeed:
        """Return the bytes of a batch below the head, in segments of so many tokens."""
        states = cotangents = 0
        for state, _, grows, shape, kind in self._state_arrays:
            size = rows * math.prod(_shape(shape, grows, tokens))
            states += size * kind.size * (1 if grows else -(-tokens // length))
            cotangents += size * 4 * self._carrier.trained[state]
        inputs, layer = self._segment(rows, tokens, length)
        return SweepNeed(states, cotangents, inputs, layer)

    def _segment(self, rows: int, tokens: int, length: int) -> tuple[int, int]:
        """Return the bytes of the inputs of layers, and the most that a layer takes."""
        if length <= max(SHORT_SEGMENT) or not self._grows:
            return self._traced(rows, tokens, length)[:2]
        traces = {short: self._traced(1, max(tokens, 2 * short), short) for short in SHORT_SEGMENT}
        inputs, layer = (parabola(length, {short: trace[which] for short, trace in traces.items()}) for which in (0, 1))
        return rows * inputs, rows * layer

    @cached_property
    def _grows(self) -> bool:
        """True if the graph has separate operations for each token, like a recurrence."""
        few, many = (self._traced(1, 4 * short, short)[2] for short in SHORT_SEGMENT[:2])
        return many > 1.1 * few

    def _trace(self, rows: int, tokens: int, length: int) -> tuple[int, int, int]:
        """Return the bytes of inputs and of the largest layer in the last segment, and the most operations of one."""
        borders, last = self._borders(rows, max(2, -(-tokens // length)) * length, length)
        for number in range(last):
            for state, place, grows, shape, kind in self._state_arrays:
                borders.fill({(number, state, place): mx.zeros((rows, *_shape(shape, grows, length)), kind)})
        borders.begin(last)
        with self._carrier.unchanged(), training_mode(self._carrier.model), attention_by_blocks():
            layers = self._layers(borders, rows, length)
            kinds = {_kind(layer): layer for layer in layers}
            sizes = [layer.bytes() for layer in kinds.values()]
        inputs = sum(layer.arguments[0].nbytes for layer in layers)
        most, operations = (max((size[which] for size in sizes), default=0) for which in (0, 1))
        return inputs, most, operations

    def _layers(self, borders: SegmentBoundaries, rows: int, length: int) -> list[_LayerCall]:
        """Return the calls of the trained layers."""
        calls: list[_LayerCall] = []

        def record(_: int, layer: Any, call: Call) -> Call:
            def recorded_call(*arguments: Any, **named: Any) -> Any:
                states = [leaf for value in (*arguments, *named.values()) for leaf in leaves(value)]
                earlier = [(state, state.before, getattr(state, "offset", 0)) for state in states]
                if flatten_tree(layer.trainable_parameters()):
                    calls.append(_LayerCall(layer, call, arguments, named, earlier))
                return call(*arguments, **named)

            return recorded_call

        with replace_calls(self._carrier.model, record):
            self._carrier.body(mx.zeros((rows, length), mx.int32), cache=borders.caches)
        return calls

    @cached_property
    def _state_arrays(self) -> list[tuple[int, int, bool, tuple[int, ...], Any]]:
        """The arrays that a segment makes of a row: state, place, whether it grows, shape and type."""
        borders, _ = self._borders(1, SHORT_SEGMENT[0], SHORT_SEGMENT[0])
        with self._carrier.unchanged(), training_mode(self._carrier.model):
            self._layers(borders, 1, SHORT_SEGMENT[0])
        growing = borders.growing
        return [
            (state, place, growing[state], array.shape[1:], array.dtype)
            for (_, state, place), array in borders.new_arrays(0).items()
        ]

    def _borders(self, rows: int, tokens: int, length: int) -> tuple[SegmentBoundaries, int]:
        """Return empty states of a batch, and the number of its last segment."""
        _, segments = cut_segments(np.ones((rows, tokens), dtype=np.bool_), length)
        return SegmentBoundaries(self._carrier.states(), segments), len(segments) - 1


def _kind(layer: _LayerCall) -> tuple[Any, ...]:
    """Return equal keys for layers that take the same memory."""
    shapes = tuple(array.shape for array in flatten_tree(layer.module.parameters()).values())
    earlier = tuple(array.shape for _, arrays, _ in layer.states for array in arrays)
    return type(layer.module), shapes, earlier


def _shape(shape: tuple[int, ...], grows: bool, tokens: int) -> tuple[int, ...]:
    """Return the shape of a row's array behind so many tokens."""
    return (shape[0], tokens, *shape[2:]) if grows else shape
