"""How much memory and time one run takes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cli.run import environment

MIB = 1 << 20

MEASURED = """
import atexit, pathlib, re, resource, sys

def tell(file=sys.argv.pop(1)):
    # ru_maxrss is that of the parent's before the exec too.
    status = pathlib.Path("/proc/self/status")
    pages = re.search(r"VmHWM:\\\\s+(\\\\d+) kB", status.read_text()) if status.exists() else None
    most = int(pages[1]) << 10 if pages else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    pathlib.Path(file).write_text(str(most))

atexit.register(tell)
from karl_fast.cli import main
main()
"""


@dataclass(frozen=True)
class Run:
    """What one run took, in bytes and seconds, and what it said."""

    peak: int
    seconds: float
    code: int
    out: str
    err: str


def run(*arguments: Any, folder: Path, limit_seconds: float = 120, **how: Any) -> Run:
    """Runs `karl-fast` and measures it."""
    with tempfile.NamedTemporaryFile() as told:
        command = [sys.executable, "-c", MEASURED.replace("\\\\", "\\"), told.name, *map(str, arguments)]
        begin = time.perf_counter()
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=limit_seconds,
            **how,
        )
        seconds = time.perf_counter() - begin
        return Run(int(Path(told.name).read_text() or 0), seconds, done.returncode, done.stdout, done.stderr)
