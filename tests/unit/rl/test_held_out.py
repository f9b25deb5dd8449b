"""Held-out prompts of a run: they change nothing of it, and choose the best adapter and the end."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from karl_fast import _seen_hashes
from karl_fast.errors import UsageError
from karl_fast.rl import rl
from karl_fast.rl.held_out import BEST, FILE, HeldOut
from tests.unit.rl.conftest import lines

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from karl_fast.rl.settings import Online


@pytest.fixture
def held(tmp_path: Path, reversal: Any) -> str:
    reversal.write_prompts(tmp_path / "held-out.jsonl", length=1)
    return str(tmp_path / "held-out.jsonl")


def test_held_out_prompts_do_not_change_a_run(online: Callable[..., Online], held: str, tmp_path: Path) -> None:
    """The reward draws from the global generators, which an evaluation must not move."""
    (tmp_path / "noisy.py").write_text(
        "import random\nimport numpy as np\n"
        "def reward(completions, **columns):\n"
        "    return [random.random() + np.random.random() for _ in completions]\n"
    )
    given = online(rewards={f"{tmp_path / 'noisy.py'}:reward": 1.0}, rounds=6)
    wrote = []
    for number, over in enumerate([{}, {"eval_prompts": held, "eval_every": 1}]):
        _seeded()
        out = tmp_path / f"out-{number}"
        rl(replace(given, out=str(out), **over))
        wrote.append([(out / name).read_bytes() for name in ("adapters.safetensors", "rollouts.jsonl")])
    assert wrote[0] == wrote[1]


def _seeded() -> None:
    import random

    random.seed(5)
    np.random.seed(5)


def test_curve_has_start_evaluations_and_end(online: Callable[..., Online], held: str) -> None:
    given = online(eval_prompts=held, eval_every=3, eval_attempts=2, rounds=7)
    done = rl(given)
    curve = lines(done.out / FILE)
    assert [one["round"] for one in curve] == [0, 3, 6, 7]
    assert all(one["attempts"] == 2 * one["prompts"] for one in curve)
    assert all(one["reward.low"] <= one["reward"] <= one["reward.high"] for one in curve)
    best = max(curve, key=lambda one: one["reward"])
    assert done.best == best
    assert (done.out / BEST / "adapter_config.json").is_file()


def test_the_best_adapter_is_that_of_its_round(online: Callable[..., Online], tmp_path: Path) -> None:
    given = online(training={"learning_rate": 1e-2}, group_size=8, rounds=12)
    done = rl(replace(given, eval_prompts=given.prompts, eval_every=4))
    assert done.best is not None
    best = done.best["round"]
    assert best, "twelve rounds learn some of the task"
    rl(replace(given, out=str(tmp_path / "until"), rounds=best))
    until = (tmp_path / "until" / "adapters.safetensors").read_bytes()
    assert (done.out / BEST / "adapters.safetensors").read_bytes() == until


def test_a_run_ends_when_patience_runs_out(online: Callable[..., Online], held: str, tmp_path: Path) -> None:
    """A learning rate of nearly 0 makes no evaluation better than the first, because the attempts have one seed."""
    given = online(eval_prompts=held, eval_every=2, patience=2, rounds=50, training={"learning_rate": 1e-12})
    done = rl(given)
    assert done.rounds == 4
    assert done.best is not None
    assert done.best["round"] == 0
    again = rl(given, resume=True)
    assert again.rounds == 4


def test_resumed_run_has_the_same_curve(online: Callable[..., Online], held: str, tmp_path: Path) -> None:
    given = online(eval_prompts=held, eval_every=1, save_every=2, rounds=6)
    rl(replace(given, out=str(tmp_path / "whole")))
    rl(replace(given, out=str(tmp_path / "cut"), rounds=4))
    shutil.rmtree(tmp_path / "cut" / "checkpoints" / "0000004")
    rl(replace(given, out=str(tmp_path / "cut")), resume=True)
    for name in (FILE, "adapters.safetensors", f"{BEST}/adapters.safetensors"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


def test_a_curve_of_other_prompts_is_not_continued() -> None:
    held = HeldOut(None, [], 1, 1, 0, "a")  # type: ignore[arg-type]
    state = {"identity": "b", "curve": [{"round": 0, "reward": 1.0}]}
    held.restore(state)
    assert held.best is None
    held.restore(state | {"identity": "a"})
    assert held.best is not None


def test_run_keeps_hashes_of_training_and_held_out(online: Callable[..., Online], held: str) -> None:
    given = online(eval_prompts=held, rounds=1)
    done = rl(given)
    seen = _seen_hashes.read_seen(done.out)
    assert seen is not None
    from karl_fast.rl.settings import read_prompts

    wanted = _seen_hashes.hash_prompts(one.messages for path in (given.prompts, held) for one in read_prompts(path))
    assert seen == wanted == _seen_hashes.read_seen(done.out / BEST)


def test_new_run_removes_the_old_held_out_files(online: Callable[..., Online], held: str) -> None:
    done = rl(online(eval_prompts=held, rounds=2))
    rl(online(rounds=1), force=True)
    assert not (done.out / FILE).exists()
    assert not (done.out / BEST).exists()


@pytest.mark.parametrize(
    ("over", "said"),
    [
        ({"eval_every": 0}, "eval_every is 0"),
        ({"eval_attempts": 0}, "eval_attempts is 0"),
        ({"eval_temperature": -1.0}, "eval_temperature is -1.0"),
        ({"patience": 0}, "patience is 0"),
        ({"patience": 1}, "no eval_prompts to judge by"),
        ({"eval_prompts": 3}, "eval_prompts is 3"),
    ],
)
def test_settings_out_of_range_are_refused_by_name(online: Callable[..., Online], over: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        online(**over)
