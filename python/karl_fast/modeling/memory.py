"""The memory that a computation takes, by its graph: MLX builds that without computing anything.

Each array is counted from the operation that makes it to the last one that takes it, in the order in which MLX would
compute them. Views share the memory of what they show, and an elementwise operation reuses that of an argument which
nothing else needs.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter, deque
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np

from karl_fast.errors import ModelError
from karl_fast.modeling import block_attention
from karl_fast.modeling.block_attention import attention_by_blocks
from karl_fast.modeling.gated_delta import BLOCK, block, chunk_of
from karl_fast.modeling.layers import arrays_of, replaced
from karl_fast.modeling.model_views import gated_deltas_by, training
from karl_fast.modeling.parameters import flatten_tree, locate_leaf
from karl_fast.modeling.segment_states import leaves
from karl_fast.modeling.segments import SegmentBoundaries, cut_segments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from karl_fast.modeling.layers import Call
    from karl_fast.modeling.segment_states import State
    from karl_fast.modeling.segments import StatefulModel

    Traceable = tuple[Callable[..., Any], list[mx.array]]

VIEWS = frozenset(
    (
        *(
            "Broadcast",
            "BroadcastAxes",
            "ExpandDims",
            "Flatten",
            "Reshape",
            "Slice",
            "Split",
            "Squeeze",
            "StopGradient",
        ),
        *("AsStrided", "Copy", "CustomTransforms", "Depends", "Transpose", "Unflatten", "View"),
    )
)
"""Operations with results in the memory of their first argument."""

IN_PLACE = frozenset(
    (
        *(
            "Abs",
            "Add",
            "AsType",
            "Cos",
            "Divide",
            "Exp",
            "Log",
            "Log1p",
            "LogAddExp",
            "Maximum",
            "Minimum",
            "Multiply",
        ),
        *("Negative", "Power", "Scatter", "ScatterAxis", "Select", "Sigmoid", "Sign", "Sin", "SliceUpdate", "Softmax"),
        *("Sqrt", "Square", "Subtract", "Tanh"),
    )
)
"""Operations that may write their result into the memory of an argument."""


WIDTH = 20
"""Operations that MLX's search for an order has before it at a time (`MLX_BFS_MAX_WIDTH`)."""


BEHIND = 10
"""Operations that have allocated their results before one before them has freed its arguments: MLX computes so many
together on a CPU, and waits for those where its memory limit is reached."""


@dataclass(frozen=True)
class _Operation:
    """Operation of a graph: names of arrays, and the bytes of its results."""

    name: str
    takes: tuple[str, ...]
    makes: tuple[tuple[str, int], ...]


def trace_memory(function: Callable[..., Any], *arrays: Any, backward: bool = True) -> tuple[int, int]:
    """Return the most bytes that arrays which a function computes take at one time, and the number of its operations.

    Its arguments do not count, nor what it takes from elsewhere. Nothing is computed. `backward` is False for functions
    without a gradient.

    Raises:
        ValueError: the function cannot be traced, or MLX has no gradient for one of its operations.
    """
    with stand_ins(backward) as blocks:
        peak, count = _trace(function, *arrays)
    return peak + max((_trace(block, *some)[0] for block, some in blocks), default=0), count


def _trace(function: Callable[..., Any], *arrays: Any) -> tuple[int, int]:
    operations: list[_Operation] = []
    results: list[str] = []

    def note(part: dict[str, Any]) -> None:
        if part["type"] == "primitive":
            makes = tuple((name, _bytes(shape, kind)) for name, shape, kind in part["outputs"])
            operations.append(_Operation(part["name"], tuple(one[0] for one in part["inputs"]), makes))
        elif part["type"] == "outputs":
            results.extend(one[0] for one in part["outputs"])

    mx.export_function(note, function, *arrays)
    return _Allocations.of(_evaluation_order(operations, results), results).peak, len(operations)


