"""The commands as typer knows them."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Annotated

import typer

from karl_fast.cli.signals import listen
from karl_fast.cli.usage_errors import TyperUsageError, said

NAME = "karl-fast"

COMMANDS = ("ablate", "compare", "convert", "eval", "inspect", "rl", "sample", "train", "version")

WIDEST = 120
"""Columns of a help text, where the terminal has them."""

app = typer.Typer(
    name=NAME,
    help="Agent logs to training sets, drawn in proportion to reward.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"max_content_width": WIDEST},
)


def _version(ctx: typer.Context, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from karl_fast.cli.commands.version import line

        typer.echo(line())
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version in one line.")
    ] = False,
) -> None:
    """Agent logs to training sets, drawn in proportion to reward."""


def parsed() -> int | None:
    """Run the command that the arguments name; the exit code, if it is not 0."""
    first = [word for word in sys.argv[1:2] if word in COMMANDS]
    _load(first)
    listen()
    try:
        code: int | None = app(prog_name=NAME, standalone_mode=False)
    except TyperUsageError as error:
        return said(error, " ".join([NAME, *first]))
    return code


def _load(first: list[str]) -> None:
    """Import the command that is named first, or all of them: they add themselves to the app."""
    for command in first or COMMANDS:
        import_module(f"karl_fast.cli.commands.{command}")
