"""What each step of a draw over many machines costs, and what follows for 100 workers and 10 TB.

    python benches/pipeline/distributed.py FOLDER                           # 10 million records of 300 bytes
    python benches/pipeline/distributed.py FOLDER --records 100000 --record-bytes 12000
    python benches/pipeline/distributed.py FOLDER --files 1 --peers --record

Groups are skewed: one has half of all records, and the sizes of the others fall as 1/rank, so that most have few.
The draw of worker processes is compared byte by byte with that of one machine. Every term of the sum at the end is
measured by this run, but for the speed of the network, which is an argument.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import karl_fast
from karl_fast import _core, distributed
from karl_fast.distributed.splits import scan_split, split_file
from karl_fast.distributed.tasks import run_tasks
from karl_fast.log.log import reader_settings
from karl_fast.log.objects import LogObject, local_object

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

sys.path.append(str(Path(__file__).resolve().parents[1] / "record"))
from record import RECORD
from record import facts as facts_of_machine

FILES = 8
EMPTY_TASKS = 2000
PEERS = {"duckdb": "two-columns", "polars": "two-columns"}
"""Peers that read two columns, draw with NumPy and copy the drawn lines, each with the form that does."""


def write_log(folder: Path, records: int, record_bytes: int, num_files: int) -> list[Path]:
    """Write files of records with skewed groups, the same for the same arguments."""
    rng = random.Random(7)
    words = [f"{rng.getrandbits(64):x}" for _ in range(5000)]
    text = " ".join(rng.choices(words, k=4 * max(record_bytes, 1000) // 16 + 1000))
    # Ranks whose logarithm is even: a group of rank r has about records / (2 r ln(groups)) rows, and group 0 half.
    groups = max(2, records // 8)
    paths = [folder / f"log-{at}.jsonl" for at in range(num_files)]
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(path.open("w")) for path in paths]
        for number in range(records):
            group = 0 if number % 2 else int(groups ** rng.random())
            at = rng.randrange(len(text) - record_bytes)
            size = max(10, record_bytes - 170)
            files[number % num_files].write(
                f'{{"id":"run-{number:09}","group":"task-{group}","messages":[{{"role":"user","content":"{number}"}},'
                f'{{"role":"assistant","content":"{text[at : at + size]}"}}],"reward":{rng.random():.6f}}}\n'
            )
    return paths


def status(name: str) -> int:
    """A number of bytes in /proc/self/status."""
    found = re.search(rf"^{name}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    return 1024 * int(found[1]) if found else 0


def timed(work: Callable[[], object]) -> tuple[float, float, object]:
    """Seconds on the clock and of this process's CPUs, and what the work gave."""
    start, cpu = time.perf_counter(), time.process_time()
    result = work()
    return time.perf_counter() - start, time.process_time() - cpu, result


def nothing() -> None:
    """A task that only costs its way there and back."""


def measure_parts(objects: Sequence[LogObject], settings: karl_fast.Settings, split_bytes: int) -> dict[str, float]:
    """The cost of scanning, a worker's, and of joining, the driver's, in this process."""
    reader = reader_settings(settings, fingerprint=False)
    probe = _core.LogSplits(**reader)
    forms = [probe.probe(source.name, source.name, False, False)[1] for source in objects]
    splits = [
        split
        for file, (source, form) in enumerate(zip(objects, forms, strict=True))
        if form is not None
        for split in split_file(file, source, form, split_bytes)
    ]
    part_bytes, places, offset = 0, [], 0
    with tempfile.TemporaryDirectory() as folder:
        spool = Path(folder, "parts")
        with spool.open("wb") as to:
            start, cpu = time.perf_counter(), time.process_time()
            for split in splits:
                part = scan_split(reader, split).part
                to.write(part)
                places.append((split.file, offset, len(part)))
                offset += len(part)
            scan, scan_cpu = time.perf_counter() - start, time.process_time() - cpu
        part_bytes = offset
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        before = status("VmRSS")
        join, join_cpu, core = timed(lambda: probe.join(str(spool), places, copies=[]))
        peak, held = status("VmHWM") - before, status("VmRSS") - before
    assert isinstance(core, _core.Log)
    rows = len(core)
    return {
        "splits": len(splits),
        "scan_seconds": scan,
        "scan_cpu_seconds": scan_cpu,
        "part_bytes_per_record": part_bytes / rows,
        "join_seconds": join,
        "join_cpu_seconds": join_cpu,
        "join_peak_bytes_per_record": peak / rows,
        "log_bytes_per_record": held / rows,
    }


def measure_draw(paths: Sequence[Path], settings: karl_fast.Settings, k: int, folder: Path) -> dict[str, float]:
    """The cost of everything after the join, and whether processes draw what one machine draws."""
    one, one_cpu, _ = timed(lambda: karl_fast.sample(paths, folder / "one", settings, k=k))
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        list(pool.map(nothing_of, range(4)))  # processes that have started
        start = time.perf_counter()
        for _ in run_tasks(pool, nothing, [()] * EMPTY_TASKS, str):
            pass
        task = (time.perf_counter() - start) / EMPTY_TASKS
        start = time.perf_counter()
        with distributed.read(paths, settings, executor=pool) as log:
            read = time.perf_counter() - start
            # With one row the cost is that of the columns; the others are read, rendered and written.
            columns = min(timed(lambda: karl_fast.sample(log, None, k=1))[1] for _ in range(2))
            _, draw, _ = timed(lambda: karl_fast.sample(log, folder / "many", k=k))
    for path in (folder / "one").iterdir():
        if path.name != "manifest.json":
            assert path.read_bytes() == (folder / "many" / path.name).read_bytes(), f"{path.name} differs"
    parts = [json.loads((folder / name / "manifest.json").read_text()) for name in ("one", "many")]
    for manifest in parts:
        del manifest["inputs"], manifest["run"]
    assert parts[0] == parts[1], "the manifests differ"
    return {
        "one_machine_seconds": one,
        "one_machine_cpu_seconds": one_cpu,
        "read_seconds": read,
        "columns_cpu_seconds": columns,
        "rows_cpu_seconds": draw - columns,
        "task_seconds": task,
    }


