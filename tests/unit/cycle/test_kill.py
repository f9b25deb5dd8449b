"""A run that is killed in every step, at its beginning and in its middle, ends as one that was not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.run import COMMAND, environment
from tests.unit.cycle.test_cycle import STEPS, cycle, events

__all__ = ["cycle"]  # a fixture

pytestmark = [
    pytest.mark.mlx,
    pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="children are found in /proc"),
]

DELAYS = (0.0, 1.0)
"""Seconds from the beginning of a step to the kill."""


def killed_in(step: str, file: Path, delay: float) -> str:
    """Run until a step begins, kill the run and its command; return the state of the run's record."""
    process = subprocess.Popen(
        [*COMMAND, "cycle", file, "--json"], stdout=subprocess.PIPE, text=True, env=environment()
    )
    assert process.stdout is not None
    for line in process.stdout:
        event = json.loads(line)
        if event.get("step") == step and event["state"] == "running":
            time.sleep(delay)
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            for pid in [process.pid, *map(int, children)]:
                os.kill(pid, signal.SIGKILL)
            break
    process.stdout.close()
    process.wait()
    return str(status(file)[-1]["state"])


def status(file: Path) -> list[dict[str, Any]]:
    done = subprocess.run(
        [*COMMAND, "cycle", "status", file, "--json"], capture_output=True, text=True, check=True, env=environment()
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def outputs(file: Path) -> dict[str, bytes]:
    """The trajectories, outcomes, rows and weights of a finished cycle."""
    folder = file.parent / "cycle"
    names = ("trajectories/*.jsonl", "outcomes/*.jsonl", "data/*/*.jsonl", "adapters/*/adapters.safetensors")
    found = {place for name in names for place in folder.glob(name) if "current" not in place.parts}
    return {str(place.relative_to(folder)): place.read_bytes() for place in found}


@pytest.mark.slow
def test_kill_in_any_step_resumes_to_same_bytes(cycle: Path) -> None:
    for step in STEPS:
        for delay in DELAYS:
            assert killed_in(step, cycle, delay) in ("killed", "done", "unchanged"), step
    last = events(cycle)[-1]
    assert last["state"] in ("done", "unchanged")
    after_kills = outputs(cycle)
    assert len(after_kills) == 5
    assert [place for place in (cycle.parent / "cycle").rglob(".*") if place.name != ".lock"] == []
    (cycle.parent / "cycle").rename(cycle.parent / "killed")
    undisturbed = events(cycle)[-1]
    assert outputs(cycle) == after_kills
    assert undisturbed["held_out_after"] == last["held_out_after"]


def test_surviving_command_keeps_the_lock(cycle: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "cycle", cycle, "--json"], stdout=subprocess.PIPE, text=True, env=environment()
    )
    assert process.stdout is not None
    for line in process.stdout:
        event = json.loads(line)
        if event.get("step") == "train" and event["state"] == "running":
            break
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    until = time.monotonic() + 30
    while not (child := children.read_text().split()) and time.monotonic() < until:
        time.sleep(0.01)
    process.stdout.close()
    process.kill()
    process.wait()
    refused = subprocess.run([*COMMAND, "cycle", cycle], capture_output=True, text=True, check=False, env=environment())
    alive = Path(f"/proc/{child[0]}").exists()
    assert refused.returncode == 5 or not alive, refused.stderr
    while Path(f"/proc/{child[0]}").exists():
        assert time.monotonic() < until + 90
        time.sleep(0.1)
    assert events(cycle, "--until", "train")[-1]["steps"]["train"]["state"] == "done"
