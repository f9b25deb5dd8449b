"""Baselines and skill weights as files: JSON with a version, whole or not at all."""

from __future__ import annotations

import base64
import contextlib
import json
import os
from dataclasses import fields
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, TypeAlias

from karl_fast.errors import FileError, LogError, OutputForeignError
from karl_fast.reward.baselines import (
    EmaBaseline,
    FixedBaseline,
    MeanBaseline,
    Mergeable,
    PartitionBaseline,
    ShrunkBaseline,
    SkillWeights,
)

Storable: TypeAlias = FixedBaseline | MeanBaseline | EmaBaseline | ShrunkBaseline | PartitionBaseline | SkillWeights

FORMAT = "karl-fast baselines"
SCHEMA = 1
"""Raised when a field changes its meaning or goes."""

KINDS: dict[str, type[Any]] = {
    **{kind.kind: kind for kind in (FixedBaseline, MeanBaseline, EmaBaseline, ShrunkBaseline, PartitionBaseline)},
    "skills": SkillWeights,
}


def save(kept: Storable, path: str | Path) -> None:
    """Write baselines or skill weights atomically as JSON.

    Args:
        kept: baselines or skill weights.
        path: the file; an existing file of this format is replaced, any other is refused.

    Returns:
        Nothing.

    Raises:
        OutputForeignError: the path is a symbolic link, or a file of another format.
        FileError: the file cannot be written; the old one is kept.
    """
    kind = next(kind for kind, cls in KINDS.items() if cls is type(kept))
    values = {setting.name: getattr(kept, setting.name) for setting in fields(kept)}
    if isinstance(kept, Mergeable):
        values["states"] = {name: base64.b64encode(state.to_bytes()).decode() for name, state in kept.states.items()}
    text = json.dumps({"format": FORMAT, "schema": SCHEMA, "kind": kind, **values}, indent=1, allow_nan=False)
    try:
        _refuse_foreign(Path(path))
        _replace(Path(path), text.encode() + b"\n")
    except OutputForeignError:
        raise
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror}", error.errno, str(path)) from error


def load(path: str | Path) -> Storable:
    """Read a file that :func:`save` wrote.

    Args:
        path: the file.

    Returns:
        What was written, of the class that it had.

    Raises:
        FileError: it cannot be read.
        LogError: it is something else, or of another version, or damaged.

    Reference: the form is our own, ``schema`` 1.
    """
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise FileError(f"cannot open {path}: {error.strerror}", error.errno, str(path)) from error
    try:
        return _parse_file(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise LogError(f"{path} holds no baselines that this version can read: {error}") from error


def _parse_file(values: dict[str, Any]) -> Storable:
    form, schema = values.pop("format"), values.pop("schema")
    if (form, schema) != (FORMAT, SCHEMA):
        raise ValueError(f"it is of the form {form!r}, schema {schema!r}")
    kind = KINDS[values.pop("kind")]
    if issubclass(kind, Mergeable):
        states = values.pop("states").items()
        values["states"] = {
            name: kind.state.from_bytes(base64.b64decode(state, validate=True)) for name, state in states
        }
    numbers = [number for value in values.values() for number in (value.values() if type(value) is dict else [value])]
    if any(isinstance(number, str | bool | list) or number is None for number in numbers):
        raise ValueError("a number has another type")
    baseline: Storable = kind(**values)
    return baseline


def _refuse_foreign(path: Path) -> None:
    """Raise if a file exists that :func:`save` did not write; an empty file may be replaced."""
    if not os.path.lexists(path):
        return
    if path.is_symlink() or not path.is_file():
        raise OutputForeignError(f"{path}: it exists and is not a regular file")
    with contextlib.suppress(ValueError):
        text = path.read_bytes()
        content = json.loads(text) if text else {"format": FORMAT}
        if isinstance(content, dict) and content.get("format") == FORMAT:
            return
    raise OutputForeignError(f"{path}: it exists and holds something else than baselines or skill weights")


def _replace(path: Path, text: bytes) -> None:
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        new = Path(file.name)
        try:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            new.replace(path)
        finally:
            new.unlink(missing_ok=True)
