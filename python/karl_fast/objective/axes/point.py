"""Base class of points of an axis, and checks of their numbers."""

from __future__ import annotations

import math

from karl_fast.errors import ArgumentError, UsageError


class Point:
    """A choice on an axis: a frozen dataclass that is the function it names, so that it prints, compares and stores."""

    @property
    def of_groups(self) -> bool:
        """True if a rollout alone in its group contributes no gradient."""
        return False


class OfGroups(Point):
    """A point that compares the rollouts of a group."""

    @property
    def of_groups(self) -> bool:
        """True."""
        return True


def check_number(name: str, value: object, least: float = 0.0, most: float = math.inf, *, above: bool = False) -> None:
    """Raise where a number of a point lies outside its range; ``above`` leaves ``least`` itself out.

    Raises:
        ArgumentError: it does, or is not a number.
    """
    opens = "(" if above else "["
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ArgumentError(f"{name} is {value!r}, wanted a number in {opens}{least:g}, {most:g}]")
    if (least < value if above else least <= value) and value <= most:
        return
    raise ArgumentError(f"{name} is {value}, wanted a number in {opens}{least:g}, {most:g}]")


def check_point(name: str, point: object, axis: type) -> None:
    """Raise if the value of an axis is not a point of it.

    Raises:
        UsageError: it is; a class in place of its instance too.
    """
    if isinstance(point, type):
        raise UsageError(f"{name} is the class {point.__name__}, wanted an instance of one")
    if not isinstance(point, axis):
        raise UsageError(f"{name} is a {type(point).__name__}, wanted a point of {axis.__name__}")
