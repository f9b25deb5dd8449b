"""The command `karl-fast`: parse, call, print. Data goes to stdout, messages to stderr.

Plain lines of `sample` are parsed without typer (`fast_parser`), which takes most of a start; all others by it (`app`).
"""

from __future__ import annotations

import io
import os
import signal
import sys
from pathlib import Path

from karl_fast._safe_text import clean
from karl_fast._signals import Stopped
from karl_fast.cli.colour import paint
from karl_fast.cli.signals import handle_signals, print_stop
from karl_fast.errors import FileError, KarlError, UsageError


def main() -> None:
    """Run the command; every error is one sentence and a hint on stderr, and an exit code that says its kind."""
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets its number.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # A reader that has gone ends the run without a word, as it ends cat: rows are printed when all else is done.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(_run())


def _run() -> int | None:
    try:
        code = _run_command(sys.argv[1:])
        if sys.stdout:  # none where it was closed before the start
            sys.stdout.flush()
    except Stopped as stopped:
        return print_stop(stopped)
    except RuntimeError as error:
        # Python 3.11 wraps what a signal raises while a class is made, as an import does.
        if isinstance(error.__cause__, Stopped):
            return print_stop(error.__cause__)
        raise
    except KarlError as error:
        return print_error(error)
    except ModuleNotFoundError as error:
        from karl_fast._extras import MLX, missing_mlx

        if (error.name or "").partition(".")[0] not in MLX:
            raise
        return print_error(missing_mlx())
    except io.UnsupportedOperation:
        return print_error(FileError("cannot write to standard output: it is closed"))
    except OSError as error:
        return print_error(error if error.filename else _stdout_error(error))
    return code


def _run_command(arguments: list[str]) -> int | None:
    from karl_fast.cli.fast_parser import parse_plain  # with the settings, in which a signal may come

    line = parse_plain(arguments)
    if line is None:
        from karl_fast.cli.app import run

        return run()
    from karl_fast.cli.sample_body import draw_and_report

    handle_signals()
    draw_and_report(**line)
    return None


def _stdout_error(error: OSError) -> FileError:
    """Return the error of a failed write to standard output, and discard what is left to print."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return FileError(f"cannot write to standard output: {error.strerror}", error.errno)


def _open_closed_streams() -> None:
    """Open closed standard streams on the null device, so that no other file gets their descriptors."""
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open()  # noqa: SIM115  (for good; data has to go somewhere: to write here fails)
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115


def print_error(error: KarlError | OSError) -> int:
    """Print an error on stderr and return the exit code."""
    sentence = str(error)
    if isinstance(error, UsageError):
        from karl_fast.cli.usage_errors import name_options  # with typer

        sentence = name_options(error)
    sys.stderr.write(f"{paint('error:', 'red', sys.stderr)} {clean(sentence)}\n")
    if hint := getattr(error, "hint", None):
        sys.stderr.write(f"{paint('hint:', 'cyan', sys.stderr)} {clean(hint)}\n")
    return getattr(error, "exit_code", 1)
