"""A real Ray of several worker processes on this machine: the draw of one machine, whatever happens to workers."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import karl_fast
from karl_fast import distributed
from tests import rows
from tests.properties.test_any_split import result_of

if TYPE_CHECKING:
    from collections.abc import Iterator

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install ray")

WORKERS = 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """Ray with workers that find this package where it is."""
    package = str(Path(karl_fast.__file__).parents[1])
    path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
    ray.init(
        num_cpus=WORKERS,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=80 << 20,
        runtime_env={"env_vars": {"PYTHONPATH": path}},
    )
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return rows.write(tmp_path_factory.mktemp("ray") / "log.jsonl", rows.records(30_000, groups=900))


HOW = {"k": 500, "seed": 5, "score": "zscore", "split": (0.8, 0.1, 0.1)}


def worker_processes() -> list[int]:
    """The processes of Ray that run tasks of this user, by their titles."""
    processes = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            title = (place / "cmdline").read_bytes()
            if title.startswith((b"ray::IDLE", b"ray::scan_split")) and _is_ours(int(place.name)):
                processes.append(int(place.name))
    return processes


def _is_ours(process: int) -> bool:
    """Return whether a process descends from this one."""
    while process > 1:
        if process == os.getpid():
            return True
        process = int(Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])
    return False


@pytest.mark.usefixtures("cluster")
@pytest.mark.skipif(sys.platform != "linux", reason="finds worker processes in /proc")
def test_workers_that_are_killed_cost_time_and_no_row(log: Path, tmp_path: Path) -> None:
    from karl_fast.distributed.ray import RayExecutor

    karl_fast.sample(log, tmp_path / "one", **HOW)
    over, killed, random_ = threading.Event(), [], random.Random(1)

    def kill_some() -> None:
        while not over.wait(0.3) and len(killed) < 3:
            for process in random_.sample(found := worker_processes(), min(1, len(found))):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
                    killed.append(process)

    killer = threading.Thread(target=kill_some)
    killer.start()
    try:
        for at in range(20):
            with RayExecutor() as executor:
                distributed.sample(log, tmp_path / f"many{at}", executor=executor, split_bytes=100_000, **HOW)
            assert result_of(tmp_path / f"many{at}") == result_of(tmp_path / "one")
            if len(killed) == 3:
                break
            time.sleep(0.1)
    finally:
        over.set()
        killer.join()
    assert killed


def test_the_command_draws_with_ray_what_it_draws_without(log: Path, tmp_path: Path) -> None:
    def run(out: str, *more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "karl_fast", "sample", str(log), "-o", str(tmp_path / out), "-k", "200", *more]
        package = str(Path(karl_fast.__file__).parents[1])
        return subprocess.run(
            command, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": package}
        )

    assert run("one").returncode == 0
    ended = run("many", "--engine", "ray")
    assert ended.returncode == 0, ended.stderr
    assert result_of(tmp_path / "many") == result_of(tmp_path / "one")
    ended = run("other", "--engine", "spark")
    assert ended.returncode == 2
    assert "--engine is spark, wanted ray" in ended.stderr
