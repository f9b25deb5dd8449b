"""Reading a log with the workers of an executor: probe files, scan splits, join parts, fetch the records drawn."""

from __future__ import annotations

import contextlib
import tempfile
from bisect import bisect_right
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karl_fast import _core
from karl_fast.distributed.frames import Run, group_frames, read_frames
from karl_fast.distributed.splits import (
    SPLIT_BYTES,
    Form,
    Split,
    read_packed,
    scan_split,
    split_file,
    unpacked_size,
)
from karl_fast.distributed.tasks import run_tasks
from karl_fast.errors import KarlError, UsageError
from karl_fast.log import Log, refuse_bad_rows
from karl_fast.log.discovery import PARQUET, SUFFIXES, as_list, path_of, resolve_logs
from karl_fast.log.log import ObjectFacts, reader_settings
from karl_fast.log.objects import LogObject, copied_range, local_object, stored_object
from karl_fast.log.order import refuse_unordered
from karl_fast.log.spool import copy_error
from karl_fast.settings.sample import Settings
from karl_fast.settings.sample_fields import show_keywords
from karl_fast.stores import IN_FLIGHT, RANGE_BYTES, is_url, list_url, read_range

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import BinaryIO, Unpack

    from karl_fast.distributed.tasks import Submits
    from karl_fast.export.write import Progress
    from karl_fast.settings.sample_fields import SampleKeywords


@show_keywords(Settings)
def read(
    urls: str | Path | Iterable[str | Path],
    settings: Settings | None = None,
    *,
    executor: Submits,
    fingerprint: bool = False,
    split_bytes: int | None = None,
    progress: Progress | None = None,
    **choices: Unpack[SampleKeywords],
) -> Log:
    """Read logs into columns as `karl_fast.read` does, with the workers of an executor.

    The log needs the executor as long as rows are drawn of packed files.

    Args:
        urls: files, folders and globs, which every worker has to see under the same path.
        settings: what to take from each record; ``choices`` change single ones.
        executor: as for `karl_fast.distributed.sample`.
        fingerprint: hash what each record teaches, so that equal ones can be counted.
        split_bytes: bytes of a file of lines that one task reads.
        progress: called with the bytes that tasks have read so far and the bytes there are.

    Returns:
        The log.

    Raises:
        UsageError, WorkersLostError, LogChangedError, FileError, LogError, BadRowError: as
            `karl_fast.distributed.sample`.
    """
    settings = (settings or Settings()).replace(**choices)
    split_bytes = SPLIT_BYTES if split_bytes is None else split_bytes
    _refuse_unsupported(settings, split_bytes)
    names = [path_of(log) for log in as_list(urls)]
    with contextlib.ExitStack() as undo:
        folder = Path(undo.enter_context(_temporary_folder()))
        objects, passed, skipped = _resolve(names)
        reader = reader_settings(settings, fingerprint=fingerprint)
        scan = Scan(executor, reader, split_bytes, folder, progress)
        core = scan.read(objects)
        if settings.order_by is not None:
            refuse_unordered(core, settings.order_by)
        if settings.strict:
            refuse_bad_rows(core)
        spool = undo.pop_all()
    return Log(core, settings, spool, passed=passed, skipped=skipped, objects=scan.objects)


def _resolve(names: Sequence[str]) -> tuple[list[LogObject], list[str], list[tuple[str, str]]]:
    """Return the files and objects that names lead to; those passed over, and those skipped with the reason."""
    _refuse_copied(names)
    paths = [name for name in names if not is_url(name)]
    passed: list[str] = []
    skipped: list[tuple[str, str]] = []
    objects: dict[str, LogObject] = {}
    if paths or not names:
        with resolve_logs(paths) as resolved:
            _refuse_copied([path for path, _, _ in resolved.files])
            for path, _, optional in resolved.files:
                objects[path] = local_object(path, optional=optional)
        passed, skipped = resolved.passed, resolved.skipped
    for name in names:
        if is_url(name):
            for found, inside in list_url(name, SUFFIXES):
                _refuse_copied([found.url])
                objects.setdefault(found.url, stored_object(found, optional=inside))
    return [*objects.values()], passed, skipped


def _refuse_unsupported(settings: Settings, split_bytes: int) -> None:
    if split_bytes < 1:
        raise UsageError(f"split_bytes is {split_bytes}, wanted 1 or more")
    if settings.functions:
        raise UsageError(
            f"reward has functions ({', '.join(settings.functions)}), which need every record on one machine",
            hint="write their rewards into the log first, or sample on one machine",
        )
    if settings.hash_inputs:
        raise UsageError("hash_inputs reads every file on one machine", "hash_inputs")
    if settings.parent is not None:
        raise UsageError("parent joins records of all files, on one machine", "parent")


