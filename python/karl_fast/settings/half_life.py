"""Half-lives as text: a number with a unit of time, or without one."""

from __future__ import annotations

import math

WANTED = "a time like 14d (s, m, h, d or w), or a number in the unit of order_by"

UNITS = {"": None, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
"""Seconds of each unit."""


def half_life(text: str) -> tuple[float, int | None]:
    """Parse `14d` as a number and the seconds of its unit, and `30` as a number without one.

    Raises:
        ValueError: it is something else; the message says what was wanted.
    """
    unit = text[-1:] if text[-1:] in UNITS else ""
    try:
        number = float(text.removesuffix(unit))
    except ValueError as error:
        raise ValueError(WANTED) from error
    if not 0 < number < math.inf:
        raise ValueError(WANTED)
    return number, UNITS[unit]
