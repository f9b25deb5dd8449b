"""Settings from a file: TOML that a person wrote, or the manifest of a data set that is to be made again.

The keys of a TOML file are the options of the command, with ``-`` or ``_``::

    logs = ["runs/*.jsonl"]      # optional; so is out = "data"
    score = "zscore"
    ess = 0.5

    [reward]                     # the path of each component, and its weight
    outcome = 0.8
    "cost.usd" = -0.2

    [sample]                     # for this command alone, over what stands above
    k = 512

    [inspect]
    partition_by = "group"

Paths in it are relative to the folder of the file. Those in a manifest are as they were typed when it was written:
relative to the working directory.
"""

from __future__ import annotations

import functools
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from karl_fast._core import formats
from karl_fast.errors import FileError, UsageError
from karl_fast.settings import PLACES, Settings

COMMANDS = ("sample", "inspect")

SETTING = {"as": "shape"}
"""Options whose setting has another name, because theirs is a word of Python."""

WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}

LONGEST = 60
"""How much of a wrong value an error shows."""


@functools.cache
def kinds() -> dict[str, Any]:
    """The type of each setting by its name."""
    return {name: kind for name, kind in get_type_hints(Settings).items() if name != "origins"}


@dataclass(frozen=True)
class Config:
    """What a file says of a run.

    Attributes:
        path: the file.
        settings: by their names in `Settings`.
        logs: what to read; None where it does not say.
        out: where to write; None where it does not say.
        inputs: what a manifest says of the files that were read; nothing for TOML.
    """

    path: str
    settings: dict[str, Any] = field(default_factory=dict)
    logs: list[str] | None = None
    out: str | None = None
    inputs: list[dict[str, Any]] = field(default_factory=list)

    def build(self) -> Settings:
        """The settings alone, with defaults.

        Raises:
            UsageError: some of them do not go together, or lie outside their range.
        """
        try:
            return Settings(**self.settings, origins=dict.fromkeys(self.settings, "file"))
        except UsageError as error:
            raise UsageError(f"{self.path}: {error}") from error


def load(path: str | Path, command: str = "sample", names: tuple[str, ...] | None = None) -> Config:
    """Read a configuration.

    Args:
        path: a TOML file, a ``manifest.json``, or the folder of one.
        command: whose table counts over the rest.
        names: the settings that the command has; all of them by default. Others are left out, and refused in the
            command's own table.

    Raises:
        FileError: the file cannot be read.
        UsageError: it is neither form, or holds a key or a value that means nothing.
    """
    file = Path(path, "manifest.json") if Path(path).is_dir() else Path(path)
    try:
        text = file.read_text("utf-8")
    except FileNotFoundError as error:
        raise FileError(f"cannot open {file}: no such file or folder", error.errno, str(file)) from error
    except OSError as error:
        raise FileError(f"cannot open {file}: {error.strerror}", error.errno, str(file)) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file}: this is no TOML: it is not UTF-8") from error
    try:
        read = _of_manifest if file.suffix == ".json" else _of_toml
        return read(file, text, command, tuple(kinds()) if names is None else names)
    except UsageError as error:
        said = UsageError(f"{file}: {error}")
        said.hint = error.hint
        raise said from error


def _of_manifest(file: Path, text: str, _: str, names: tuple[str, ...]) -> Config:
    try:
        manifest = json.loads(text)
        settings, inputs = {**manifest["settings"]}, manifest["inputs"]
        logs = [str(entry["path"]) for entry in inputs]
        given = manifest.get("draw", {}).get("sampler") == "given"
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError("this is no manifest of a data set, and a configuration ends in .toml") from error
    if given:
        raise UsageError("its rows were chosen by a caller in Python: settings cannot draw them again")
    known = {name: value for name, value in checked(settings).items() if name in names}
    return Config(str(file), known, logs=logs, inputs=inputs)


def _of_toml(file: Path, text: str, command: str, names: tuple[str, ...]) -> Config:
    import tomllib

    try:
        top = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"this is no TOML: {error}") from error
    tables = {table: _table(table, top.pop(table, {})) for table in COMMANDS}
    for table, found in tables.items():
        checked(found, also=("logs", "out"), where=f"[{table}] ")
    own = tables[command]
    if alien := [key for key in own if _name(key) not in {*names, "logs", "out"}]:
        raise UsageError(f"[{command}] {alien[0]} is no option of {command}")
    both = checked(top, also=("logs", "out")) | checked(own, also=("logs", "out"))
    return _placed(file, {name: value for name, value in both.items() if name in {*names, "logs", "out"}})


