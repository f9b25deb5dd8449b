"""Temporary copies of streams, because a log is read twice."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from karl_fast import stores
from karl_fast.errors import FULL, FileError, KarlError, LogChangedError, LogError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

DISK_HINT = "free space for temporary files, or name another folder for them with TMPDIR"
"""Hint for a temporary copy on a full disk."""


@contextlib.contextmanager
def spool(name: str) -> Iterator[str]:
    """Yield the path of a copy of a pipe, or of standard input for ``-``; it is removed afterwards.

    Raises:
        FileError: the stream cannot be read, or the copy not be written.
        LogError: it is a device without an end.
    """
    import shutil  # a log in a file is not copied

    with temporary(name) as path:
        try:
            with Path(path).open("wb") as copy, _open(name) as stream:
                _refuse_device(name, stream)
                shutil.copyfileobj(stream, copy, 1 << 20)
        except OSError as error:
            raise copy_error(name, error) from error
        yield path


@contextlib.contextmanager
def download(url: str) -> Iterator[str]:
    """Yield the path of a copy of an object of a store; it is removed afterwards.

    Raises:
        FileError: it cannot be read, or the copy not be written.
        LogChangedError: it changed while it was read.
    """
    source = stores.stat_url(url)
    with temporary(url) as path:
        try:
            stores.copy_range(source, 0, source.size, Path(path), 0)
        except KarlError:
            raise
        except OSError as error:
            raise copy_error(url, error) from error
        yield path


def _open(name: str) -> contextlib.AbstractContextManager[BinaryIO]:
    if name == "-" and sys.stdin is None:
        raise OSError(errno.EBADF, "standard input is closed")
    return contextlib.nullcontext(sys.stdin.buffer) if name == "-" else Path(name).open("rb")


def _refuse_device(name: str, stream: BinaryIO) -> None:
    """Raise for endless devices such as /dev/zero, which would fill the disk."""
    facts = os.fstat(stream.fileno())
    device = stat.S_ISCHR(facts.st_mode) or stat.S_ISBLK(facts.st_mode)
    if device and not stream.isatty() and facts.st_rdev != Path(os.devnull).stat().st_rdev:
        raise LogError(f"{name}: it is a device, not a log")


@contextlib.contextmanager
def temporary(name: str) -> Iterator[str]:
    """Yield the path of an empty file for the data of a stream; it is removed afterwards.

    Raises:
        FileError: it cannot be made.
    """
    import tempfile  # as in the copy of a stream

    with contextlib.ExitStack() as stack:
        try:
            with _deferred_signals():
                descriptor, path = tempfile.mkstemp(prefix="karl-fast-")
                stack.callback(os.unlink, path)
                os.close(descriptor)
        except OSError as error:
            raise copy_error(name, error) from error
        yield path


@contextlib.contextmanager
def _deferred_signals() -> Iterator[None]:
    """Defer Ctrl-C: a file between its creation and the registration of its removal would stay."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def refuse_change(path: str) -> Iterator[None]:
    """Raise if a file changed while it was read, whatever else was found in it.

    Raises:
        LogChangedError: it changed.
    """
    before, changed = _state(path), LogChangedError(f"{path}: it changed while it was read")
    try:
        yield
    except Exception as error:
        if _state(path) != before:
            raise changed from error
        raise
    if _state(path) != before:
        raise changed


def _state(path: str) -> tuple[int, ...] | None:
    """Return a stamp that differs between states of a file; None if it is missing."""
    try:
        facts = Path(path).stat()
    except OSError:
        return None
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


def copy_error(name: str, error: OSError) -> FileError:
    """Return the error for a temporary copy that cannot be written, with a hint on a full disk."""
    return FileError(
        f"cannot keep {name} in a temporary file: {error.strerror or error}",
        error.errno,
        name,
        hint=(DISK_HINT if error.errno in FULL else None),
    )
