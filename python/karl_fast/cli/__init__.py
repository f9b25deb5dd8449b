"""The command `karl-fast`: parse, call, print. Data goes to stdout, talk to stderr."""

from __future__ import annotations

import io
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from karl_fast._core import VERSION
from karl_fast.cli.show import clean
from karl_fast.errors import KarlError

if TYPE_CHECKING:
    from types import FrameType

app = typer.Typer(
    name="karl-fast",
    help="Agent logs to training sets, drawn in proportion to reward.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"karl-fast {VERSION}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Agent logs to training sets, drawn in proportion to reward."""


def main() -> None:
    """Run the command; every error is one sentence and a hint on stderr, and an exit code that says its kind."""
    from karl_fast.cli import inspect, sample  # noqa: F401  (they add themselves to the app)

    _open_closed()
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets its number.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    for stop in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(stop) is not signal.SIG_IGN:
            signal.signal(stop, _leave)
    try:
        app()
    except io.UnsupportedOperation:
        sys.exit(complain(OSError("cannot write to standard output: it is closed")))
    except (KarlError, OSError) as error:
        sys.exit(complain(error))


def _open_closed() -> None:
    """Put something in the place of closed streams, so that no file of ours becomes the standard output or error."""
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open()  # noqa: SIM115  (for good; data has to go somewhere: to write here fails)
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115


def complain(error: KarlError | OSError) -> int:
    """Say what went wrong on stderr; the exit code."""
    sys.stderr.write(f"error: {clean(str(error))}\n")
    if hint := getattr(error, "hint", None):
        sys.stderr.write(f"hint: {hint}\n")
    return getattr(error, "exit_code", 1)


def _leave(signal_number: int, _frame: FrameType | None) -> None:
    # Raised inside the running call, so that temporary files go on the way out.
    raise SystemExit(128 + signal_number)
