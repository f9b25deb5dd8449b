"""Outcome of a run whose n-th system call fails, for every n: `python -m tests.robustness.faults` prints it.

The jobs read a log in each of the ways there are, into a place that is empty or holds an older data set. One call of
one run fails; the next run has the next call fail, until a run meets no fault any more.
"""

from __future__ import annotations

import csv
import errno
import gzip
import os
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests import rows
from tests.robustness.fault_process import Server, server, unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.robustness.fault_process import Done

FAULTS = {
    "open": ("EIO", "ENOSPC", "EDQUOT", "EMFILE", "EINTR"),
    "read": ("EIO",),
    "write": ("ENOSPC", "EDQUOT", "EIO"),
    "fsync": ("EIO", "ENOSPC", "EDQUOT", "EINTR"),
    "rename": ("EIO", "ENOSPC", "EDQUOT"),
    "mkdir": ("EIO", "ENOSPC", "EDQUOT"),
    "lseek": ("EIO",),
    "stat": ("EIO", "EACCES"),
    "opendir": ("EIO", "EACCES"),
    "readdir": ("EIO",),
    "rmdir": ("EIO",),
    "unlink": ("EIO",),
}
"""Which errors each function is made to give."""

HOW = ("-k", 6, "--seed", 3, "-q")
LITTER = ".data.karl-fast-"


@dataclass(frozen=True)
class Job:
    """One way to run the command: what it reads, whether an older output is there, and how that is replaced."""

    logs: tuple[str, ...] = ("log.jsonl",)
    out: str = "data"
    old: bool = False
    shape: str = "chat"
    more: tuple[str, ...] = ()
    stdin: str | None = None
    exchange: int | None = None

    def run(self, shim: Server, folder: Path, **fault: object) -> Done:
        stdin = folder.parent / self.stdin if self.stdin else Path(os.devnull)
        more = (*self.more, *(("--force",) if self.old else ()))
        arguments = ("sample", *self.logs, "-o", self.out, "--as", self.shape, *HOW, *more)
        return shim.run(*arguments, folder=folder, stdin=stdin, exchange=self.exchange, **fault)  # type: ignore[arg-type]


JOBS = {
    "new": Job(),
    "new, in new folders": Job(out="a/b/data"),
    "new, by a plain rename": Job(exchange=errno.EINVAL),
    "replaced": Job(old=True),
    "replaced by two renames": Job(old=True, exchange=errno.EINVAL),
    "replaced by long records as they came": Job(logs=("log-of-long.jsonl",), shape="raw", old=True),
    "of long records that are read once": Job(logs=("log-of-long.jsonl",), shape="raw", more=("--allow-secrets",)),
    "of long records of which one is no row": Job(
        logs=("log-of-one-bad.jsonl",), shape="raw", more=("--allow-secrets", "-k", "12")
    ),
    "from a folder of packed logs": Job(logs=("logs",)),
    "from standard input": Job(logs=("-",), stdin="stdin.jsonl"),
}


