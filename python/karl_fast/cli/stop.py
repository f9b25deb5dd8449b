"""What a run says that Ctrl-C or SIGTERM ends, and what there is of its output then."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from karl_fast.command import STOPS, handle
from karl_fast.words import clean

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

NOTHING = "nothing was written"


class Stopped(SystemExit):
    """The end by a signal. It is raised inside the running call, so that temporary files go on the way out."""


def listen() -> None:
    """Have signals raise: from here on there may be something to put away."""
    handle(_stop)


def _stop(number: int, _frame: FrameType | None) -> NoReturn:
    raise Stopped(128 + number)


def say(stopped: Stopped) -> int:
    """Say it on stderr; the exit code."""
    code = int(stopped.code or 0)
    sys.stderr.write("; ".join(filter(None, (STOPS[code - 128], _left()))) + "\n")
    return code


_left: Callable[[], str] = partial(str, NOTHING)


def writing(out: str) -> None:
    """Have the end of a run say whether this output has taken its place by then."""
    global _left
    _left = partial(_since, out, _place(out))


def in_parts() -> None:
    """Have the end of a run say no more than that: some of its output may be there, and some not."""
    global _left
    _left = str


def _since(out: str, before: int | None) -> str:
    return NOTHING if _place(out) == before else f"{clean(out)} is written"


def _place(out: str) -> int | None:
    try:
        return os.lstat(out).st_ino
    except OSError:
        return None
