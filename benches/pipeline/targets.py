"""What a run should show, and whether it does. Never asserted in a test: machines differ, and share their cores.

Ratios of medians of one run; karl-fast with the most threads it was given, against the peers a user would put together.
Where a peer did not run, nothing is said.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MANY = 0.05  # from this share of the records on, writing them counts
START_SECONDS = 0.15
BASE_MIB, RECORD_BYTES, GROUP_BYTES = 64, 48, 128
TIMES_WC = 1.8
TWO_THREADS = 1.7
TEN_TIMES = 10.5  # ten, and a twentieth for noise
DISTURBED = 0.1  # from so many cores that others used on, a target that was missed says little


@dataclass(frozen=True)
class Result:
    """The medians of one job."""

    kind: str  # big or small records
    packing: str
    records: int
    groups: int
    record_bytes: float
    k: int
    ours: str
    seconds: dict[str, float]
    anonymous_mib: float | None
    start_seconds: float | None = None
    tenth_seconds: float | None = None
    others_cores: float = 0.0  # of the most disturbed contender

    @property
    def many(self) -> bool:
        return self.k >= MANY * self.records


@dataclass(frozen=True)
class Verdict:
    what: str
    got: float
    wanted: float
    at_least: bool
    timed: bool = True
    others_cores: float = 0.0

    @property
    def met(self) -> bool:
        return self.got >= self.wanted if self.at_least else self.got <= self.wanted

    def __str__(self) -> str:
        sign = ">=" if self.at_least else "<="
        said = f"{'met   ' if self.met else 'MISSED'}  {self.what}: {self.got:.3g} (wanted {sign} {self.wanted:.3g})"
        disturbed = self.timed and not self.met and self.others_cores >= DISTURBED
        return said + (f", while others used {self.others_cores:.2g} cores" if disturbed else "")


@dataclass(frozen=True)
class Faster:
    """How many times the time of karl-fast a peer takes at least."""

    peer: str  # or "best": whichever is fastest
    times: float
    kind: str
    packing: str = "plain"
    many: bool | None = None
    one_thread: bool = False

    def fits(self, result: Result) -> bool:
        same = (self.kind, self.packing) == (result.kind, result.packing)
        return same and self.many in (None, result.many)


FASTER = [
    Faster("msgspec", 4.0, "big", many=False),
    Faster("duckdb", 4.0, "big", many=False),
    Faster("polars", 5.0, "big", many=False),
    Faster("duckdb-statement", 10.0, "big", many=False),
    Faster("polars-full", 30.0, "big", many=False),
    Faster("pandas", 80.0, "big", many=False),
    Faster("msgspec", 2.5, "big", many=False, one_thread=True),
    Faster("duckdb", 3.5, "big", many=True),
    Faster("msgspec", 4.0, "big", many=True),
    Faster("duckdb", 3.0, "small"),
    Faster("polars", 3.0, "small"),
    Faster("msgspec", 6.0, "small"),
    Faster("pandas", 60.0, "small"),
    Faster("msgspec", 1.5, "big", "gz"),
    Faster("best", 1.3, "big", "zst"),
]
VALIDATING = 1.0
NO_PEERS = ("karl-fast", "wc", "cat")


def verdicts(result: Result) -> list[Verdict]:
    checks: list[Callable[[Result], Iterator[Verdict]]] = [faster, validating, floor, memory, start, threads, scale]
    return [replace(one, others_cores=result.others_cores) for check in checks for one in check(result)]


def faster(result: Result) -> Iterator[Verdict]:
    peers = {name: time for name, time in result.seconds.items() if not name.startswith(NO_PEERS)}
    for must in FASTER:
        ours = "karl-fast@1" if must.one_thread else result.ours
        theirs = min(peers.values(), default=None) if must.peer == "best" else peers.get(must.peer)
        if must.fits(result) and theirs and ours in result.seconds:
            yield Verdict(f"{must.peer} / {ours}", theirs / result.seconds[ours], must.times, True)


def validating(result: Result) -> Iterator[Verdict]:
    """A reader in C++ that checks the encoding of every byte, on as many threads, where there is little but reading."""
    for count in (1, 2):
        theirs, mine = (result.seconds.get(f"{name}@{count}") for name in ("simdjson", "karl-fast"))
        if theirs and mine and (result.kind, result.packing, result.many) == ("big", "plain", False):
            yield Verdict(f"simdjson@{count} / karl-fast@{count}", theirs / mine, VALIDATING, True)


def floor(result: Result) -> Iterator[Verdict]:
    """Counting lines, and what a process costs to start."""
    wc = result.seconds.get("wc -l")
    if wc and result.start_seconds and (result.kind, result.packing, result.many) == ("big", "plain", False):
        most = TIMES_WC * wc + result.start_seconds
        yield Verdict(f"seconds, {TIMES_WC} times wc -l and start-up", result.seconds[result.ours], most, False)


def memory(result: Result) -> Iterator[Verdict]:
    if result.anonymous_mib is not None:
        held = RECORD_BYTES * result.records + GROUP_BYTES * result.groups + result.k * result.record_bytes
        most = BASE_MIB + held / (1 << 20)
        yield Verdict(f"anonymous MiB of {result.ours}", result.anonymous_mib, most, False, timed=False)


def start(result: Result) -> Iterator[Verdict]:
    if result.start_seconds:
        yield Verdict("seconds for a log of 100 records", result.start_seconds, START_SECONDS, False)


def threads(result: Result) -> Iterator[Verdict]:
    """Whole, and without what a process costs to start, which no thread makes shorter and has a bound of its own."""
    pair = [result.seconds.get(f"karl-fast@{count}") for count in (1, 2)]
    if all(pair) and result.packing == "plain":
        yield Verdict("karl-fast@1 / karl-fast@2, start and all", pair[0] / pair[1], TWO_THREADS, True)
    if all(pair) and result.packing == "plain" and result.start_seconds:
        one, two = (seconds - result.start_seconds for seconds in pair)
        yield Verdict("karl-fast@1 / karl-fast@2 without start", one / two, TWO_THREADS, True)


def scale(result: Result) -> Iterator[Verdict]:
    """What a process costs to start is in both: it may be as long as the tenth, and its noise as the difference."""
    if result.tenth_seconds:
        grown = result.seconds[result.ours] / result.tenth_seconds
        yield Verdict("whole log / its first tenth", grown, TEN_TIMES, False)
