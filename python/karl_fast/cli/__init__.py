"""The command `karl-fast`: parse, call, print. Data goes to stdout, talk to stderr."""

from __future__ import annotations

import io
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from karl_fast.cli.usage import TyperUsageError, said, typed
from karl_fast.cli.words import clean
from karl_fast.errors import FileError, KarlError, UsageError

if TYPE_CHECKING:
    from types import FrameType

NAME = "karl-fast"

COMMANDS = ("compare", "convert", "inspect", "sample", "version")

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
        from karl_fast.cli.version import line

        typer.echo(line())
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version in one line.")
    ] = False,
) -> None:
    """Agent logs to training sets, drawn in proportion to reward."""


def main() -> None:
    """Run the command; every error is one sentence and a hint on stderr, and an exit code that says its kind."""
    _load(sys.argv[1:2])
    _open_closed()
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets its number.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    for stop in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(stop) is not signal.SIG_IGN:
            signal.signal(stop, _leave)
    # A reader that has gone ends the run without a word, as it ends cat: rows are printed when all else is done.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(_run())


def _load(first: list[str]) -> None:
    """Import the command that is named first, or all of them: they add themselves to the app."""
    from importlib import import_module

    for command in first if set(first) <= set(COMMANDS) and first else COMMANDS:
        import_module(f"karl_fast.cli.{command}")


def _run() -> int | None:
    try:
        code: int | None = app(prog_name=NAME, standalone_mode=False)
        _flush()
    except TyperUsageError as error:
        return said(error)
    except KarlError as error:
        return complain(error)
    except io.UnsupportedOperation:
        return complain(FileError("cannot write to standard output: it is closed"))
    except OSError as error:
        return complain(error if error.filename else _of_stdout(error))
    return code


def _flush() -> None:
    if sys.stdout:  # none where it was closed before the start
        sys.stdout.flush()


def _of_stdout(error: OSError) -> FileError:
    """What the system says of printing, the one thing done to a file without a name; what is left is given up."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return FileError(f"cannot write to standard output: {error.strerror}", error.errno)


def _open_closed() -> None:
    """Put something in the place of closed streams, so that no file of ours becomes the standard output or error."""
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open()  # noqa: SIM115  (for good; data has to go somewhere: to write here fails)
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115


def complain(error: KarlError | OSError) -> int:
    """Say what went wrong on stderr; the exit code."""
    sentence = typed(error) if isinstance(error, UsageError) else str(error)
    sys.stderr.write(f"error: {clean(sentence)}\n")
    if hint := getattr(error, "hint", None):
        sys.stderr.write(f"hint: {clean(hint)}\n")
    return getattr(error, "exit_code", 1)


def _leave(signal_number: int, _frame: FrameType | None) -> None:
    # Raised inside the running call, so that temporary files go on the way out.
    raise SystemExit(128 + signal_number)
