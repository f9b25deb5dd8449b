"""Peers in C++, compiled for this machine into the user's cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "record"))
from record import header, processor, said

COMPILE = ("g++", "-std=c++17", "-O3", "-march=native", "-pthread")
FOLDER = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "karl-fast-benches"


@cache
def missing(source: Path, library: str) -> list[str]:
    """What a peer with this library cannot be compiled for want of, or what the compiler says of it."""
    if not shutil.which(COMPILE[0]):
        return [COMPILE[0]]
    if not header(library):
        return [f"lib{library}"]
    try:
        program(source, library)
    except subprocess.CalledProcessError as error:
        lines = error.stderr.splitlines() or [str(error)]
        return ["to be compiled: " + next((line for line in lines if "error" in line), lines[0])]
    return []


@cache
def program(source: Path, library: str) -> Path:
    """The program of a source, compiled once for each text, library, compiler and processor."""
    made = (source.read_text("utf-8"), header(library), said(COMPILE[0], "--version"), processor(), COMPILE)
    file = FOLDER / f"{source.stem}-{hashlib.sha256(repr(made).encode()).hexdigest()[:16]}"
    if not file.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        part = file.with_name(f"{file.name}.{os.getpid()}")
        subprocess.run(
            [*COMPILE, str(source), "-o", str(part), f"-l{library}"], capture_output=True, text=True, check=True
        )
        part.replace(file)
    return file
