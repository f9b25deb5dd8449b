"""Functions of a model, compiled: few large operations in the place of many small ones, and no Python between them.

A function is traced anew for each shape of what it is given, so shapes are rounded up to few. On a CPU `mx.compile`
calls a C++ compiler, once an operation, and keeps what it made.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

OCTAVE = 16
"""Sizes from one power of two up to the next."""


def rounded(size: int) -> int:
    """A size as one of few: at most a sixteenth more, and itself up to 32."""
    step = max(1, (1 << size.bit_length()) // (2 * OCTAVE))
    return -(-size // step) * step


def worth_it() -> bool:
    """Whether compiling costs next to nothing: on a GPU."""
    import mlx.core as mx

    return mx.default_device().type == mx.DeviceType.gpu


class Compiled:
    """The functions of a model, compiled when they are first wanted. The weights are those of each call."""

    def __init__(self, model: Any, *, on: bool) -> None:
        """Functions of a model; not `on`, they stay as they are."""
        self.model, self.on = model, on
        self._made: dict[tuple[Any, ...], Callable[..., Any]] = {}

    def __call__(self, function: Callable[..., Any], *first: Any) -> Callable[..., Any]:
        """The function with its first arguments, which are no arrays: each of them is worth a trace of its own."""
        import mlx.core as mx

        wanted = (function, *first)
        if wanted not in self._made:
            state, plain = self.model.state, partial(function, *first)
            self._made[wanted] = mx.compile(plain, inputs=state, outputs=state) if self.on else plain
        return self._made[wanted]
