"""What was measured, as a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turns import Job

WIDTH = 15
DIGITS = {"cpu_seconds": 2, "anonymous_mib": 0, "resident_mib": 0, "others_cores": 2}


def rows(job: Job, ours: str) -> list[dict[str, object]]:
    base = job.median(ours) or 1.0
    title = f"{Path(job.log).name}, {job.size / 1e9:.3g} GB, {job.records} records, k = {job.k}"
    return [{"log": title, "contender": name, **row(job, name, base)} for name in job.runs]


def row(job: Job, name: str, base: float) -> dict[str, object]:
    seconds = [run.seconds for run in job.runs[name]]
    median = job.median(name) or 0.0
    return {
        "seconds": round(median, 3),
        "least": round(min(seconds), 3),
        "most": round(max(seconds), 3),
        "times_ours": round(median / base, 2),
        **{what: rounded(job.median(name, what), digits) for what, digits in DIGITS.items()},
    }


def rounded(value: float | None, digits: int) -> float | None:
    return value if value is None else round(value, digits)


def show(table: list[dict[str, object]]) -> None:
    print(f"\n{table[0]['log']}")
    head = [name for name in table[0] if name != "log"]
    for values in [head, *([one[name] for name in head] for one in table)]:
        texts = ["-" if value is None else str(value) for value in values]
        print(f"{texts[0]:24}" + "".join(f"{text:>{WIDTH}}" for text in texts[1:]), flush=True)
