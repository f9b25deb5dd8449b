"""How far a run is: told to a caller, and to who sits at a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
from typing import TYPE_CHECKING

import karl_fast
from tests.cli.run import COMMAND, environment

if TYPE_CHECKING:
    from pathlib import Path


def test_progress_ends_at_last_byte(large: Path, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    karl_fast.sample(large, tmp_path / "data", k=15_000, written=lambda *now: told.append(now))
    files = [file for file in (tmp_path / "data").iterdir() if file.name != "manifest.json"]  # which is written last
    size = sum(file.stat().st_size for file in files)
    assert {there for _, there in told} <= {0, size}
    assert told == sorted(told)
    assert told[-1] == (size, size)


def test_terminal_shows_reading_then_writing(large: Path, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [*COMMAND, "sample", str(large), "-o", "data", "-k", "15000"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment() | {"TERM": "xterm"}, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        shown = _all(ours)
    assert process.returncode == 0
    assert 0 <= shown.find(b"reading") < shown.find(b"writing") < shown.find(b"written ")


def _all(terminal: int) -> bytes:
    text = b""
    try:
        while part := os.read(terminal, 4096):
            text += part
    except OSError:  # what Linux says of a terminal that nobody has open any more
        pass
    os.close(terminal)
    return text
