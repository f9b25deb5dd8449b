"""A stream kept in a temporary file, because a log is read twice."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from karl_fast.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO


@contextlib.contextmanager
def spool(name: str) -> Iterator[str]:
    """The path of a copy of a pipe, or of standard input for ``-``; it is gone afterwards.

    Raises:
        FileError: the stream cannot be read, or the copy not be written.
    """
    with tempfile.NamedTemporaryFile(prefix="karl-fast-") as copy, _open(name) as stream:
        try:
            shutil.copyfileobj(stream, copy, 1 << 20)
            copy.flush()
        except OSError as error:
            reason = f"cannot keep {name} in a temporary file: {error.strerror}"
            raise FileError(reason, error.errno, name) from error
        yield copy.name


def _open(name: str) -> contextlib.AbstractContextManager[BinaryIO]:
    return contextlib.nullcontext(sys.stdin.buffer) if name == "-" else Path(name).open("rb")
