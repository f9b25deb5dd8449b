"""Columns of a log kept beside it, so that a later run reads only what was appended.

```text
runs.jsonl               the log
runs.jsonl.karl-index    header: settings of reading, size, time of change, hashes of blocks; then the rows in parts
```

An index is used where the log is what it was, or has only grown: the same size and time of change, or more bytes after
the same ones. Its beginning, its end and blocks between them are compared by their hashes. Everything else is read
anew: a log that was rewritten, an index that is torn, of other settings or of another version, and a log that was moved
where names of its rows are parts of its path. Records that are drawn are compared with the hashes of their first
reading, as always. Of two processes that write one index at the same time, the second leaves it to the first.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from karl_fast import _atomic, _core
from karl_fast.errors import FileError, KarlError, LogChangedError, UsageError
from karl_fast.log.discovery import PARQUET, as_list, is_output, path_of, resolve_logs
from karl_fast.log.log import reader_settings
from karl_fast.log.spool import copy_error, temporary
from karl_fast.stores import is_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import BinaryIO

    from karl_fast.settings.sample import Settings

    Form = tuple[str, str | None, str, int | None, str]
    Progress = Callable[[int, int], None]
    Files = Sequence[tuple[str, str, bool]]

SUFFIX = ".karl-index"
"""End of the name of an index, after that of its log."""

MAGIC = b"karlidx2"

HASH_BYTES = 16

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


@dataclass(frozen=True)
class IndexedFile:
    """A file that was read with its index.

    Attributes:
        name: its path.
        index: path of its index; None if it gets none.
        size: its bytes.
        bytes_read: those of them that were read, because no index had their rows.
        state: ``written``; ``current``, for it had all rows already; ``busy``, for another process is writing it; or
            ``none``.
    """

    name: str
    index: str | None
    size: int
    bytes_read: int
    state: Literal["written", "current", "busy", "none"]


def read_indexed(files: Files, reader: dict[str, Any], threads: int, progress: Progress | None) -> _core.Log:
    """Read files into columns, with the indexes beside them, and write these anew where the files have grown.

    Args:
        files: path, name and whether the file may hold no records, of each. One whose path is not its name is a
            temporary copy, and gets no index.
        reader: settings of reading.
        threads: threads that scan.
        progress: called with the bytes read so far, and those to read.

    Raises:
        FileError: a file cannot be read, or its index not be written.
        LogChangedError: a file changed other than at its end while it was read.
        LogError: as of `karl_fast.read`.
    """
    splits = _core.LogSplits(**reader)
    with temporary("the columns of a log") as spool:
        places: list[tuple[int, int, int]] = []
        try:
            with Path(spool).open("wb") as to:
                for number, (parts, _) in enumerate(_read_files(splits, files, reader, threads, progress)):
                    for part in parts:
                        places.append((number, to.tell(), len(part)))
                        to.write(part)
        except KarlError:
            raise
        except OSError as error:
            raise copy_error("the columns of a log", error) from error
        return splits.join(spool, places, copies=[])


def write_indexes(
    logs: str | Path | Iterable[str | Path], settings: Settings, progress: Progress | None = None
) -> list[IndexedFile]:
    """Write the index of each file of some logs, where it is not there or the file has changed since.

    Args:
        logs: files, folders and globs. Files that `convert` or a format skips are left out.
        settings: settings of reading, which a run has to share to use the indexes.
        progress: called with the bytes of a file that were read so far, and those to read.

    Returns:
        What was done about each file.

    Raises:
        UsageError: a log that can have no index: standard input, an object of a store, a file of Parquet.
        FileError, LogChangedError, LogError: as of `read_indexed`.
    """
    names = [path_of(log) for log in as_list(logs)]
    for name in names:
        if name == "-" or is_url(name) or name.endswith(PARQUET):
            what = {"-": "standard input"}.get(name, name)
            raise UsageError(
                f"{what} can have no index: it would be beside a file of this machine with JSON records",
                hint="write the records to a file of JSON lines first",
            )
    reader = reader_settings(settings, fingerprint=True)
    with resolve_logs(names) as resolved:
        splits = _core.LogSplits(**reader)
        each = _read_files(splits, resolved.files, reader, settings.threads, progress)
        return [indexed for _, indexed in each]


def _read_files(
    splits: _core.LogSplits, files: Files, reader: dict[str, Any], threads: int, progress: Progress | None
) -> Iterator[tuple[list[bytes], IndexedFile]]:
    """Yield the parts of each file, and what was done about its index."""
    for path, name, optional in files:
        _, form = splits.probe(path, name, optional, False)
        if form is not None:
            scan = _Scan(splits, path, name, form, threads, progress)
            yield _read_file(scan, _place(path, name), reader)


def _place(path: str, name: str) -> Path | None:
    """Return the path of the index of a file; None of a temporary copy, and in the folder of a data set."""
    if Path(path).absolute() != Path(name).absolute() or is_output(str(Path(path).parent)):
        return None
    return Path(path + SUFFIX)


def _read_file(scan: _Scan, place: Path | None, reader: dict[str, Any]) -> tuple[list[bytes], IndexedFile]:
    """Return the parts of a file: those of its index, and of what was appended."""
    try:
        with Path(scan.path).open("rb") as file:
            before = os.fstat(file.fileno())
            key = _key(reader, scan)
            index = load(place, file, key) if place else Index()
            end = _last_line_end(file, index.end, before.st_size) if scan.is_ranged else before.st_size
            if not scan.is_ranged and index.end != end:
                index = Index()
            start, blocks = index.end, _hash_blocks(file, end)
            new = [] if start == end else scan.parts(start, end)
            if new is None:  # a record spans several lines
                return scan.whole(), IndexedFile(scan.name, None, before.st_size, before.st_size, "none")
            _refuse_changed(scan, before, file, end, blocks)
            index = Index(end, [*index.parts, *new])
            state: Any = "current" if place else "none"
            if new and place:
                done = save(place, key, index, blocks, before.st_mtime_ns, before.st_size)
                state = "written" if done else "busy"
            # A last line without an end may be written further, and so is in no index.
            last = (scan.parts(end, before.st_size) or []) if end < before.st_size else []
            where = str(place) if place else None
            indexed = IndexedFile(scan.name, where, before.st_size, before.st_size - start, state)
            return index.parts + last, indexed
    except KarlError:
        raise
    except OSError as error:
        raise FileError(f"cannot read {scan.name}: {error.strerror}", error.errno, scan.name) from error


def _refuse_changed(scan: _Scan, before: os.stat_result, file: BinaryIO, end: int, blocks: str) -> None:
    """Raise where a file changed while it was read, unless lines were appended."""
    now = Path(scan.path).stat()
    if (now.st_ino, now.st_mtime_ns, now.st_size) == (before.st_ino, before.st_mtime_ns, before.st_size):
        return
    has_grown = scan.is_ranged and now.st_ino == before.st_ino and now.st_size > before.st_size
    if not has_grown or _hash_blocks(file, end) != blocks:
        raise LogChangedError(f"{scan.name}: it changed while it was read")


@dataclass(frozen=True)
class _Scan:
    """Scan of one file."""

    splits: _core.LogSplits
    path: str
    name: str
    form: Form
    threads: int
    progress: Progress | None

    @property
    def is_ranged(self) -> bool:
        """True for plain lines, of which ranges can be scanned."""
        return self.form[0] == "lines" and self.form[-1] == "plain"

    def whole(self) -> list[bytes]:
        """Return the part of the whole file."""
        return [self.splits.scan(self.path, self.name, self.form)[0]]

    def parts(self, start: int, end: int) -> list[bytes] | None:
        """Return the parts of a range of the file; None where a record spans several lines."""
        if not self.is_ranged:
            return self.whole()
        from concurrent.futures import ThreadPoolExecutor  # 3 ms, which a run that reads nothing does without

        ranges = [(at, min(at + SPLIT_BYTES, end)) for at in range(start, end, SPLIT_BYTES)]

        def scan(span: tuple[int, int]) -> tuple[bytes, bool, bool]:
            return self.splits.scan(self.path, self.name, self.form, range=span)

        parts = []
        with ThreadPoolExecutor(self.threads) as pool:
            for (_, done), (part, beyond, _) in zip(ranges, pool.map(scan, ranges), strict=True):
                if beyond:
                    pool.shutdown(cancel_futures=True)
                    return None
                parts.append(part)
                if self.progress:
                    self.progress(done - start, end - start)
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


def _key(reader: dict[str, Any], scan: _Scan) -> dict[str, Any]:
    """Return what an index has to be of, besides the bytes: the parts of the path are in the names of its rows."""
    settings = {name: value for name, value in reader.items() if name != "threads"}
    path = scan.splits.file_parts(scan.name, scan.form)
    held = {"version": _core.VERSION, "reader": settings, "form": scan.form, "path": path}
    key: dict[str, Any] = json.loads(json.dumps(held))
    return key


def _blocks(end: int) -> list[tuple[int, int]]:
    """Return the ranges of the first `end` bytes that are compared."""
    ends = [(0, min(END_BLOCK, end)), (max(0, end - END_BLOCK), end)]
    step = max(1, end // (BLOCKS + 1))
    return ends + [(at, min(at + BLOCK, end)) for at in range(step, end, step)][:BLOCKS]


def _hash_blocks(file: BinaryIO, end: int) -> str:
    hasher = hashlib.blake2b(digest_size=HASH_BYTES)
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
            # Each part ends with its own hash.
            whole = all(map(_core.LogSplits.is_sound, parts)) and not index.read(1)
            return Index(header["end"], parts) if whole else Index()
    except (OSError, KeyError, TypeError, ValueError):
        return Index()


def _read_header(index: BinaryIO) -> dict[str, Any] | None:
    start = index.read(len(MAGIC) + 8 + HASH_BYTES)
    if len(start) < len(MAGIC) + 8 + HASH_BYTES or not start.startswith(MAGIC):
        return None
    (length,) = struct.unpack_from("<Q", start, len(MAGIC))
    if length > HEADER_MAX:
        return None
    text = index.read(length)
    if _hash(text) != start[-HASH_BYTES:]:
        return None
    header = json.loads(text)
    return header if isinstance(header, dict) else None


def _hash(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=HASH_BYTES).digest()


def _is_of(file: BinaryIO, header: dict[str, Any]) -> bool:
    """Return whether a file is what it was, or has only grown."""
    now = os.fstat(file.fileno())
    if now.st_size < header["size"] or (now.st_size == header["size"] and now.st_mtime_ns != header["mtime_ns"]):
        return False
    return bool(_hash_blocks(file, header["end"]) == header["blocks"])


def save(place: Path, key: dict[str, Any], index: Index, blocks: str, mtime_ns: int, size: int) -> bool:
    """Write an index, whole or not at all; return whether this process wrote it, and not another at the same time.

    Raises:
        FileError: it cannot be written.
    """
    header = {
        "key": key,
        "end": index.end,
        "size": size,
        "mtime_ns": mtime_ns,
        "blocks": blocks,
        "parts": [len(part) for part in index.parts],
    }
    text = json.dumps(header).encode()

    def fill(to: BinaryIO) -> None:
        to.write(MAGIC + struct.pack("<Q", len(text)) + _hash(text) + text)
        for part in index.parts:
            to.write(part)

    return _atomic.write_unless_locked(place, fill)
