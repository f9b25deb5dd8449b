"""msgspec with a typed record of two fields: in two passes, in two processes, or in one pass with all lines held."""

from __future__ import annotations

import multiprocessing
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
from job import Codes, Job, advantages, copy_lines, copy_ranges, draw, run

PROCESSES = 2


class Record(msgspec.Struct):
    group: str
    reward: float


def two_passes(job: Job) -> None:
    decode = msgspec.json.Decoder(Record).decode
    known, codes, rewards, offsets, at = Codes(), [], [], [0], 0
    with job.lines() as source:
        for line in source:
            record = decode(line)
            codes.append(known[record.group])
            rewards.append(record.reward)
            at += len(line)
            offsets.append(at)
    rows = draw(advantages(np.array(codes), np.array(rewards)), job.k)
    if job.packed:
        copy_lines(job, rows)
    else:
        copy_ranges(job, np.array(offsets), rows)


def held(job: Job) -> None:
    decode = msgspec.json.Decoder(Record).decode
    known, codes, rewards, lines = Codes(), [], [], []
    with job.lines() as source:
        for line in source:
            record = decode(line)
            codes.append(known[record.group])
            rewards.append(record.reward)
            lines.append(line)
    rows = draw(advantages(np.array(codes), np.array(rewards)), job.k)
    Path(job.out).write_bytes(b"".join(lines[row] for row in rows))


def columns(log: str, start: int, end: int) -> tuple[list[str], np.ndarray, np.ndarray, np.ndarray]:
    """Names, codes, rewards and line starts of the lines that begin in [start, end)."""
    decode = msgspec.json.Decoder(Record).decode
    known, codes, rewards, starts = Codes(), [], [], []
    with Path(log).open("rb", buffering=1 << 20) as source:
        source.seek(max(start - 1, 0))
        at = start if start == 0 else start - 1 + len(source.readline())
        for line in source:
            if at >= end:
                break
            record = decode(line)
            codes.append(known[record.group])
            rewards.append(record.reward)
            starts.append(at)
            at += len(line)
    return list(known), np.array(codes, int), np.array(rewards), np.array(starts, int)


def processes(job: Job) -> None:
    size = Path(job.log).stat().st_size
    cuts = [size * part // PROCESSES for part in range(PROCESSES + 1)]
    with multiprocessing.get_context("fork").Pool(PROCESSES) as pool:
        ranges = [(job.log, start, end) for start, end in pairwise(cuts)]
        parts = pool.starmap(columns, ranges)
    known = Codes()
    codes = np.concatenate([np.array([known[name] for name in names], int)[codes] for names, codes, _, _ in parts])
    rewards = np.concatenate([rewards for _, _, rewards, _ in parts])
    offsets = np.concatenate([*(starts for _, _, _, starts in parts), [size]])
    copy_ranges(job, offsets, draw(advantages(codes, rewards), job.k))


if __name__ == "__main__":
    run({"two-passes": two_passes, "held": held, "processes": processes})
