"""How many secrets are replaced, how many ordinary lines are changed, and how fast it goes.

    python benches/pipeline/redaction.py [--log LOG ...] [--sources FOLDER ...] [--record]
    python benches/pipeline/redaction.py --smoke                           # does it still run?

Secrets are made from public formats in the surroundings in which logs carry them, with seeds that no test takes.
Patterns are adjusted on one half of the pairs of family and surroundings; the other half is counted apart. Ordinary
lines are those of the sources under the folders, each file as one text. The processor's time of one thread counts.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import sysconfig
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karl_fast import _core

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.properties import generator

sys.path.append(str(Path(__file__).resolve().parents[1] / "record"))
from record import RECORD, facts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SEEDS = range(1000, 1008)
ENDINGS = {".py", ".pyi", ".rs", ".toml", ".lock", ".md", ".json", ".c", ".h", ".js", ".txt", ".yml", ".yaml", ".sh"}
LARGEST = 2_000_000  # bytes of a source
WANTED = {"recall": 0.95, "changed_of_10000": 1.0, "mb_per_s": 100.0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--log", action="append", default=[], type=Path, help="time these logs, line by line")
    parser.add_argument("--sources", action="append", default=[], type=Path, metavar="FOLDER")
    parser.add_argument("--record", action="store_true", help="keep the table as record/redaction.json")
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    sources = given.sources or [Path(sysconfig.get_paths()["purelib"]), Path.home() / ".cargo" / "registry" / "src"]
    table = {
        "recall": recall(SEEDS[:1] if given.smoke else SEEDS),
        "ordinary": ordinary([Path(__file__).parent] if given.smoke else sources),
        "speed": speed(given.log) if given.log else speed_of(made(100 if given.smoke else 20_000)),
        "wanted": WANTED,
    }
    print(json.dumps(table, indent=1))
    if given.record:
        (RECORD / "redaction.json").write_text(json.dumps({**facts(), **table}, indent=1) + "\n", "utf-8")


def recall(seeds: Iterable[int]) -> dict[str, Any]:
    """Count the secrets that are gone, in both halves and by what was missed."""
    made, missed = Counter[str](), Counter[str]()
    families, places = Counter[str](), Counter[str]()
    for seed in seeds:
        for cases in (generator.bare, generator.assigned):
            for family, place, secret, text in cases(random.Random(seed)):
                half = "held out" if generator.is_held_out(family, place) else "adjusted"
                made[half] += 1
                if generator.is_kept(secret, _core.redacted(text)):
                    missed[half] += 1
                    families[family] += 1
                    places[place] += 1
    return {
        **{half: {"made": made[half], "replaced": 1 - missed[half] / made[half]} for half in sorted(made)},
        "families": len(generator.FORMATS) + len(generator.NAMED),
        "surroundings": len(generator.BARE) + len(generator.ASSIGNED),
        "missed_families": dict(families.most_common(10)),
        "missed_places": dict(places.most_common(10)),
    }


def ordinary(folders: Iterable[Path]) -> dict[str, Any]:
    """Count the lines of sources that are changed."""
    lines, changed, files, by = 0, 0, 0, Counter[str]()
    for path in (path for folder in folders for path in texts(folder)):
        text = path.read_text("utf-8", errors="replace")
        files, lines = files + 1, lines + text.count("\n") + 1
        clean = _core.redacted(text)
        if clean != text:
            before, after = text.split("\n"), clean.split("\n")
            changed += sum(one != other for one, other in zip(before, after, strict=False))
            by[path.suffix] += 1
    return {"files": files, "lines": lines, "changed": changed, "changed_of_10000": 1e4 * changed / max(lines, 1)}


def texts(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.suffix in ENDINGS and path.is_file() and path.stat().st_size < LARGEST:
            yield path


def made(records: int) -> list[str]:
    """Return records of an agent that reads and writes files, with a secret in one of a hundred."""
    draw = random.Random(1)
    words = [generator.secret("{l6}", draw) for _ in range(500)]
    key = "gh" + "p_" + generator.secret("{a36}", draw)
    rows = []
    for at in range(records):
        said = " ".join(draw.choices(words, k=60))
        code = "\n".join(f"    {draw.choice(words)} = {draw.choice(words)}({at})" for _ in range(30))
        call = {"name": "write", "arguments": json.dumps({"path": f"src/{at}.py", "content": code})}
        turns = [{"role": "user", "content": said}, {"role": "assistant", "content": said, "tool_calls": [call]}]
        turns.append({"role": "tool", "content": f"export KEY={key}" if at % 100 == 0 else code})
        rows.append(json.dumps({"id": at, "messages": turns, "reward": 1.0}))
    return rows


def speed(logs: Iterable[Path]) -> dict[str, float]:
    """Time the lines of logs."""
    return speed_of([line for log in logs for line in log.read_text("utf-8").splitlines()])


def speed_of(rows: list[str]) -> dict[str, float]:
    size = sum(len(row.encode()) for row in rows) / 1e6
    times = []
    for _ in range(5):
        start = time.thread_time()
        for row in rows:
            _core.redacted(row)
        times.append(time.thread_time() - start)
    return {
        "mb": round(size, 3),
        "mb_per_s": round(size / sorted(times)[2], 1),
        "best_mb_per_s": round(size / min(times), 1),
    }


if __name__ == "__main__":
    main()
