"""The memory that MLX may take before it waits for operations that will free some."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def limit_memory(room: int) -> Iterator[None]:
    """Have MLX wait where it takes more than `room` bytes beside those in use now, within this context.

    MLX allocates the results of operations ahead of those that are being computed, and before these have freed their
    arguments. At its memory limit it waits for them. No allocation fails by that.
    """
    import mlx.core as mx

    before = mx.set_memory_limit(mx.get_active_memory() + room)
    try:
        yield
    finally:
        mx.set_memory_limit(before)
