"""Lists, integers and names of NumPy as the columns that kernels take; the Rust boundary calls this for nothing else.

An array of the right type is borrowed and never comes here. What comes is copied once, and no value changes on the way:
what float64 or int64 cannot hold is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.errors import DTypeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

EXACT = 2**53
"""The largest integer up to which float64 holds all."""

KINDS = ("float64", "int64", "bool", "groups")
"""Types of lists and of integers; single numbers are a choice of the caller."""

MISSING: dict[str, float] = {"float64": np.nan, "int64": -1, "groups": -1}
"""Value of None in a list."""


def converted(name: str, values: object, wanted: str) -> NDArray[Any] | None:
    """Return a column in the type that a kernel takes; None for what no kernel takes.

    Args:
        name: of the argument.
        values: a list, a tuple, or an array of another type.
        wanted: ``float64``, ``int64``, ``bool``, or ``groups`` for numbers or names.

    Raises:
        DTypeError: an integer that the type cannot hold; the message names its place.
    """
    if wanted not in KINDS:
        return None
    if isinstance(values, list | tuple):
        return _of_list(name, values, wanted)
    if not isinstance(values, np.ndarray) or not values.dtype.isnative:
        return None
    if wanted == "groups" and (values.dtype.kind in "UT" or values.dtype == object):
        return _codes(values.tolist()) if values.ndim == 1 else None
    return _of_numbers(name, values, wanted)


def _of_list(name: str, values: Sequence[Any], wanted: str) -> NDArray[Any] | None:
    kinds = {type(value) for value in values} - {type(None)}
    if wanted == "groups" and kinds == {str}:
        return _codes(values)
    if not all(issubclass(kind, int | float | np.number | np.bool_) for kind in kinds):
        return None
    if wanted == "bool":
        return np.array(values, dtype=np.bool_) if kinds <= {bool, np.bool_} and None not in values else None
    if wanted != "float64" and not all(issubclass(kind, int | np.integer) for kind in kinds):
        return None
    kind, most = ("float64", EXACT) if wanted == "float64" else ("int64", 2**63 - 1)
    for place, value in enumerate(values):
        if isinstance(value, int | np.integer) and not -most <= value <= most:
            raise DTypeError(f"{name} has {value} at {place}, which {kind} cannot hold")
    return np.array([MISSING[wanted] if value is None else value for value in values], dtype=kind)


def _of_numbers(name: str, array: NDArray[Any], wanted: str) -> NDArray[Any] | None:
    """Return integers and truth values in the type that is wanted, where they fit."""
    if wanted == "bool" or array.dtype.kind not in ("iub" if wanted == "float64" else "iu"):
        return None
    if wanted == "float64":
        _check(name, array, -EXACT, EXACT, "float64")
        return array.astype(np.float64)
    _check(name, array, None, np.iinfo(np.int64).max, "int64")
    return array.astype(np.int64)


def _check(name: str, array: NDArray[Any], least: int | None, most: int, kind: str) -> None:
    """Raise where an integer does not fit."""
    if array.dtype.itemsize < 8:
        return
    beyond = array > most if least is None else (array > most) | (array < least)
    if beyond.any():
        place = int(np.argmax(beyond.reshape(-1)))
        raise DTypeError(f"{name} has {array.reshape(-1)[place]} at {place}, which {kind} cannot hold")


def _codes(names: Sequence[Any]) -> NDArray[np.int64] | None:
    """Number names by first appearance, -1 for None; None where something is not a name."""
    if not all(name is None or isinstance(name, str) for name in names):
        return None
    numbers: dict[str, int] = {}
    return np.array([-1 if name is None else numbers.setdefault(name, len(numbers)) for name in names], dtype=np.int64)
