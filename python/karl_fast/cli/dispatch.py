"""Import and call of the command that the arguments name."""

from __future__ import annotations

import sys
from importlib import import_module

from karl_fast.cli.app import NAME, app
from karl_fast.cli.root_help import COMMANDS
from karl_fast.cli.signals import listen
from karl_fast.cli.usage_errors import TyperUsageError, said


def parsed() -> int | None:
    """Run the command that the arguments name; return the exit code, if it is not 0."""
    first = [word for word in sys.argv[1:2] if word in COMMANDS]
    _load(first)
    listen()
    try:
        code: int | None = app(prog_name=NAME, standalone_mode=False)
    except TyperUsageError as error:
        return said(error, " ".join([NAME, *first]))
    return code


def _load(first: list[str]) -> None:
    """Import the command that is named first, or all of them; each adds itself to the app."""
    for command in first or COMMANDS:
        import_module(f"karl_fast.cli.commands.{command}")
