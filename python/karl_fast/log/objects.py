"""Files that workers read, of this machine or of a store: what identifies their bytes, and ranges of them."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from karl_fast import stores
from karl_fast.errors import FileError, KarlError, LogChangedError
from karl_fast.log.spool import copy_error, temporary
from karl_fast.stores import StoredObject, is_url

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class LogObject:
    """A file as it was when the run began.

    Attributes:
        name: its path or URL.
        size: its bytes.
        version: what differs once its bytes do: the time of its last change, or its ETag.
        modified: the time of its last change, in seconds since 1970.
        optional: True if it may hold no records, as one that was found in a folder may.
    """

    name: str
    size: int
    version: str
    modified: float
    optional: bool = False

    @property
    def is_stored(self) -> bool:
        """True if it is in a store."""
        return is_url(self.name)

    @property
    def stored(self) -> StoredObject:
        """The object of a store."""
        return StoredObject(self.name, self.size, self.version, self.modified)


def local_object(path: str, *, optional: bool) -> LogObject:
    """Return a file of this machine.

    Raises:
        FileError: it cannot be looked at.
    """
    try:
        facts = Path(path).stat()
    except OSError as error:
        raise FileError(f"cannot open {path}: {error.strerror}", error.errno, path) from error
    return LogObject(str(Path(path).absolute()), facts.st_size, str(facts.st_mtime_ns), facts.st_mtime, optional)


def stored_object(stored: StoredObject, *, optional: bool) -> LogObject:
    """Return an object of a store."""
    return LogObject(stored.url, stored.size, stored.version, stored.modified, optional)


def refuse_changed(source: LogObject) -> None:
    """Raise where a file is not what it was when the run began.

    Raises:
        LogChangedError: it has another size, or another time of change or ETag.
        FileError: it cannot be looked at: a worker may not see it.
    """
    if source.is_stored:
        stores.refuse_changed(source.stored)
        return
    now = local_object(source.name, optional=source.optional)
    if (now.size, now.version) != (source.size, source.version):
        raise LogChangedError(f"{source.name}: it changed after the run began")


@contextlib.contextmanager
def copied_range(source: LogObject, start: int, end: int) -> Iterator[tuple[str, int]]:
    """Yield a file that has a range of an object's bytes, and the offset of its first byte in the object.

    A file of this machine is read where it is; of an object a temporary copy is made.

    Raises:
        LogChangedError: the object changed.
        FileError: it cannot be read.
    """
    if not source.is_stored:
        refuse_changed(source)
        yield source.name, 0
        return
    with temporary(source.name) as path:
        try:
            stores.copy_range(source.stored, start, end, Path(path), start)
        except KarlError:
            raise
        except OSError as error:
            raise copy_error(source.name, error) from error
        yield path, start
