"""The memory that a computation takes, by its graph: MLX builds that without computing anything.

Each array is counted from the operation that makes it to the last one that takes it, in the order in which MLX would
compute them. Views share the memory of what they show, and an elementwise operation reuses that of an argument which
nothing else needs.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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
    from karl_fast.modeling.block_memory import stand_ins

    with stand_ins(backward) as blocks:
        peak, count = _trace(function, *arrays)
    return peak + max((_trace(block, *some)[0] for block, some in blocks), default=0), count


def _trace(function: Callable[..., Any], *arrays: Any) -> tuple[int, int]:
    import mlx.core as mx

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
