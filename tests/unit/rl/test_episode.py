"""Conversations with an environment: whose tokens are whose, where they end, and what becomes of one that dies."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from karl_fast.rl.episode import Collector, RolloutBudget, Sampling
from karl_fast.rl.generate import Decoder
from karl_fast.rl.rewards import RewardFunctions
from karl_fast.rl.rollout import Prompt, pack

if TYPE_CHECKING:
    from collections.abc import Callable

    from karl_fast.rl.rollout import Rollout

PROMPT = Prompt("a", 0, ({"role": "user", "content": "question"},), {"answer": 7})


class Counter:
    """Answers twice, and gives a reward a turn."""

    role = "tool"

    def reset(self, prompt: Any) -> str:
        assert prompt["answer"] == 7
        self.turns = 0
        return "begin"

    def step(self, text: str) -> tuple[str, bool, float]:
        self.turns += 1
        return f"answer {self.turns}", self.turns == 3, 0.5

    def score(self) -> float:
        return float(self.turns)


def collected(
    language: Any, make: Callable[[], Any], budget: RolloutBudget, **more: Any
) -> tuple[list[Rollout], list[str]]:
    sampling = Sampling(group_size=3, budget=budget, **more)
    return Collector(Decoder(language, 1.0), RewardFunctions((), environment=1.0), sampling, make)(
        [PROMPT], first=0, seed=1, version=4
    )


def test_mask_covers_exactly_the_policys_tokens(language: Any) -> None:
    rollouts, said = collected(language, Counter, RolloutBudget(60, turns=5, turn_tokens=12))
    assert not said
    for rollout in rollouts:
        assert rollout.finish == "stop"
        assert rollout.reward == rollout.outcome == 3.0
        assert rollout.turn_rewards == (0.5, 0.5, 0.5)
        assert len(rollout.states) == 3
        assert [one["role"] for one in rollout.messages] == ["tool", *["assistant", "tool"] * 3]
        for turn in range(3):
            text = language.decode(rollout.tokens[slice(*rollout.spans[turn])].tolist())
            assert text == rollout.messages[1 + 2 * turn]["content"]
        # What stands between two turns is what the template puts there, to the token.
        (_, end), (start, _) = rollout.spans[:2]
        between, last = rollout.tokens[end:start].tolist(), int(rollout.tokens[end - 1])
        ended = last if last in language.ends else None
        assert between == language.answer([rollout.messages[2]], ended)
        assert "answer 1" in language.tokenizer.decode(between)
    packed = pack(rollouts)
    assert int(packed.mask.sum()) == sum(rollout.length for rollout in rollouts)
    assert (packed.logp[packed.mask] < 0).all()


def test_a_turn_that_ended_is_not_ended_twice(language: Any) -> None:
    (end, *_) = language.ends
    answer = [{"role": "user", "content": "more"}]
    assert language.answer(answer, None) == [end, *language.answer(answer, end)] or end not in language.answer(
        answer, None
    )


@pytest.mark.parametrize(
    ("budget", "finish"),
    [
        (RolloutBudget(4, turns=5), "length"),
        (RolloutBudget(60, turns=2, turn_tokens=3), "turns"),
        (RolloutBudget(60, 5, context=25), "length"),
    ],
)
def test_a_rollout_stays_within_its_budgets(language: Any, budget: RolloutBudget, finish: str) -> None:
    rollouts, _ = collected(language, Counter, budget)
    for rollout in rollouts:
        assert rollout.finish in (finish, "length")
        assert rollout.truncated
        assert rollout.length <= budget.tokens
        assert len(rollout.states) <= budget.turns


def test_full_context_leaves_no_turn(language: Any) -> None:
    rollouts, _ = collected(language, Counter, RolloutBudget(10, context=3))
    assert all(rollout.length == 0 and np.isnan(rollout.reward) for rollout in rollouts)
    assert {rollout.missing for rollout in rollouts} == {"no tokens: the prompt leaves no room"}
    assert not pack(rollouts).mask.any()


class Longwinded(Counter):
    """Says more than a rollout may hold: to begin with, or to a turn."""

    def reset(self, prompt: Any) -> str:
        self.turns = 0
        return "word " * self.opening

    def step(self, text: str) -> tuple[str, bool, float]:
        return "word " * 2_000, False, 0.5


@pytest.mark.parametrize(("opening", "said"), [(2_000, 0), (1, 1)])
def test_answer_beyond_the_context_ends_the_rollout(language: Any, opening: int, said: int) -> None:
    make = type("Longwinded", (Longwinded,), {"opening": opening})
    rollouts, _ = collected(language, make, RolloutBudget(60, turns=5, context=50, turn_tokens=5))
    for rollout in rollouts:
        assert (rollout.finish, len(rollout.spans)) == ("length", said)
        assert 1 <= len(rollout.tokens) <= 50
        assert said == 0 or len(rollout.tokens) == rollout.spans[-1][1]
        assert rollout.messages[-1]["content"] == "word " * 2_000


class Dies(Counter):
    """Fails where it is told to."""

    where = "step"

    def _fail(self, where: str) -> None:
        if self.where == where:
            raise RuntimeError("gone\x1b[2J")

    def __init__(self) -> None:
        self._fail("init")

    def reset(self, prompt: Any) -> str:
        self._fail("reset")
        return super().reset(prompt)

    def step(self, text: str) -> tuple[str, bool, float]:
        self._fail("step")
        return super().step(text)

    def score(self) -> float:
        self._fail("score")
        return super().score()


@pytest.mark.parametrize("where", ["init", "reset", "step", "score"])
def test_dead_environment_loses_its_reward_by_name(language: Any, where: str) -> None:
    make = type("Dies", (Dies,), {"where": where})
    rollouts, said = collected(language, make, RolloutBudget(60, turns=5, turn_tokens=5))
    assert {rollout.missing for rollout in rollouts} == {"environment: raised"}
    assert all(np.isnan(rollout.reward) for rollout in rollouts)
    assert len(said) == 3
    for sentence in said:
        begin = r"the environment of prompt a raised RuntimeError: gone\x1b[2J (test_episode.py, line "
        assert sentence.startswith(begin)


CIRCLE: list[Any] = [{"role": "user", "content": []}]
CIRCLE[0]["content"].append(CIRCLE)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("text", "length"),
        (("text",), "length"),
        ((3, True), "length"),
        (("text", False, "much"), "not a number"),
        (("text", "no"), "length"),
        (("text", None), "length"),
        (("text", 2), "length"),
        (("\ud800", False), "length"),
        (([{"role": "user", "content": 3}], False), "length"),
        (([{"role": 3, "content": "x"}], False), "length"),
        (([{"role": "user", "content": "x", "more": object()}], False), "length"),
        ((CIRCLE, False), "length"),
        (("text", np.array([True, False])), "length"),
    ],
)
def test_an_answer_of_another_shape_is_a_failure(language: Any, answer: Any, kind: str) -> None:
    make = type("Odd", (Counter,), {"step": lambda self, text: answer})
    rollouts, _ = collected(language, make, RolloutBudget(60, turns=5, turn_tokens=5))
    assert {rollout.missing for rollout in rollouts} == {f"environment: {kind}"}


@pytest.mark.parametrize("done", [True, 1, np.bool_(True), np.array(1.0)])
def test_done_is_a_truth_of_any_library(language: Any, done: Any) -> None:
    make = type("Done", (Counter,), {"step": lambda self, text: ("text", done)})
    rollouts, said = collected(language, make, RolloutBudget(60, turns=5, turn_tokens=5), timeout_seconds=1e18)
    assert not said
    assert {(len(one.spans), one.finish) for one in rollouts} == {(1, "stop")}


def test_an_environment_that_hangs_is_given_up(language: Any) -> None:
    make = type("Hangs", (Counter,), {"step": lambda self, text: time.sleep(3)})
    rollouts, _ = collected(language, make, RolloutBudget(60, turns=5, turn_tokens=5), timeout_seconds=0.05)
    assert {rollout.missing for rollout in rollouts} == {"environment: timeout"}


@pytest.mark.parametrize("where", ["reset", "step"])
def test_untemplatable_observation_loses_its_reward(language: Any, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = language.tokenizer.apply_chat_template

    def strict(messages: list[Any], **more: Any) -> Any:
        if any(one["role"] == "wizard" for one in messages):
            raise ValueError("Only user and assistant roles are supported")
        return plain(messages, **more)

    monkeypatch.setattr(
        type(language.tokenizer), "apply_chat_template", lambda self, *one, **more: strict(*one, **more)
    )
    odd = [{"role": "wizard", "content": "x"}]
    given = {"reset": lambda self, prompt: odd} if where == "reset" else {"step": lambda self, text: (odd, False)}
    rollouts, said = collected(language, type("Odd", (Counter,), given), RolloutBudget(60, turns=5, turn_tokens=5))
    assert {(one.missing, one.finish) for one in rollouts} == {("environment: bad_template", "failed")}
    assert all("Only user and assistant roles are supported" in sentence for sentence in said)
