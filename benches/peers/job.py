"""What every peer shares: how a log is opened, the draw with NumPy, and the copy of the drawn lines.

A peer is run as `python by_NAME.py FORM LOG K OUT`, in a process of its own. Most read two columns first, draw, and
then copy the drawn lines as they stand: of what a user would write by hand, that is the fastest form.
"""

from __future__ import annotations

import gzip
import io
import sys
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

BETA = 15.0
EPS = 1e-6
CHUNK = 1 << 20


@dataclass(frozen=True)
class Job:
    log: str
    k: int
    out: str
    isal: bool = False  # unpack gzip with isa-l instead of zlib

    @property
    def packed(self) -> bool:
        return self.log.endswith((".gz", ".zst"))

    def lines(self) -> BinaryIO:
        """The unpacked log, to be read by line."""
        if self.log.endswith(".gz") and self.isal:
            from isal import igzip

            return igzip.open(self.log, "rb")
        if self.log.endswith(".gz"):
            return gzip.open(self.log, "rb")
        if self.log.endswith(".zst"):
            import zstandard

            return io.BufferedReader(zstandard.open(self.log, "rb"), CHUNK)
        return Path(self.log).open("rb", buffering=CHUNK)


class Codes(dict[str, int]):
    """Names numbered by first use."""

    def __missing__(self, name: str) -> int:
        return self.setdefault(name, len(self))


def advantages(codes: np.ndarray, rewards: np.ndarray) -> np.ndarray:
    """The z-score within each group, with the sample standard deviation."""
    count = np.bincount(codes)
    mean = np.bincount(codes, rewards) / np.maximum(count, 1)
    centred = rewards - mean[codes]
    std = np.sqrt(np.bincount(codes, centred**2) / np.maximum(count - 1, 1))
    return centred / (std[codes] + EPS)


def draw(scores: np.ndarray, k: int) -> np.ndarray:
    """The rows of the k largest Gumbel keys, in the order of the log."""
    keys = BETA * scores + np.random.default_rng(0).gumbel(size=len(scores))
    return np.sort(np.argpartition(-keys, k - 1)[:k])


def copy_lines(job: Job, rows: np.ndarray) -> None:
    """Reads the log once more and writes the drawn lines."""
    gaps = np.diff(rows, prepend=-1) - 1
    with job.lines() as source, Path(job.out).open("wb", buffering=CHUNK) as out:
        out.writelines(next(islice(source, int(gap), None)) for gap in gaps)


def copy_ranges(job: Job, offsets: np.ndarray, rows: np.ndarray) -> None:
    """Writes the drawn lines of a plain log; line i ends where line i + 1 begins."""
    with Path(job.log).open("rb") as source, Path(job.out).open("wb", buffering=CHUNK) as out:
        for row in rows:
            source.seek(offsets[row])
            out.write(source.read(offsets[row + 1] - offsets[row]))


def run(forms: dict[str, Callable[[Job], None]]) -> None:
    form, log, k, out = sys.argv[1:]
    name, _, unpacker = form.partition("+")
    forms[name](Job(log, int(k), out, isal=unpacker == "isal"))
