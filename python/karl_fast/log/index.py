"""Columns of a log kept beside it, so that a later run reads only what was appended.

```text
runs.jsonl               the log
runs.jsonl.karl-index    header: settings of reading, size, time of change, hashes of blocks; then the rows in parts
```

An index is used where the log is what it was, or has only grown: the same size and time of change, or more bytes after
the same ones. Its beginning, its end and blocks between them are compared by their hashes. Everything else is read
anew: a log that was rewritten, an index that is torn, of other settings or of another version. Records that are drawn
are compared with the hashes of their first reading, as always.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karl_fast import _atomic, _core
from karl_fast.errors import LogChangedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import BinaryIO

    Form = tuple[str, str | None, str, int | None, str]

SUFFIX = ".karl-index"
"""End of the name of an index, after that of its log."""

MAGIC = b"karlidx1"

HEADER_MAX = 1 << 26
"""The longest header that is read, in bytes."""

BLOCK, END_BLOCK, BLOCKS = 1 << 12, 1 << 16, 64
"""Bytes of a block that is compared, of the first and the last one, and how many lie between them."""

SPLIT_BYTES = 16 << 20
"""Bytes of a file of lines that one thread scans at a time."""


@dataclass
class Index:
    """Rows of the beginning of a file.

    Attributes:
        end: bytes of the file that they are of.
        parts: the rows, in the order of the file.
    """

    end: int = 0
    parts: list[bytes] = field(default_factory=list)


def read_indexed(
    files: Sequence[tuple[str, str, bool]],
    reader: dict[str, Any],
    threads: int,
    progress: Callable[[int, int], None] | None,
) -> _core.Log:
    """Read files into columns, with the indexes beside them, and write these anew where the files have grown.

    Args:
        files: path, name and whether the file may hold no records, of each. One whose path is not its name is a
            temporary copy, and gets no index.
        reader: settings of reading.
        threads: threads that scan.
        progress: called with the bytes read so far, and those to read.

    Raises:
        FileError: a file cannot be read, or its index not be written.
        LogChangedError: a file changed while it was read.
        LogError: as of `karl_fast.read`.
    """
    splits = _core.LogSplits(**reader)
    with tempfile.TemporaryDirectory(prefix="karl-fast-") as folder, ThreadPoolExecutor(threads) as pool:
        spool, places, number = Path(folder, "parts"), [], 0
        with spool.open("wb") as to:
            for path, name, optional in files:
                _, form = splits.probe(path, name, optional, False)
                if form is None:
                    continue
                place = Path(path + SUFFIX) if Path(path).absolute() == Path(name).absolute() else None
                for part in _parts(splits, pool, path, name, form, place, reader, progress):
                    places.append((number, to.tell(), len(part)))
                    to.write(part)
                number += 1
        return splits.join(str(spool), places, copies=[])


def _parts(
    splits: _core.LogSplits,
    pool: ThreadPoolExecutor,
    path: str,
    name: str,
    form: Form,
    place: Path | None,
    reader: dict[str, Any],
    progress: Callable[[int, int], None] | None,
) -> list[bytes]:
    """Return the parts of a file: those of its index, and of what was appended."""
    before = Path(path).stat()
    with Path(path).open("rb") as file:
        key = _key(reader, form)
        index = load(place, file, key) if place else Index()
        ranged = form[0] == "lines" and form[-1] == "plain"
        end = _last_line_end(file, index.end, before.st_size) if ranged else before.st_size
        if not ranged and index.end != end:
            index = Index()
        new = [] if index.end == end else _scan(splits, pool, path, name, form, (index.end, end), progress)
        if new is None:  # a record spans several lines
            part, _, _ = splits.scan(path, name, form)
            return [part]
        index = Index(end, [*index.parts, *new])
        after = Path(path).stat()
        if (after.st_mtime_ns, after.st_size) != (before.st_mtime_ns, before.st_size):
            raise LogChangedError(f"{name}: it changed while it was read")
        if new and place:
            save(place, file, key, index, before.st_mtime_ns, before.st_size)
    # A last line without an end may be written further.
    rest = (end, before.st_size)
    return index.parts + ((_scan(splits, pool, path, name, form, rest, None) or []) if end < before.st_size else [])


def _scan(
    splits: _core.LogSplits,
    pool: ThreadPoolExecutor,
    path: str,
    name: str,
    form: Form,
    span: tuple[int, int],
    progress: Callable[[int, int], None] | None,
) -> list[bytes] | None:
    """Return the parts of a range of a file; None where a record spans several lines."""
    if form[0] != "lines" or form[-1] != "plain":
        return [splits.scan(path, name, form)[0]]
    ranges = [(at, min(at + SPLIT_BYTES, span[1])) for at in range(span[0], span[1], SPLIT_BYTES)]
    parts = []
    for (_, end), (part, beyond, _) in zip(
        ranges, pool.map(lambda range_: splits.scan(path, name, form, range=range_), ranges), strict=True
    ):
        if beyond:
            return None
        parts.append(part)
        if progress:
            progress(end - span[0], span[1] - span[0])
    return parts


def _last_line_end(file: BinaryIO, start: int, size: int) -> int:
    """Return the offset after the last line end of a file, or `start` if there is none after it."""
    at = size
    while at > start:
        first = max(start, at - END_BLOCK)
        file.seek(first)
        if (found := file.read(at - first).rfind(b"\n")) >= 0:
            return first + found + 1
        at = first
    return start


def _key(reader: dict[str, Any], form: Form) -> dict[str, Any]:
    """Return what an index has to be of, besides the bytes."""
    settings = {name: value for name, value in reader.items() if name != "threads"}
    key: dict[str, Any] = json.loads(json.dumps({"version": _core.VERSION, "reader": settings, "form": form}))
    return key


def _blocks(end: int) -> list[tuple[int, int]]:
    """Return the ranges of the first `end` bytes that are compared."""
    ends = [(0, min(END_BLOCK, end)), (max(0, end - END_BLOCK), end)]
    step = max(1, end // (BLOCKS + 1))
    return ends + [(at, min(at + BLOCK, end)) for at in range(step, end, step)][:BLOCKS]


def _hash_blocks(file: BinaryIO, end: int) -> str:
    hasher = hashlib.blake2b(digest_size=16)
    for start, stop in _blocks(end):
        file.seek(start)
        hasher.update(file.read(stop - start))
    return hasher.hexdigest()


def load(place: Path, file: BinaryIO, key: dict[str, Any]) -> Index:
    """Return the index of a file; an empty one where it is missing, torn, or not of these bytes and settings."""
    try:
        with place.open("rb") as index:
            header = _read_header(index)
            if header is None or header["key"] != key or not _is_of(file, header):
                return Index()
            parts = [index.read(length) for length in header["parts"]]
            whole = hashlib.blake2b(b"".join(parts), digest_size=16).hexdigest() == header["hash"]
            return Index(header["end"], parts) if whole and not index.read(1) else Index()
    except (OSError, KeyError, TypeError, ValueError):
        return Index()


def _read_header(index: BinaryIO) -> dict[str, Any] | None:
    start = index.read(len(MAGIC) + 8)
    if len(start) < len(MAGIC) + 8 or not start.startswith(MAGIC):
        return None
    (length,) = struct.unpack("<Q", start[len(MAGIC) :])
    if length > HEADER_MAX:
        return None
    header = json.loads(index.read(length))
    return header if isinstance(header, dict) else None


def _is_of(file: BinaryIO, header: dict[str, Any]) -> bool:
    """Return whether a file is what it was, or has only grown."""
    file.seek(0, 2)
    size, changed = file.tell(), header["mtime_ns"] != _mtime(file)
    if size < header["size"] or (size == header["size"] and changed):
        return False
    return bool(_hash_blocks(file, header["end"]) == header["blocks"])


def _mtime(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_mtime_ns


def save(place: Path, file: BinaryIO, key: dict[str, Any], index: Index, mtime_ns: int, size: int) -> None:
    """Write an index, whole or not at all.

    Raises:
        FileError: it cannot be written.
    """
    header = {
        "key": key,
        "end": index.end,
        "size": size,
        "mtime_ns": mtime_ns,
        "blocks": _hash_blocks(file, index.end),
        "parts": [len(part) for part in index.parts],
        "hash": hashlib.blake2b(b"".join(index.parts), digest_size=16).hexdigest(),
    }
    text = json.dumps(header).encode()

    def fill(to: BinaryIO) -> None:
        to.write(MAGIC + struct.pack("<Q", len(text)) + text)
        for part in index.parts:
            to.write(part)

    _atomic.write_file(place, fill)
