"""Settings from a file: TOML, or the manifest of a data set to reproduce.

The keys of a TOML file are the options of the command, with ``-`` or ``_``:

    logs = ["runs/*.jsonl"]      # optional; so is out = "data"
    score = "zscore"
    ess = 0.5

    [reward]                     # the path of each component, and its weight
    outcome = 0.8
    "cost.usd" = -0.2
    style = { weight = 0.3, fn = "my.py:score" }     # a function, or a signal by name

    [shaping]                    # scores use the shaped reward, rules and reports the reward
    up = 1.4

    [sample]                     # for this command alone, overrides the keys above
    k = 512

    [inspect]
    partition_by = "group"

    [train]                      # the options of train, and data, model, adapter_path; no key above is of train
    model = "mlx-community/Qwen3-0.6B-4bit"
    epochs = 3

    [rl]                         # the options of rl, likewise; without the table, the file is of rl alone
    model = "mlx-community/Qwen3-0.6B-4bit"
    group_size = 8

    [rl.rewards]
    "rewards.py:solved" = 1.0

Paths in it are relative to the folder of the file. Those in a manifest are as they were typed: relative to the working
directory at that time. A manifest brings no code: if functions of files scored components of the reward, the run has to
name them again (``--reward style=0.3:my.py:score``).
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karl_fast._suggest import suggest_path
from karl_fast.errors import FileError, UsageError
from karl_fast.settings.sample_fields import SampleFields
from karl_fast.settings.schema import Signal, Stored, check_keys, schema, shorten
from karl_fast.settings.validation import FILES

if TYPE_CHECKING:
    from collections.abc import Collection

COMMANDS = ("sample", "inspect")
OTHERS = ("train", "rl", "cycle", "collect", "convert", "outcomes", "eval", "promote")
"""Tables of commands that read no other part of the file, and of a cycle (`karl_fast.cycle`)."""

PLACES = ("logs", "out")
"""Keys beside the settings: inputs and output."""


@dataclass(frozen=True)
class SettingsFile:
    """Settings of a run from a file.

    Attributes:
        path: the file.
        settings: by their names in `Settings`.
        logs: logs to read; None if not given.
        out: output; None if not given.
        inputs: facts about the input files in a manifest; empty for TOML.
        functions: reward functions in a manifest; empty for TOML.
    """

    path: str
    settings: dict[str, Any] = field(default_factory=dict)
    logs: list[str] | None = None
    out: str | None = None
    inputs: list[dict[str, Any]] = field(default_factory=list)
    functions: dict[str, dict[str, Any]] = field(default_factory=dict)


def load(path: str | Path, command: str = "sample", names: tuple[str, ...] | None = None) -> SettingsFile:
    """Read a configuration.

    Args:
        path: a TOML file, a ``manifest.json``, or the folder of one.
        command: command with the table that overrides the rest.
        names: settings of the command; all by default. Others are ignored, and refused in the command's own table.

    Raises:
        FileError: the file cannot be read.
        UsageError: it has neither form, or an unknown key or invalid value.
    """
    file = Path(path, "manifest.json") if Path(path).is_dir() else Path(path)
    text = read_config_text(file)
    try:
        read = _load_manifest if file.suffix == ".json" else _load_toml
        return read(file, text, command, tuple(schema(SampleFields)) if names is None else names)
    except UsageError as error:
        raise name_file(file, error) from error


def name_file(file: Path, error: UsageError, *settings: str) -> UsageError:
    """Return an error with the name of its file in front, and its hint; ``settings`` are those it still names."""
    return UsageError(f"{file}: {error}", *settings, hint=error.hint)


def read_config_text(file: Path) -> str:
    """Return the text of a configuration.

    Raises:
        FileError: it cannot be read.
        UsageError: it is not UTF-8.
    """
    try:
        return file.read_text("utf-8-sig")
    except FileNotFoundError as error:
        raise FileError(
            f"cannot open {file}: no such file or folder", error.errno, str(file), hint=suggest_path(file)
        ) from error
    except OSError as error:
        raise FileError(f"cannot open {file}: {error.strerror}", error.errno, str(file)) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file}: this is not TOML: it is not UTF-8") from error


def _load_manifest(file: Path, text: str, _: str, names: tuple[str, ...]) -> SettingsFile:
    try:
        manifest = json.loads(text)
        settings, inputs = {**manifest["settings"]}, manifest["inputs"]
        is_shortened = manifest.get("run", {}).get("not_listed", {}).get("inputs")
        # Of more files than it lists, the logs are to be named again.
        logs = [] if is_shortened else [_unescape_path(str(entry["path"])) for entry in inputs]
        functions = {**manifest.get("reward_functions", {})}
        is_of_caller = manifest.get("draw", {}).get("sampler") == "given" or "columns_given" in manifest
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError("this is not the manifest of a data set, and a configuration ends in .toml") from error
    if is_of_caller:
        raise UsageError("its rows or columns came from a caller in Python: settings cannot draw them again")
    known = {name: value for name, value in _check_sampling(settings).items() if name in names}
    if known.get("reward"):
        known["reward"] = {name: _mark_stored(component) for name, component in known["reward"].items()}
    return SettingsFile(str(file), known, logs=logs, inputs=inputs, functions=functions)


def _mark_stored(component: float | Signal) -> float | Signal:
    """Read a component of the reward from a manifest: a function of a file is not run until it is named again."""
    if not isinstance(component, dict) or ":" not in component["fn"]:
        return component
    return component | Signal(fn=Stored(component["fn"]))


def _load_toml(file: Path, text: str, command: str, names: tuple[str, ...]) -> SettingsFile:
    top = parse_toml(text)
    tables = {table: _check_sampling(_check_table(table, top.pop(table, {})), f"[{table}] ") for table in COMMANDS}
    for table in OTHERS:
        _check_table(table, top.pop(table, {}))
    own, known = tables[command], {*names, *PLACES}
    if alien := [key for key in own if key not in known]:
        raise UsageError(f"[{command}] {alien[0]} is not an option of {command}")
    both = _check_sampling(top) | own
    return _resolve_paths(file, {name: value for name, value in both.items() if name in known})


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML.

    Raises:
        UsageError: invalid TOML, or nesting or numbers beyond what Python reads.
    """
    import tomllib

    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"this is not TOML: {error}") from error