def _evaluation_order(operations: list[_Operation], results: list[str]) -> list[_Operation]:
    """Return operations in the order in which MLX computes them: from the results back by breadth, of some width."""
    made_by = {name: number for number, one in enumerate(operations) for name, _ in one.makes}
    takes = [[made_by[name] for name in one.takes if name in made_by] for one in operations]
    takes.append([made_by[name] for name in results if name in made_by])
    left = Counter(number for some in takes for number in some)
    found, waiting = [len(operations)], list[tuple[int, int]]()
    at = 0
    while at < len(found) or waiting:
        (number, first), at = ((found[at], 0), at + 1) if at < len(found) else (waiting.pop(), at)
        for place in range(first, len(takes[number])):
            if len(found) - at >= WIDTH:
                waiting.append((number, place))
                break
            other = takes[number][place]
            left[other] -= 1
            if not left[other]:
                found.append(other)
    return [operations[number] for number in reversed(found[1:])]


def _bytes(shape: Iterable[int], kind: Any) -> int:
    total = int(kind.size)
    for size in shape:
        total *= size
    return total


@dataclass
class _Allocations:
    """Memory in use while operations are computed one after the other."""

    left: dict[str, int]
    home: dict[str, str] = field(default_factory=dict)
    size: dict[str, int] = field(default_factory=dict)
    users: dict[str, int] = field(default_factory=dict)
    now: int = 0
    behind: deque[int] = field(default_factory=deque)
    peak: int = 0

    @classmethod
    def of(cls, operations: list[_Operation], results: list[str]) -> _Allocations:
        left: dict[str, int] = dict.fromkeys(results, 1)
        for one in operations:
            for name in one.takes:
                left[name] = left.get(name, 0) + 1
        found = cls(left)
        for one in operations:
            found._compute(one)
        return found

    def _compute(self, one: _Operation) -> None:
        """Allocate the results of an operation, then free the inputs it was the last to use, some operations later."""
        for name, size in one.makes:
            home = self._shared(one, size)
            self.home[name] = home = home or name
            if home == name:
                # A view of an argument, or of a constant, takes no memory.
                self.size[name], self.users[name] = size * (one.name not in VIEWS), 0
                self.now += self.size[name]
            self.users[home] += 1
        self.peak = max(self.peak, self.now)
        self.behind.append(0)
        for name in one.takes:
            self._let_go(name)
        for name, _ in one.makes:
            if not self.left.get(name):
                self._release(name)
        if len(self.behind) > BEHIND:
            self.now -= self.behind.popleft()

    def _shared(self, one: _Operation, size: int) -> str | None:
        """Return the memory that a result shares, if it already exists."""
        if one.name in VIEWS:
            return self.home.get(one.takes[0]) if one.takes else None
        if one.name in IN_PLACE:
            for name in one.takes:
                home = self.home.get(name)
                if home and self.left[name] == 1 and self.users[home] == 1 and self.size[home] == size:
                    return home
        return None

    def _let_go(self, name: str) -> None:
        self.left[name] -= 1
        if not self.left[name]:
            self._release(name)

    def _release(self, name: str) -> None:
        home = self.home.get(name)
        if home is None:
            return
        self.users[home] -= 1
        if not self.users[home]:
            self.behind[-1] += self.size[home]


# The activations that a gradient holds, of any model that mlx-lm has.


SHORT = (8, 16, 32)
"""Token counts at which a graph that grows with them is built; beyond, its bytes are extrapolated by a parabola."""

LAYERS_AT_A_TIME = 2
"""Layers with their activations in memory at a time under checkpointing: results of the next are allocated ahead."""


ARRAYS = 8
"""Arrays of the width of a linear layer that are stored for each, if there is no graph."""