def _refuse_copied(names: Sequence[str]) -> None:
    """Refuse inputs that would be copied to a temporary file of this machine, which no worker sees."""
    for name in names:
        if name == "-":
            raise UsageError("- is standard input, which workers cannot read", hint="write it to a file first")
        if name.endswith(PARQUET):
            raise UsageError(
                f"{name}: files of Parquet are read on one machine alone", hint="sample without workers reads it"
            )


def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="karl-fast-")
    except OSError as error:
        raise copy_error("the columns of a log", error) from error


class Scan:
    """One read of all files by workers.

    Memory of this process: the results that wait (two a worker), then the columns of all records. Its disk: the parts,
    in ``folder``, and the records that are read again.
    """

    def __init__(
        self,
        executor: Submits,
        reader: dict[str, Any],
        split_bytes: int,
        folder: Path,
        progress: Progress | None,
    ) -> None:
        self.executor = executor
        self.reader = reader
        self.split_bytes = split_bytes
        self.folder = folder
        self.progress = progress or (lambda done, total: None)
        self.splits = _core.LogSplits(**reader)
        self.objects: dict[str, ObjectFacts] = {}

    def read(self, objects: Sequence[LogObject]) -> _core.Log:
        """Return the log of some files."""
        files = [(source, form) for source in objects if (form := self._probe(source)) is not None]
        runs = {file: self._runs(*entry) for file, entry in enumerate(files)}
        splits = [
            split
            for file, (source, form) in enumerate(files)
            for split in split_file(file, source, form, self.split_bytes, runs=runs[file])
        ]
        spool = self.folder / "parts"
        with _keep_parts(spool) as to:
            parts, beyond = self._scan(splits, to)
            # The start of a range inside a record is unknown: such a file is scanned as a whole.
            again = [split_file(file, *files[file], self.split_bytes, whole=True)[0] for file in sorted(beyond)]
            runs |= {file: [] for file in beyond}
            parts = {key: part for key, part in parts.items() if key[0] not in beyond}
            more, _ = self._scan(again, to)
        places = [(file, offset, length) for (file, _), (offset, length) in sorted((parts | more).items())]
        fetcher = Fetcher(self.executor, files, runs, self.folder)
        copies = fetcher.copies()
        log = self.splits.join(str(spool), places, copies=copies, fetch=fetcher.fetch if copies else None)
        spool.unlink()
        self.objects = {
            source.name: ObjectFacts(source.version if source.is_stored else None, form[-1])
            for source, form in fetcher.copied()
        }
        return log

    def _runs(self, source: LogObject, form: Form) -> list[Run]:
        """Return runs of frames of a zstd file of lines, each for one task; none where it has one frame, or damage."""
        if form[0] != "lines" or form[-1] != "zstd":
            return []
        groups = group_frames(read_frames(source) or [], self.split_bytes)
        if len(groups) < 2:
            return []
        sizes = [size for _, _, size in groups]
        unknown = [number for number, size in enumerate(sizes) if size is None]
        tasks = [(source, groups[number][:2]) for number in unknown]
        for task, size in run_tasks(self.executor, unpacked_size, tasks, lambda _: f"unpacking {source.name}"):
            sizes[unknown[task]] = size
        known = [size for size in sizes if size is not None]
        if len(known) < len(groups):
            return []
        offsets = accumulate(known, initial=0)
        return [
            Run(start, end, offset, size)
            for (start, end, _), offset, size in zip(groups, offsets, known, strict=False)
            if size
        ]

    def _probe(self, source: LogObject) -> Form | None:
        """Return the layout and format of a file by its beginning; None if it is skipped."""
        if not source.is_stored:
            return self.splits.probe(source.name, source.name, source.optional, False)[1]
        length = min(source.size, HEAD_BYTES)
        while True:
            with copied_range(source, 0, length) as (head, _):
                enough, form = self.splits.probe(head, source.name, source.optional, length < source.size)
            if enough:
                return form
            # Its first records are longer, or it is not a file of lines.
            length = min(source.size, 4 * length)

    def _scan(self, splits: Sequence[Split], to: BinaryIO) -> tuple[dict[tuple[int, int], tuple[int, int]], set[int]]:
        """Scan splits, and keep their parts; return the place of each by file and start, and files to read whole."""
        total, done = sum(split.end - split.start for split in splits), 0
        tasks = [(self.reader, split) for split in splits]
        parts: dict[tuple[int, int], tuple[int, int]] = {}
        beyond: set[int] = set()
        for number, result in run_tasks(self.executor, scan_split, tasks, lambda number: str(splits[number])):
            split = splits[number]
            if result.beyond:
                beyond.add(split.file)
            else:
                parts[split.file, split.start] = (to.tell(), len(result.part))
                to.write(result.part)
            done += split.end - split.start
            self.progress(done, total)
        return parts, beyond


HEAD_BYTES = 1 << 20
"""Bytes of an object that are read to detect its layout and format, at first."""


