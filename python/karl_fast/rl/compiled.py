"""Functions of a model, compiled: few large operations in place of many small ones, and no Python between them.

A function is traced again for each shape of its arguments, so shapes are rounded up to few. A trace of 28 layers takes
some 0.3 s and 8 MB, and pays where layers are small. On a CPU `mx.compile` calls a C++ compiler, once an operation, and
caches the result.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from karl_fast.errors import ModelError
from karl_fast.modeling.parameters import flatten_tree, locate_leaf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OCTAVE = 16
"""Sizes from one power of two up to the next."""

MOST_TRACES = 64
"""Maximum traces kept; MLX itself keeps all."""


def round_size(size: int) -> int:
    """Round a size up to one of few: at most a sixteenth more, exact up to 32."""
    step = max(1, (1 << size.bit_length()) // (2 * OCTAVE))
    return -(-size // step) * step


class CompiledModel:
    """Functions of a model, compiled when they are first called. The weights are arguments of each call."""

    def __init__(self, model: Any, *, on: bool) -> None:
        """Take a model; if not `on`, its functions are not compiled."""
        self.model, self.on = model, on
        self._functions: dict[tuple[Any, ...], Callable[..., Any]] = {}
        self._traces = 0

    def __call__(self, function: Callable[..., Any], *first: Any) -> Callable[..., Any]:
        """Bind the first arguments, which are not arrays: each value has traces of its own."""
        if self._traces >= MOST_TRACES:
            self._functions.clear()
            self._traces = 0
        key = (function, *first)
        if key not in self._functions:
            self._functions[key] = self._compiled(function, first)
        return self._functions[key]

    def _compiled(self, function: Callable[..., Any], first: tuple[Any, ...]) -> Callable[..., Any]:
        import mlx.core as mx

        def traced(*arrays: Any) -> Any:
            self._traces += 1
            with _restore_arrays(self.model):
                return function(*first, *arrays)

        return mx.compile(traced, inputs=self.model.state) if self.on else partial(function, *first)


@contextmanager
def _restore_arrays(model: Any) -> Iterator[None]:
    """Restore the arrays of a model that tracing a gradient has replaced.

    Raises:
        ModelError: other arrays of the model changed, which a compiled function would do once and never again.
    """
    arrays = {name: (*locate_leaf(model, name), array) for name, array in flatten_tree(model.parameters()).items()}
    trained = flatten_tree(model.trainable_parameters()).keys()
    try:
        yield
    finally:
        changed = [name for name, (holder, key, array) in arrays.items() if holder[key] is not array]
        for holder, key, array in arrays.values():
            holder[key] = array
    if other := sorted(set(changed) - trained):
        raise ModelError(
            f"a pass changes {other[0]} of the model, which is not a weight that is trained: compile cannot be true"
        )
