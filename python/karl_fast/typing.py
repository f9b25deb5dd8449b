"""Types of arguments for type checkers; not needed at run time.

A column of numbers is a NumPy array of exactly that type, or for `Reals` of one of two, which is borrowed; or any
object with Arrow's PyCapsule protocol (a series of polars or pandas, an array of pyarrow). Arrow memory is shared if it
is one chunk without nulls, and copied otherwise; a null is a missing number (NaN), or no group (-1). Lists, tuples and
arrays of integers are copied, where no value changes; None in a list is a null. Groups may be names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    import numpy as np
    from numpy.typing import NDArray

    Numbers: TypeAlias = "Sequence[float | None] | NDArray[np.integer[Any]]"
    Floats: TypeAlias = "NDArray[np.float64] | Numbers | ArrowArray | ArrowStream"
    Reals: TypeAlias = "NDArray[np.float64] | NDArray[np.float32] | Numbers | ArrowArray | ArrowStream"
    Names: TypeAlias = "Sequence[str | None] | NDArray[np.str_]"
    Integers: TypeAlias = "NDArray[np.integer[Any]] | Sequence[int | None] | Names | ArrowArray | ArrowStream"


class ArrowArray(Protocol):
    """Something that hands itself over as one Arrow array."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """Return the capsules of its type and of its memory."""
        ...


class ArrowStream(Protocol):
    """Something that hands itself over as Arrow arrays or record batches, one after the other."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the capsule of the stream."""
        ...
