"""One run of one command in a fresh process: its time, its memory, and what else the machine did meanwhile.

Peak memory is anonymous memory summed over the process tree, sampled every 20 ms: the largest resident set also
counts mapped pages of the log, which are the kernel's to keep or drop, and is never below that of the bench itself,
which a child begins as. Anonymous memory and the others' share of the machine are read from /proc, and are absent
where there is none.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

EVERY = 0.02  # seconds
MIB = 1 << 20
PROC = Path("/proc")


@dataclass(frozen=True)
class Run:
    seconds: float
    cpu_seconds: float
    anonymous_mib: float | None
    resident_mib: float
    others_cores: float | None  # cores that everything else used


def warm(log: str) -> None:
    """Reads a file into the page cache."""
    block = bytearray(MIB)
    with Path(log).open("rb", buffering=0) as file:
        while file.readinto(block):
            pass


def measure(command: list[str]) -> Run:
    before, mine = busy_seconds(), own_seconds()
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    peak = Peak(child.pid)
    errors = child.stderr.read() if child.stderr else b""  # until it ends; a peer that has much to say has failed
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - start
    child.returncode = os.waitstatus_to_exitcode(status)
    anonymous = peak.stop()
    if status:
        raise SystemExit(f"failed: {' '.join(command)}\n{errors.decode(errors='replace')}")
    cpu = usage.ru_utime + usage.ru_stime
    others = None if before is None else (busy_seconds() - before - cpu - own_seconds() + mine) / seconds
    scale = 1024 if sys.platform == "linux" else MIB
    return Run(seconds, cpu, anonymous, usage.ru_maxrss / scale, others and max(others, 0.0))


class Peak(threading.Thread):
    """The largest sum of anonymous memory over a process and those below it."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.most, self.done = pid, 0, threading.Event()
        self.start()

    def run(self) -> None:
        while not self.done.wait(EVERY):
            self.most = max(self.most, sum(map(anonymous_kib, tree(self.pid))))

    def stop(self) -> float | None:
        self.done.set()
        self.join()
        return self.most / 1024 if PROC.exists() else None


def tree(pid: int) -> list[int]:
    below: list[int] = []
    with suppress(OSError):
        for file in (PROC / str(pid) / "task").glob("*/children"):
            below += [int(child) for child in file.read_text().split()]
    return [pid, *(one for child in below for one in tree(child))]


def anonymous_kib(pid: int) -> int:
    with suppress(OSError):
        for line in (PROC / str(pid) / "status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1])
    return 0


def busy_seconds() -> float | None:
    """What all cores have worked since the machine started, stolen time included."""
    if not (PROC / "stat").exists():
        return None
    user, nice, system, _idle, _wait, irq, soft, steal = map(int, (PROC / "stat").read_text().split(None, 9)[1:9])
    return (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")


def own_seconds() -> float:
    return sum(os.times()[:2])
