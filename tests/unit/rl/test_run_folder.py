"""The folder of a run: who may begin in it, and what is left alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from karl_fast.errors import CheckpointError, OutputExistsError, OutputForeignError
from karl_fast.rl import rl, setup
from tests.unit.rl.test_run import left

if TYPE_CHECKING:
    from collections.abc import Callable

    from karl_fast.rl.settings import Online


class Killer:
    """A viewer that ends a run once so many rounds are made."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def on_start(self, run: object) -> None:
        """Strike before the first round."""
        if self.rounds == 0:
            raise KeyboardInterrupt

    def on_round(self, metrics: dict[str, Any], *_: object) -> None:
        """Strike."""
        if metrics["round"] + 1 == self.rounds:
            raise KeyboardInterrupt


def names(folder: Path) -> list[str]:
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*"))


@pytest.mark.parametrize("resume", [False, True])
def test_run_killed_in_first_round_restarts(online: Callable[..., Online], tmp_path: Path, resume: bool) -> None:
    place = {"rounds": 4, "save_every": 3}
    rl(online(**place, out=str(tmp_path / "whole")))
    with pytest.raises(KeyboardInterrupt):
        rl(online(**place), viewer=Killer(0))
    (tmp_path / "out" / "checkpoints" / ".unfinished-0000009").mkdir(parents=True)
    rl(online(**place), resume=resume)
    assert left(tmp_path / "out") == left(tmp_path / "whole")
    assert names(tmp_path / "out") == names(tmp_path / "whole")


def test_long_rounds_are_saved_before_save_every(
    online: Callable[..., Online], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = {"rounds": 4, "save_every": 10}
    rl(online(**place, out=str(tmp_path / "whole")))
    monkeypatch.setattr(setup, "LONGEST_LOSS", 0.0)
    monkeypatch.setattr(setup, "SAVE_SHARE", np.inf)
    with pytest.raises(KeyboardInterrupt):
        rl(online(**place), viewer=Killer(3))
    assert {"0000001", "0000002"} >= {path.name for path in (tmp_path / "out" / "checkpoints").iterdir()} >= {"0000002"}
    monkeypatch.undo()
    rl(online(**place), resume=True)
    assert left(tmp_path / "out") == left(tmp_path / "whole")


def test_rollouts_are_somebodys_loss(online: Callable[..., Online], tmp_path: Path) -> None:
    """Also those of a run that was killed before its first checkpoint."""
    with pytest.raises(KeyboardInterrupt):
        rl(online(rounds=4, save_every=3), viewer=Killer(1))
    before = (tmp_path / "out" / "rollouts.jsonl").read_bytes()
    with pytest.raises(OutputExistsError, match="has a run already") as raised:
        rl(online(rounds=4))
    assert raised.value.hint == "it has no checkpoint: --force begins anew in its place"
    with pytest.raises(CheckpointError, match="no checkpoint in"):
        rl(online(rounds=4), resume=True)
    assert (tmp_path / "out" / "rollouts.jsonl").read_bytes() == before
    assert len(before.splitlines()) == 16


class Second(Killer):
    """A viewer that begins the run again before its first round, which is refused however it is asked for."""

    def __init__(self, again: Callable[..., object]) -> None:
        super().__init__(-1)
        self.again = again
        self.refused = 0

    def on_start(self, run: object) -> None:
        """Begin it."""
        for how in ({}, {"resume": True}, {"force": True}):
            with pytest.raises((OutputExistsError, CheckpointError)):
                self.again(**how)
            self.refused += 1


def test_running_run_is_not_restarted(online: Callable[..., Online], tmp_path: Path) -> None:
    settings, second = online(rounds=2), Second(lambda **how: rl(online(rounds=2), **how))
    rl(settings, viewer=second)
    rl(online(rounds=2, out=str(tmp_path / "whole")))
    assert second.refused == 3
    assert left(tmp_path / "out") == left(tmp_path / "whole")


@pytest.mark.parametrize("name", ["rollouts.jsonl", "metrics.jsonl"])
def test_foreign_files_are_no_started_run(online: Callable[..., Online], tmp_path: Path, name: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text('{"step": 1}\n', "utf-8")
    for resume, error in ((False, OutputExistsError), (True, CheckpointError)):
        with pytest.raises(error):
            rl(online(rounds=1), resume=resume)
    assert (tmp_path / "out" / name).read_text("utf-8") == '{"step": 1}\n'


def test_foreign_folder_is_not_written_unforced(online: Callable[..., Online], tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.csv").write_text("mine", "utf-8")
    with pytest.raises(OutputForeignError, match=r"it exists and holds notes\.csv, which no run writes"):
        rl(online(rounds=1))
    assert names(tmp_path / "out") == ["notes.csv"]
    rl(online(rounds=1), resume=True)
    rl(online(rounds=1), force=True)
    assert (tmp_path / "out" / "notes.csv").read_text("utf-8") == "mine"


def test_other_logs_and_settings_stay(online: Callable[..., Online], tmp_path: Path) -> None:
    """As `2> out/run.log` leaves them; and what is named nearly as a run names its own."""
    kept = ["job.out", "rl.toml", "rounds/2024.csv", "rounds/2024.json", "run.log"]
    for name in kept:
        (tmp_path / "out" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "out" / name).write_text("mine", "utf-8")
    rl(online(rounds=1))
    assert [(tmp_path / "out" / name).read_text("utf-8") for name in kept] == ["mine"] * len(kept)


LEAVES = """
import os
import sys

os.makedirs("elsewhere", exist_ok=True)
os.chdir("elsewhere")
sys.path.insert(0, {examples!r})
from reversal import policy, reward as inner

def reward(**columns):
    os.makedirs("deeper", exist_ok=True)
    os.chdir("deeper")
    return inner(**columns)
"""


def test_reward_functions_may_change_directory(
    online: Callable[..., Online], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.unit.rl.conftest import EXAMPLES

    (tmp_path / "leaves.py").write_text(LEAVES.format(examples=str(EXAMPLES)), "utf-8")
    rewards = {"leaves.py:reward": 1.0}
    given = online(
        rounds=2, save_every=1, prompts="prompts.jsonl", out="runs/one", rewards=rewards, model="leaves.py:policy"
    )
    monkeypatch.chdir(tmp_path)
    rl(given)
    assert Path.cwd() != tmp_path
    monkeypatch.chdir(tmp_path)
    rl(replace(given, rounds=3), resume=True)
    assert len((tmp_path / "runs/one/metrics.jsonl").read_text("utf-8").splitlines()) == 3
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["one"]
