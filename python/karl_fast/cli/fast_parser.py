"""Parser of simple `sample` command lines without typer, which takes as long to load as a quarter of a gigabyte to
read.

A line is simple if it has only logs and fully spelt options of the command with valid values, and nothing has to be
explained, refused or looked up elsewhere. All other lines are left to typer.
"""

from __future__ import annotations

import os
from typing import Any

from karl_fast.cli.precedence import SettingsLayer, resolved
from karl_fast.settings.sample import Settings
from karl_fast.settings.schema import Setting, schema, variable

OWN = {
    "--out": "out",
    "-o": "out",
    "--force": "force",
    "--dry-run": "dry_run",
    "--json": "json",
    "--quiet": "quiet",
    "-q": "quiet",
}
"""Options of the command that are no settings."""


def plain(arguments: list[str]) -> dict[str, Any] | None:
    """Return the arguments of `draw`; None if the line is not simple or an environment variable sets an option."""
    if arguments[:1] != ["sample"] or _variables() & os.environ.keys():
        return None
    try:
        logs, given = _read(arguments[1:])
    except ValueError:
        return None
    own = {name: given.pop(name) for name in set(OWN.values()) & given.keys()}
    chosen = SettingsLayer("flag", given, {name: schema(Settings)[name].flag for name in given})
    return {"settings": resolved([chosen], Settings), "config": None, "logs": logs, **own}


def _variables() -> set[str]:
    return {"_KARL_FAST_COMPLETE", variable("--config"), *(one.variable for one in schema(Settings).values())}


def _read(words: list[str]) -> tuple[list[str], dict[str, Any]]:
    """Return logs, and values by name.

    Raises:
        ValueError: a word that is not plain.
    """
    options: dict[str, Setting | str] = {one.flag: one for one in schema(Settings).values()} | OWN
    logs: list[str] = []
    given: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        option, equals, text = word.partition("=")
        if not word.startswith("-") or word == "-":
            logs.append(word)
        elif option not in options or (equals and not word.startswith("--")):
            raise ValueError(word)
        elif _is_switch(one := options[option]):
            if equals:
                raise ValueError(word)
            given[one if isinstance(one, str) else one.name] = True
        else:
            text = _given(text if equals else next(rest, ""))
            given[one if isinstance(one, str) else one.name] = text if isinstance(one, str) else one.from_text(text)
    if not all(logs) or not logs:
        raise ValueError("no log")
    return logs, given


def _is_switch(option: Setting | str) -> bool:
    return option != "out" if isinstance(option, str) else option.kind is bool


def _given(text: str) -> str:
    if not text or (text.startswith("-") and text != "-"):
        raise ValueError(text)
    return text
