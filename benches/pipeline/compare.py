"""The main job beside what a user would write instead, in one run.

The job: read a log, take each record's advantage within its group (sample standard deviation, eps 1e-6), draw k records
in proportion to exp(15 * advantage), write them as they came. Every contender runs in a fresh process, in turn, after
one round to warm up, with the log in the page cache; medians and ratios to karl-fast are printed, because the seconds
of one machine mean little on another. README.md one folder up says more.

    python benches/pipeline/compare.py big.jsonl:1000 big.jsonl:10000 small.jsonl:30000 big.jsonl.gz:1000 --record
    python benches/pipeline/compare.py --only msgspec,duckdb --rounds 9 big.jsonl
    python benches/pipeline/compare.py --smoke        # small logs of its own, everybody once: does it still run?
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import sys
import tempfile
from pathlib import Path

import contenders
import make_log
import startup
import targets
from show import rows, show
from turns import TENTH, Job, run_in_turn

sys.path.append(str(Path(__file__).resolve().parents[1] / "record"))
import record

RECORD_BYTES = 500  # of the file for each record, packed or not: what divides big from small


def compare(args: argparse.Namespace, folder: Path) -> None:
    threads = [int(count) for count in args.threads.split(",")]
    ours = contenders.ours(threads[0])
    start = startup.run_startup(args.rounds, folder)
    show(rows(start, startup.OURS))
    jobs = [one_log(log, threads, args) for log in args.logs]
    said = [line for job in jobs for line in judged(job, ours, start)]
    print("\nLogs this small say nothing of speed." if args.smoke else "\n".join(["", *said]))
    if args.record:
        tables = [*rows(start, startup.OURS), *(row for job in jobs for row in rows(job, ours))]
        keep(args.record, tables)


def one_log(text: str, threads: list[int], args: argparse.Namespace) -> Job:
    log, colon, k = text.rpartition(":")
    log, k = (log, k) if colon and k.isdigit() else (text, "1000")
    members, absent = contenders.chosen(log, threads, [name for name in args.only.split(",") if name], args.all)
    for name in absent:
        print(f"left out: {name}")
    job = Job(log, int(k), members)
    run_in_turn(job, args.rounds, args.scale and contenders.packing(log) == "plain")
    show(rows(job, contenders.ours(threads[0])))
    return job


def judged(job: Job, ours: str, start: Job) -> list[str]:
    verdicts = targets.verdicts(result(job, ours, start.median(startup.OURS)))
    return [f"{Path(job.log).name}, k = {job.k}: {verdict}" for verdict in verdicts]


def result(job: Job, ours: str, start: float | None) -> targets.Result:
    return targets.Result(
        kind="big" if job.size > RECORD_BYTES * job.records else "small",
        packing=contenders.packing(job.log),
        records=job.records,
        groups=job.groups,
        record_bytes=job.size / job.records,
        k=job.k,
        ours=ours,
        seconds={name: job.median(name) or 0.0 for name in job.runs if name != TENTH},
        anonymous_mib=job.median(ours, "anonymous_mib"),
        start_seconds=start,
        tenth_seconds=job.median(TENTH),
        others_cores=max((job.median(name, "others_cores") or 0.0 for name in job.runs), default=0.0),
    )


def keep(path: str | bool, tables: list[dict[str, object]]) -> None:
    made = record.facts()
    file = record.default_path(made) if path is True else Path(str(path))
    record.write(file, made, tables)
    print(f"\nkept in {file}")


def smoke_logs(folder: Path) -> list[str]:
    """A log of each kind, and the first of them packed in each way that there is a package for."""
    make_log.write(folder / "big.jsonl", "big", 400, seed=1)
    make_log.write(folder / "small.jsonl", "small", 2000, seed=1)
    plain = (folder / "big.jsonl").read_bytes()
    (folder / "big.jsonl.gz").write_bytes(gzip.compress(plain))
    if importlib.util.find_spec("zstandard"):
        import zstandard

        (folder / "big.jsonl.zst").write_bytes(zstandard.compress(plain))
    return [f"{log}:20" for log in sorted(folder.glob("*.jsonl*"))]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("logs", nargs="*", metavar="LOG[:K]", help="plain, .gz or .zst; K is 1000 if not given")
    parser.add_argument("--only", default="", help="these peers, by name, beside karl-fast")
    parser.add_argument("--all", action="store_true", help="the slow and hungry peers too")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", default="2,1", help="of karl-fast; ratios are to the first")
    parser.add_argument("--scale", action="store_true", help="karl-fast on the first tenth of each plain log too")
    parser.add_argument("--record", nargs="?", const=True, metavar="CSV", help="keep the run in benches/record")
    parser.add_argument("--smoke", action="store_true", help="small logs, every contender once")
    args = parser.parse_args()
    known = {"karl-fast-rows", *(name for one in contenders.OTHERS for name in one.names)}
    if unknown := {name for name in args.only.split(",") if name} - known:
        parser.error(f"no contender {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}")
    return args


def main() -> None:
    args = arguments()
    contenders.as_installed()
    with tempfile.TemporaryDirectory() as name:
        if args.smoke:
            args.logs, args.rounds, args.all, args.scale = smoke_logs(Path(name)), 1, True, True
        compare(args, Path(name))


if __name__ == "__main__":
    main()
