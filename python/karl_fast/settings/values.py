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

WANTED = "a time like 14d (s, m, h, d or w), or a number in the unit of order_by"

UNITS = {"": None, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
"""Seconds of each unit."""


def parse_half_life(text: str) -> tuple[float, int | None]:
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


def _check_number(value: Any) -> float:
    if not is_a(value, float):
        raise ValueError("a number")
    return float(value)


WEIGHTS = "a path, or a list of path=weight"
DEAL = "one field=how, like domain=equal"
SCALE = "up=SCALE, with down=SCALE and centre=REWARD where they are not 1 and 0"


def _check_weights(value: Any) -> dict[str, float | Signal]:
    if not (isinstance(value, dict) and value):
        raise ValueError("a path, or a table of weights by path")
    return {path: _check_component(component) for path, component in value.items()}


def _check_component(value: Any) -> float | Signal:
    if not isinstance(value, dict):
        return _check_number(value)
    if not (value.keys() <= {"weight", "fn"} and isinstance(value.get("fn"), str)):
        raise ValueError('a weight by path, or a table like { weight = 0.3, fn = "my.py:score" }')
    return Signal(fn=value["fn"], weight=_check_number(value.get("weight", 1.0)))


def _check_shares(value: Any) -> tuple[float, float, float]:
    if not (isinstance(value, list) and len(value) == 3):
        raise ValueError("three shares like [0.9, 0.1, 0]")
    train, valid, test = (_check_number(share) for share in value)
    return train, valid, test


def _check_deal(value: Any) -> dict[str, str]:
    if not (isinstance(value, dict) and len(value) == 1 and all(isinstance(how, str) for how in value.values())):
        raise ValueError(DEAL)
    return value


def parse_deal(text: str) -> dict[str, str]:
    """Parse `domain=sqrt` as the division of a budget over the strata of a field.

    Raises:
        ValueError: it is something else; the message says what was wanted.
    """
    field, equals, how = text.partition("=")
    if not (field and equals and how):
        raise ValueError(DEAL)
    return {field: how}


def parse_weights(text: str) -> dict[str, float | Signal]:
    """Parse weights by path: `outcome=0.5,cost=-0.1`; a bare path has weight 1, `style=0.3:my.py:score` is a function.

    Raises:
        ValueError: it is something else; the message says what was wanted.
    """
    parts = [part.strip().partition("=") for part in text.split(",")]
    try:
        weights = {path: _parse_weight(weight) if equals else 1.0 for path, equals, weight in parts}
    except ValueError as error:
        raise ValueError(WEIGHTS) from error
    if not all(weights):
        raise ValueError(WEIGHTS)
    if len(weights) < len(parts):
        raise ValueError("each component once, like outcome=0.5,cost=-0.1")
    return weights


def _parse_weight(text: str) -> float | Signal:
    """Parse `0.3`, or `0.3:my.py:score`."""
    weight, colon, fn = text.partition(":")
    return Signal(fn=fn, weight=float(weight)) if colon else float(weight)


def parse_scale(text: str) -> AsymmetricScale:
    """Parse the shaping `up=1.4,down=1,centre=0`.

    Raises:
        ValueError: it is something else; the message says what was wanted.
    """
    parts = [part.strip().partition("=") for part in text.split(",")]
    try:
        scales = {name: float(number) for name, _, number in parts}
    except ValueError as error:
        raise ValueError(SCALE) from error
    if len(scales) < len(parts):
        raise ValueError(SCALE)
    return _make_scale(scales)


def _make_scale(value: Any) -> AsymmetricScale:
    if not (isinstance(value, dict) and {"up"} <= value.keys() <= {"up", "down", "centre"}):
        raise ValueError(SCALE)
    numbers = {name: _check_number(number) for name, number in value.items()}
    try:
        return AsymmetricScale(**numbers)
    except UsageError as error:
        raise ValueError("scales above 0 and a finite centre") from error


def _check_half_life(text: str) -> str:
    parse_half_life(text)
    return text


def _check_half_life_number(value: Any) -> str:
    _check_number(value)
    return _check_half_life(str(value))


def parse_shares(text: str) -> tuple[float, float, float]:
    """Parse `0.9,0.1,0` as three numbers.

    Raises:
        ValueError: it is something else; the message says what was wanted.
    """
    try:
        train, valid, test = map(float, text.split(","))
    except ValueError as error:
        raise ValueError("three numbers like 0.9,0.1,0") from error
    return train, valid, test


def parse_names(text: str) -> tuple[str, ...]:
    """Parse names with commas.

    Raises:
        ValueError: an empty name.
    """
    return _check_names([part.strip() for part in text.split(",")])


def _check_names(value: Any) -> tuple[str, ...]:
    if not (isinstance(value, list) and value and all(isinstance(name, str) and name for name in value)):
        raise ValueError(NAMES.wanted)
    return tuple(value)


def parse_functions(text: str) -> dict[str, float]:
    """Parse functions with weights: `rewards.py:solved=1,rewards.py:brief=0.1`; a bare function has weight 1.

    Raises:
        ValueError: it is something else; the message says what was wanted.
    """
    parts = [part.strip().rpartition("=") for part in text.split(",")]
    try:
        functions = {place or weight: float(weight) if place else 1.0 for place, _, weight in parts}
    except ValueError as error:
        raise ValueError(FUNCTIONS.wanted) from error
    if len(functions) < len(parts) or not all(functions):
        raise ValueError(FUNCTIONS.wanted)
    return functions


def _check_functions(value: Any) -> dict[str, float]:
    if not isinstance(value, dict):
        raise ValueError(FUNCTIONS.wanted)
    return value


RECENCY = Form("TIME", WANTED, _check_half_life, _check_half_life_number)
REWARD = Form("PATH[=WEIGHT],...", "a weight for each path, like {'outcome': 1.0}", parse_weights, _check_weights)
SHAPING = Form("up=A[,down=B][,centre=C]", "an AsymmetricScale", parse_scale, _make_scale)
PER = Form("FIELD=HOW", DEAL, parse_deal, _check_deal)
SPLIT = Form("A,B,C", "three shares, like (0.8, 0.1, 0.1)", parse_shares, _check_shares)
NAMES = Form("NAME,...", "a list of names", parse_names, _check_names)
FUNCTIONS = Form("FUNCTION[=WEIGHT],...", "a table of functions and weights", parse_functions, _check_functions)


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
            DTypeError, LayoutError: rewards that are not a contiguous column of float64.
        """
        return _core.shaped(rewards, up=self.up, down=self.down, centre=self.centre)

    @property
    def numbers(self) -> tuple[float, float, float]:
        """Up, down and centre, as the extension takes them."""
        return self.up, self.down, self.centre
