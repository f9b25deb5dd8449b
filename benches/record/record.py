"""Where and with what a run was made, and the files it is kept in."""

from __future__ import annotations

import csv
import datetime
import json
import os
import platform
import re
import subprocess
import textwrap
from importlib import metadata
from pathlib import Path
from typing import Any

from karl_fast import _core

RECORD = Path(__file__).resolve().parent
PACKAGES = ["karl-fast", "numpy", "typer", "msgspec", "orjson", "duckdb", "polars", "pyarrow", "pandas"]
PACKAGES += ["isal", "zstandard", "mlx", "mlx-lm", "numba", "scipy", "torch", "datasketches"]
LIBRARIES = ["simdjson"]


def facts() -> dict[str, Any]:
    return {
        "date": datetime.date.today().isoformat(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "rustc": said("rustc", "--version"),
        "build": _core.build_facts()["profile"],  # "debug" is the build of tests
        "commit": said("git", "-C", str(RECORD), "describe", "--always", "--dirty"),
        "packages": {name: version for name in PACKAGES if (version := installed(name))}
        | {name: version for name in LIBRARIES if (version := header(name))},
    }


def processor() -> str:
    """The model, from /proc or from macOS."""
    cores = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.split(":", 1)[1].strip() for line in cores if line.startswith("model name")]
    return names[0] if names else said("sysctl", "-n", "machdep.cpu.brand_string") or platform.machine()


def said(*command: str) -> str | None:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def installed(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def header(library: str) -> str | None:
    """The version that the header of a library in C++ names, where there is a compiler and the library."""
    named = said("g++", "-x", "c++", "-E", "-dM", "-include", f"{library}.h", os.devnull) or ""
    found = re.search(rf"^#define {library.upper()}_VERSION (\S+)$", named, re.MULTILINE)
    return found and found[1].strip('"')


def kept(name: str) -> dict[str, Any]:
    """The record of this name, by kind; empty where there is none."""
    file = RECORD / f"{name}.json"
    return json.loads(file.read_text("utf-8")) if file.is_file() else {}


def put(name: str, kind: str, found: dict[str, Any]) -> None:
    """Into the record of this name, in the place of what it has of this kind."""
    (RECORD / f"{name}.json").write_text(dumps(kept(name) | {kind: found}), encoding="utf-8")


def dumps(value: Any, indent: int = 0) -> str:
    """Return JSON in which what fits into 120 columns is one line: a tenth of the lines of `indent=1`."""
    line = json.dumps(value)
    if len(line) + indent < 118 or not isinstance(value, dict | list) or not value:
        return line if indent else line + "\n"
    names = [f"{json.dumps(name)}: " for name in value] if isinstance(value, dict) else [""] * len(value)
    parts = value.values() if isinstance(value, dict) else value
    rows = [" " * (indent + 1) + name + dumps(part, indent + 1) for name, part in zip(names, parts, strict=True)]
    if not isinstance(value, dict) and not any(isinstance(part, dict | list) for part in value):
        rows = textwrap.wrap(line[1:-1], 118, initial_indent=" " * (indent + 1), subsequent_indent=" " * (indent + 1))
        return "[\n" + "\n".join(rows) + "\n" + " " * indent + "]"
    first, last = "{}" if isinstance(value, dict) else "[]"
    text = first + "\n" + ",\n".join(rows) + "\n" + " " * indent + last
    return text if indent else text + "\n"


def default_path(made: dict[str, Any]) -> Path:
    machine = f"{platform.system()}-{platform.machine()}".lower().replace("_", "-")
    return RECORD / f"{made['date']}-{machine}-{made['cores']}-cores.csv"


def write(path: Path, made: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Write the table as CSV under the facts."""
    packages = ", ".join(f"{name} {version}" for name, version in made["packages"].items())
    with path.open("w", newline="", encoding="utf-8") as file:
        file.write(f"# {made['processor']}, {made['cores']} cores, {made['memory_gib']} GiB; {made['system']}\n")
        file.write(f"# Python {made['python']}, {packages}; {made['rustc']}; commit {made['commit']}\n")
        table = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