class Place:
    """A folder with logs, and perhaps an older output, made anew for every run."""

    def __init__(self, base: Path, shim: Server, job: Job) -> None:
        self.base, self.shim, self.job = base, shim, job
        self.pristine, self.folder = base / "pristine", base / "folder"
        long = (row | {"more": "x" * 8192} for row in rows.records(12))
        logs = self.pristine / "logs" / "deeper"
        logs.mkdir(parents=True)
        (self.pristine / "tmp").mkdir()
        rows.write(self.pristine / "log.jsonl", rows.records(12))
        rows.write(self.pristine / "log-of-long.jsonl", long)
        one_bad = (self.pristine / "log-of-long.jsonl").read_text().replace("xx", r"\q", 1)
        (self.pristine / "log-of-one-bad.jsonl").write_text(one_bad)
        rows.write(base / "stdin.jsonl", rows.records(12))
        (logs / "log.jsonl.gz").write_bytes(gzip.compress(rows.dumps(rows.records(12)).encode()))
        rows.write(logs.parent / "other.jsonl", rows.records(4))
        self.old = self._once("--seed", 1) if job.old else None
        if self.old is not None:
            shutil.copytree(self.folder / "data", self.pristine / "data")
        self.reset()
        done = job.run(shim, self.folder)
        assert done.code == 0, done.err
        self.new = rows.files(self.folder / job.out)
        assert self.new != self.old

    def _once(self, *more: object) -> dict[str, bytes]:
        self.reset()
        done = self.shim.run("sample", "log.jsonl", "-o", "data", *HOW, *more, folder=self.folder)
        assert done.code == 0, done.err
        return rows.files(self.folder / "data")

    def reset(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.pristine, self.folder)

    def output(self) -> str:
        """What stands at the target: `nothing`, `old`, `new`, or `broken`."""
        out = self.folder / self.job.out
        if not out.exists():
            return "nothing"
        found = rows.files(out) if (out / "manifest.json").exists() else {}
        return {str(self.old): "old", str(self.new): "new"}.get(str(found), "broken")

    def litter(self) -> list[str]:
        """What lies there that did not before, the output itself aside."""
        before = {str(path.relative_to(self.pristine)) for path in self.pristine.rglob("*")}
        now = {str(path.relative_to(self.folder)) for path in self.folder.rglob("*")}
        out = self.job.out
        ours = {out, *(str(parent) for parent in Path(out).parents)} if self.output() == "new" else {out}
        return sorted(path for path in now - before if path not in ours and not path.startswith(out + "/"))


def outcomes(place: Place, function: str, action: str) -> Iterator[tuple[int, Done, str, list[str]]]:
    """For n = 1, 2, ...: the n-th call fails; what the run said, what stands at the target, and the litter."""
    number = getattr(errno, action, action)
    for at in range(1, 10_000):
        place.reset()
        done = place.job.run(place.shim, place.folder, function=function, at=at, action=number)
        if not done.hits:
            assert (done.code, place.output(), place.litter()) == (0, "new", []), done.err
            return
        yield at, done, place.output(), place.litter()


def kind(place: Place, done: Done, output: str, litter: list[str]) -> str:
    """One outcome in words; those that begin with BAD break law 4."""
    first, *hints = done.err.splitlines() or [""]
    if done.code == 0 and output == "new" and not litter:
        return "done"
    if done.code == 0 and output == "new":
        return "done, litter"
    if done.code < 0 or "Traceback" in done.err or "panicked" in done.err or output == "broken":
        return f"BAD: code {done.code}, output {output}: {done.err[-300:]}"
    named = any(name in first for name in (place.job.out, "log", "stdin", "tmp", "-", str(place.folder)))
    # The hidden folder is named where it is left, and nowhere else.
    hidden = LITTER in done.err and not litter
    if done.code != 1 or not first.startswith("error: ") or not named or hidden or len(hints) > 1:
        return f"BAD: code {done.code}, output {output}: {done.err}"
    return f"error, {output if output != 'nothing' else 'nothing left'}" + (", litter" if litter else "")


def matrix(shim: Server, base: Path, faults: dict[str, tuple[str, ...]]) -> Iterator[tuple[str, str, str, str, int]]:
    """Job, function, fault, what became of it, and how many calls fared so."""
    for title, job in JOBS.items():
        place = Place(base / title.replace(" ", "-"), shim, job)
        for function, actions in faults.items():
            for action in actions:
                fates = Counter(
                    kind(place, done, out, litter) for _, done, out, litter in outcomes(place, function, action)
                )
                yield from ((title, function, action, fate, count) for fate, count in sorted(fates.items()))


def main() -> int:
    """Print the matrix as CSV."""
    if reason := unavailable():
        print(reason, file=sys.stderr)
        return 2
    out = csv.writer(sys.stdout)
    out.writerow(("job", "function", "fault", "outcome", "calls"))
    bad = 0
    with tempfile.TemporaryDirectory() as scratch, server() as shim:
        for row in matrix(
            shim, Path(scratch), FAULTS | {"read": ("EIO", "short"), "write": (*FAULTS["write"], "short")}
        ):
            out.writerow(row)
            bad += row[3].startswith("BAD")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
