"""Contenders on the same arrays in one process, in turn: medians, and ratios to the first.

Every family's file beside this one has a `main` that makes the arrays, checks that the contenders agree, and calls
:func:`table`. ``--smoke`` makes the arrays small, so that the files can be run to see that they still do.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

SMOKE = "--smoke" in sys.argv
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
    return medians


def once(call: Callable[[], object]) -> float:
    found = [timed(call)]
    if found[0] < SHORT:
        found += [timed(call), timed(call)]
    return statistics.median(found)


def timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