class Activations:
    """The bytes that a gradient holds below the head, by rows and tokens a row. Nothing is computed for it.

    Where layers are computed again going back, each keeps its input, and some of them their inside.
    """

    def __init__(self, model: Any, body: Any, *, layers: int, hidden: int, checkpoint: bool) -> None:
        """Activations of a model with `layers` that are gone back through, of hidden states of `hidden` numbers."""
        self._model, self._body = model, body
        self._layers, self._hidden, self._checkpoint = layers, hidden, checkpoint
        self._there, self._back = _Graph(self._forward), _Graph(self._trained)

    def __call__(self, rows: int, tokens: int) -> int:
        """Return the bytes of a batch."""
        whole = self._back.bytes(rows, tokens)
        if not self._checkpoint:
            return whole
        inputs = rows * tokens * self._hidden * 4 * self._layers
        inside = whole * LAYERS_AT_A_TIME * max(1 / self._layers, self._widest)
        return int(min(whole, inputs + inside))

    def forward(self, rows: int, tokens: int) -> int:
        """Return the bytes that a forward pass over contexts holds below the head."""
        return self._there.bytes(rows, tokens)

    def _forward(self, rows: int, tokens: int) -> tuple[int, int]:
        """Return the peak bytes of a forward pass, and its number of operations."""
        try:
            return self._trace(self._body, rows, tokens, backward=False)
        except ValueError:
            return rows * tokens * 4 * ARRAYS * max(self._widths), 0

    def _trained(self, rows: int, tokens: int) -> tuple[int, int]:
        """Return the peak bytes of a gradient, and its number of operations."""
        try:
            with training(self._model):
                return self._trace(self._gradient, rows, tokens)
        except ValueError as error:
            if "VJP" not in str(error):  # a forward pass that looks at its numbers (dbrx), or what MLX cannot export
                return rows * tokens * 4 * ARRAYS * sum(self._widths[-self._layers :]), 0
            said = " ".join(str(error).split())[:200]
            kind = getattr(self._model, "model_type", type(self._model).__name__)
            raise ModelError(f"a model of type {kind} cannot be trained: MLX says: {said}") from error

    def _trace(
        self, function: Callable[[mx.array], Any], rows: int, tokens: int, *, backward: bool = True
    ) -> tuple[int, int]:
        """Call `traced`, and restore the parameters of the model."""
        there = [
            (*locate_leaf(self._model, name), array) for name, array in flatten_tree(self._model.parameters()).items()
        ]
        try:
            return trace_memory(function, mx.zeros((rows, tokens), mx.int32), backward=backward)
        finally:
            for holder, key, array in there:
                holder[key] = array

    @cached_property
    def _widths(self) -> list[int]:
        """Summed output widths of the linear layers in each layer, in numbers a token."""
        layers = getattr(self._model, "layers", None) or [self._model]
        return [sum(_width(module) for module in layer.modules()) for layer in layers]

    @property
    def _widest(self) -> float:
        """The share of the widest layer in those that are gone back through."""
        widths = self._widths[-self._layers :]
        return max(widths) / max(1, sum(widths))

    def _gradient(self, tokens: mx.array) -> list[mx.array]:
        def total() -> mx.array:
            hidden: mx.array = self._body(tokens)
            return hidden.astype(mx.float32).sum()

        value, gradient = nn.value_and_grad(self._model, total)()
        return [value, *flatten_tree(gradient).values()]


class _Graph:
    """The bytes of a graph by rows and tokens a row; where it grows with tokens, those of short ones go on."""

    def __init__(self, trace: Callable[[int, int], tuple[int, int]]) -> None:
        self._traced = cache(trace)

    def bytes(self, rows: int, tokens: int) -> int:
        """Return the bytes at the peak."""
        if tokens <= max(SHORT) or not self._grows:
            return self._traced(rows, tokens)[0]
        return rows * parabola(tokens, {short: self._traced(1, short)[0] for short in SHORT})

    @cached_property
    def _grows(self) -> bool:
        """True if the graph has separate operations for each token, like a recurrence."""
        few, more = (self._traced(1, short)[1] for short in SHORT[:2])
        return more > 1.1 * few


def parabola(at: int, known: dict[int, int]) -> int:
    """Return the value of the parabola through three points, or of a straight line if it would bend down."""
    (x0, y0), (x1, y1), (x2, y2) = known.items()
    first, second = (y1 - y0) / (x1 - x0), (y2 - y1) / (x2 - x1)
    bend = max(0.0, (second - first) / (x2 - x0))
    return int(y2 + (at - x2) * (second + bend * (at - x1)))


def _width(module: Any) -> int:
    weight = module.get("weight")
    return int(weight.shape[-2]) if weight is not None and weight.ndim > 1 else 0


# Memory of layers that are computed by blocks, for graphs that are built and never computed.
#
# Blocks are computed again in the backward pass, by functions that MLX cannot export. While a graph is built for its
# memory, each layer is a few operations that hold what a layer holds from one pass to the other: its inputs, and a
# state for each block of a gated delta layer. The work on one block at a time is a graph of its own.


@contextlib.contextmanager
def stand_ins(backward: bool) -> Iterator[list[Traceable]]:
    """Note a block of each such layer, or its gradient, as a function and arguments, within this context."""
    blocks: list[Traceable] = []
    attention = partial(_attention, blocks, backward)
    with (
        gated_deltas_by(partial(_gated_delta, blocks, backward)),
        block_attention.stand_in(attention),
        _experts_without_segments(),
    ):
        yield blocks