def measure_peers(log: Path, k: int, folder: Path) -> dict[str, dict[str, float]]:
    """The seconds, processor seconds and resident memory of each peer that is installed, for the same draw of rows."""
    script = Path(__file__).resolve().parents[1] / "peers"
    results = {}
    for name, form in PEERS.items():
        if importlib.util.find_spec(name) is None:
            continue
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, str(script / f"by_{name}.py"), form, str(log), str(k), str(folder / name)], check=True
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        results[name] = {"seconds": time.perf_counter() - start, "cpu_seconds": cpu}
    return results


def nothing_of(_: int) -> None:
    """As `nothing`, for a pool's map."""


def extrapolate(facts: dict[str, float], arguments: argparse.Namespace) -> dict[str, float]:
    """Print the sum for many workers, term by term, and return its terms in seconds."""
    records = arguments.total_bytes / facts["bytes"] * facts["records"]
    scan = arguments.total_bytes / facts["bytes"] * facts["scan_cpu_seconds"] / arguments.workers
    splits = arguments.total_bytes / (64 << 20)
    parts = records * facts["part_bytes_per_record"]
    network = arguments.network_bytes
    store = arguments.total_bytes / (arguments.workers * network)
    rate, join = facts["bytes"] / facts["scan_cpu_seconds"] / 1e6, facts["join_cpu_seconds"] / facts["records"]
    columns = facts["columns_cpu_seconds"] / facts["records"]
    at_once = {
        f"bytes from the store to {arguments.workers} workers, {network / 1e9:g} GB/s each": store,
        f"scan, {rate:,.0f} MB/s a worker": scan,
        f"{splits:,.0f} tasks through one driver, {facts['task_seconds'] * 1e6:,.0f} us each": splits
        * facts["task_seconds"],
    }
    after = {
        f"parts to the driver, {parts / 1e9:,.1f} GB": parts / network,
        f"join, {join * 1e9:,.0f} ns a record": records * join,
        f"scores, weights, keys, {columns * 1e9:,.0f} ns a record": records * columns,
        f"{arguments.k:,} rows": facts["rows_cpu_seconds"],
    }
    print(f"\n{arguments.total_bytes / 1e12:g} TB, {records:,.0f} records, {arguments.workers} workers")
    for name, seconds in (at_once | after).items():
        print(f"  {seconds:10,.0f} s  {name}")
    # A worker scans one split while it gets the next, and the driver hands out others meanwhile.
    total = max(at_once.values()) + sum(after.values())
    print(f"  {total:10,.0f} s  the longest of the first three, and the others")
    print(
        f"  driver: {records * facts['join_peak_bytes_per_record'] / 1e9:,.0f} GB of memory at the join, "
        f"{parts / 1e9:,.0f} GB of disk for parts; more than {2**32 - 1:,} records are refused"
    )
    return at_once | after


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--record-bytes", type=int, default=300)
    parser.add_argument("--files", type=int, default=FILES, help="that the log is in")
    parser.add_argument("--peers", action="store_true", help="time DuckDB and polars, too, with --files 1")
    parser.add_argument("--record", action="store_true", help="keep the figures as record/distributed.json")
    parser.add_argument("--split-bytes", type=int, default=64 << 20)
    parser.add_argument("-k", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=100, help="of the sum")
    parser.add_argument("--total-bytes", type=float, default=10e12, help="of the sum")
    parser.add_argument("--network-bytes", type=float, default=1.25e9, help="a second to each machine: 10 Gbit/s")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    settings = karl_fast.Settings(score="zscore", ess=0.3)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as place:
        folder = Path(place)
        paths = write_log(folder, arguments.records, arguments.record_bytes, arguments.files)
        objects = [local_object(str(path), optional=False) for path in paths]
        facts = {"records": float(arguments.records), "bytes": float(sum(source.size for source in objects))}
        facts |= measure_parts(objects, settings, arguments.split_bytes)
        facts |= measure_draw(paths, settings, arguments.k, folder)
        peers = measure_peers(paths[0], arguments.k, folder) if arguments.peers else {}
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    for name, value in facts.items():
        print(f"{name:30} {value:16,.6g}")
    for name, costs in peers.items():
        print(f"{name:30} {costs}")
    terms = extrapolate(facts, arguments)
    if arguments.record:
        table = {"run": facts, "peers": peers, "terms_in_seconds": terms}
        table["of"] = {"bytes": arguments.total_bytes, "workers": arguments.workers, "network": arguments.network_bytes}
        (RECORD / "distributed.json").write_text(json.dumps({**facts_of_machine(), **table}, indent=1) + "\n")


if __name__ == "__main__":
    main()
