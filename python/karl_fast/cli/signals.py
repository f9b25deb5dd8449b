"""Messages for a run that a signal ends, with the state of its output."""

from __future__ import annotations

import contextlib
import os
import sys
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from karl_fast._safe_text import clean
from karl_fast._signals import STOPS, Stopped, handle

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


def describe_nothing(word: str) -> str:
    """Return the last line of a run that has written nothing."""
    return f"{word}; nothing was written"


def handle_signals(line: Callable[[str], str] = describe_nothing) -> None:
    """Let signals raise from here on, since there may be files to clean up.

    Args:
        line: returns the last line of the run, given the word for its end. It is called after the clean-up, and stays
            in place until the next call: a signal may come between the last statement and the end of the process.
    """
    handle(partial(_stop, line))


def _stop(line: Callable[[str], str], number: int, _frame: FrameType | None) -> NoReturn:
    raise Stopped(number, line)


def print_stop(stopped: Stopped) -> int:
    """Print a line on stderr if it is still open, and return the exit code."""
    with contextlib.suppress(OSError):
        sys.stderr.write(stopped.line(STOPS[stopped.number]) + "\n")
    return 128 + stopped.number


def watch_output(out: str) -> None:
    """Set the last line of a run to report whether this output was written by then."""
    place = out
    with contextlib.suppress(OSError):  # a function of a user may go to another folder
        place = os.path.abspath(out)  # noqa: PTH100
    handle_signals(partial(_describe_change, out, place, _inode(place)))


def _describe_change(out: str, place: str, before: int | None, word: str) -> str:
    return describe_nothing(word) if _inode(place) == before else describe_written(out, word)


def describe_written(out: str, word: str) -> str:
    """Return the last line of a run that has written its output."""
    return f"{word}; {clean(out)} is written"


def _inode(out: str) -> int | None:
    try:
        return os.lstat(out).st_ino
    except OSError:
        return None
