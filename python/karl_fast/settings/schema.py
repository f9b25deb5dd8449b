"""Declarations of settings: name, type, default, bounds, help and group of each, in one place.

The fields of a class of settings are made by `setting`. Flags, keys of TOML files, environment variables, help
texts, the reference page, the keywords of Python functions and validation are derived from `schema` of the class.
"""

from __future__ import annotations

import functools
import math
import sys
from dataclasses import MISSING as MISSING
from dataclasses import dataclass, field, fields, replace
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NamedTuple,
    NotRequired,
    TypedDict,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from karl_fast._suggest import ask_whether, nearest
from karl_fast.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Weighting = Literal["ema", "karl"]
"""Ways in which the weight of a skill follows its rewards."""

STARTED_AT = "started_at"
"""Field of a trajectory with the time at which it began."""

Score = Literal["raw", "centre", "zscore", "leave-one-out", "advantage"]
BaselineKind = Literal["mean", "partition", "ema"]
BaselineBy = Literal["group", "domain"]
Sampler = Literal["gumbel", "weighted-reservoir", "reservoir", "systematic", "multinomial", "all"]
Shape = Literal[
    "chat",
    "prompt-completion",
    "prompt-completion-text",
    "text",
    "raw",
    "preference",
    "kto",
    "sharegpt",
    "alpaca",
    "openai",
    "atif",
    "verl",
    "prime-rl",
]
Rate = Literal["log", "result", "karl-v1", "karl-v2", "outcomes"]
To = Literal["trajectory", "karl"]
ToolFormat = Literal["auto", "template", "text"]


class Signal(TypedDict):
    """A component of the reward that a function makes: ``my.py:score``, or one of ``karl_fast.reward.SIGNALS``."""

    fn: str
    weight: NotRequired[float]


class Stored(str):
    """The name of a function in a manifest: it is run only if the user names it again."""

    __slots__ = ()


def weight_of(component: float | Signal) -> float:
    """Return the weight of a component, 1 for a function without one."""
    return component.get("weight", 1.0) if isinstance(component, dict) else component


class Range(NamedTuple):
    """Range of a number, which is finite.

    Attributes:
        low, high: smallest and largest value.
        above, below: limits that are not values themselves.
        also: a value outside of the range, such as -1 for all.
        words: description of the range; made from the limits where it is empty.
    """

    low: float | None = None
    high: float | None = None
    above: float | None = None
    below: float | None = None
    also: int | None = None
    words: str = ""

    def hold(self, value: float) -> bool:
        """Return True for a finite number in the range."""
        if value == self.also:
            return True
        return _is_finite(value) and not (
            (self.low is not None and value < self.low)
            or (self.high is not None and value > self.high)
            or (self.above is not None and value <= self.above)
            or (self.below is not None and value >= self.below)
        )

    def of(self, kind: type) -> str:
        """Return the allowed numbers of a type in words."""
        if self.words:
            return self.words
        limits = {"from {} on": self.low, "above {}": self.above, "up to {}": self.high, "below {}": self.below}
        words = [text.format(_format_limit(limit)) for text, limit in limits.items() if limit is not None]
        number = "a whole number" if kind is int else "a number" if self.high or self.below else "a finite number"
        also = "" if self.also is None else f", or {self.also} for all"
        return " ".join([number, " and ".join(words)]).rstrip() + also


def _is_finite(value: float) -> bool:
    """Return True for a finite number: an int up to 2**64, for larger ones overflow in a run."""
    return abs(value) <= (1 << 64 if isinstance(value, int) else sys.float_info.max)


def _format_limit(limit: float) -> str:
    """Write a large power of two as one."""
    exponent = math.log2(limit) if limit > 0 else 0.0
    return f"2**{exponent:.0f}" if exponent >= 16 and exponent.is_integer() else f"{limit:g}"


NO_BOUNDS = Range()
POSITIVE = Range(above=0)
FROM_ZERO = Range(low=0)
FROM_ONE = Range(low=1)
COUNT = Range(low=1, below=1 << 32)
SEED = Range(low=0, below=1 << 64)
SHARE = Range(above=0, high=1)


