"""Splits of files, and what a worker does with one: scan it, or read the records drawn of a packed file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from karl_fast import _core
from karl_fast.log.objects import copied_range, refuse_changed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karl_fast.distributed.frames import Run
    from karl_fast.log.objects import LogObject

SPLIT_BYTES = 64 << 20
"""Bytes of a file that one task reads: a few seconds of work, of which starting the task is little."""

TAIL_BYTES = 1 << 20
"""Bytes after a split that are read with it, for its last record."""

Form = tuple[str, str | None, str, int | None, str]
"""Layout, key, format, number of a file beside it, and compression, as the extension takes them."""


@dataclass(frozen=True)
class Split:
    """Bytes of a file that one task scans.

    Attributes:
        file: index of the file.
        source: the file.
        form: its layout and format.
        start, end: range of the unpacked file in which the records of the split begin.
        whole: True if it is the whole file, which may be packed or of any layout.
        frames: bytes of a packed file that unpack to the range.
    """

    file: int
    source: LogObject
    form: Form
    start: int
    end: int
    whole: bool
    frames: tuple[int, int] | None = None

    def __str__(self) -> str:
        place = "" if self.whole else f", bytes {self.start:,} to {self.end:,}"
        return f"scanning {self.source.name}{place}"


class ScannedSplit(NamedTuple):
    """Columns that a worker read of a split.

    Attributes:
        part: its rows and counts; empty if the file has to be scanned as a whole.
        beyond: True if a record spans several lines, or frames are damaged, so that the file has to be scanned as a
            whole.
    """

    part: bytes
    beyond: bool


def split_file(
    file: int, source: LogObject, form: Form, split_bytes: int, *, whole: bool = False, runs: Sequence[Run] = ()
) -> list[Split]:
    """Return the splits of a file: ranges of one of plain lines, runs of frames, and all of any other."""
    layout, *_, codec = form
    if runs and not whole:
        return [
            Split(file, source, form, run.offset, run.offset + run.size, False, (run.start, run.end)) for run in runs
        ]
    if whole or layout != "lines" or codec != "plain" or source.size <= split_bytes:
        return [Split(file, source, form, 0, source.size, True)]
    starts = range(0, source.size, split_bytes)
    return [Split(file, source, form, start, min(start + split_bytes, source.size), False) for start in starts]


def scan_split(settings: dict[str, Any], split: Split) -> ScannedSplit:
    """Scan the records that begin in a split; runs on a worker.

    Raises:
        FileError: the file cannot be read.
        LogChangedError: it is not the file that was planned.
    """
    splits, source = _core.LogSplits(**settings), split.source
    first, last = split.frames or (max(0, split.start - 1), split.end)
    tail = TAIL_BYTES
    while True:
        end = source.size if split.whole else min(source.size, last + tail)
        with copied_range(source, first, end) as (copy, base):
            part, beyond, ended = splits.scan(
                copy,
                source.name,
                split.form,
                range=None if split.whole else (split.start, split.end),
                frames=split.frames,
                base=base,
            )
            refuse_changed(source)
        if split.whole or not ended or end == source.size:
            return ScannedSplit(part, beyond)
        tail *= 8  # the last record is longer


def unpacked_size(source: LogObject, frames: tuple[int, int]) -> int | None:
    """Return what frames of a packed file unpack to, None if they are damaged; runs on a worker."""
    with copied_range(source, *frames) as (copy, base):
        size = _core.LogSplits.unpacked_size(copy, source.name, frames, base)
        refuse_changed(source)
    return size


def read_packed(source: LogObject, places: list[tuple[int, int]], frames: tuple[int, int], offset: int) -> list[bytes]:
    """Return the records at some places of a packed file, in ascending order of offsets; runs on a worker.

    Args:
        source: the file.
        places: offset and length of each in the unpacked file.
        frames: bytes of the file that hold them.
        offset: that of the first of these bytes in the unpacked file.
    """
    with copied_range(source, *frames) as (copy, base):
        records = _core.LogSplits.records(copy, source.name, places, start=(frames[0] - base, offset))
        refuse_changed(source)
    return records