@contextlib.contextmanager
def _keep_parts(path: Path) -> Iterator[BinaryIO]:
    try:
        with path.open("wb") as file:
            yield file
    except KarlError:
        raise
    except OSError as error:
        raise copy_error("the columns of a log", error) from error


class Fetcher:
    """Brings records that are read again into copies of their files, which have holes elsewhere."""

    def __init__(
        self,
        executor: Submits,
        files: Sequence[tuple[LogObject, Form]],
        runs: Mapping[int, Sequence[Run]],
        folder: Path,
    ) -> None:
        self.executor = executor
        self.files = files
        self.runs = runs
        self.folder = folder
        self.fetched: set[tuple[int, int]] = set()

    def _is_packed(self, file: int) -> bool:
        return self.files[file][1][-1] != "plain"

    def _has_copy(self, file: int) -> bool:
        return self._is_packed(file) or self.files[file][0].is_stored

    def copied(self) -> list[tuple[LogObject, Form]]:
        """Return the files that have a copy."""
        return [entry for file, entry in enumerate(self.files) if self._has_copy(file)]

    def copies(self) -> list[tuple[int, str, int, float]]:
        """Return the copy of each file that has one, with the size and the last change of the file itself."""
        return [
            (file, str(self.folder / f"{file}"), source.size, source.modified)
            for file, (source, _) in enumerate(self.files)
            if self._has_copy(file)
        ]

    def fetch(self, places: list[tuple[int, int, int]]) -> None:
        """Write the records at some places (file, offset, length) into the copies."""
        wanted = sorted({place for place in places if self._has_copy(place[0]) and place[:2] not in self.fetched})
        by_file = {file: [place[1:] for place in group] for file, group in groupby(wanted, key=lambda place: place[0])}
        packed = {file for file in by_file if self._is_packed(file)}
        tasks = [(file, *task) for file in packed for task in self._packed_tasks(file, by_file[file])]
        names = [self.files[file][0].name for file, *_ in tasks]
        arguments = [(self.files[file][0], *task) for file, *task in tasks]
        for number, records in run_tasks(
            self.executor, read_packed, arguments, lambda number: f"reading records of {names[number]}"
        ):
            file, of_task, *_ = tasks[number]
            self._write(file, zip(of_task, records, strict=True))
        with ThreadPoolExecutor(IN_FLIGHT) as pool:
            for file in by_file.keys() - packed:
                self._fetch_ranges(file, by_file[file], pool)

    def _packed_tasks(
        self, file: int, places: list[tuple[int, int]]
    ) -> Iterator[tuple[list[tuple[int, int]], tuple[int, int], int]]:
        """Yield the places of each run of frames, the bytes that hold them, and the offset of the first of these."""
        runs = self.runs[file]
        if not runs:
            yield places, (0, self.files[file][0].size), 0
            return
        offsets = [run.offset for run in runs]
        for at, group in groupby(places, key=lambda place: bisect_right(offsets, place[0]) - 1):
            of_run = list(group)
            last = bisect_right(offsets, sum(of_run[-1]) - 1) - 1
            yield of_run, (runs[at].start, runs[last].end), runs[at].offset

    def _fetch_ranges(self, file: int, places: Sequence[tuple[int, int]], pool: ThreadPoolExecutor) -> None:
        """Read the records of an object that is not packed, those that are near each other with one request."""
        source = self.files[file][0].stored
        for first in range(0, len(runs := merge_places(places)), IN_FLIGHT):
            batch = runs[first : first + IN_FLIGHT]
            texts = pool.map(lambda run: read_range(source, *run), batch)
            self._write(file, (((start, end - start), text) for (start, end), text in zip(batch, texts, strict=True)))
        self.fetched.update((file, offset) for offset, _ in places)

    def _write(self, file: int, texts: Iterable[tuple[tuple[int, int], bytes]]) -> None:
        copy = self.folder / f"{file}"
        try:
            copy.touch()
            with copy.open("r+b") as to:
                for (offset, _), text in texts:
                    to.seek(offset)
                    to.write(text)
                    self.fetched.add((file, offset))
        except KarlError:
            raise
        except OSError as error:
            raise copy_error(self.files[file][0].name, error) from error


GAP_BYTES = 64 << 10
"""Bytes between two records that are read with them rather than asked for in two requests."""


def merge_places(places: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the ranges (start, end) of bytes that hold records at some places (offset, length), in ascending order."""
    ranges: list[tuple[int, int]] = []
    for offset, length in places:
        if ranges and offset - ranges[-1][1] <= GAP_BYTES and offset + length - ranges[-1][0] <= RANGE_BYTES:
            ranges[-1] = (ranges[-1][0], max(ranges[-1][1], offset + length))
        else:
            ranges.append((offset, offset + length))
    return ranges