S = TypeVar("S")

KINDS = {bool: "true or false", int: "a whole number", str: "a text"}

LONGEST = 60
"""Maximum characters of a wrong value in an error."""


class Form(NamedTuple):
    """Reader of a setting that has parts, such as weights by path.

    Attributes:
        metavar: the text form, for help.
        wanted: what errors name as expected.
        text: parser of the text form: of a flag, of a variable, or in a file.
        table: converter of a table or a list in a file. Both raise ValueError with what was expected.
    """

    metavar: str
    wanted: str
    text: Callable[[str], Any]
    table: Callable[[Any], Any]


@dataclass(frozen=True)
class Setting:
    """A declared setting.

    Attributes:
        name: name in the class; a setting in a table has the table's name in front: ``alarms.kl_ceiling``.
        kind: type of its values.
        words: allowed texts; empty for any.
        optional: True if None is allowed.
        default: default value; MISSING where the field computes it.
        help: help text.
        group: heading of the reference page, by which commands choose their options.
        bounds: range of a number.
        flag: option of the command line.
        form: reader of a value with parts.
        proposals: words that the shell completes, beside `words`.
        annotation: type hint of the field.
        part: field of the class that holds the setting, if another class declares it.
    """

    name: str
    kind: Any
    words: tuple[str, ...]
    optional: bool
    default: Any
    help: str
    group: str
    bounds: Range
    flag: str
    form: Form | None
    proposals: Callable[[], list[str]] | None
    annotation: Any
    part: str = ""

    @property
    def key(self) -> str:
        """The key of a TOML file, with ``_``: that of the flag, or the name."""
        return self.flag.lstrip("-").replace("-", "_") if self.part == "" else self.name

    @property
    def variable(self) -> str:
        """The environment variable."""
        return variable(self.flag)

    @property
    def wanted(self) -> str:
        """The allowed values in words, for errors and the reference page."""
        if self.form is not None:
            return self.form.wanted
        if self.kind is str and self.words:
            return ", ".join(self.words)
        number = self.bounds.of(self.kind) if self.kind in (int, float) else KINDS.get(self.kind, "")
        return number + "".join(f", or {word}" for word in self.words)

    def accepts(self, value: Any) -> bool:
        """Return True for a value of the type, within the bounds."""
        if value is None:
            return self.optional
        if self.words and isinstance(value, str):
            return value in self.words
        return is_a(value, self.kind) and (self.kind not in (int, float) or self.bounds.hold(value))

    def from_text(self, text: str) -> Any:
        """Parse the text of a flag or a variable.

        Raises:
            ValueError: another form; the message says what was expected.
        """
        if self.form is not None:
            return self.form.text(text)
        if text in self.words or (self.kind is str and not self.words):
            return text
        try:
            return {int: int, float: float}[self.kind](text)
        except (KeyError, ValueError) as error:
            raise ValueError(self.wanted) from error

    def from_toml(self, value: Any) -> Any:
        """Convert a value of a file; a whole number also suits a float, and a text a setting with a form.

        Raises:
            ValueError: another type; the message says what was expected.
        """
        if self.form is not None:
            return self.form.text(value) if isinstance(value, str) else self.form.table(value)
        if isinstance(value, str) and self.words and value not in self.words:
            raise ValueError(self.wanted)
        if not (is_a(value, self.kind) or value in self.words):
            raise ValueError(self.wanted)
        return float(value) if self.kind is float and abs(value) < 1 << 53 else value

    def wrong(self, value: Any, key: str = "", wanted: str = "") -> UsageError:
        """Return the error for a value, with the nearest allowed word as its hint."""
        return UsageError(
            f"{key or self.name} is {shorten(value)}, wanted {wanted or self.wanted}",
            self.name,
            hint=ask_whether(nearest(value, self.words)),
        )


