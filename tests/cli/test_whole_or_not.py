"""Law 4: an output appears whole or not at all, whatever ends the run, and nothing is left beside it."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests import rows
from tests.cli.run import COMMAND, environment, karl, start
from tests.slow import nightly

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOW = ("-o", "data", "-k", 15_000, "-q")


def whole(out: Path) -> bool:
    """Whether a data set has its manifest and all of the rows that the manifest promises."""
    manifest = json.loads((out / "manifest.json").read_text("utf-8"))
    for split, count in manifest["export"]["splits"].items():
        file = out / f"{split}.jsonl"
        text = file.read_bytes() if file.exists() else b""
        if text.count(b"\n") != count or (text and not text.endswith(b"\n")):
            return False
    return True


@pytest.fixture(scope="module")
def seconds(large: Path, tmp_path_factory: pytest.TempPathFactory) -> float:
    """How long a whole run takes here: the moments of the interruptions are shares of it."""
    folder = tmp_path_factory.mktemp("whole")
    begin = time.perf_counter()
    done = karl("sample", large, *HOW, folder=folder)
    assert done.returncode == 0, done.stderr
    assert whole(folder / "data")
    return time.perf_counter() - begin


@pytest.mark.parametrize("number", nightly([signal.SIGTERM, signal.SIGINT]))
def test_signal_ends_with_its_code_and_no_output(
    large: Path, seconds: float, tmp_path: Path, number: signal.Signals
) -> None:
    stopped = 0
    for share in (0.15, 0.3, 0.45, 0.6, 0.75, 0.9):
        folder = tmp_path / str(share)
        folder.mkdir()
        process = start("sample", large, *HOW, folder=folder)
        time.sleep(seconds * share)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        # A signal that comes after the rename cannot undo it: then the output is there, and whole.
        left = [path.name for path in folder.iterdir()]
        assert left == [] or (left == ["data"] and whole(folder / "data"))
        # While Python starts and while it shuts down no handler of ours stands: the system ends the process.
        if process.returncode in (0, -number):
            continue
        assert process.returncode == 128 + number, err
        assert "Traceback" not in err
        assert out == ""
        stopped += left == []
    assert stopped >= 1  # a busy machine stretches the run that was measured, or those that are stopped


def test_kill_leaves_old_or_new_output_whole(large: Path, seconds: float, tmp_path: Path) -> None:
    assert karl("sample", large, *HOW, "--seed", 1, folder=tmp_path).returncode == 0
    old = rows.files(tmp_path / "data")
    random_ = random.Random(4)
    for seed in range(2, 8):
        process = start("sample", large, *HOW, "--force", "--seed", seed, folder=tmp_path)
        time.sleep(seconds * random_.uniform(0.5, 1.1))
        process.kill()
        process.communicate(timeout=60)
        assert whole(tmp_path / "data")
        now = json.loads((tmp_path / "data" / "manifest.json").read_text("utf-8"))["seed"]
        assert now == seed or rows.files(tmp_path / "data") == old
        old = rows.files(tmp_path / "data")


@pytest.mark.slow
def test_kill_leaves_nothing_where_nothing_was(large: Path, seconds: float, tmp_path: Path) -> None:
    random_ = random.Random(5)
    for number in range(4):
        folder = tmp_path / str(number)
        folder.mkdir()
        process = start("sample", large, *HOW, folder=folder)
        time.sleep(seconds * random_.uniform(0.5, 1.0))
        process.kill()
        process.communicate(timeout=60)
        assert not (folder / "data").exists() or whole(folder / "data")


@pytest.mark.parametrize("out", ["data", "new/folders/data"])
def test_file_size_limit_is_an_error(folder: Path, out: str) -> None:
    rows.write(folder / "tiny.jsonl", (rows.record(n, padding="y" * 50) for n in range(2000)))

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))

    command = [*COMMAND, "sample", "tiny.jsonl", "-o", out, "-k", "2000"]
    done = subprocess.run(
        command, cwd=folder, env=environment(), preexec_fn=limit, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    assert done.stderr.splitlines() == [
        f"error: cannot write {out}/train.jsonl: {os.strerror(errno.EFBIG)}",
        "hint: write to another place",
    ]
    assert [path.name for path in folder.iterdir()] == ["tiny.jsonl"]


@contextlib.contextmanager
def small_disk(at: Path, size: str = "256k") -> Iterator[Path]:
    at.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(at)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield at
    finally:
        subprocess.run(["umount", str(at)], check=True)


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root mounts a small disk, on Linux")
def test_full_disk_keeps_the_old_output(folder: Path) -> None:
    rows.write(folder / "large.jsonl", (rows.record(n, padding="y" * 50) for n in range(3000)))
    with small_disk(folder / "disk") as disk:
        assert karl("sample", "tiny.jsonl", "-o", disk / "data", "-k", 5, folder=folder).returncode == 0
        before = rows.files(disk / "data")
        done = karl("sample", "large.jsonl", "-o", disk / "data", "-k", 3000, "--force", folder=folder)
        assert done.returncode == 1
        error, hint = done.stderr.splitlines()
        full = f"train.jsonl: {os.strerror(errno.ENOSPC)}"
        assert error == f"error: cannot write {disk / 'data' / full}"
        assert re.fullmatch(r"hint: the data set has \d{3}\.\d kB: free space, or write .*", hint)
        assert rows.files(disk / "data") == before
        assert [path.name for path in disk.iterdir()] == ["data"]


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root mounts a small disk, on Linux")
def test_full_disk_for_trajectories_and_copies(folder: Path) -> None:
    rows.write(folder / "large.jsonl", (rows.record(n, padding="y" * 50) for n in range(3000)))
    full = os.strerror(errno.ENOSPC)
    with small_disk(folder / "disk") as disk:
        done = karl("convert", "large.jsonl", "-o", disk / "made.jsonl", folder=folder)
        assert done.stderr.splitlines() == [
            f"error: cannot write {disk / 'made.jsonl'}: {full}",
            "hint: free space, or write to another place",
        ]
        text = (folder / "large.jsonl").read_text("utf-8")
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("TMPDIR", str(disk))
            for words in ("-k 3", "-k 2500 --sampler weighted-reservoir --inverse-temperature 1"):
                done = karl("sample", "-", "-o", "data", *words.split(), folder=folder, input=text)
                assert done.stderr.splitlines() == [
                    f"error: cannot keep - in a temporary file: {full}",
                    "hint: free space for temporary files, or name another folder for them with TMPDIR",
                ]
        assert list(disk.iterdir()) == []
    with small_disk(folder / "crowded", "256k,nr_inodes=1") as disk:
        done = karl("convert", "large.jsonl", "-o", disk / "made.jsonl", folder=folder)
        assert done.stderr.splitlines() == [
            f"error: cannot create a file beside {disk / 'made.jsonl'}: {full}",
            "hint: free space, or write to another place",
        ]


def test_changing_log_is_an_error(folder: Path) -> None:
    import karl_fast

    log = karl_fast.read(folder / "tiny.jsonl")
    text = (folder / "tiny.jsonl").read_text("utf-8")
    (folder / "tiny.jsonl").write_text(text.replace("answer", "ANSWER"), encoding="utf-8")
    import numpy as np

    with pytest.raises(karl_fast.errors.LogError, match="changed since it was scanned"):
        karl_fast.export(log, np.arange(len(log)), folder / "data")
    assert [path.name for path in folder.iterdir()] == ["tiny.jsonl"]
