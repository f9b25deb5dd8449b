"""Validation of rewards, for functions offline and online and for environments.

A finite number within 1e100 in size counts: a bool, an int, a float or another `numbers.Real`, or a scalar of NumPy,
MLX or another library of arrays. Everything else, a `Decimal` among it, is a missing reward with a kind to count it
by. The reader of logs has the same rule for the fields of a record (``rust/karl-log/src/json/scalar.rs``).
"""

from __future__ import annotations

import inspect
import math
import reprlib
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from itertools import islice
from numbers import Real
from typing import Any, TypeAlias

import numpy as np

from karl_fast._safe_text import clean, counted

LARGEST = 1e100
"""The largest reward: sums of squares of larger ones leave the range of float64."""

NAN, INFINITE, NOT_A_NUMBER = "nan", "infinite", "not a number"
"""Kinds of values that are not rewards."""

RAISED, LENGTH = "raised", "length"
"""Kinds of calls that gave none: an error, or something else than one value for each row."""

DEFECTS = {NAN: "NaN", INFINITE: "a number beyond 1e100 in size", NOT_A_NUMBER: "no number"}
"""Description of each kind of invalid value in messages."""


@dataclass(frozen=True)
class NoReward:
    """A missing reward.

    Attributes:
        kind: reason, for counts.
        said: the invalid value, shortened and escaped, or the error.
    """

    kind: str
    said: str


Reward: TypeAlias = float | NoReward | None
"""A reward, a missing one, or None where a function does not apply."""


def parse_reward(value: Any) -> Reward:
    """Return a value as a reward; None stays None."""
    if value is None or value is np.ma.masked:
        return None
    try:
        number = _number(value)
    except Exception:  # of a class of the caller's
        number = None
    if number is None:
        return NoReward(NOT_A_NUMBER, show_value(value))
    if math.isnan(number):
        return NoReward(NAN, show_value(value))
    # Adding 0.0 turns -0.0 into 0.0, so that equal rewards have equal bits.
    return number + 0.0 if abs(number) <= LARGEST else NoReward(INFINITE, show_value(value))


def _number(value: Any) -> float | None:
    """Return a number as float64, infinite if out of range; None for other types."""
    if isinstance(value, np.generic | np.ndarray) and value.dtype.kind not in "biuf":
        return None
    if getattr(value, "shape", None) == ():
        value = value.item()
    if not isinstance(value, Real):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def show_value(value: Any) -> str:
    """Return the repr of a value, shortened and escaped; its type where it has none."""
    try:
        return clean(SHORT.repr(value))[:LONGEST]
    except Exception:  # of a class of the caller's, or an int of more digits than Python prints
        return f"a value of type {type(value).__name__}"


LONGEST = 60

SHORT = reprlib.Repr()
SHORT.maxstring = SHORT.maxlong = SHORT.maxother = 40


def as_row_values(result: Any, count: int) -> list[Any] | str:
    """Return the values that a function returned, one a row; else a description of the result.

    Lists, tuples, arrays of one dimension and iterators are taken; texts, dictionaries and sets are not.
    """
    if inspect.iscoroutine(result):
        result.close()  # nothing awaits it
        return "a coroutine: an async function is not awaited"
    dimensions = getattr(result, "ndim", 1)
    if dimensions != 1:
        return f"an array of the shape {getattr(result, 'shape', '')}"
    if isinstance(result, str | bytes | Mapping | Set) or not isinstance(result, Iterable):
        return type(result).__name__
    values = list(islice(result, count + 1))
    if len(values) == count:
        return values
    return f"more than {counted(count, 'value')}" if len(values) > count else counted(len(values), "value")