def setting(
    default: Any,
    group: str,
    help: str,
    *,
    flag: str = "",
    bounds: Range = NO_BOUNDS,
    form: Form | None = None,
    proposals: Callable[[], list[str]] | None = None,
    **how: Any,
) -> Any:
    """Declare a setting as the field of a dataclass; ``how`` goes to `dataclasses.field`.

    Args:
        default: the default, or a function that makes one.
        group, help, flag, bounds, form, proposals: as in `Setting`; the flag is the name, if not given.
    """
    declared = {"group": group, "help": help, "flag": flag, "bounds": bounds, "form": form, "proposals": proposals}
    value = {"default_factory": default} if callable(default) else {"default": default}
    return field(**value, **how, metadata={"setting": declared, "help": help})


def part(kind: Callable[[], S], help: str, names: Iterable[str] = ()) -> S:
    """Declare a field with settings of another class.

    They are in a table of the field's name, which is also a prefix of their flags; but those of ``names``, where
    given, count as settings of this class, and the others cannot be chosen.
    """
    settings: S = field(default_factory=kind, metadata={"part": kind, "names": tuple(names), "help": help})
    return settings


def document_settings(kind: type[S]) -> type[S]:
    """Add the help of each setting to the docstring of a class, above its errors."""
    declared: Any = kind
    lines = [
        f"        {declared_field.name}: {declared_field.metadata['help']}"
        for declared_field in fields(declared)
        if "help" in declared_field.metadata
    ]
    head, raises, tail = (kind.__doc__ or "").partition("    Raises:")
    kind.__doc__ = head + "\n".join(["    Attributes:", *lines, "", ""]) + raises + tail
    return kind


@functools.cache
def own_settings(kind: Any) -> dict[str, Setting]:
    """Return the settings that a class declares itself, by name."""
    hints = get_type_hints(kind)
    declared = [
        (declared_field, declared_field.metadata["setting"])
        for declared_field in fields(kind)
        if "setting" in declared_field.metadata
    ]
    return {
        declared_field.name: _make_setting(declared_field, how, hints[declared_field.name])
        for declared_field, how in declared
    }


def _make_setting(declared_field: Any, how: dict[str, Any], hint: Any) -> Setting:
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    words = tuple(word for option in options if get_origin(option) is Literal for word in get_args(option))
    kinds = [option for option in options if option is not NoneType and get_origin(option) is not Literal]
    kind = (get_origin(kinds[0]) or kinds[0]) if kinds else str
    flag = how["flag"] or flag_of(declared_field.name)
    return Setting(
        **how | {"flag": flag, "name": declared_field.name, "kind": kind, "words": words},
        optional=NoneType in options,
        default=declared_field.default,
        annotation=hint,
    )


@functools.cache
def schema(kind: Any) -> dict[str, Setting]:
    """Return the settings of a class and of its parts, by name."""
    settings = dict(own_settings(kind))
    for declared_field in fields(kind):
        if inner := declared_field.metadata.get("part"):
            prefix = "" if declared_field.metadata["names"] else f"{declared_field.name}."
            for name in declared_field.metadata["names"] or own_settings(inner):
                full = prefix + name
                settings[full] = replace(
                    own_settings(inner)[name], name=full, flag=flag_of(full), part=declared_field.name
                )
    return settings


def build(kind: Callable[..., S], values: dict[str, Any], **more: Any) -> S:
    """Make settings from values by the names of `schema`.

    Raises:
        UsageError: as the class.
    """
    declared: Any = kind
    settings, inner = schema(declared), dict[str, dict[str, Any]]()
    for name in [name for name in values if settings[name].part]:
        inner.setdefault(settings[name].part, {})[name.rpartition(".")[2]] = values[name]
    kinds: dict[str, Any] = {
        declared_field.name: declared_field.metadata.get("part") for declared_field in fields(declared)
    }
    parts = {name: kinds[name](**values_of_part) for name, values_of_part in inner.items()}
    return kind(**{name: value for name, value in values.items() if not settings[name].part}, **parts, **more)


def displaced_names(kind: type, values: dict[str, Any]) -> set[str]:
    """Return the settings that these override in weaker layers: alternatives to them, and those without effect."""
    rule: Callable[[dict[str, Any]], set[str]] | None = getattr(kind, "_displaced", None)
    return rule(values) if rule else set()


