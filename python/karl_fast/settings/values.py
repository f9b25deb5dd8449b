"""Values of a configuration: each by the name of its setting, and of the type that it takes.

What is a table or a list in a file may also be a text, as the command takes it: ``outcome=0.8,cost=-0.2``.
"""

from __future__ import annotations

import functools
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from karl_fast._core import formats
from karl_fast._suggest import nearest, question
from karl_fast.errors import UsageError
from karl_fast.settings.fields import PLACES, SampleFields
from karl_fast.settings.shaping import AsymmetricScale
from karl_fast.settings.validation import Signal, spelled

SETTING = {"as": "shape"}
"""Options with another name than their setting, because theirs is a Python keyword."""

WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}

LONGEST = 60
"""Maximum characters of a wrong value in an error."""


@functools.cache
def kinds() -> dict[str, Any]:
    """Return the type of each setting by its name."""
    return {name: kind for name, kind in get_type_hints(SampleFields).items() if name != "origins"}


def checked(values: dict[str, Any], also: tuple[str, ...] = (), where: str = "") -> dict[str, Any]:
    """Return values by their names in `Settings`, checked for their types; None is left out.

    Raises:
        UsageError: a name that no setting has, the same one twice, or a value of another type.
    """
    found: dict[str, Any] = {}
    for key, value in values.items():
        name = named(key)
        if name not in kinds() and name not in also:
            raise _unknown(f"{where}{key}", name, [*kinds(), *SETTING, *also])
        if name in found:
            raise UsageError(f"{where}{key} is there twice, with - and with _")
        if value is not None:
            found[name] = _value(f"{where}{key}", name, value)
    return found


def named(key: str) -> str:
    """Return the name of the setting for a key, if there is one."""
    name = key.replace("-", "_")
    return SETTING.get(name, name)


def _unknown(key: str, name: str, known: list[str]) -> UsageError:
    error = UsageError(f"the key {key} is unknown, wanted the name of an option")
    meant = question(nearest(name, [word for word in known if word not in PLACES]))
    error.hint = meant or "karl-fast sample --help lists the options, from --format on"
    return error


def _value(key: str, name: str, value: Any) -> Any:
    try:
        match name:
            case "reward":
                return weights(value) if isinstance(value, str) else _weights(value)
            case "split":
                return shares(value) if isinstance(value, str) else _shares(value)
            case "shaping":
                return scale(value) if isinstance(value, str) else _scale(value)
            case "per":
                return deal(value) if isinstance(value, str) else _deal(value)
            case "logs":
                return _texts([value] if isinstance(value, str) else value)
            case "out" if value == "":
                raise ValueError("the name of a folder")
            case "format":
                name = spelled(value) if isinstance(value, str) else value
                return _one_of(tuple(name for name, _ in formats()), name)
        return _plain(kinds().get(name, str), value)
    except ValueError as error:
        wrong = UsageError(f"{key} is {shown(value)}, wanted {error}")
        wrong.hint = getattr(error, "hint", None)
        raise wrong from error


def _plain(kind: Any, value: Any) -> Any:
    """Check a value against a setting's type; the error names the type."""
    if get_origin(kind) is Literal:
        return _one_of(get_args(kind), value)
    (kind,) = [one for one in get_args(kind) or (kind,) if one is not NoneType]
    if kind is float and type(value) is int and abs(value) < 1 << 53:
        return float(value)
    if type(value) is not kind:
        raise ValueError(WORDS[kind])
    return value


def _one_of(choices: tuple[str, ...], value: Any) -> Any:
    if value not in choices:
        error = UsageError(", ".join(choices))
        error.hint = question(nearest(value, choices))
        raise error
    return value


def _texts(value: Any) -> list[str]:
    if not (isinstance(value, list) and value and all(isinstance(text, str) and text for text in value)):
        raise ValueError("a path, or a list of them")
    return value


def _weights(value: Any) -> dict[str, float | Signal]:
    if not (isinstance(value, dict) and value):
        raise ValueError("a path, or a table of weights by path")
    return {path: _component(component) for path, component in value.items()}


def _component(value: Any) -> float | Signal:
    if not isinstance(value, dict):
        return float(_plain(float, value))
    if not (value.keys() <= {"weight", "fn"} and isinstance(value.get("fn"), str)):
        raise ValueError('a weight by path, or a table like { weight = 0.3, fn = "my.py:score" }')
    return Signal(fn=value["fn"], weight=_plain(float, value.get("weight", 1.0)))


def _shares(value: Any) -> tuple[float, float, float]:
    if not (isinstance(value, list) and len(value) == 3):
        raise ValueError("three shares like [0.9, 0.1, 0]")
    train, valid, test = (_plain(float, share) for share in value)
    return train, valid, test


def _deal(value: Any) -> dict[str, str]:
    if not (isinstance(value, dict) and len(value) == 1 and all(isinstance(how, str) for how in value.values())):
        raise ValueError("one field=how, like domain=equal")
    return value


def deal(text: str) -> dict[str, str]:
    """Parse `domain=sqrt` as the division of a budget over the strata of a field.

    Raises:
        ValueError: it is something else; the message says what was wanted.
    """
    field, equals, how = text.partition("=")
    if not (field and equals and how):
        raise ValueError("one field=how, like domain=equal")
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
        raise ValueError("a path, or a list of path=weight") from error
    if not all(found):
        raise ValueError("a path, or a list of path=weight")
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


SCALE = "up=SCALE, with down=SCALE and centre=REWARD where they are not 1 and 0"


def _scale(value: Any) -> AsymmetricScale:
    if not (isinstance(value, dict) and {"up"} <= value.keys() <= {"up", "down", "centre"}):
        raise ValueError(SCALE)
    numbers = {name: _plain(float, number) for name, number in value.items()}
    try:
        return AsymmetricScale(**numbers)
    except UsageError as error:
        raise ValueError("scales above 0 and a finite centre") from error


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


def shown(value: Any) -> str:
    """Return a wrong value for an error, shortened."""
    text = repr(value)
    return text if len(text) <= LONGEST else text[:LONGEST] + "..."
