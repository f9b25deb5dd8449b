"""The file of a cycle: a table for each step, and `[cycle]` for the loop itself.

`[sample]`, `[train]` and `[rl]` are those of their commands, which read this file. The keys of the other tables are the
options of their commands.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from karl_fast._suggest import ask_whether, nearest
from karl_fast.errors import UsageError
from karl_fast.settings.schema import shorten
from karl_fast.settings.toml import load as load_sample
from karl_fast.settings.toml import name_file, parse_toml, read_config_text
from karl_fast.train.config import load as load_train

STEPS = ("collect", "convert", "outcomes", "sample", "train", "eval", "promote")
"""All steps, in order; those of a cycle are the ones with a table, or that its needs name."""

NEEDS = {"outcomes": "convert", "sample": "convert", "train": "sample", "eval": "train", "promote": "eval"}
"""Step that has to come before each."""

PATHS = ("archive", "from", "sources", "report", "repo", "pull_requests", "data", "folder", "metrics", "pseudonyms")
"""Keys with paths, which are relative to the folder of the file."""

TEXT, TEXTS, SWITCH, WHOLE, NUMBER = "a text", "a list of texts", "true or false", "a whole number", "a number"

PROTECTION = {"allow_secrets": SWITCH, "pseudonyms": TEXT}

KEYS: dict[str, dict[str, str]] = {
    "cycle": {"folder": TEXT, "metrics": TEXT},
    "collect": {"archive": TEXT, "from": TEXTS},
    "convert": {
        "sources": TEXTS,
        "format": TEXT,
        "rate": TEXT,
        "max_line_bytes": WHOLE,
        "threads": WHOLE,
        **PROTECTION,
    },
    "outcomes": {
        "report": TEXTS,
        "repo": TEXTS,
        "pull_requests": TEXTS,
        "after_days": WHOLE,
        "threads": WHOLE,
        **PROTECTION,
    },
    "eval": {
        "by": TEXT,
        "data": TEXT,
        "split": TEXT,
        "attempts": WHOLE,
        "temperature": NUMBER,
        "solved_at": NUMBER,
        "confidence": NUMBER,
        "seed": WHOLE,
    },
    "promote": {"margin": NUMBER, "confidence": NUMBER},
}
"""Keys of each table that is of the cycle alone, with the values that they take."""

KINDS: dict[str, Any] = {TEXT: str, TEXTS: list, SWITCH: bool, WHOLE: int, NUMBER: int | float}

BY = ("rollouts", "likelihood")
"""Measures of a new adapter."""


@dataclass(frozen=True)
class CycleConfig:
    """A cycle.

    Attributes:
        file: absolute path of the file.
        folder: working folder, with the outputs and records of all steps.
        metrics: Prometheus text file of the last results.
        steps: steps, in order.
        tables: values of the tables of `KEYS`, with absolute paths.
        raw: all of the file, as it is.
        model: model of `[train]`: a folder or a name; empty without that table.
    """

    file: Path
    folder: Path
    metrics: Path
    steps: tuple[str, ...]
    tables: dict[str, dict[str, Any]]
    raw: dict[str, Any]
    model: str = ""

    @property
    def by(self) -> str:
        """Measure of a new adapter: `rollouts` or `likelihood`."""
        return str(self.tables["eval"].get("by", BY[0]))


def load(path: str | Path) -> CycleConfig:
    """Read and check the file of a cycle, down to the tables that only a later step reads.

    Raises:
        FileError: the file cannot be read.
        UsageError: it is not TOML, lacks a table or a key, or holds an unknown one.
    """
    file = Path(os.path.abspath(path))  # noqa: PTH100  (links stay what they are)
    text = read_config_text(file)
    try:
        raw = parse_toml(text)
        tables = {name: _check_table(file.parent, name, raw.get(name, {})) for name in KEYS}
        steps = _check_steps(raw)
    except UsageError as error:
        raise name_file(file, error) from error
    model = ""
    if "sample" in steps:
        load_sample(file)
    if "train" in steps:
        model = _require_model(file)
    try:
        _check_eval(tables["eval"], raw, steps)
    except UsageError as error:
        raise name_file(file, error) from error
    own = tables["cycle"]
    folder = Path(own.get("folder", file.with_suffix("")))
    tables["collect"].setdefault("archive", str(folder / "archive"))
    return CycleConfig(file, folder, Path(own.get("metrics", folder / "metrics.prom")), steps, tables, raw, model)


def _check_steps(raw: dict[str, Any]) -> tuple[str, ...]:
    """Return the steps with a table, if each has what it needs."""
    steps = tuple(step for step in STEPS if step in raw)
    if "convert" not in steps:
        raise UsageError(
            "there is no table [convert], with which a cycle begins",
            hint='write [convert] and below it sources = ["~/.claude/projects"]',
        )
    for step in steps:
        if NEEDS.get(step, "convert") not in steps and step != "collect":
            raise UsageError(f"the table [{step}] needs a table [{NEEDS[step]}], and there is none")
    if "sources" not in raw["convert"] and "collect" not in steps:
        raise UsageError("[convert] has no sources, and there is no table [collect] with an archive to convert")
    return steps


def _check_table(folder: Path, name: str, table: Any) -> dict[str, Any]:
    """Return the checked values of a table, by name; paths are absolute."""
    if not isinstance(table, dict):
        raise UsageError(f"{name} is {shorten(table)}, wanted a table [{name}]")
    values: dict[str, Any] = {}
    for typed, value in table.items():
        key = typed.replace("-", "_")
        if key not in KEYS[name]:
            raise UsageError(
                f"the key [{name}] {typed} is unknown, wanted one of {', '.join(KEYS[name])}",
                hint=ask_whether(nearest(key, list(KEYS[name]))),
            )
        _check(f"[{name}] {typed}", value, KEYS[name][key])
        values[key] = _make_absolute(folder, value) if key in PATHS else value
    return values


def _check(key: str, value: Any, wanted: str) -> None:
    kind = KINDS[wanted]
    is_right = isinstance(value, get_args(kind) or kind) and isinstance(value, bool) == (kind is bool)
    if kind is list:
        is_right = is_right and bool(value) and all(isinstance(item, str) and item for item in value)
    if not is_right or value == "":
        raise UsageError(f"{key} is {shorten(value)}, wanted {wanted}")


def _make_absolute(folder: Path, value: str | list[str]) -> Any:
    """Return paths relative to a folder as absolute ones."""
    if isinstance(value, list):
        return [_make_absolute(folder, path) for path in value]
    return str(folder / os.path.expanduser(value))  # noqa: PTH111  (an unknown user stays as it is)


def _require_model(file: Path) -> str:
    model = load_train(file).model
    if not model:
        raise UsageError(f"{file}: [train] has no model, wanted a folder or a name on the Hugging Face hub")
    return model


def _check_eval(table: dict[str, Any], raw: dict[str, Any], steps: tuple[str, ...]) -> None:
    """Refuse a measure that lacks what it takes."""
    if "eval" not in steps:
        return
    by = table.get("by", BY[0])
    if by not in BY:
        raise UsageError(f"[eval] by is {shorten(by)}, wanted {' or '.join(BY)}")
    if by == "rollouts":
        if "rl" not in raw:
            raise UsageError("[eval] by is rollouts, and there is no table [rl] with rewards and budgets")
        if "data" not in table:
            raise UsageError("[eval] has no data: wanted a file of held-out prompts")
    unused = [key for key in table if key not in ("by", "data") and (key == "split") != (by == "likelihood")]
    if unused:
        raise UsageError(f"[eval] {unused[0]} has no effect: by is {by}")
