"""The memory that a computation takes, by its graph: MLX builds that without computing anything.

```text
function --> graph of operations --> their order in MLX --> allocate results, free arguments --> the peak
             (mx.export_function)    (from the results       (views and elementwise operations
                                      back, by breadth)       reuse memory)
```

Each array is counted from the operation that makes it to the last one that takes it, in the order in which MLX would
compute them. Views share the memory of what they show, and an elementwise operation reuses that of an argument which
nothing else needs.

Layers that are computed by blocks (`gated_delta`, `block_attention`) recompute blocks in the backward pass by functions
that MLX cannot export. While a graph is built for its memory, such a layer is a few operations that hold what the layer
holds from one pass to the other: its inputs, and a state for each block of a gated delta layer. The work on one block
at a time is a graph of its own, whose peak is added.
"""

from __future__ import annotations

import contextlib
from collections import Counter, deque
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import mlx.core as mx

from karl_fast.modeling import block_attention
from karl_fast.modeling.gated_delta import BLOCK, block, chunk_of
from karl_fast.modeling.model_views import replace_gated_deltas

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Traceable = tuple[Callable[..., Any], list[mx.array]]

# fmt: off
VIEWS = frozenset((
    "AsStrided", "Broadcast", "BroadcastAxes", "Copy", "CustomTransforms", "Depends", "ExpandDims", "Flatten",
    "Reshape", "Slice", "Split", "Squeeze", "StopGradient", "Transpose", "Unflatten", "View",
))
"""Operations with results in the memory of their first argument."""

IN_PLACE = frozenset((
    "Abs", "Add", "AsType", "Cos", "Divide", "Exp", "Log", "Log1p", "LogAddExp", "Maximum", "Minimum", "Multiply",
    "Negative", "Power", "Scatter", "ScatterAxis", "Select", "Sigmoid", "Sign", "Sin", "SliceUpdate", "Softmax",
    "Sqrt", "Square", "Subtract", "Tanh",
))
"""Operations that may write their result into the memory of an argument."""
# fmt: on


WIDTH = 20
"""Default of `MLX_BFS_MAX_WIDTH`: the breadth of MLX's search for an order of operations."""

BEHIND = 10
"""Operations whose results are allocated before the arguments of the first of them are freed: on a CPU MLX dispatches
ten at a time, and waits for them at its memory limit."""


@dataclass(frozen=True)
class _Operation:
    """Operation of a graph: names of arrays, and the bytes of its results."""

    name: str
    takes: tuple[str, ...]
    makes: tuple[tuple[str, int], ...]


def trace_memory(function: Callable[..., Any], *arrays: Any, backward: bool = True) -> tuple[int, int]:
    """Return the peak bytes of the arrays that a function computes, and the number of its operations.

    Its arguments do not count, nor arrays that it closes over. Nothing is computed. `backward` is False for functions
    without a gradient.

    Raises:
        ValueError: the function cannot be traced, or MLX has no gradient for one of its operations.
    """
    with block_stand_ins(backward) as blocks:
        peak, count = trace_graph(function, *arrays)
    return peak + max((trace_graph(block, *arguments)[0] for block, arguments in blocks), default=0), count


def trace_graph(function: Callable[..., Any], *arrays: Any) -> tuple[int, int]:
    """Return peak bytes and number of operations of a graph without layers computed by blocks."""
    operations: list[_Operation] = []
    results: list[str] = []

    def on_part(part: dict[str, Any]) -> None:
        if part["type"] == "primitive":
            makes = tuple((name, _bytes(shape, kind)) for name, shape, kind in part["outputs"])
            operations.append(_Operation(part["name"], tuple(array[0] for array in part["inputs"]), makes))
        elif part["type"] == "outputs":
            results.extend(array[0] for array in part["outputs"])

    mx.export_function(on_part, function, *arrays)
    return _Allocations.simulate(_evaluation_order(operations, results), results).peak, len(operations)


def _evaluation_order(operations: list[_Operation], results: list[str]) -> list[_Operation]:
    """Return operations in the order in which MLX computes them: from the results back by breadth, up to `WIDTH`."""
    maker = {name: number for number, operation in enumerate(operations) for name, _ in operation.makes}
    takes = [[maker[name] for name in operation.takes if name in maker] for operation in operations]
    takes.append([maker[name] for name in results if name in maker])
    users = Counter(number for arguments in takes for number in arguments)
    order, postponed = [len(operations)], list[tuple[int, int]]()
    position = 0
    while position < len(order) or postponed:
        if position < len(order):
            (number, first), position = (order[position], 0), position + 1
        else:
            number, first = postponed.pop()
        for place in range(first, len(takes[number])):
            if len(order) - position >= WIDTH:
                postponed.append((number, place))
                break
            argument = takes[number][place]
            users[argument] -= 1
            if not users[argument]:
                order.append(argument)
    return [operations[number] for number in reversed(order[1:])]


def _bytes(shape: Iterable[int], kind: Any) -> int:
    total = int(kind.size)
    for size in shape:
        total *= size
    return total


