"""The commands as typer knows them."""

from __future__ import annotations

import platform
from typing import Annotated

import typer

from karl_fast._core import VERSION, build_facts
from karl_fast.cli.root_help import DESCRIPTION, OPTIONS, WIDEST

NAME = "karl-fast"

app = typer.Typer(
    name=NAME,
    help=DESCRIPTION,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"max_content_width": WIDEST, "help_option_names": ["-h", "--help"]},
)


def _version(ctx: typer.Context, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        typer.echo(line())
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help=OPTIONS["--version"])
    ] = False,
) -> None:
    """Agent logs to training sets, drawn in proportion to reward."""


# The line that `karl-fast --version` prints.


def line() -> str:
    """Return version, target, profile and compiler in one line."""
    built = build_facts()
    what = f"{built['target']}, {built['profile']}, rustc {built['rustc']}, {built['abi']}"
    return f"karl-fast {VERSION} ({what}, Python {platform.python_version()})"
