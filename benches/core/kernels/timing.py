"""Contenders on the same arrays in one process, in turn: medians, and ratios to the first.

Every family's file beside this one has a `main` that makes the arrays, checks that the contenders agree, and calls
:func:`table`. ``--smoke`` makes the arrays small, so that the files can be run to see that they still do; ``--record``
keeps the medians in ``record/kernels.json``, a table a number of cores.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.append(str(Path(__file__).resolve().parents[2] / "record"))

import record

if TYPE_CHECKING:
    from collections.abc import Callable

SMOKE = "--smoke" in sys.argv
KEPT = record.RECORD / "kernels.json"
SHORT = 0.05  # seconds: a call shorter than this is made three times in a row, and the middle one counts


def table(title: str, contenders: dict[str, Callable[[], object]], rounds: int = 5) -> dict[str, float]:
    """Run the contenders in turn, print a line each, and give the median seconds of each by name."""
    for call in contenders.values():
        call()
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(1 if SMOKE else rounds):
        for name, call in contenders.items():
            times[name].append(once(call))
    medians = {name: statistics.median(found) for name, found in times.items()}
    first = next(iter(medians.values()))
    print(f"\n{title}")
    for name, median in medians.items():
        print(f"  {name:32} {median * 1e3:12.3f} ms {median / first:10.2f}x")
    if "--record" in sys.argv:
        keep(f"{title}; cores: {len(os.sched_getaffinity(0))}", medians)
    return medians


def keep(title: str, medians: dict[str, float]) -> None:
    """Put a table, in milliseconds, beside those that are kept."""
    tables = json.loads(KEPT.read_text("utf-8"))["tables"] if KEPT.exists() else {}
    tables[title] = {name: round(median * 1e3, 3) for name, median in medians.items()}
    kept = {"machine": record.facts(), "tables": dict(sorted(tables.items()))}
    KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def once(call: Callable[[], object]) -> float:
    found = [timed(call)]
    if found[0] < SHORT:
        found += [timed(call), timed(call)]
    return statistics.median(found)


def timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
