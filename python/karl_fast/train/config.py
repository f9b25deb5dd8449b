"""The table ``[train]`` of a configuration: data, model and output of a run, and the settings of `Training`.

Keys above the table are those of drawing a data set, and do not apply to training.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from karl_fast._suggest import nearest, question
from karl_fast.errors import UsageError
from karl_fast.settings.toml import kinds, text_of
from karl_fast.settings.toml_text import TRAIN_FILE
from karl_fast.settings.validation import refuse_empty
from karl_fast.train.settings import Training

PLACES = ("data", "model", "adapter_path", "resume_adapter_file")

ANNOTATIONS = {one.name: str(one.type) for one in fields(Training)}

TYPES: dict[str, tuple[Any, str]] = {
    "int": (int, "a whole number"),
    "float": (int | float, "a number"),
    "bool": (bool, "true or false"),
    "str": (str, "a text"),
    "tuple": (list | tuple, "a list"),
}
"""TOML type of each annotation, with its description; names of a choice are checked by `Training`."""


@dataclass(frozen=True)
class TrainConfig:
    """Settings of a training run from a file.

    Attributes:
        path: the file.
        settings: by their names in `Training`.
        data, model, adapter_path, resume_adapter_file: None if not given.
    """

    path: str
    settings: dict[str, Any] = field(default_factory=dict)
    data: str | None = None
    model: str | None = None
    adapter_path: str | None = None
    resume_adapter_file: str | None = None


def load(path: str | Path) -> TrainConfig:
    """Read the table ``[train]`` of a TOML file, or the settings file in the folder of an adapter.

    Raises:
        FileError: the file cannot be read.
        UsageError: it is no TOML, has no such table, or holds a key or a value that means nothing.
    """
    file = Path(path, TRAIN_FILE) if Path(path).is_dir() else Path(path)
    try:
        return _of(file, tomllib.loads(text_of(file)))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{file}: this is no TOML: {error}") from error
    except UsageError as error:
        said = UsageError(f"{file}: {error}")
        said.hint = error.hint
        raise said from error


def setting(name: str, value: Any) -> Any:
    """Convert a value to the type of a setting of `Training`.

    Raises:
        UsageError: it is of another.
    """
    kind, wanted = TYPES.get(ANNOTATIONS[name].removesuffix(" | None").partition("[")[0], (object, ""))
    if not isinstance(value, kind) or (isinstance(value, bool) and kind not in (bool, object)):
        raise UsageError(f"{name} is {value!r}, wanted {wanted}", name)
    return tuple(value) if isinstance(value, list) else value


def _of(file: Path, top: dict[str, Any]) -> TrainConfig:
    table, astray = top.get("train"), _astray(top)
    if not isinstance(table, dict):
        raise _outside("there is no table [train]", astray)
    if astray:
        raise _outside(f"{astray[0]} stands outside of the table [train]", astray)
    found: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in {*ANNOTATIONS, *PLACES}:
            raise _unknown(key, name)
        if name in found:
            raise UsageError(f"[train] {key} is there twice, with - and with _")
        found[name] = setting(name, value) if name in ANNOTATIONS else _place(file.parent, name, value)
    places = {name: found.pop(name, None) for name in PLACES}
    return TrainConfig(str(file), found, **places)


def _astray(top: dict[str, Any]) -> list[str]:
    """Return keys of training outside of its table, where they would be ignored."""
    names = {*ANNOTATIONS, *PLACES} - {*kinds()}
    return [key for key in top if key.replace("-", "_") in names]


def _outside(sentence: str, keys: list[str]) -> UsageError:
    error = UsageError(sentence)
    error.hint = f"put a line [train] above {', '.join(keys)}" if keys else "the settings of train stand in it"
    return error


def _unknown(key: str, name: str) -> UsageError:
    error = UsageError(f"the key [train] {key} is unknown, wanted the name of an option")
    meant = question(nearest(name, [*ANNOTATIONS, *PLACES]))
    error.hint = meant or "karl-fast train --help lists the options"
    return error


def _place(folder: Path, name: str, value: Any) -> str:
    """Return a path relative to the working directory; that of a model only if it is a folder, not a name."""
    if not isinstance(value, str):
        raise UsageError(f"{name} is {value!r}, wanted a text")
    refuse_empty(**{name: value})
    path = folder / value
    return value if name == "model" and not path.is_dir() else str(path)
