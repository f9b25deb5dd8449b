"""The store: a file of records, one a line, that others append to."""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from karl_fast import _core

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from karl_fast.reward.engine.records import Version

READ = 8 << 20
"""Bytes of lines examined at a time."""

REFUSED = (ValueError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""Exceptions raised by values that are not records, or by fields of the wrong type."""

WAIT = 0.01
"""Seconds in which a writer that had the old file open gets its turn."""


class StoredReward(NamedTuple):
    """Reward facts of a record; values may have other types where the record has them."""

    channel: Any
    domain: Any
    reward: Any


def store_path() -> Path:
    """Return the path of the store from the environment."""
    if named := os.environ.get("KARL_STORE_PATH"):
        return _at(named)
    home = _at(os.environ.get("KARL_DIR", "."))
    return _at(os.environ.get("KARL_DATA_DIR", str(home / "data"))) / "trajectories.jsonl"


def _at(path: str) -> Path:
    """Return a path; an unknown `~user` is kept, so that the error is that of a missing file."""
    return Path(os.path.expanduser(path))  # noqa: PTH111  (pathlib raises where there is no such home)


def record_of(line: bytes) -> dict[str, Any]:
    """Parse the record of a line.

    Raises:
        ValueError: it is not JSON, or not UTF-8.
        AttributeError: it is not an object.
    """
    record = json.loads(line.decode("utf-8"))
    if not isinstance(record, dict):
        raise AttributeError(f"the record is of type {type(record).__name__}, and has to be an object")
    return record


def told(path: Path, version: Version) -> Iterator[tuple[bytes, StoredReward | None]]:
    """Yield each line of a store with its reward facts; None if the line is not a record.

    Lines are looked into many at a time; those that are not as nearly all are, are read one by one. Memory: 8 MiB, or
    the longest line.
    """
    with path.open("rb") as file:
        while lines := file.readlines(READ):
            for line, found in zip(lines, _core.karl_stored(lines, version), strict=True):
                if found is None:
                    yield line, plainly(line, version)
                else:
                    channel, domain, reward = found
                    yield line, StoredReward("unknown" if channel is None else channel, domain or "_global", reward)


def plainly(line: bytes, version: Version) -> StoredReward | None:
    """Parse a line with Python's JSON and return its reward facts; None if it is not a valid record."""
    try:
        record = record_of(line)
        return StoredReward(record.get("channel", "unknown"), domain_of(record, version), stored_reward(record))
    except REFUSED:
        return None


def stored_reward(record: dict[str, Any]) -> Any:
    """Return the reward of a record; None if it has none."""
    return record.get("outcome", {}).get("reward_score")


def domain_of(record: dict[str, Any], version: Version) -> Any:
    """Return a record's domain, ``_global`` if missing: in v1 that of its skill unless it is a name, else its own."""
    skill = record.get("skill", {})
    found = record.get("domain") if version == "v2" or isinstance(skill, str) else skill.get("domain")
    return found or "_global"


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold the lock of KARL's own writers; then, if the file was replaced, copy lines that were appended meanwhile.

    A writer that opened the old file waits for its lock, so what it appends comes right after the lock is given back.
    """
    with locked(path) as old:
        size = os.fstat(old.fileno()).st_size
        yield
        fcntl.flock(old, fcntl.LOCK_UN)
        if os.path.samestat(os.fstat(old.fileno()), path.stat()):
            return
        time.sleep(WAIT)
        fcntl.flock(old, fcntl.LOCK_EX)
        old.seek(size)
        if late := old.read():
            append(path, late)


def locked(path: Path) -> BinaryIO:
    """Open and lock the file of a path; repeat if it was replaced before the lock was held."""
    while True:
        file = path.open("rb")
        fcntl.flock(file, fcntl.LOCK_EX)
        if os.path.samestat(os.fstat(file.fileno()), path.stat()):
            return file
        file.close()


def append(path: Path, late: bytes) -> None:
    """Append lines to a file, under its lock."""
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(late)


def replace(path: Path, write: Callable[[Path], bool]) -> None:
    """Replace a file atomically by what ``write`` writes to the path it gets, if that returns true.

    Raises:
        OSError: the file cannot be written; the old one is kept.
    """
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        new = Path(file.name)
        try:
            changed = write(new)
            os.fsync(file.fileno())
            new.chmod(path.stat().st_mode)
            if changed:
                new.replace(path)
        finally:
            new.unlink(missing_ok=True)
