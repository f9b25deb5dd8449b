"""How long KARL's rewards take, beside KARL: from the lines of a log, from columns, and of a whole store.

    python benches/pipeline/reward.py --karl KARL_V1 --karl KARL_V2     # checkouts of v1.0.0 and c41d1c5
    python benches/pipeline/reward.py ... --record                      # keeps the table as record/reward.json
    python benches/pipeline/reward.py --smoke                           # does it still run?

Without a checkout of a version its plain twin of the tests stands in KARL's place. Contenders take turns in one process
on one core, and what counts is the median of the processor's time, which a busy machine disturbs least. What they
compute is compared first. The clock is asked for the share of a second core alone.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import orjson

from karl_fast import reward

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.properties.karl_columns import columns
from tests.properties.karl_records import tapped
from tests.properties.naive import reward as naive

sys.path.append(str(Path(__file__).resolve().parents[1] / "record"))
from record import RECORD, facts

if TYPE_CHECKING:
    from collections.abc import Callable

    Contenders = dict[str, Callable[[], Any]]

RECORDS = 4_000
ROUNDS = 7
SHORT = 0.1  # seconds: a call that is shorter is made again and again, and the mean counts
VERSIONS: tuple[Any, ...] = ("v1", "v2")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--karl", action="append", default=[], metavar="CHECKOUT")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument(
        "--wall", nargs=2, metavar=("LOG", "VERSION"), help="print the seconds of one call, and no more"
    )
    given = parser.parse_args()
    if given.wall:
        print(wall(*given.wall))
        return
    cores = alone()
    engines = {version: twin(version) for version in VERSIONS}
    for checkout in given.karl:
        version, engine = karl(checkout)
        engines[version] = engine
    records, rounds = (200, 1) if given.smoke else (RECORDS, ROUNDS)
    rows = [row for version in VERSIONS for row in measured(version, engines[version], records, rounds, cores)]
    if given.record:
        kept = {"machine": facts(), "records": records, "rounds": rounds, "rows": rows}
        (RECORD / "reward.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def alone() -> set[int]:
    """Keeps this process on one core, where that can be asked; the cores that there were."""
    if not hasattr(os, "sched_setaffinity"):
        return set()
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    return cores


def twin(version: Any) -> Any:
    """The plain twin, which has no store."""
    return SimpleNamespace(compute_reward=lambda record: naive.reward(record, version), name="plain Python")


def karl(checkout: str) -> tuple[str, Any]:
    """KARL's own engine, and its version; another checkout's is forgotten before."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "karl"]:
        del sys.modules[name]
    sys.path.insert(0, checkout)
    engine: Any = importlib.import_module("karl.reward_engine")
    sys.path.remove(checkout)
    engine.name = "KARL"
    return ("v2" if hasattr(engine, "W_MOTION") else "v1"), engine


def measured(version: Any, engine: Any, count: int, rounds: int, cores: set[int]) -> list[dict[str, Any]]:
    """The rows of a version."""
    random = Random(0)
    records = [tapped(random) for _ in range(count)]
    lines = [json.dumps(one).encode() for one in records]
    log = b"\n".join(lines)
    print(f"\n{version}, {count:,} records of {len(log) // count:,} bytes and {events(records) / count:.1f} calls")
    rows = table("log", from_lines(version, engine, lines, log), count, rounds)
    rows += table("columns", from_columns(version, engine, records), count, rounds)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder, "store.jsonl")
        store.write_bytes(log + b"\n")
        if len(cores) > 1:
            rows.append(scaling(version, store, rounds, cores))
        if hasattr(engine, "backfill_rewards"):
            rows += table("store", of_store(version, engine, store), count, rounds)
    return [{"version": version, **row} for row in rows]


def events(records: list[dict[str, Any]]) -> int:
    return sum(len(one["trajectory"]["events"]) for one in records)


