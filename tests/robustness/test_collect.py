"""Archives under kills, full disks, several collections at once, and files that change while they are read."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import threading
import time
from typing import TYPE_CHECKING

import karl_fast
from tests.cli.run import COMMAND, environment
from tests.unit.collection.made import claude, lines_of_session, stored, text, trajectories

if TYPE_CHECKING:
    from pathlib import Path


def start(source: Path, archive: Path, **how: object) -> subprocess.Popen[bytes]:
    command = [*COMMAND, "collect", "--archive", str(archive), "--from", str(source), "--quiet"]
    return subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, **how)  # type: ignore[call-overload,no-any-return]


def check(archive: Path, source: Path, folder: Path) -> None:
    """Compare an archive with its source: every line once, and the same trajectories."""
    wanted = sorted(line for path in source.rglob("*.jsonl") for line in path.read_text("utf-8").splitlines())
    assert sorted(line for lines in stored(archive).values() for line in lines) == wanted
    assert trajectories(archive, folder / "archived.jsonl") == trajectories(source, folder / "original.jsonl")


def test_eight_processes_at_once_collect_each_line_once(tmp_path: Path) -> None:
    source = claude(tmp_path, 1000)
    running = [start(source, tmp_path / "archive") for _ in range(8)]
    for one in running:
        _, errors = one.communicate(timeout=120)
        assert one.returncode == 0, errors
    check(tmp_path / "archive", source, tmp_path)


def test_a_collection_killed_at_any_moment_goes_on(tmp_path: Path) -> None:
    source, seeded = claude(tmp_path, 300, turns=40), random.Random(7)
    archive = tmp_path / "archive"
    started = time.monotonic()
    with start(source, tmp_path / "whole") as whole:
        whole.communicate(timeout=60)
    length = time.monotonic() - started
    killed = 0
    for at, path in enumerate(sorted(source.rglob("*.jsonl"))[:12]):
        with path.open("a", encoding="utf-8") as file:
            file.write(text(lines_of_session(f"later{at}", 3)))
        with start(source, archive) as one:
            time.sleep(seeded.uniform(0, length))
            killed += one.poll() is None
            one.send_signal(signal.SIGKILL)
    assert killed
    collected = karl_fast.collect(archive, [source])
    assert not collected.failed
    check(archive, source, tmp_path)


def test_a_full_disk_keeps_what_was_there(tmp_path: Path) -> None:
    source = claude(tmp_path, 5)
    archive = tmp_path / "archive"
    karl_fast.collect(archive, [source])
    before = stored(archive)
    big = source / "big.jsonl"
    noise = random.Random(1)
    lines = [line | {"noise": noise.randbytes(4000).hex()} for line in lines_of_session("big", 60)]
    big.write_text(text(lines), "utf-8")

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))

    with start(source, archive, preexec_fn=limit) as one:
        errors = one.communicate(timeout=60)[1].decode()
    assert one.returncode == 1
    assert "cannot write" in errors
    assert "big.jsonl.zst" in errors
    assert {name: lines for name, lines in stored(archive).items() if lines} == before
    karl_fast.collect(archive, [source])
    check(archive, source, tmp_path)


def test_files_may_grow_shrink_and_vanish_while_read(tmp_path: Path) -> None:
    source, archive = tmp_path / "agent", tmp_path / "archive"
    source.mkdir()
    written: set[str] = set()
    seeded, ended = random.Random(3), threading.Event()

    def write() -> None:
        """Write as agents do, and cut, replace and rotate files as no agent should."""
        for number in range(400):
            name = f"s{number % 5}"
            path, line = source / f"{name}.jsonl", json.dumps({"type": "user", "sessionId": name, "uuid": str(number)})
            if not path.exists():
                line = json.dumps({"type": "user", "sessionId": name, "uuid": f"first-{name}"})
            with path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
            chance = seeded.random()
            if chance < 0.05:
                kept = path.read_text("utf-8").splitlines(keepends=True)
                os.truncate(path, len("".join(kept[: len(kept) // 2 + 1])))
            elif chance < 0.08:
                path.replace(source / f"{name}.{number}.old")
            time.sleep(0.002)
            written.add(line)
        ended.set()

    writer = threading.Thread(target=write)
    writer.start()
    read: set[str] = set()
    while not ended.is_set():
        before = {line for path in source.glob("*.jsonl") for line in _lines(path)}
        collected = karl_fast.collect(archive, [source])
        assert not collected.failed
        after = {line for path in source.glob("*.jsonl") for line in _lines(path)}
        read |= before & after
    writer.join()
    karl_fast.collect(archive, [source])
    kept = stored(archive)
    for lines in kept.values():
        assert len(lines) == len(set(lines))
    every = {line for lines in kept.values() for line in lines}
    assert read <= every <= written
    assert {line for path in source.glob("*.jsonl") for line in _lines(path)} <= every


def _lines(path: Path) -> list[str]:
    """Return the whole lines of a file, none if it is gone."""
    try:
        return path.read_text("utf-8").split("\n")[:-1]
    except FileNotFoundError:
        return []


def test_a_clock_that_jumps_changes_nothing(tmp_path: Path) -> None:
    source, archive = tmp_path / "agent", tmp_path / "archive"
    source.mkdir()
    path, lines = source / "s.jsonl", lines_of_session("s", 30)
    for count, moment in ((10, 2_000_000_000), (20, 0), (20, 1), (30, 500_000_000)):
        path.write_text(text(lines[:count]), "utf-8")
        os.utime(path, (moment, moment))
        karl_fast.collect(archive, [source])
        assert [len(lines) for lines in stored(archive).values()] == [count]
