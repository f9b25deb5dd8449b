"""A run that is stopped in any phase of a round, or meets a full disk, goes on to the bytes of one that was not."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.test_whole_or_not import small_disk
from tests.slow import nightly
from tests.unit.rl.conftest import EXAMPLES
from tests.unit.rl.stopped import PHASES
from tests.unit.rl.test_run import left
from tests.unit.train.conftest import quiet, ran

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parents[3]
ROUNDS = 24
TOML = f"""
model = "{EXAMPLES / "reversal.py"}:policy"
prompts = "prompts.jsonl"
rounds = {ROUNDS}
prompts_per_round = 4
group_size = 4
max_tokens = 4
epochs = 2
learning_rate = 3e-3
save_every = 2
curriculum = "pass-rate"
replay = {{ groups = 1, max_age = 8 }}

[rewards]
"{EXAMPLES / "reversal.py"}:reward" = 1.0
"""

KILL, INT, TERM = signal.SIGKILL, signal.SIGINT, signal.SIGTERM
POINTS = (
    *(("rollouts", KILL), ("rewards", INT), ("log-probabilities", TERM), ("step", KILL), ("log", KILL)),
    *(("metrics", INT), ("checkpoint", KILL), ("checkpoint", TERM), ("record", KILL), ("going on", KILL)),
)
"""Where a run is stopped, and by what, in turn; at which round and call of it is drawn."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, reversal: ModuleType) -> Path:
    """A folder with a run in it, `whole`, that was not stopped."""
    folder = tmp_path_factory.mktemp("stopped")
    reversal.write_prompts(folder / "prompts.jsonl", length=2)
    (folder / "rl.toml").write_text(TOML)
    assert run(folder, folder / "whole") == (0, "")
    return folder


@pytest.fixture(scope="module")
def calls(place: Path) -> dict[str, list[int]]:
    """How many calls each entry of each phase makes."""
    found: dict[str, list[int]] = json.loads((place / "whole.json").read_text())
    assert all(found[phase] for phase in PHASES if phase != "going on")
    return found


def run(
    place: Path, out: Path, phase: str = "none", entry: int = 0, call: int = 0, what: object = 0
) -> tuple[int, str]:
    """The exit code of a run that something happens to, and what it said; calls are counted in it, which takes time."""
    point = [place / f"{out.name}.json", phase, entry, call, what]
    words = ["rl", "--config", place / "rl.toml", "--out", out, "--resume", "--force", "-q"]
    command = [sys.executable, "-m", "tests.unit.rl.stopped", *map(str, [*point, *words])]
    how = {"capture_output": True, "text": True, "check": False, "timeout": 300, "stdin": subprocess.DEVNULL}
    done = subprocess.run(command, cwd=ROOT, env=quiet(), **how)
    return done.returncode, done.stderr


def resumed(place: Path, out: Path) -> tuple[int, str]:
    """The exit code of a run that nothing happens to, and what it said."""
    done = ran(["rl", "--config", str(place / "rl.toml"), "--out", str(out), "--resume", "--force", "-q"], timeout=300)
    return done.returncode, done.stderr


def names(folder: Path) -> list[str]:
    """Every file of a run."""
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*"))


@pytest.mark.slow
def test_ten_random_stops_give_the_same_bytes(place: Path, calls: dict[str, list[int]]) -> None:
    drawn, cut = random.Random(7), place / "cut"
    assert {phase for phase, _ in POINTS} == PHASES.keys()
    for phase, by in POINTS:
        # Not at once: what goes on from a checkpoint makes some rounds before it is stopped.
        entry = 1 if phase in ("checkpoint", "going on") else drawn.randint(2, 4)
        call = drawn.randint(1, max(calls[phase][1:3], default=40))
        code, said = run(place, cut, phase, entry, call, int(by))
        assert code == (-by if by == KILL else 128 + by), (phase, entry, call, said)
        assert "Traceback" not in said
    assert resumed(place, cut) == (0, "")
    assert left(cut) == left(place / "whole")
    assert names(cut) == names(place / "whole")


FULL = {"log": "rollouts.jsonl", "metrics": "metrics.jsonl", "checkpoint": "rounds", "half a checkpoint": "checkpoints"}
"""What is written when the disk is full, and what is named then."""


@pytest.mark.parametrize("when", nightly(["half a checkpoint", "log", "metrics", "checkpoint"]))
def test_full_disk_keeps_the_last_checkpoint(place: Path, calls: dict[str, list[int]], when: str) -> None:
    out, phase = place / f"full at {when}", when.removeprefix("half a ")
    entry, call = (2, calls[phase][1] // 2) if when != phase else (3, 1)
    code, said = run(place, out, phase, entry, call, "full")
    assert code == 1
    error = said.splitlines()[-1]
    assert error.startswith(f"error: cannot write {out / FULL[when]}")
    assert error.endswith(os.strerror(errno.EFBIG))
    assert said.count("error") == 1
    assert not [name for name in names(out) if ".unfinished-" in name]
    assert resumed(place, out) == (0, "")
    assert left(out) == left(place / "whole")


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root mounts a small disk, on Linux")
def test_run_resumes_when_the_disk_has_room(place: Path) -> None:
    with small_disk(place / "disk", "1m") as disk:
        code, said = resumed(place, disk / "out")
        assert code == 1
        assert said.startswith(f"error: cannot write {disk / 'out'}")
        assert said.endswith(f"{os.strerror(errno.ENOSPC)}\n")
        assert (disk / "out" / "adapters.safetensors").stat().st_size > 0
        subprocess.run(["mount", "-o", "remount,size=8m", str(disk)], check=True)
        assert resumed(place, disk / "out") == (0, "")
        assert left(disk / "out") == left(place / "whole")