def from_lines(version: Any, engine: Any, lines: list[bytes], log: bytes) -> Contenders:
    def plainly(loads: Callable[[bytes], Any]) -> list[float]:
        return [engine.compute_reward(loads(line))["reward_score"] for line in lines]

    contenders: Contenders = {
        f"json, {engine.name}": lambda: plainly(json.loads),
        f"orjson, {engine.name}": lambda: plainly(orjson.loads),
        "karl-fast, a dict a line": lambda: [reward.compute_reward(line, version=version) for line in lines],
        "karl-fast": lambda: reward.compute_rewards(log, version=version),
    }
    whole = [engine.compute_reward(json.loads(line)) for line in lines]
    assert contenders["karl-fast, a dict a line"]() == whole
    assert contenders["karl-fast"]().tolist() == [one["reward_score"] for one in whole]
    return contenders


def from_columns(version: Any, engine: Any, records: list[dict[str, Any]]) -> Contenders:
    calls = columns(records)
    contenders: Contenders = {
        f"{engine.name}, from dicts": lambda: [engine.compute_reward(one)["reward_score"] for one in records],
        "karl-fast, from columns": lambda: reward.compute_call_rewards(calls, version=version),
    }
    first, ours = (call() for call in contenders.values())
    assert ours.tolist() == first
    return contenders


def of_store(version: Any, engine: Any, store: Path) -> Contenders:
    """A store of which a third is scored; each call has a copy of its own."""
    copy = store.with_name("copy.jsonl")
    engine.STORE_PATH = copy

    def fresh(call: Callable[[], Any]) -> Any:
        shutil.copy(store, copy)
        return call()

    def ours(**options: Any) -> Any:
        return reward.backfill_rewards(path=copy, version=version, **options)

    contenders: Contenders = {
        f"{engine.name}, backfill": lambda: fresh(engine.backfill_rewards),
        "karl-fast, backfill": lambda: fresh(ours),
    }
    written = [(call(), copy.read_bytes())[1] for call in contenders.values()]
    assert written[0] == written[1]
    return contenders


def scaling(version: Any, log: Path, rounds: int, cores: set[int]) -> dict[str, Any]:
    """One core beside two, by the clock, each in a process of its own."""
    found: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(rounds):
        for count, seconds in found.items():
            some = sorted(cores)[-count:]
            command = [sys.executable, __file__, "--wall", str(log), version]
            run = subprocess.run(
                command,
                check=True,
                capture_output=True,
                text=True,
                preexec_fn=lambda some=some: os.sched_setaffinity(0, some),
            )
            seconds.append(float(run.stdout))
    one, two = (min(seconds) for seconds in found.values())
    print(f"  {'two cores beside one, by the clock':36} {'':12} {one / two:8.2f}x")
    return {"kind": "cores", "contender": "karl-fast", "one_core_seconds": found[1], "two_cores_seconds": found[2]}


def wall(log: str, version: Any) -> float:
    """The least seconds of one call on enough lines to be worth two cores."""
    text = Path(log).read_bytes() * 10
    times = []
    for _ in range(5):
        start = time.perf_counter()
        reward.compute_rewards(text, version=version)
        times.append(time.perf_counter() - start)
    return min(times)


def table(kind: str, contenders: Contenders, count: int, rounds: int) -> list[dict[str, Any]]:
    """Prints the microseconds that a record takes, and how many times less than the first that is."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, call in contenders.items():
            times[name].append(processor(call) / count * 1e6)
    medians = {name: statistics.median(found) for name, found in times.items()}
    first = next(iter(medians.values()))
    for name, median in medians.items():
        print(f"  {name:36} {median:9.3f} us {first / median:8.2f}x")
    return [{"kind": kind, "contender": name, "microseconds": found} for name, found in times.items()]


def processor(call: Callable[[], Any]) -> float:
    """Seconds of the processor."""
    calls, start = 0, time.process_time()
    while calls == 0 or time.process_time() - start < SHORT:
        call()
        calls += 1
    return (time.process_time() - start) / calls


if __name__ == "__main__":
    main()
