"""A log that is read once: from a pipe, in memory for the rows that are drawn."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from karl_fast import _core
from karl_fast.errors import FileError
from karl_fast.log import Log, columns, refuse_bad_rows
from karl_fast.log.discovery import path_of, path_text
from karl_fast.log.spool import copy_error, temporary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from karl_fast.settings.sample import Settings


def only_pipe(logs: list[object]) -> str | None:
    """Return the pipe that is the only log; None if there is none."""
    paths = [path_of(log) for log in logs]
    return paths[0] if len(paths) == 1 and _is_pipe(paths[0]) else None


def _is_pipe(path: str) -> bool:
    """Return whether a path is a pipe, or standard input from a pipe, a socket or a file."""
    try:
        if path == "-":
            if sys.stdin is None or sys.stdin.fileno() != 0:  # closed, or something else in its place
                return False
            mode = os.fstat(0).st_mode
            return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISREG(mode)
        return stat.S_ISFIFO(Path(path).stat().st_mode)
    except (OSError, ValueError):
        return False


def stream(path: str, settings: Settings, progress: Callable[[int, int], None] | None = None) -> Log:
    """Read a pipe to its end, and keep the records that a weighted reservoir could draw: k, and some to replace others.

    The log has the rows of those alone; its counts and sums are of all that came. Their bytes are in a temporary file
    until the log is closed.

    Raises:
        FileError, LogError, BadRowError, UsageError: as `karl_fast.read`.
    """
    inverse_temperature, k = settings.inverse_temperature, settings.count(0)
    assert inverse_temperature is not None, "settings.streams"
    copies = contextlib.ExitStack()
    with contextlib.ExitStack() as undo:
        undo.push(copies)
        copy = copies.enter_context(temporary(path))
        undo.enter_context(_under_name_of(path, copy))
        core = _core.stream(
            (path, path_text(path)),
            kept=copy,
            weights=settings.weights,
            min_reward=settings.min_reward,
            shaping=settings.shaping.numbers if settings.shaping else None,
            inverse_temperature=inverse_temperature,
            seed=settings.seed,
            room=k + max(SPARE, k // 4),
            **columns(settings),
            max_line_bytes=settings.max_line_bytes,
            domain_asked=settings.domain_asked,
            strict=settings.strict,
            threads=settings.threads,
            progress=progress,
        )
        if settings.strict:
            refuse_bad_rows(core)
        undo.pop_all()
    return Log(core, settings, copies)


@contextlib.contextmanager
def _under_name_of(path: str, copy: str) -> Iterator[None]:
    """Raise errors about a temporary copy under the name of the stream: the user does not know that of the copy."""
    try:
        yield
    except FileError as error:
        if error.filename == copy and error.errno is not None:
            raise copy_error(path, OSError(error.errno, os.strerror(error.errno))) from error
        raise


SPARE = 256
"""Records kept beyond k, or a quarter of k if that is more: one replaces each that cannot be written."""
