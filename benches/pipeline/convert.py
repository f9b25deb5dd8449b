"""How long a conversion of Claude Code's transcripts takes, in how much memory, and whether it counts them right.

    python benches/pipeline/convert.py ~/.claude/projects     # 700 MB of copies with fresh ids, in a temporary folder
    python benches/pipeline/convert.py FOLDER --record        # keeps the table as record/convert.json
    python benches/pipeline/convert.py --smoke                # does it still run?

A run is a fresh process, the transcripts in the page cache, after one to warm up. Every copy has to convert to what one
alone does. A plain reading in Python tells which (session, uuid) stand twice in a copy: no line of them may be left.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from measure import measure, warm
from repeat_transcripts import main as repeat

import karl_fast

sys.path.append(str(Path(__file__).resolve().parents[1] / "record"))
from record import RECORD, facts

EXAMPLE = Path(__file__).parents[2] / "examples" / "claude-code"
THREADS = (2, 1)
RATES = ("log", "karl-v2", "outcomes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", default=EXAMPLE, type=Path, metavar="FOLDER")
    parser.add_argument("--megabytes", type=float, default=700)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--smoke", action="store_true", help="one copy, one round")
    given = parser.parse_args()
    if given.smoke:
        given.folder, given.megabytes, given.rounds = EXAMPLE, 0.001, 1
    with tempfile.TemporaryDirectory() as name:
        found = bench(given.folder, Path(name), given.megabytes, given.rounds)
    show(found)
    if given.record:
        made = json.dumps({"machine": facts(), **found}, indent=1)
        (RECORD / "convert.json").write_text(made + "\n", encoding="utf-8")


def bench(folder: Path, work: Path, megabytes: float, rounds: int) -> dict[str, Any]:
    copies, out = work / "copies", work / "trajectories.jsonl"
    repeat(str(folder), str(copies), megabytes)
    paths = sorted(copies.rglob("*.jsonl"))
    counted = check(copies, out)
    rows = []
    for threads in THREADS:
        for rate in RATES if threads == max(THREADS) else RATES[:1]:
            command = [sys.executable, "-c", RUN, str(copies), str(out), rate, str(threads)]
            runs = []
            for _ in range(rounds + 1):
                for path in paths:
                    warm(str(path))
                runs.append(measure(command))
            rows.append({"threads": threads, "rate": rate, "runs": [vars(run) for run in runs[1:]]})
    return {**counted, "rounds": rounds, "rows": rows}


RUN = """
import sys, karl_fast
folder, out, rate, threads = sys.argv[1:]
karl_fast.convert(folder, out, rate=rate, threads=int(threads), force=True)
"""


def check(copies: Path, out: Path) -> dict[str, Any]:
    """What all copies are converted to, held against one of them and against a plain reading of it."""
    one = karl_fast.convert(copies / "0", out)
    every = karl_fast.convert(copies, out, force=True)
    count = len(list(copies.iterdir()))
    for what in ("trajectories", "sub_agents", "lines_read", "lines_used", "duplicates", "messages", "tool_calls"):
        mine, wanted = getattr(every, what), getattr(one, what)
        wanted = {key: count * n for key, n in wanted.items()} if isinstance(wanted, dict) else count * wanted
        if mine != wanted:
            raise SystemExit(f"{what} of {count} copies: {mine}, wanted {wanted}")
    left = count * repeated(copies / "0") - every.duplicates
    if left:
        raise SystemExit(f"{left} lines with a (session, uuid) that stands twice are left")
    return {
        "copies": count,
        "megabytes": every.size_bytes / 1e6,
        "files": len(every.files),
        "lines": every.lines_read,
        "duplicates": every.duplicates,
        "duplicates_left": left,
        "trajectories": every.trajectories,
        "sub_agents": every.sub_agents,
        "messages": every.messages,
        "tool_calls": every.tool_calls,
        "written_megabytes": every.written_bytes / 1e6,
    }


def repeated(folder: Path) -> int:
    """How many lines have a session and a uuid that an earlier line has; a torn line has none."""
    seen: set[tuple[str, str]] = set()
    count = 0
    for path in sorted(folder.rglob("*.jsonl")):
        text = path.read_text("utf-8")
        for line in [] if text.startswith("{\n") else text.split("\n"):
            record = json.loads(line) if line.endswith("}") else {}
            if "uuid" in record:
                key = (record["sessionId"], record["uuid"])
                count += key in seen
                seen.add(key)
    return count


def show(found: dict[str, Any]) -> None:
    print(
        f"{found['megabytes']:,.0f} MB in {found['files']:,} files, {found['copies']} copies; {found['lines']:,} lines"
    )
    print(f"{found['duplicates']:,} lines twice, {found['duplicates_left']} of them left")
    print(f"{found['trajectories']:,} trajectories, {sum(found['messages'].values()):,} messages: {found['messages']}")
    for row in found["rows"]:
        seconds = statistics.median(run["seconds"] for run in row["runs"])
        memory = [run["anonymous_mib"] or run["resident_mib"] for run in row["runs"]]
        others = [run["others_cores"] or 0.0 for run in row["runs"]]
        rate = found["megabytes"] / seconds
        print(
            f"{row['threads']} threads, --rate {row['rate']}: {seconds:.2f} s, {rate:,.0f} MB/s, "
            f"{max(memory):.0f} MiB; others used {max(others):.2f} cores"
        )


if __name__ == "__main__":
    main()