def command_of(kind: type) -> str:
    """Return the command that has the settings of a class."""
    return str(getattr(kind, "_command", ""))


def validate(settings: Any, table: str = "") -> None:
    """Check the type and the bounds of each setting; ``table`` is the table that the settings are in.

    Raises:
        UsageError: the first that is wrong.
    """
    kind: Any = type(settings)
    for name, declared in own_settings(kind).items():
        value = getattr(settings, name)
        if not declared.accepts(value):
            full = f"{table}.{name}" if table else name
            raise replace(declared, name=full).wrong(value)


def is_a(value: Any, kind: Any) -> bool:
    """Return True for a value of a kind; a whole number is a float too, True is not a number, and a list is a tuple."""
    if isinstance(value, bool) or kind is bool:
        return kind is bool and isinstance(value, bool)
    return isinstance(value, {float: (int, float), tuple: (tuple, list)}.get(kind, kind))


def variable(option: str) -> str:
    """Return the environment variable of an option: KARL_FAST_MAX_TOKENS of --max-tokens."""
    return "KARL_FAST_" + option.lstrip("-").replace("-", "_").upper()


def flag_of(name: str) -> str:
    """Return the option of a setting that declares none of its own."""
    return "--" + name.replace("_", "-").replace(".", "-")


def shorten(value: Any) -> str:
    """Return a wrong value for an error, shortened."""
    text = repr(value)
    return text if len(text) <= LONGEST else text[:LONGEST] + "..."


def check_keys(
    kind: type, values: dict[str, Any], also: tuple[str, ...] = (), where: str = "", tables: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return values by the names of a class of settings, checked for their types; None is left out.

    Args:
        kind: the class.
        values: values by key; a table of settings is a dictionary.
        also: further keys, with values of any type.
        where: prefix of keys in errors.
        tables: names of tables that may stand beside the keys, which an unknown table is compared with.

    Raises:
        UsageError: a key that no setting has, the same one twice, or a value of another type.
    """
    known = {declared.key: declared for declared in schema(kind).values()} | schema(kind)
    checked: dict[str, Any] = {}
    for key, value in flatten_tables(kind, values, where).items():
        name = key.replace("-", "_")
        if name not in known and name not in also:
            near = nearest(name, tables) if isinstance(value, dict) else []
            raise _unknown_key_error(kind, f"{where}{key}", name, also, near)
        name = known[name].name if name in known else name
        if name in checked:
            raise UsageError(f"{where}{key} is given twice, with - and with _")
        if value is not None:
            checked[name] = convert_value(known[name], value, f"{where}{key}") if name in known else value
    return checked


def flatten_tables(kind: type, values: dict[str, Any], where: str = "") -> dict[str, Any]:
    """Return values with those of tables beside the others, named with the table in front."""
    tables = {inner.part for name, inner in schema(kind).items() if "." in name}
    flattened: dict[str, Any] = {}
    for key, value in values.items():
        if key not in tables:
            flattened[key] = value
        elif isinstance(value, dict):
            flattened |= {f"{key}.{name}": inner for name, inner in value.items()}
        else:
            raise UsageError(f"{where}{key} is {shorten(value)}, wanted a table", key)
    return flattened


def convert_value(declared: Setting, value: Any, key: str) -> Any:
    """Convert a value of a file to the type of a setting.

    Raises:
        UsageError: another type; the message names the key.
    """
    try:
        return declared.from_toml(value)
    except ValueError as error:
        raise declared.wrong(value, key, str(error)) from error


def _unknown_key_error(kind: Any, key: str, name: str, also: tuple[str, ...], near: list[str]) -> UsageError:
    """Return the error for a key of no setting; ``near`` are the tables that were most likely meant, if any."""
    error = UsageError(f"the key {key} is unknown, wanted the name of an option")
    known = [*schema(kind), *(declared.key for declared in schema(kind).values()), *also]
    meant = [f"[{table}]" for table in near] or nearest(name, known)
    error.hint = ask_whether(meant) or f"karl-fast {command_of(kind)} --help lists the options"
    return error
