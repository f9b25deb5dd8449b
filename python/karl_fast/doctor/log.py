"""A log of 200 MB: written, read, drawn from; and a transcript converted.

The log is made of words by a seed, so it has the same bytes everywhere, and so has what a draw writes: `DRAWS` holds
the hash of it. Another one means that this machine computes another draw.
"""

from __future__ import annotations

import json
import random
import resource
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karl_fast._safe_text import in_bytes
from karl_fast.errors import KarlError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from karl_fast.doctor import Job, Save

DRAWN = 1000
"""Rows that are drawn."""

DRAWS = {
    200_000_000: "af526c12da1f5872df4e98f04b37d36a",
    2_000_000: "08c0f81c84ae6f99bb2bc4dd1da61d7f",
}
"""XXH3-128 of the rows drawn from a log of so many bytes."""

GROUP = 8
"""Attempts at each task."""

TEXTS, WORDS = 512, 90
"""Texts that records are made of, and words of each."""

TRANSCRIPT_SHARE = 0.05
"""Bytes of the transcript, of those of the log: converting keeps every text, and takes longer."""

TWICE = 3
"""Times the bytes of the log that have to be free on the disk."""


def check_log(job: Job, save: Save) -> dict[str, Any]:
    """Write a log, inspect it, draw from it, and convert a transcript.

    Raises:
        KarlError: rows that were read are not those that were written, or the draw is another one than elsewhere.
    """
    from karl_fast import convert, inspect, sample  # imported on first use, which is not to be timed

    folder, size = Path(job.folder, "log"), job.sizes.log_bytes
    folder.mkdir()
    if (free := shutil.disk_usage(folder).free) < TWICE * size:
        raise KarlError(f"{in_bytes(free)} are free on the disk, and the log needs {in_bytes(TWICE * size)}")
    log, rows = folder / "log.jsonl", 0
    seconds, rows = _timed(lambda: write_log(log, size))
    result: dict[str, Any] = {"bytes": log.stat().st_size, "rows": rows, "write": {"seconds": seconds}}
    save(result)

    def measure(name: str, read_bytes: int, function: Callable[[], Any]) -> Any:
        taken, value = _timed(function)
        result[name] = {"seconds": taken, "mb_per_second": round(read_bytes / 1e6 / taken, 1)}
        save(result)
        return value

    inspection = measure("inspect", result["bytes"], lambda: inspect(log))
    drawn = measure(
        "sample",
        result["bytes"],
        lambda: sample(log, folder / "data", k=DRAWN, score="zscore", split=(1.0, 0.0, 0.0), seed=0),
    )
    result["peak_rss_bytes"] = peak_rss()
    result["draw"] = drawn.manifest["export"]["files"]["train.jsonl"]["xxh3_128"]
    result["draw_expected"] = DRAWS.get(size)
    session = folder / "session.jsonl"
    turns = write_transcript(session, int(size * TRANSCRIPT_SHARE))
    converted = measure("convert", session.stat().st_size, lambda: convert(session, folder / "converted.jsonl"))
    result["convert"]["bytes"] = session.stat().st_size
    shutil.rmtree(folder)
    if inspection.report["accounting"]["rows_kept"] != rows:
        raise KarlError(f"{rows:,} rows were written, and {inspection.report['accounting']} read")
    if (read := converted.messages.get("assistant", 0)) != turns:
        raise KarlError(f"{turns:,} turns were written to the transcript, and {read:,} converted")
    if result["draw_expected"] not in (None, result["draw"]):
        raise KarlError(f"the draw has hash {result['draw']}, and everywhere else {result['draw_expected']}")
    return result


def write_log(path: Path, size: int) -> int:
    """Write a log of at least so many bytes; return its number of rows."""
    source = random.Random(7)
    texts = [json.dumps(text) for text in _texts(source)]
    rows = written = 0
    with path.open("w", encoding="ascii") as file:
        while written < size:
            turns = "".join(
                f',{{"role":"{role}","content":{_pick(source, texts)}}}'
                for _ in range(1 + int(source.random() * 3))
                for role in ("assistant", "user")
            )
            written += file.write(
                f'{{"id":"row-{rows}","group":"task-{rows // GROUP}","reward":{int(source.random() * 11) / 10},'
                f'"messages":[{{"role":"user","content":"Task {rows // GROUP}"}}{turns},'
                f'{{"role":"assistant","content":{_pick(source, texts)}}}]}}\n'
            )
            rows += 1
    return rows


def write_transcript(path: Path, size: int) -> int:
    """Write a session of Claude Code of at least so many bytes; return its number of turns of the assistant."""
    source = random.Random(11)
    texts = list(_texts(source))
    turns = written = 0
    parent: str | None = None
    with path.open("w", encoding="ascii") as file:
        while written < size:
            for kind in ("user", "assistant"):
                here = f"00000000-0000-4000-8000-{2 * turns + (kind == 'user'):012d}"
                content: Any = _pick(source, texts)
                message: dict[str, Any] = {"role": kind, "content": content}
                if kind == "assistant":
                    message |= {"id": f"m{turns}", "type": "message", "content": [{"type": "text", "text": content}]}
                line = {
                    "parentUuid": parent,
                    "isSidechain": False,
                    "userType": "external",
                    "cwd": "/work",
                    "sessionId": "00000000-0000-4000-9000-000000000000",
                    "version": "2.1.29",
                    "type": kind,
                    "uuid": here,
                    "timestamp": "2026-01-01T00:00:00.000Z",
                    "message": message,
                }
                written += file.write(json.dumps(line) + "\n")
                parent = here
            turns += 1
    return turns


def peak_rss() -> int:
    """Return the peak memory of this process in bytes, whose unit differs between systems."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _texts(source: random.Random) -> Iterator[str]:
    words = [f"{first}{last}" for first in ("ka", "lo", "mi", "nu", "re", "so") for last in ("d", "n", "r", "st", "t")]
    for _ in range(TEXTS):
        yield " ".join(_pick(source, words) for _ in range(WORDS))


def _pick(source: random.Random, choices: list[str]) -> str:
    # `random.choice` is not the same in all versions of Python; `random` is.
    return choices[int(source.random() * len(choices))]


def _timed(function: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    value = function()
    return max(1e-4, round(time.perf_counter() - start, 4)), value
