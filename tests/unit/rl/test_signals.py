"""Built-in reward signals of an online run, and the same signals of its log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import karl_fast
from karl_fast.errors import CheckpointError, UsageError
from karl_fast.reward import Composite, compute_reward
from karl_fast.rl import rl
from karl_fast.rl.settings import load
from karl_fast.rl.setup import build_reward_functions
from tests.unit.rl.conftest import EXAMPLES, lines

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from karl_fast.rl.settings import Online


def scored(fn: str, completions: list[Any], **columns: Any) -> list[float]:
    return Composite.of({"x": {"fn": fn}})(completions, **columns).rewards.tolist()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("<think>2 + 2</think> 4", 1.0),
        ("2 + 2</think>4", 1.0),  # the template of the model has opened it
        ("<think>2 + 2</think>  ", 0.0),
        ("<think>2 + 2", 0.0),
        ("4", 0.0),
        ("so <think>2</think> 4", 0.0),
        ("<think>a</think>b</think> 4", 0.0),
        ("<think>a</think><think>b</think> 4", 0.0),
    ],
)
def test_format_is_thoughts_and_then_an_answer(text: str, wanted: float) -> None:
    assert scored("format", [text]) == [wanted]


def test_format_of_turns_is_a_share() -> None:
    turns = ["<think>a</think>b", "c", "d</think>e", "</think>"]
    messages = [message for text in turns for message in ({"role": "assistant", "content": text}, {"role": "tool"})]
    assert scored("format", [messages, [{"role": "tool"}]]) == [0.5, 0.0]


def test_length_is_of_tokens_where_they_are_known() -> None:
    assert scored("length", ["aaa", "a", "aa"]) == [0.0, 1.0, 0.5]
    assert scored("length", ["aaa", "a", "aa"], completion_ids=[[1], [1, 2], [1, 2]]) == [1.0, 0.0, 0.0]


def test_karl_scores_the_calls_of_a_rollout() -> None:
    answer = {"role": "tool", "name": "Bash", "content": "no"}
    rollout = [{"role": "assistant", "content": "a"}, answer | {"success": False}, answer | {"success": True}]
    calls = [{"id": str(place), "function": {"name": "Bash"}} for place in range(2)]
    said = [{"tool_call_id": str(place), "success": bool(place)} for place in range(2)]
    wanted = compute_reward({"karl_fast_trajectory": 1, "messages": [{"tool_calls": calls}, *said]}, version="v2")
    assert scored("karl-v2", [rollout]) == [wanted["reward_score"]]
    assert scored("karl-v2.process", [rollout]) == [wanted["process_score"]]
    assert scored("karl-v2", [rollout]) != scored("karl-v2", ["a"])


def test_run_and_log_have_equal_components(online: Callable[..., Online], tmp_path: Path) -> None:
    (tmp_path / "again.py").write_text(AGAIN)
    settings = online(
        rewards={"format": 0.2, "length": 0.3, "karl-v2.process": 0.5},
        environment=f"{tmp_path / 'again.py'}:Again",
        environment_weight=0.0,
        max_turns=2,
        max_turn_tokens=3,
        max_context=24,
        max_tokens=8,
        rounds=1,
    )
    rl(settings)
    rollouts = lines(tmp_path / "out" / "rollouts.jsonl")
    parts = {name: np.array([one["components"][name] for one in rollouts]) for name in settings.rewards}
    rewards = [one["reward"] for one in rollouts]
    assert rewards == pytest.approx(sum(parts[name] * weight for name, weight in settings.rewards.items()))
    for name in ("format", "karl-v2.process"):
        read = karl_fast.read(tmp_path / "out" / "rollouts.jsonl", reward={name: {"fn": name}})
        assert sorted(read.rewards.tolist()) == sorted(parts[name].tolist())
    assert len({*parts["karl-v2.process"].tolist()}) > 1
    assert {0.0, 1.0} < {*parts["length"].tolist()}


AGAIN = """
class Again:
    def reset(self, prompt): self.turns = 0
    def step(self, text):
        self.turns += 1
        good = len(text) % 2 == 0
        return [{"role": "tool", "name": "Read", "success": good, "content": "1"}], False
    def score(self): return 1.0
"""


def test_unknown_signal_is_refused_with_nearest(online: Callable[..., Online], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="rewards: fn is 'lenght'") as caught:
        build_reward_functions(online(rewards={"lenght": 1.0}), tmp_path)
    assert caught.value.hint == "did you mean length?"


def test_length_is_refused_over_many_groups() -> None:
    with pytest.raises(UsageError, match="the signal length, which compares the rollouts of a group"):
        karl_fast.read(EXAMPLES.parent / "agent-log.jsonl", reward={"x": {"fn": "length"}})


def test_the_example_weighs_by_50_30_and_20(tmp_path: Path) -> None:
    functions = build_reward_functions(load(EXAMPLES / "composite.toml"), tmp_path)
    assert functions.weights == {"environment": 0.5, "karl-v2.process": 0.3, "length": 0.2}


def test_karl_weights_from_variables_identify_a_run(
    online: Callable[..., Online], monkeypatch: pytest.MonkeyPatch
) -> None:
    rl(online(rewards={"karl-v1": 1.0}, rounds=2))
    monkeypatch.setenv("KARL_REWARD_W_PROCESS", "0.5")
    with pytest.raises(CheckpointError, match=r"its KARL_REWARD_W_PROCESS was None, and is 0\.5"):
        rl(online(rewards={"karl-v1": 1.0}, rounds=3), resume=True)
    monkeypatch.setenv("KARL_REWARD_W_PROCESS", "0.35")  # the weight that it has anyway
    rl(online(rewards={"karl-v1": 1.0}, rounds=3), resume=True)


def test_unread_karl_weights_do_not_matter(online: Callable[..., Online], monkeypatch: pytest.MonkeyPatch) -> None:
    rl(online(rewards={"karl-v2": 1.0}, rounds=2))
    monkeypatch.setenv("KARL_REWARD_W_PROCESS", "0.5")
    rl(online(rewards={"karl-v2": 1.0}, rounds=3), resume=True)
