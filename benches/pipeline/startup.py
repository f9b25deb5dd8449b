"""What a process costs before it has done anything."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from pathlib import Path

from contenders import JOB, KARL_FAST, RAW
from make_log import write
from measure import measure
from turns import Job

RECORDS, K = 100, 10
OURS = "karl-fast, 100 records"


def run_startup(rounds: int, folder: Path) -> Job:
    log = folder / "hundred.jsonl"
    write(log, "big", RECORDS, seed=1)
    job = Job(str(log), K, [], records=RECORDS)
    for turn in range(rounds + 1):
        with tempfile.TemporaryDirectory() as out:
            for name, command in commands(log, Path(out) / "data").items():
                run = measure(command)
                if turn:
                    job.runs.setdefault(name, []).append(run)
    return job


def commands(log: Path, out: Path) -> dict[str, list[str]]:
    imports = [module for module in ("numpy", "duckdb", "polars", "pandas") if importlib.util.find_spec(module)]
    return {
        OURS: [KARL_FAST, "sample", str(log), "-k", str(K), "-o", str(out), *JOB, *RAW],
        "karl-fast --version": [KARL_FAST, "--version"],
        "karl-fast --help": [KARL_FAST, "--help"],
        "python -c pass": [sys.executable, "-c", "pass"],
        **{f"import {module}": [sys.executable, "-c", f"import {module}"] for module in imports},
    }