@dataclass
class _Allocations:
    """Memory in use while operations are computed one after the other.

    Attributes:
        left: uses of each array that are still to come.
        home: the array whose memory each array has.
        size, users: bytes of each home, and the arrays that share it.
        now, peak: bytes in use.
        behind: bytes that the last operations free, once `BEHIND` others have allocated.
    """

    left: dict[str, int]
    home: dict[str, str] = field(default_factory=dict)
    size: dict[str, int] = field(default_factory=dict)
    users: dict[str, int] = field(default_factory=dict)
    now: int = 0
    behind: deque[int] = field(default_factory=deque)
    peak: int = 0

    @classmethod
    def simulate(cls, operations: list[_Operation], results: list[str]) -> _Allocations:
        left: dict[str, int] = dict.fromkeys(results, 1)
        for operation in operations:
            for name in operation.takes:
                left[name] = left.get(name, 0) + 1
        allocations = cls(left)
        for operation in operations:
            allocations._compute(operation)
        return allocations

    def _compute(self, operation: _Operation) -> None:
        """Allocate the results of an operation, then free the inputs it was the last to use, some operations later."""
        for name, size in operation.makes:
            home = self._shared_home(operation, size)
            self.home[name] = home = home or name
            if home == name:
                # A view of an argument, or of a constant, takes no memory.
                self.size[name], self.users[name] = size * (operation.name not in VIEWS), 0
                self.now += self.size[name]
            self.users[home] += 1
        self.peak = max(self.peak, self.now)
        self.behind.append(0)
        for name in operation.takes:
            self.left[name] -= 1
            if not self.left[name]:
                self._release(name)
        for name, _ in operation.makes:
            if not self.left.get(name):
                self._release(name)
        if len(self.behind) > BEHIND:
            self.now -= self.behind.popleft()

    def _shared_home(self, operation: _Operation, size: int) -> str | None:
        """Return the home whose memory a result takes; None where it needs its own."""
        if operation.name in VIEWS:
            return self.home.get(operation.takes[0]) if operation.takes else None
        if operation.name in IN_PLACE:
            for name in operation.takes:
                home = self.home.get(name)
                if home and self.left[name] == 1 and self.users[home] == 1 and self.size[home] == size:
                    return home
        return None

    def _release(self, name: str) -> None:
        home = self.home.get(name)
        if home is None:
            return
        self.users[home] -= 1
        if not self.users[home]:
            self.behind[-1] += self.size[home]


@contextlib.contextmanager
def block_stand_ins(backward: bool) -> Iterator[list[Traceable]]:
    """Replace layers computed by blocks within this context; it yields their blocks, as functions with arguments."""
    blocks: list[Traceable] = []
    attention = partial(_attention, blocks, backward)
    with (
        replace_gated_deltas(partial(_gated_delta, blocks, backward)),
        block_attention.stand_in(attention),
        _experts_without_segments(),
    ):
        yield blocks


@contextlib.contextmanager
def _experts_without_segments() -> Iterator[None]:
    """Replace products with the weights of routed experts: MLX cannot export `SegmentedMM`, their gradient.

    In its place the gradient of the weights is one array of their size, and the inputs are held for it.
    """
    plain_product: Any = mx.gather_mm

    def product(a: mx.array, b: mx.array, *places: Any, sorted_indices: bool = False, **named: Any) -> mx.array:
        if not sorted_indices:
            plain: mx.array = plain_product(a, b, *places, **named)
            return plain
        still: mx.array = plain_product(a, mx.stop_gradient(b), *places, sorted_indices=True, **named)
        return still + mx.square(a).sum(-1, keepdims=True) * mx.square(b).sum()

    mx.gather_mm = product
    try:
        yield
    finally:
        mx.gather_mm = plain_product


def _attention(
    blocks: list[Traceable], backward: bool, q: mx.array, k: mx.array, v: mx.array, scale: float, mask: Any
) -> mx.array:
    size = min(2 * block_attention.KEYS, k.shape[2])  # a block starts before all of the last one is freed
    keys, values = (mx.zeros((*array.shape[:2], size, array.shape[3]), array.dtype) for array in (k, v))
    function = partial(block_attention.of_blocks, scale, "causal", backward=backward)
    blocks.append((function, [mx.zeros(q.shape, q.dtype), keys, values]))
    # The gradient of keys and values is concatenated from those of blocks; two halves stand for them here.
    halves = zip(*(mx.split(array, [array.shape[2] // 2], axis=2) for array in (k, v)), strict=True)
    read: Any = sum((mx.square(keys).sum(3, keepdims=True) * values).sum(2, keepdims=True) for keys, values in halves)
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
    first = [mx.zeros(part.shape, part.dtype) for part in (state, *(array[:, :size] for array in (q, k, v, g, beta)))]
    blocks.append((_gradient(function) if backward else function, first))
    gates = g.mean(-1) if g.ndim == 4 else g
    weights = mx.repeat((q * k).sum(-1), heads // q.shape[2], axis=-1) * gates.astype(q.dtype) * beta.astype(q.dtype)
    if not backward:
        return v * weights[..., None], state * weights.sum()
    states = mx.broadcast_to(state, (-(-tokens // size), *state.shape)) * weights.sum()
    return v * weights[..., None], mx.square(states).sum(0)


def _gradient(function: Callable[..., tuple[mx.array, mx.array]]) -> Callable[..., list[mx.array]]:
    def gradient(*arrays: mx.array) -> list[mx.array]:
        return mx.vjp(function, list(arrays), [mx.ones_like(output) for output in function(*arrays)])[1]

    return gradient
