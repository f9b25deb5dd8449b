"""Contenders in turn on one log, and whether they did the job."""

from __future__ import annotations

import json
import shutil
import statistics
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from measure import Run, measure, warm

if TYPE_CHECKING:
    from contenders import Contender

TENTH = "a tenth"


@dataclass
class Job:
    """One log and one k, and what was measured."""

    log: str
    k: int
    members: list[Contender]
    runs: dict[str, list[Run]] = field(default_factory=dict)
    records: int = 0
    groups: int = 0

    @property
    def size(self) -> int:
        return Path(self.log).stat().st_size

    def median(self, name: str, what: str = "seconds") -> float | None:
        values = [getattr(run, what) for run in self.runs.get(name, [])]
        return statistics.median(values) if values and None not in values else None


def run_in_turn(job: Job, rounds: int, scale: bool) -> None:
    """Every contender in turn; one round more than asked for, the first of them to warm up."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tenth = first_tenth(job, folder / "tenth.jsonl") if scale else None
        for turn in range(rounds + 1):
            runs = {member.name: once(member, job.log, job.k, folder / member.name) for member in job.members}
            if tenth:
                runs[TENTH] = once(job.members[0], tenth, max(job.k // 10, 1), folder / TENTH)
            for member, run in runs.items() if turn else ():
                job.runs.setdefault(member, []).append(run)
        check(job, folder)


def once(member: Contender, log: str, k: int, out: Path) -> Run:
    """One run; what the one before it wrote is gone, which would else be a part of it."""
    if out.is_dir():
        shutil.rmtree(out)
    out.unlink(missing_ok=True)
    warm(log)
    return measure(member.filled(log, k, out))


def first_tenth(job: Job, path: Path) -> str:
    """The first tenth of a plain log, to the end of a line."""
    with Path(job.log).open("rb") as source, path.open("wb") as out:
        left = job.size // 10
        while left > 0:
            left -= out.write(source.read(min(left, 1 << 24)))
        out.write(source.readline())
    return str(path)


def check(job: Job, folder: Path) -> None:
    """Every contender wrote k distinct records, and karl-fast the same ones whatever the threads."""
    mine: set[bytes] = set()
    for member in (member for member in job.members if member.rows):
        rows = (folder / member.name / member.written).read_bytes()
        if (distinct := len(set(rows.splitlines()))) != job.k:
            raise SystemExit(f"{member.name} wrote {distinct} distinct records, wanted {job.k}")
        mine |= {rows} if member.name.startswith("karl-fast@") else set()
    if len(mine) != 1:
        raise SystemExit("other threads drew other records")
    manifest = json.loads((folder / job.members[0].name / "manifest.json").read_text())
    job.records, job.groups = manifest["accounting"]["rows_read"], manifest["groups"]["count"]