@contextlib.contextmanager
def _experts_without_segments() -> Iterator[None]:
    """Replace products with the weights of routed experts: MLX cannot export `SegmentedMM`, their gradient.

    In its place the gradient of the weights is one array of their size, and the inputs are held for it.
    """
    theirs: Any = mx.gather_mm

    def product(a: mx.array, b: mx.array, *places: Any, sorted_indices: bool = False, **named: Any) -> mx.array:
        if not sorted_indices:
            made: mx.array = theirs(a, b, *places, **named)
            return made
        made = theirs(a, mx.stop_gradient(b), *places, sorted_indices=True, **named)
        return made + mx.square(a).sum(-1, keepdims=True) * mx.square(b).sum()

    mx.gather_mm = product
    try:
        yield
    finally:
        mx.gather_mm = theirs


def _attention(
    blocks: list[Traceable], backward: bool, q: mx.array, k: mx.array, v: mx.array, scale: float, mask: Any
) -> mx.array:
    size = min(2 * block_attention.KEYS, k.shape[2])  # a block is begun before all of the last one is freed
    keys, values = (mx.zeros((*one.shape[:2], size, one.shape[3]), one.dtype) for one in (k, v))
    function = partial(block_attention.of_blocks, scale, "causal", backward=backward)
    blocks.append((function, [mx.zeros(q.shape, q.dtype), keys, values]))
    # The gradient of keys and values is joined of those of blocks: here of two halves.
    halves = zip(*(mx.split(one, [one.shape[2] // 2], axis=2) for one in (k, v)), strict=True)
    read: Any = sum((mx.square(some).sum(3, keepdims=True) * more).sum(2, keepdims=True) for some, more in halves)
    return q.sum(3, keepdims=True) * mx.repeat(read, q.shape[1] // k.shape[1], axis=1)


def _gated_delta(
    blocks: list[Traceable],
    backward: bool,
    q: mx.array,
    k: mx.array,
    v: mx.array,
    g: mx.array,
    beta: mx.array,
    state: mx.array | None = None,
    mask: mx.array | None = None,
) -> tuple[mx.array, mx.array]:
    (batch, tokens, _, width), (heads, values) = q.shape, v.shape[2:]
    state = mx.zeros((batch, heads, values, width)) if state is None else state
    size = BLOCK * chunk_of(tokens)
    function = partial(block, chunk_of(tokens))
    first = [mx.zeros(one.shape, one.dtype) for one in (state, *(some[:, :size] for some in (q, k, v, g, beta)))]
    blocks.append((_gradient(function) if backward else function, first))
    gates = g.mean(-1) if g.ndim == 4 else g
    weights = mx.repeat((q * k).sum(-1), heads // q.shape[2], axis=-1) * gates.astype(q.dtype) * beta.astype(q.dtype)
    if not backward:
        return v * weights[..., None], state * weights.sum()
    held = mx.broadcast_to(state, (-(-tokens // size), *state.shape)) * weights.sum()
    return v * weights[..., None], mx.square(held).sum(0)


def _gradient(function: Callable[..., tuple[mx.array, mx.array]]) -> Callable[..., list[mx.array]]:
    def gradient(*arrays: mx.array) -> list[mx.array]:
        return mx.vjp(function, list(arrays), [mx.ones_like(one) for one in function(*arrays)])[1]

    return gradient


# The memory of a reverse sweep, of any model that can pass in segments. Nothing is computed for it.
#
# ```text
# states      what every segment makes, for all of its rows and tokens
# cotangents  the same numbers of trained layers, in float32
# inputs      of each layer in a segment
# layer       by the graph of one layer's gradient in the last segment, which attends to all tokens before it
# ```


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


# The memory that MLX may take before it waits for operations that will free some.


@contextlib.contextmanager
def limit_memory(room: int) -> Iterator[None]:
    """Have MLX wait where it takes more than `room` bytes beside those in use now, within this context.

    MLX allocates the results of operations ahead of those that are being computed, and before these have freed their
    arguments. At its memory limit it waits for them. No allocation fails by that.
    """
    before = mx.set_memory_limit(mx.get_active_memory() + room)
    try:
        yield
    finally:
        mx.set_memory_limit(before)
