"""Between MLX and NumPy: ``mx`` itself, loaded when it is first used, and the casts that cross the line.

Recipes can be read, printed and stored where there is no MLX; what computes says which extra is missing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.errors import MissingExtraError

if TYPE_CHECKING:
    import mlx.core as mx
    from numpy.typing import NDArray
else:

    class _Later:
        """A module that is imported when a name of it is asked for."""

        def __init__(self, name: str) -> None:
            self._module = name

        def __getattr__(self, name: str) -> Any:
            try:
                value = getattr(import_module(self._module), name)
            except ImportError as error:
                raise MissingExtraError("objectives need mlx: pip install 'karl-fast[train]'") from error
            setattr(self, name, value)
            return value

    mx = _Later("mlx.core")

__all__ = ["mx", "to_mlx", "to_numpy"]


def to_mlx(array: NDArray[Any], dtype: mx.Dtype | None = None) -> mx.array:
    """Copy to MLX: float64 becomes float32 unless ``dtype`` is given, as Metal has no float64; integers become int32.

    Args:
        array: of floats, whole numbers or truths.
        dtype: of the floats that come out; those of integers and truths are int32 and bool.

    Returns:
        The copy.

    Raises:
        MissingExtraError: MLX is not installed.

    Reference: none.
    """
    if array.dtype == np.bool_:
        return mx.array(array)
    if np.issubdtype(array.dtype, np.integer):
        return mx.array(array.astype(np.int32))
    return mx.array(array, dtype=dtype or mx.float32)


def to_numpy(array: mx.array) -> NDArray[Any]:
    """Copy to contiguous NumPy; bfloat16 and float16, which kernels do not accept, become float32.

    Args:
        array: evaluated if it is not yet.

    Returns:
        The copy: nothing that is written to it reaches MLX.

    Raises:
        MissingExtraError: MLX is not installed.

    Reference: none.
    """
    if array.dtype in (mx.bfloat16, mx.float16):
        array = array.astype(mx.float32)
    return np.array(array, order="C")
