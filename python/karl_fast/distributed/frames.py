"""Runs of frames of a zstd file, each of which a worker can unpack alone.

Frames are listed by the seek table at the end of a file (the seekable format of zstd), else by walking over the headers
of frames and blocks without unpacking them. Of an object in a store the table alone is read: a walk would need every
byte of it. Where frames do not state what they unpack to, as those of `pzstd`, workers unpack each run once to know.

Source: RFC 8878, section 3.1, for frames and blocks; "Zstandard Seekable Format" 0.1.1 in zstd's repository for the
table.
"""

from __future__ import annotations

import os
import struct
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from karl_fast.stores import read_range

if TYPE_CHECKING:
    from collections.abc import Callable

    from karl_fast.log.objects import LogObject

    Read = Callable[[int, int], bytes]
    """Returns the bytes from an offset on, up to a length."""

FRAME_MAGIC, TABLE_MAGIC, SEEKABLE_MAGIC = 0xFD2FB528, 0x184D2A5E, 0x8F92EAB1

SKIPPABLE_MAGICS = range(0x184D2A50, 0x184D2A60)

FOOTER_BYTES = 9
"""Bytes at the end of a seek table: the number of frames, a descriptor, and the magic number."""

HEADER_BYTES = 18
"""The longest header of a frame."""

RLE_BLOCK, RESERVED_BLOCK = 1, 3

MAX_FRAMES = 1 << 24
"""Frames of a table that are read at most: the format allows more, no writer makes them."""


class Frame(NamedTuple):
    """A frame of a packed file.

    Attributes:
        start, end: its bytes in the file.
        size: bytes that it unpacks to; None where it does not state them.
    """

    start: int
    end: int
    size: int | None


class Run(NamedTuple):
    """Frames that one task unpacks.

    Attributes:
        start, end: their bytes in the file.
        offset: bytes that the frames before them unpack to.
        size: bytes that they unpack to.
    """

    start: int
    end: int
    offset: int
    size: int


def read_frames(source: LogObject) -> list[Frame] | None:
    """Return the frames of a zstd file in order; None where they are not known without unpacking it.

    Raises:
        FileError: it cannot be read.
        LogChangedError: an object changed.
    """
    if source.is_stored:
        return _read_table(lambda at, length: read_range(source.stored, at, at + length), source.size)
    with Path(source.name).open("rb") as file:

        def read(at: int, length: int) -> bytes:
            return os.pread(file.fileno(), length, at)

        return _read_table(read, source.size) or _walk(read, source.size)


def _read_table(read: Read, size: int) -> list[Frame] | None:
    """Return the frames of the table at the end of a file; None where it has none, or a damaged one."""
    if size < FOOTER_BYTES + 8:
        return None
    count, descriptor, magic = struct.unpack("<IBI", read(size - FOOTER_BYTES, FOOTER_BYTES))
    entry = 12 if descriptor & 0x80 else 8
    length = 8 + count * entry + FOOTER_BYTES
    if magic != SEEKABLE_MAGIC or descriptor & 0x7C or not 0 < count <= MAX_FRAMES or length > size:
        return None
    table = read(size - length, length)
    if struct.unpack_from("<II", table) != (TABLE_MAGIC, length - 8):
        return None
    sizes = [struct.unpack_from("<II", table, 8 + at * entry) for at in range(count)]
    ends = list(accumulate(packed for packed, _ in sizes))
    if ends[-1] != size - length:
        return None
    return [Frame(end - packed, end, unpacked) for end, (packed, unpacked) in zip(ends, sizes, strict=True) if packed]


def _walk(read: Read, size: int) -> list[Frame] | None:
    """Return the frames of a file by their headers; None where one is damaged."""
    frames: list[Frame] = []
    at = 0
    while at < size:
        head = read(at, HEADER_BYTES)
        if len(head) < 8:
            return None
        magic, length = struct.unpack_from("<II", head)
        if magic in SKIPPABLE_MAGICS:
            at += 8 + length
            continue
        end = _frame_end(read, at, head) if magic == FRAME_MAGIC else None
        if end is None or end > size:
            return None
        frames.append(Frame(at, end, _stated_size(head)))
        at = end
    return frames


def _stated_size(head: bytes) -> int | None:
    """Return the unpacked size that the header of a frame states, if it does."""
    descriptor = head[4]
    single = bool(descriptor & 0x20)
    width = (1 if single else 0, 2, 4, 8)[descriptor >> 6]
    if not width:
        return None
    at = _header_end(head) - width
    size = int.from_bytes(head[at : at + width], "little")
    return size + 256 if width == 2 else size


def _header_end(head: bytes) -> int:
    descriptor = head[4]
    single = bool(descriptor & 0x20)
    dictionary = (0, 1, 2, 4)[descriptor & 3]
    return 5 + (not single) + dictionary + (1 if single else 0, 2, 4, 8)[descriptor >> 6]


def _frame_end(read: Read, start: int, head: bytes) -> int | None:
    """Return the offset after a frame, by the headers of its blocks; None where one is damaged."""
    at = start + _header_end(head)
    while True:
        block = read(at, 3)
        if len(block) < 3:
            return None
        header = int.from_bytes(block, "little")
        last, kind, length = header & 1, header >> 1 & 3, header >> 3
        if kind == RESERVED_BLOCK:
            return None
        at += 3 + (1 if kind == RLE_BLOCK else length)
        if last:
            return at + (4 if head[4] & 4 else 0)


def group_frames(frames: list[Frame], split_bytes: int) -> list[tuple[int, int, int | None]]:
    """Return runs of frames of about ``split_bytes`` unpacked: where each begins and ends, and its size if stated."""
    runs: list[tuple[int, int, int | None]] = []
    run: list[Frame] = []
    total = 0
    for frame in frames:
        run.append(frame)
        # By the packed bytes of a frame that does not state what it unpacks to.
        total += USUAL_RATIO * (frame.end - frame.start) if frame.size is None else frame.size
        if frame is frames[-1] or total >= split_bytes:
            sizes = [frame.size for frame in run]
            size = None if None in sizes else sum(filter(None, sizes))
            runs.append((run[0].start, run[-1].end, size))
            run, total = [], 0
    return runs


USUAL_RATIO = 4
"""Bytes of a log to each packed one."""