def _check_sampling(values: dict[str, Any], where: str = "") -> dict[str, Any]:
    """Return the settings of sampling in a table, and its logs and output."""
    checked = check_keys(SampleFields, values, PLACES, where, () if where else (*COMMANDS, *OTHERS))
    if "logs" in checked:
        checked["logs"] = _check_logs(checked["logs"], f"{where}logs")
    if not isinstance(out := checked.get("out", "-"), str) or not out:
        raise UsageError(f"{where}out is {shorten(out)}, wanted the name of a folder")
    return checked


def _unescape_path(text: str) -> str:
    """Return the path of a file that a manifest shows with bytes that are not UTF-8 escaped."""
    raw = re.sub(rb"\\x([89a-f][0-9a-f])", lambda escape: bytes.fromhex(escape[1].decode()), text.encode())
    path = os.fsdecode(raw)
    return path if not os.path.lexists(text) and os.path.lexists(path) else text


def _check_logs(value: Any, key: str) -> list[str]:
    logs = [value] if isinstance(value, str) else value
    if not (isinstance(logs, list) and logs and all(isinstance(text, str) and text for text in logs)):
        raise UsageError(f"{key} is {shorten(value)}, wanted a path, or a list of them")
    return logs


def own_table(top: dict[str, Any], command: str, names: Collection[str]) -> dict[str, Any]:
    """Return the table of a command that reads no other part of a file.

    Args:
        top: the file.
        command: name of the table.
        names: keys of the command; those that sampling lacks may not be outside of the table, where they are ignored.

    Raises:
        UsageError: no such table, or a key outside of it.
    """
    table = top.get(command)
    outside = [key for key in top if key.replace("-", "_") in {*names} - {*schema(SampleFields)}]
    if isinstance(table, dict) and not outside:
        return table
    sentence = f"{outside[0]} is outside of the table [{command}]" if isinstance(table, dict) else ""
    error = UsageError(sentence or f"there is no table [{command}]")
    above = f"put a line [{command}] above {', '.join(outside)}"
    error.hint = above if outside else f"the settings of {command} stand in it"
    raise error


def _check_table(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{name} is {shorten(value)}, wanted a table [{name}]")
    return value


def _resolve_paths(file: Path, values: dict[str, Any]) -> SettingsFile:
    """Resolve paths relative to the file's folder."""
    folder = file.parent
    logs, out = values.pop("logs", None), values.pop("out", None)
    for name in FILES & values.keys():
        values[name] = str(folder / values[name])
    if "reward" in values:
        values["reward"] = {name: _resolve_component(folder, component) for name, component in values["reward"].items()}
    paths = None if logs is None else [_resolve_log(folder, log) for log in logs]
    return SettingsFile(str(file), values, logs=paths, out=out if out in (None, "-") else str(folder / out))


def _resolve_component(folder: Path, component: float | Signal) -> float | Signal:
    """Read a component of the reward; the file of its function is relative to the folder."""
    if not isinstance(component, dict) or ":" not in component["fn"]:
        return component
    return component | Signal(fn=str(folder / component["fn"]))


def _resolve_log(folder: Path, log: str) -> str:
    """Return the path of a log relative to a folder, with the folder's name escaped in a pattern; `-` stays."""
    import glob

    if log == "-" or not glob.has_magic(log) or os.path.lexists(folder / log):
        return log if log == "-" else str(folder / log)
    return str(Path(glob.escape(str(folder)), log))
