"""The main job beside what a user would write instead, in one run.

The job: read a log, take each record's advantage within its group (sample standard deviation, eps 1e-6), draw k records
in proportion to exp(15 * advantage), write them as they came. Every contender runs in a fresh process, in turn, from a
warm page cache; medians and ratios are printed, because the seconds of one machine mean little on another.

    python benches/python/compare.py big.jsonl            # five rounds
    python benches/python/compare.py --smoke              # a small log of its own, one round: does it still run?

Needs msgspec and duckdb beside karl-fast.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent


def contenders(log: str, k: int, out: Path) -> dict[str, list[str]]:
    peer = [sys.executable, str(HERE / "peers.py")]
    ours = [str(Path(sys.executable).parent / "karl-fast"), "sample", log, "-k", str(k), "--quiet", "--force"]
    job = ["--score", "zscore", "--ddof", "1", "--inverse-temperature", "15", "--split", "1,0,0"]
    raw = [*job, "--as", "raw", "--allow-secrets"]
    return {
        "karl-fast, 1 thread": [*ours, *raw, "-o", str(out / "one"), "--threads", "1"],
        "karl-fast, 2 threads": [*ours, *raw, "-o", str(out / "two"), "--threads", "2"],
        "karl-fast, chat rows, secrets replaced": [*ours, *job, "-o", str(out / "chat"), "--threads", "2"],
        "msgspec by hand": [*peer, "msgspec", log, str(k), str(out / "msgspec.jsonl")],
        "DuckDB, two columns": [*peer, "duckdb", log, str(k), str(out / "duckdb.jsonl")],
        "wc -l": ["wc", "-l", log],
    }


def run(command: list[str]) -> tuple[float, float]:
    """Seconds and MiB of the largest resident set, of one fresh process."""
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - start
    if status:
        raise SystemExit(f"failed: {' '.join(command)}")
    return seconds, usage.ru_maxrss / (1024 if sys.platform == "linux" else 1 << 20)


def compare(log: str, k: int, rounds: int) -> list[dict[str, float | str]]:
    with tempfile.TemporaryDirectory() as folder:
        table = contenders(log, k, Path(folder))
        runs = in_turn(table, rounds)
        check(Path(folder), k)
    medians = {name: statistics.median(seconds for seconds, _ in measured) for name, measured in runs.items()}
    return [
        {
            "contender": name,
            "median_s": round(medians[name], 3),
            "times_ours": round(medians[name] / medians["karl-fast, 2 threads"], 2),
            "peak_mib": round(max(peak for _, peak in measured)),
        }
        for name, measured in runs.items()
    ]


def in_turn(table: dict[str, list[str]], rounds: int) -> dict[str, list[tuple[float, float]]]:
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in table}
    for turn in range(rounds + 1):
        for name, command in table.items():
            measured = run(command)
            if turn:  # the first round warms up
                runs[name].append(measured)
    return runs


def check(folder: Path, k: int) -> None:
    """Every contender wrote k records, and ours the same ones whatever the threads."""
    files = [*folder.glob("*.jsonl"), *folder.glob("*/train.jsonl")]
    for file in files:
        lines = file.read_bytes().splitlines()
        if len(set(lines)) != k:
            raise SystemExit(f"{file} holds {len(set(lines))} distinct records, wanted {k}")
    if (folder / "one/train.jsonl").read_bytes() != (folder / "two/train.jsonl").read_bytes():
        raise SystemExit("one and two threads drew different records")


def small_log(path: Path, records: int = 400) -> None:
    rng = random.Random(1)
    with path.open("w") as file:
        for index in range(records):
            turns = [{"role": role, "content": f"turn {index}"} for role in ("user", "assistant")]
            row = {"id": f"r{index}", "group": f"g{index // 8}", "messages": turns, "reward": rng.random()}
            file.write(json.dumps(row) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("log", nargs="?")
    parser.add_argument("-k", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--smoke", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if args.smoke:
            args.log, args.k, args.rounds = str(Path(folder) / "small.jsonl"), 20, 1
            small_log(Path(args.log))
        rows = compare(args.log, args.k, args.rounds)
    print("contender,median_s,times_ours,peak_mib")
    for row in rows:
        print(",".join(f'"{value}"' if isinstance(value, str) else str(value) for value in row.values()))


if __name__ == "__main__":
    main()
