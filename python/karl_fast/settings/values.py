"""Values with parts, as text (``outcome=0.8,cost=-0.2``) and as a table or a list of a file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from karl_fast import _core
from karl_fast.errors import UsageError
from karl_fast.settings.schema import Form, Signal, is_a

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from karl_fast.typing import Floats

# Half-lives as text: a number with a unit of time, or without one.


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


def _number(value: Any) -> float:
    if not is_a(value, float):
        raise ValueError("a number")
    return float(value)


WEIGHTS = "a path, or a list of path=weight"
DEAL = "one field=how, like domain=equal"
SCALE = "up=SCALE, with down=SCALE and centre=REWARD where they are not 1 and 0"


def _weights(value: Any) -> dict[str, float | Signal]:
    if not (isinstance(value, dict) and value):
        raise ValueError("a path, or a table of weights by path")
    return {path: _component(component) for path, component in value.items()}


def _component(value: Any) -> float | Signal:
    if not isinstance(value, dict):
        return _number(value)
    if not (value.keys() <= {"weight", "fn"} and isinstance(value.get("fn"), str)):
        raise ValueError('a weight by path, or a table like { weight = 0.3, fn = "my.py:score" }')
    return Signal(fn=value["fn"], weight=_number(value.get("weight", 1.0)))


def _shares(value: Any) -> tuple[float, float, float]:
    if not (isinstance(value, list) and len(value) == 3):
        raise ValueError("three shares like [0.9, 0.1, 0]")
    train, valid, test = (_number(share) for share in value)
    return train, valid, test


def _deal(value: Any) -> dict[str, str]:
    if not (isinstance(value, dict) and len(value) == 1 and all(isinstance(how, str) for how in value.values())):
        raise ValueError(DEAL)
    return value


def deal(text: str) -> dict[str, str]:
    """Parse `domain=sqrt` as the division of a budget over the strata of a field.

    Raises:
        ValueError: it is something else; the message says what was wanted.
    """
    field, equals, how = text.partition("=")
    if not (field and equals and how):
        raise ValueError(DEAL)
    return {field: how}


def weights(text: str) -> dict[str, float | Signal]:
    """Parse weights by path: `outcome=0.5,cost=-0.1`; a bare path has weight 1, `style=0.3:my.py:score` is a function.

    Raises:
        ValueError: it is something else; the message says what was wanted.
    """
    parts = [part.strip().partition("=") for part in text.split(",")]
    try:
        found = {path: _weighed(weight) if equals else 1.0 for path, equals, weight in parts}
    except ValueError as error:
        raise ValueError(WEIGHTS) from error
    if not all(found):
        raise ValueError(WEIGHTS)
    if len(found) < len(parts):
        raise ValueError("each component once, like outcome=0.5,cost=-0.1")
    return found


def _weighed(text: str) -> float | Signal:
    """Parse `0.3`, or `0.3:my.py:score`."""
    weight, colon, fn = text.partition(":")
    return Signal(fn=fn, weight=float(weight)) if colon else float(weight)


def scale(text: str) -> AsymmetricScale:
    """Parse the shaping `up=1.4,down=1,centre=0`.

    Raises:
        ValueError: it is something else; the message says what was wanted.
    """
    parts = [part.strip().partition("=") for part in text.split(",")]
    try:
        found = {name: float(number) for name, _, number in parts}
    except ValueError as error:
        raise ValueError(SCALE) from error
    if len(found) < len(parts):
        raise ValueError(SCALE)
    return _scale(found)


def _scale(value: Any) -> AsymmetricScale:
    if not (isinstance(value, dict) and {"up"} <= value.keys() <= {"up", "down", "centre"}):
        raise ValueError(SCALE)
    numbers = {name: _number(number) for name, number in value.items()}
    try:
        return AsymmetricScale(**numbers)
    except UsageError as error:
        raise ValueError("scales above 0 and a finite centre") from error


def _recency(text: str) -> str:
    half_life(text)
    return text


def _recency_number(value: Any) -> str:
    _number(value)
    return _recency(str(value))


def shares(text: str) -> tuple[float, float, float]:
    """Parse `0.9,0.1,0` as three numbers.

    Raises:
        ValueError: it is something else; the message says what was wanted.
    """
    try:
        train, valid, test = map(float, text.split(","))
    except ValueError as error:
        raise ValueError("three numbers like 0.9,0.1,0") from error
    return train, valid, test


def names(text: str) -> tuple[str, ...]:
    """Parse names with commas.

    Raises:
        ValueError: an empty name.
    """
    return _names([part.strip() for part in text.split(",")])


def _names(value: Any) -> tuple[str, ...]:
    if not (isinstance(value, list) and value and all(isinstance(name, str) and name for name in value)):
        raise ValueError(NAMES.wanted)
    return tuple(value)


def functions(text: str) -> dict[str, float]:
    """Parse functions with weights: `rewards.py:solved=1,rewards.py:brief=0.1`; a bare function has weight 1.

    Raises:
        ValueError: it is something else; the message says what was wanted.
    """
    parts = [part.strip().rpartition("=") for part in text.split(",")]
    try:
        found = {place or weight: float(weight) if place else 1.0 for place, _, weight in parts}
    except ValueError as error:
        raise ValueError(FUNCTIONS.wanted) from error
    if len(found) < len(parts) or not all(found):
        raise ValueError(FUNCTIONS.wanted)
    return found


def _functions(value: Any) -> dict[str, float]:
    if not isinstance(value, dict):
        raise ValueError(FUNCTIONS.wanted)
    return value


RECENCY = Form("TIME", WANTED, _recency, _recency_number)
REWARD = Form("PATH[=WEIGHT],...", "a weight for each path, like {'outcome': 1.0}", weights, _weights)
SHAPING = Form("up=A[,down=B][,centre=C]", "an AsymmetricScale", scale, _scale)
PER = Form("FIELD=HOW", DEAL, deal, _deal)
SPLIT = Form("A,B,C", "three shares, like (0.8, 0.1, 0.1)", shares, _shares)
NAMES = Form("NAME,...", "a list of names", names, _names)
FUNCTIONS = Form("FUNCTION[=WEIGHT],...", "a table of functions and weights", functions, _functions)


# Shaping of a reward before it is scored.


@dataclass(frozen=True)
class AsymmetricScale:
    """Separate scales for good and bad rewards.

        s(r) = up * (r - centre) + centre for r > centre, down * (r - centre) + centre below

    Both scales are above 0, so that the order of rewards is kept.

    Attributes:
        up: the scale above the centre.
        down: the scale below it.
        centre: the fixed point.

    Raises:
        UsageError: a scale that is not a finite number above 0, or a centre that is not finite.

    Reference: Archer222arc/LLM-for-OR, ``scripts/training/train_grpo_ablation.py``, run ``asym_clip`` with up 1.4.
    """

    up: float = 1.4
    down: float = 1.0
    centre: float = 0.0

    def __post_init__(self) -> None:
        if not (0 < self.up < math.inf and 0 < self.down < math.inf and math.isfinite(self.centre)):
            raise UsageError(f"up, down and centre are {self.up}, {self.down} and {self.centre}, wanted scales above 0")

    def __call__(self, rewards: Floats) -> NDArray[np.float64]:
        """Return the shaped rewards; missing ones stay missing. [B]

        Raises:
            ArgumentError: an infinite reward, or a shaped one beyond float64.
            DTypeError, LayoutError: rewards that are no contiguous column of float64.
        """
        return _core.shaped(rewards, up=self.up, down=self.down, centre=self.centre)

    @property
    def numbers(self) -> tuple[float, float, float]:
        """Up, down and centre, as the extension takes them."""
        return self.up, self.down, self.centre
