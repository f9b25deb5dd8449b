"""Parser of simple `sample` command lines without typer, which takes as long to load as a quarter of a gigabyte to
read.

A line is simple if it has only logs and fully spelt options of the command with valid values, and nothing has to be
explained, refused or looked up elsewhere. All other lines are left to typer.
"""

from __future__ import annotations

import os
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from karl_fast.cli.precedence import Layer, flag, settled, variable
from karl_fast.settings.toml import Config, deal, kinds, scale, shares, weights

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

PARSERS = {"reward": weights, "split": shares, "per": deal, "shaping": scale}


def plain(arguments: list[str]) -> dict[str, Any] | None:
    """Return the arguments of `draw`; None if the line is not simple or an environment variable sets an option."""
    if arguments[:1] != ["sample"] or _variables() & os.environ.keys():
        return None
    try:
        logs, given = _read(arguments[1:])
    except ValueError:
        return None
    own = {name: given.pop(name) for name in set(OWN.values()) & given.keys()}
    chosen = Layer("flag", given, {name: flag(name) for name in given})
    return {"settings": settled([chosen]), "config": Config(""), "logs": logs, **own}


def _variables() -> set[str]:
    options = ["--config", *map(flag, kinds())]
    return {"_KARL_FAST_COMPLETE", *map(variable, options)}


def _read(words: list[str]) -> tuple[list[str], dict[str, Any]]:
    """Return logs, and values by name.

    Raises:
        ValueError: a word that is not plain.
    """
    names = {flag(name): name for name in kinds()} | OWN
    logs: list[str] = []
    given: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        option, equals, text = word.partition("=")
        if not word.startswith("-") or word == "-":
            logs.append(word)
        elif option not in names or (equals and not word.startswith("--")):
            raise ValueError(word)
        elif _is_switch(names[option]):
            if equals:
                raise ValueError(word)
            given[names[option]] = True
        else:
            given[names[option]] = _value(names[option], text if equals else next(rest, ""))
    if not all(logs) or not logs:
        raise ValueError("no log")
    return logs, given


def _is_switch(name: str) -> bool:
    return name != "out" and kinds().get(name, bool) is bool


def _value(name: str, text: str) -> Any:
    """Convert a value as typer would."""
    if not text or (text.startswith("-") and text != "-"):
        raise ValueError(text)
    if name in PARSERS:
        return PARSERS[name](text)
    kind = kinds().get(name, str)
    if get_origin(kind) is Literal:
        if text not in get_args(kind):
            raise ValueError(text)
        return text
    (kind,) = [one for one in get_args(kind) or (kind,) if one is not NoneType]
    return kind(text)
