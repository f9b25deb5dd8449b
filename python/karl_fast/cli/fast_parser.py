"""Parser of plain `sample` lines, which saves 0.09 of the 0.24 s of CPU time that a small log takes: typer's import.

A line is plain if it has only logs and fully spelt options of the command with valid values, and nothing has to be
explained, refused or looked up elsewhere. All other lines are left to typer.
"""

from __future__ import annotations

import os
from typing import Any

from karl_fast.cli.precedence import SettingsLayer, merge_layers
from karl_fast.settings.sample import Settings
from karl_fast.settings.schema import Setting, schema, variable

COMMAND_OPTIONS = {
    "--out": "out",
    "-o": "out",
    "--force": "force",
    "--dry-run": "dry_run",
    "--engine": "engine",
    "--index": "index",
    "--json": "json",
    "--quiet": "quiet",
    "-q": "quiet",
}
"""Options of the command that are not settings, each with its parameter of `draw`."""


def parse_plain(arguments: list[str]) -> dict[str, Any] | None:
    """Return the arguments of `draw`; None if the line is not plain or an environment variable sets an option."""
    variables = {
        "_KARL_FAST_COMPLETE",
        variable("--config"),
        *(setting.variable for setting in schema(Settings).values()),
    }
    if arguments[:1] != ["sample"] or variables & os.environ.keys():
        return None
    try:
        logs, values = _parse_words(arguments[1:])
    except ValueError:
        return None
    own = {name: values.pop(name) for name in set(COMMAND_OPTIONS.values()) & values.keys()}
    flags = SettingsLayer("flag", values, {name: schema(Settings)[name].flag for name in values})
    return {"settings": merge_layers([flags], Settings), "config": None, "logs": logs, **own}


def _parse_words(words: list[str]) -> tuple[list[str], dict[str, Any]]:
    """Return logs, and values by name.

    Raises:
        ValueError: a word that is not plain.
    """
    options: dict[str, Setting | str] = {
        setting.flag: setting for setting in schema(Settings).values()
    } | COMMAND_OPTIONS
    logs: list[str] = []
    values: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        flag, equals, text = word.partition("=")
        if not word.startswith("-") or word == "-":
            logs.append(word)
            continue
        if flag not in options or (equals and not word.startswith("--")):
            raise ValueError(word)
        option = options[flag]
        name = option if isinstance(option, str) else option.name
        is_switch = option not in ("out", "engine") if isinstance(option, str) else option.kind is bool
        if is_switch:
            if equals:
                raise ValueError(word)
            values[name] = True
            continue
        text = text if equals else next(rest, "")
        if not text or (text.startswith("-") and text != "-"):
            raise ValueError(text)
        values[name] = text if isinstance(option, str) else option.from_text(text)
    if not all(logs) or not logs:
        raise ValueError("no log")
    return logs, values