def _table(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{name} is {_shown(value)}, wanted a table [{name}]")
    return value


def _placed(file: Path, values: dict[str, Any]) -> Config:
    """Paths are those of the file's folder."""
    here = file.parent
    logs, out = values.pop("logs", None), values.pop("out", None)
    if "tokenizer" in values:
        values["tokenizer"] = str(here / values["tokenizer"])
    read = None if logs is None else [log if log == "-" else str(here / log) for log in logs]
    return Config(str(file), values, logs=read, out=out if out in (None, "-") else str(here / out))


def checked(values: dict[str, Any], also: tuple[str, ...] = (), where: str = "") -> dict[str, Any]:
    """Values by the names that `Settings` has for them, each of the type that it takes; those that are None left out.

    Raises:
        UsageError: a name that no setting has, the same one twice, or a value of another type.
    """
    found: dict[str, Any] = {}
    for key, value in values.items():
        name = _name(key)
        if name not in kinds() and name not in also:
            raise _unknown(f"{where}{key}", name, [*kinds(), *SETTING, *also])
        if name in found:
            raise UsageError(f"{where}{key} is there twice, with - and with _")
        if value is not None:
            found[name] = _value(f"{where}{key}", name, value)
    return found


def _name(key: str) -> str:
    name = key.replace("-", "_")
    return SETTING.get(name, name)


def _unknown(key: str, name: str, known: list[str]) -> UsageError:
    from difflib import get_close_matches

    error = UsageError(f"the key {key} is unknown, wanted the name of an option")
    near = get_close_matches(name, [word for word in known if word not in PLACES], n=1)
    error.hint = f"did you mean {near[0]}?" if near else "karl-fast sample --help lists the options, from --format on"
    return error


def _value(key: str, name: str, value: Any) -> Any:
    try:
        match name:
            case "reward":
                return weights(value) if isinstance(value, str) else _weights(value)
            case "split":
                return shares(value) if isinstance(value, str) else _shares(value)
            case "per":
                return deal(value) if isinstance(value, str) else _deal(value)
            case "logs":
                return [value] if isinstance(value, str) else _texts(value)
            case "format":
                return _one_of(tuple(name for name, _ in formats()), value)
        return _plain(kinds().get(name, str), value)
    except ValueError as error:
        raise UsageError(f"{key} is {_shown(value)}, wanted {error}") from error


def _plain(kind: Any, value: Any) -> Any:
    """A value of a setting's type; the error says what was wanted."""
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
        raise ValueError(", ".join(choices))
    return value


def _texts(value: Any) -> list[str]:
    if not (isinstance(value, list) and value and all(isinstance(text, str) for text in value)):
        raise ValueError("a path, or a list of them")
    return value


def _weights(value: Any) -> dict[str, float]:
    if not (isinstance(value, dict) and value):
        raise ValueError("a path, or a table of weights by path")
    return {path: _plain(float, weight) for path, weight in value.items()}


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
    """`domain=sqrt` to how a budget is dealt over which field.

    Raises:
        ValueError: it is something else; the message says what was wanted.
    """
    field, equals, how = text.partition("=")
    if not (field and equals and how):
        raise ValueError("one field=how, like domain=equal")
    return {field: how}


def weights(text: str) -> dict[str, float]:
    """`outcome=0.5,cost=-0.1` to weights by path; a path alone has weight 1.

    Raises:
        ValueError: it is something else; the message says what was wanted.
    """
    parts = [part.strip().partition("=") for part in text.split(",")]
    try:
        found = {path: float(weight) if equals else 1.0 for path, equals, weight in parts}
    except ValueError as error:
        raise ValueError("a path, or a list of path=weight") from error
    if len(found) < len(parts) or not all(found):
        raise ValueError("each component once, like outcome=0.5,cost=-0.1")
    return found


def shares(text: str) -> tuple[float, float, float]:
    """`0.9,0.1,0` to three numbers.

    Raises:
        ValueError: it is something else; the message says what was wanted.
    """
    try:
        train, valid, test = map(float, text.split(","))
    except ValueError as error:
        raise ValueError("three numbers like 0.9,0.1,0") from error
    return train, valid, test


def dumps(settings: Settings) -> str:
    """What differs from the defaults, as TOML."""
    changed = {name: getattr(settings, name) for name in settings.chosen()}
    reward = changed.pop("reward", None) or {}
    if per := changed.get("per"):
        changed["per"] = ",".join(f"{field}={how}" for field, how in per.items())
    plain = [f"{name} = {_toml(value)}" for name, value in changed.items()]
    table = ["[reward]", *(f"{_toml(path)} = {_toml(weight)}" for path, weight in reward.items())] if reward else []
    return "".join(f"{line}\n" for line in [*plain, *([""] if plain and table else []), *table])


def _toml(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is no setting")
    # JSON's texts, numbers and truths are TOML's, but for one character that TOML wants escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST else text[:LONGEST] + "..."
