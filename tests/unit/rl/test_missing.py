"""Missing rewards in whole runs: nothing ends by them, they are counted, and no rollout is learned from without one."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from karl_fast.cli.reports.rl import RoundLines
from karl_fast.errors import AlarmError
from karl_fast.objective import Preference
from karl_fast.objective.recipes import RECIPES
from karl_fast.rl import rl
from karl_fast.rl.settings import Alarms, Replay
from tests.unit.rl.conftest import lines

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from karl_fast.rl.settings import Online

FUNCTIONS = """
import math

import mlx.core as mx
import numpy as np

ROUND = [0]


def some(completions, prompts):
    return [None if number % 2 else number * 0.25 for number, _ in enumerate(completions)]


def none(completions):
    return [None] * len(completions)


def first_round(completions):
    ROUND[0] += 1
    return [10**400 if ROUND[0] <= 4 else float(len(text)) for text in completions]


def first_group(completions):
    ROUND[0] += 1
    return [math.nan if ROUND[0] % 4 == 1 else number * 0.25 for number, _ in enumerate(completions)]


def largest(completions):
    return [(1e100, -1e100, 0.5, 0.25)[number % 4] for number, _ in enumerate(completions)]


def arrays(completions):
    return mx.arange(len(completions)) * 0.25


def equal(completions):
    return np.full(len(completions), 0.5, dtype=np.float32)


class Scored:
    def step(self, text):
        return None, True, np.float32(0.5)

    def reset(self, prompt):
        return None

    def score(self):
        return np.int64(len(self.__dict__)) + np.bool_(True)
"""

ONLINE = [
    name
    for name, held in RECIPES.items()
    if name not in ("PPO_CLIP", "VPO", "MULTI_RLVR", "DG_TOKEN", "SFT", "DFT", "SURPRISAL_GATE", "BOLTZMANN", "AWR")
    and name not in ("DG_EXPECTED", "SELF_DISTILL_DG", "SCOPE_LITE", "TPO_TOKEN", "GRPO_TOKEN")  # need functions
    and not held.objective.reads_teacher
    and not isinstance(held.objective, Preference)  # of logged pairs
]


@pytest.fixture
def made(online: Callable[..., Online], tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    """Run a reward function of FUNCTIONS; returns the rollouts."""
    (tmp_path / "given.py").write_text(FUNCTIONS)

    def run(function: str | None, **over: Any) -> list[dict[str, Any]]:
        rewards = {} if function is None else {f"{tmp_path}/given.py:{function}": 1.0}
        given = {"alarms": Alarms(missing_share=1.0), "rounds": 2, "rewards": rewards} | over
        rl(online(**given), viewer=RoundLines())
        return lines(tmp_path / "out" / "rollouts.jsonl")

    return run


def numbers(folder: Path) -> list[dict[str, Any]]:
    found = lines(folder / "out" / "metrics.jsonl")
    text = (folder / "out" / "metrics.jsonl").read_text("utf-8")
    assert "NaN" not in text
    assert "Infinity" not in text
    return found


@pytest.mark.parametrize("recipe", ONLINE)
def test_rollout_without_a_reward_is_not_learned(made: Any, tmp_path: Path, recipe: str) -> None:
    rollouts = made("some", recipe=recipe)
    assert all(not one["learned"] for one in rollouts if one["reward"] is None)
    assert any(one["learned"] for one in rollouts)
    for line in numbers(tmp_path):
        assert line["learned"] == sum(one["learned"] for one in rollouts if one["round"] == line["round"])
        assert line["missing"] == {"none: not applicable": 8}


@pytest.mark.parametrize("recipe", ONLINE)
@pytest.mark.parametrize("function", ["none", "largest"])
def test_missing_or_largest_rewards_end_no_recipe(made: Any, tmp_path: Path, recipe: str, function: str) -> None:
    alarms = Alarms(missing_share=1.0, skipped_steps=0)
    rollouts = made(function, recipe=recipe, alarms=alarms, epochs=2, replay=Replay(groups=1))
    adapter = np.concatenate([one.ravel() for one in _tensors(tmp_path / "out" / "adapters.safetensors")])
    assert np.isfinite(adapter).all()
    assert len(rollouts) == 32
    if function == "none":
        assert not any(one["learned"] for one in rollouts)
        assert all("loss" not in line for line in numbers(tmp_path))
    assert len(numbers(tmp_path)) == 2


def _tensors(path: Path) -> list[Any]:
    from safetensors.numpy import load_file

    return list(load_file(path).values())


def test_missing_group_affects_no_other(made: Any, tmp_path: Path) -> None:
    rollouts = made("first_group")
    groups: dict[str, set[bool]] = {}
    for one in rollouts:
        groups.setdefault(one["group"], set()).add(one["learned"])
    assert groups == {str(group): {group % 4 != 0} for group in range(8)}
    assert [line["missing"] for line in numbers(tmp_path)] == [{"first_group: nan": 4}] * 2


def test_round_without_reward_is_skipped_with_note(
    made: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rollouts = made("first_round", rounds=3)
    said = capsys.readouterr().err
    assert said.count("note      every reward of this round is missing: no step was made") == 1
    assert "first_round gave a number beyond 1e100 in size for 16 of 16 completions, the first for" in said
    assert {one["learned"] for one in rollouts if one["round"] == 0} == {False}
    assert {one["learned"] for one in rollouts if one["round"] > 0} == {True}
    assert [line["step"] for line in numbers(tmp_path)] == [0, 1, 2]


def test_round_without_reward_fires_the_alarm(made: Any) -> None:
    with pytest.raises(AlarmError, match="16 of 16 rewards are missing, more than 50% of them"):
        made("none", alarms=Alarms())


def test_advantages_beyond_float32_are_counted_and_told(
    made: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rollouts = made("largest", recipe="dr-grpo", rounds=1)
    assert sum(one["learned"] for one in rollouts) == 8
    (line,) = numbers(tmp_path)
    assert line["unscored"] == 8
    assert "the recipe has no number for 8 rollouts: " in capsys.readouterr().err


def test_rewards_may_be_an_array_of_mlx(made: Any) -> None:
    assert {one["reward"] for one in made("arrays")} == {0.0, 0.25, 0.5, 0.75}


def test_what_a_filter_drops_is_not_learned_from(made: Any) -> None:
    assert not any(one["learned"] for one in made("equal", recipe="dapo"))


def test_an_environment_may_give_numbers_of_numpy(made: Any, tmp_path: Path) -> None:
    rollouts = made(None, environment=f"{tmp_path}/given.py:Scored", recipe="sampo", rounds=1, max_context=64)
    assert {(one["reward"], one["missing"], *one["turn_rewards"]) for one in rollouts} == {(1.0, None, 0.5)}


def test_a_sum_beyond_the_range_is_missing(made: Any, tmp_path: Path) -> None:
    weight = {f"{tmp_path}/given.py:arrays": 1e300}
    rollouts = made("arrays", rewards=weight)
    assert {one["missing"] for one in rollouts if one["components"]["arrays"]} == {"sum: infinite"}
    assert {one["reward"] for one in rollouts} == {0.0, None}


def test_skipped_step_learns_from_nothing(made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from karl_fast.modeling import optimizer

    plain = optimizer.global_norm
    monkeypatch.setattr(optimizer, "global_norm", lambda vectors: plain(vectors) * math.nan)
    rollouts = made("arrays", alarms=Alarms(skipped_steps=0))
    assert not any(one["learned"] for one in rollouts)
    assert [json.loads(json.dumps(line))["skipped"] for line in numbers(tmp_path)] == [1, 1]
