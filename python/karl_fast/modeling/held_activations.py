"""The activations that a gradient holds, of any model that mlx-lm has."""

from __future__ import annotations

from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from karl_fast.errors import ModelError
from karl_fast.modeling.graph_memory import trace_memory
from karl_fast.modeling.model_views import training
from karl_fast.modeling.parameters import flatten_tree, locate_leaf

if TYPE_CHECKING:
    from collections.abc import Callable

    import mlx.core as mx

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
        import mlx.core as mx

        there = [(*locate_leaf(self._model, name), array) for name, array in flatten_tree(self._model.parameters()).items()]
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
        import mlx.core as mx
        import mlx.nn as nn

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
