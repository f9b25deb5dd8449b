"""An `rl.toml`, and a file of prompts."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from karl_fast._suggest import beside, nearest, question
from karl_fast.errors import FileError, UsageError
from karl_fast.objective import Recipe, from_toml, recipe
from karl_fast.objective.recipes import names
from karl_fast.rl.rollout import Prompt, is_message, no_text
from karl_fast.rl.settings import Alarms, Online, Replay
from karl_fast.settings.keys import check_keys
from karl_fast.settings.schema import build, schema
from karl_fast.settings.toml import own_table, parsed, placed, text_of
from karl_fast.settings.validation import refuse_empty
from karl_fast.train.settings import Training

PATHS = ("model", "prompts", "eval_prompts", "out", "adapter", "environment", "recipe")
"""Settings that may name a file, relative to the folder of the configuration."""


TABLES = ("alarms", "replay")
"""Tables of a file."""


def load(path: str | Path, **over: Any) -> Online:
    """Load the settings of an online run from a TOML file.

    Args:
        path: the file. Its settings are in the table ``[rl]``, or at its top; ``[rewards]`` maps functions to weights,
            ``[alarms]`` and ``[replay]`` are tables. Paths in it are relative to its folder.
        over: settings that count over those of the file.

    Returns:
        The settings.

    Raises:
        FileError: it cannot be read.
        UsageError: it is no TOML, has a setting that there is not, or no name.

    Reference: none.
    """
    refuse_empty(config=path, **{name: over[name] for name in PATHS if name in over})
    parts: dict[str, Any] = {
        name: value for name, value in over.items() if isinstance(value, Alarms | Replay | Training)
    }
    named = check_keys(Online, {name: value for name, value in over.items() if name not in parts})
    file = read_config(path)
    try:
        return replace(build(Online, file.settings | named), **parts)
    except UsageError as error:
        if error.settings and over.keys() >= {*error.settings}:
            raise  # the file does not say it
        raise placed(Path(path), error, *(name for name in error.settings if name in over)) from error


@dataclass(frozen=True)
class OnlineConfig:
    """Settings of an online run from a file.

    Attributes:
        path: the file.
        settings: by their names in the schema of `Online`.
    """

    path: str
    settings: dict[str, Any]


def read_config(path: str | Path, _command: str = "rl") -> OnlineConfig:
    """Read the settings in a file, with paths relative to the working directory.

    Raises:
        FileError: it cannot be read.
        UsageError: it is no TOML, or holds a key or a value that means nothing.
    """
    file = Path(path)
    text = text_of(file)
    try:
        top = parsed(text)
        held = own_table(top, "rl", {*schema(Online), *TABLES}) if "rl" in top else top
        return OnlineConfig(str(file), _resolve_paths(check_keys(Online, held, where="[rl] " * ("rl" in top)), file.parent))
    except UsageError as error:
        raise placed(file, error) from error


def _resolve_paths(held: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return settings with paths relative to the working directory; names of models and recipes stay."""
    found = {
        name: _visible_name(value, folder, name) if name in PATHS and isinstance(value, str) else value
        for name, value in held.items()
    }
    if isinstance(held.get("rewards"), dict):
        found["rewards"] = {_resolve_function(name, folder): weight for name, weight in held["rewards"].items()}
    return found


def _resolve_function(value: str, folder: Path) -> str:
    """Return `file.py:name` with the path of the file; other names stay."""
    file, colon, name = value.partition(".py:")
    return f"{folder / (file + '.py')}:{name}" if colon else value


def _visible_name(value: str, folder: Path, setting: str) -> str:
    if ".py:" in value:
        return _resolve_function(value, folder)
    path = folder / value
    if setting == "out" and value:
        return _shorten_path(path)
    always = ("prompts", "eval_prompts", "adapter")
    file_named = value.endswith(".toml") if setting == "recipe" else setting in always or path.exists()
    return str(path) if file_named and value else value


def _shorten_path(path: Path) -> str:
    """Return a path without `..`, unless a symbolic link makes that another place."""
    short = os.path.normpath(path)
    return short if os.path.realpath(short) == os.path.realpath(path) else str(path)


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{file}: this is not text: it is not UTF-8") from error
    except OSError as error:
        raise FileError(
            f"cannot open {file}: {error.strerror}",
            error.errno,
            str(file),
            hint=(None if file.exists() else beside(file)),
        ) from error


def load_recipe(name: str) -> Recipe:
    """Return a recipe by its name, or from a TOML file.

    Raises:
        FileError: the file cannot be read.
        UsageError: there is no recipe of that name, or the file holds none.
    """
    if name.endswith(".toml"):
        return from_toml(_text(Path(name)))
    try:
        return recipe(name)
    except UsageError as error:
        there = [one.lower().replace("_", "-") for one in names()]
        raise UsageError(
            f"recipe is {name!r}, wanted a .toml file or one of {', '.join(there)}",
            "recipe",
            hint=question(nearest(name.lower().replace("_", "-"), there)),
        ) from error


def read_prompts(path: str | Path) -> list[Prompt]:
    """Read the prompts of a file of JSON lines, with text or messages as ``prompt``, or ``messages``.

    Raises:
        FileError: it cannot be read.
        UsageError: a line that is not a prompt, the same id twice, or no line at all.
    """
    found: list[Prompt] = []
    for number, line in enumerate(_text(Path(path)).split("\n")):
        if line.strip():
            found.append(_prompt(line, len(found), f"{path}, line {number + 1}"))
    if not found:
        raise UsageError(f"{path} has no prompt")
    seen: set[str] = set()
    for one in found:
        if one.id in seen:
            raise UsageError(f"{path}: the id {one.id!r} is there twice")
        seen.add(one.id)
    return found


def _prompt(line: str, number: int, where: str) -> Prompt:
    try:
        held = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: this is not JSON") from error
    if not isinstance(held, dict):
        raise UsageError(f"{where}: this is not an object")
    asked = held.pop("prompt", None)
    asked = held.pop("messages", None) if asked is None else asked
    messages = [{"role": "user", "content": asked}] if isinstance(asked, str) else asked
    if not (isinstance(messages, list) and messages and all(map(is_message, messages))):
        raise UsageError(f"{where}: prompt is neither a text nor messages with a role and a content")
    if wrong := no_text([messages, held]):
        raise UsageError(f"{where}: {wrong}")
    return Prompt(_id(held.get("id"), number, where), number, tuple(messages), held)


def _id(value: Any, number: int, where: str) -> str:
    """Return the id of a prompt: its own, or the number of its line."""
    if not isinstance(value, str | int | float | None):
        raise UsageError(f"{where}: id is {json.dumps(value)[:60]}, wanted a text or a number")
    return str(number if value is None else value)
