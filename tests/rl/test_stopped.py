"""A run that is stopped in every phase of a round, by every signal, ends with the bytes of one that was not."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.rl.conftest import EXAMPLES
from tests.rl.stopped import PHASES
from tests.rl.test_run import left
from tests.train.conftest import quiet

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parents[2]
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
    *(("metrics", INT), ("checkpoint", KILL), ("checkpoint", TERM), ("checkpoint", KILL), ("going on", KILL)),
)
"""Where a run is stopped, and by what, in turn; at which round and call of it is drawn."""


@pytest.fixture
def place(tmp_path: Path, reversal: ModuleType) -> Path:
    reversal.write_prompts(tmp_path / "prompts.jsonl", length=2)
    (tmp_path / "rl.toml").write_text(TOML)
    return tmp_path


def run(place: Path, out: str, phase: str = "none", entry: int = 0, call: int = 0, by: int = 0) -> tuple[int, str]:
    """The exit code of a run that is stopped, and what it said."""
    point = [str(place / f"{out}.json"), phase, str(entry), str(call), str(int(by))]
    words = ["rl", "--config", str(place / "rl.toml"), "--out", str(place / out), "--resume", "--force", "-q"]
    command = [sys.executable, "-m", "tests.rl.stopped", *point, *words]
    done = subprocess.run(
        command, cwd=ROOT, env=quiet(), capture_output=True, text=True, check=False, timeout=300, stdin=subprocess.DEVNULL
    )
    return done.returncode, done.stderr


def test_a_run_that_is_stopped_at_ten_random_points_ends_with_the_same_bytes(place: Path) -> None:
    assert run(place, "whole") == (0, "")
    calls = json.loads((place / "whole.json").read_text())
    drawn = random.Random(7)
    assert {phase for phase, _ in POINTS} == PHASES.keys()
    for phase, by in POINTS:
        # The second time of each: what goes on from a checkpoint makes a round or two before it is stopped.
        entry = 1 if phase in ("checkpoint", "going on") else drawn.randint(2, 4)
        call = drawn.randint(1, max(calls[phase][1:3], default=40))
        code, said = run(place, "cut", phase, entry, call, by)
        assert code == (-by if by == KILL else 128 + by), (phase, entry, call, said)
        assert "Traceback" not in said
    assert run(place, "cut") == (0, "")
    assert left(place / "cut") == left(place / "whole")
    for name in ("checkpoints", "rounds"):
        assert [file.name for file in sorted((place / "cut" / name).iterdir())] == [
            file.name for file in sorted((place / "whole" / name).iterdir())
        ]
