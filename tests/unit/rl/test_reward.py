"""Reward functions of TRL's signature, and what becomes of those that fail."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

from karl_fast.rl.environment import CallError, Guard
from karl_fast.rl.rewards import RewardFunctions, Weighted, count_missing
from karl_fast.rl.rollout import Prompt, Rollout

NAN = float("nan")


def rollout(text: str, group: int = 0) -> Rollout:
    prompt = Prompt(str(group), group, ({"role": "user", "content": "q"},), {"answer": len(text), "id": "mine"})
    tokens, floats = np.array([5, 6, 7], dtype=np.int32), np.zeros(3, dtype=np.float32)
    said = ({"role": "assistant", "content": text},)
    return Rollout(text, prompt, group, tokens, ((1, 3),), floats, floats, said, ("s",), (0.0,), "stop", 0)


GROUPS = [[rollout("a"), rollout("b")], [rollout("cc", 1), rollout("dd", 1)]]


def rewarded(*functions: Any, timeout_seconds: float = 5.0, **weights: float) -> tuple[list[Rollout], list[str]]:
    named = [Weighted(one.__name__, one, weights.get(one.__name__, 1.0)) for one in functions]
    groups, said = RewardFunctions(named, timeout_seconds=timeout_seconds)(GROUPS)
    return [one for group in groups for one in group], said


def size(prompts: Any, completions: Any, **columns: Any) -> Any:
    return [len(text) for text in completions]


def answer(completions: list[str], answer: list[int]) -> list[float]:
    return [value * 10.0 for value in answer]


def test_rewards_are_weighted_and_columns_named() -> None:
    found, said = rewarded(size, answer, size=0.5)
    assert [one.reward for one in found] == [10.5, 10.5, 21.0, 21.0]
    assert found[0].components == {"size": 1.0, "answer": 10.0}
    assert not said


def test_function_is_called_per_group_with_ids() -> None:
    calls: list[tuple[int, Any]] = []

    def judge(prompts: Any, completions: Any, completion_ids: Any = None, **columns: Any) -> list[float]:
        calls.append((len(completions), completion_ids))
        assert prompts[0] == [{"role": "user", "content": "q"}]
        assert columns["id"] == ["mine", "mine"]
        return [0.0] * len(completions)

    rewarded(judge)
    assert calls == [(2, [[6, 7], [6, 7]])] * 2


def test_none_shares_its_weight_with_others() -> None:
    def some(completions: list[str], **columns: Any) -> list[float | None]:
        return [None if text < "b" else 1.0 for text in completions]

    found, _ = rewarded(size, some)
    assert [one.reward for one in found] == [2.0, 2.0, 3.0, 3.0]
    alone, _ = rewarded(some)
    assert [one.missing for one in alone] == ["none: not applicable", None, None, None]
    assert np.isnan(alone[0].reward)


def test_one_component_may_be_the_outcome() -> None:
    weighted = [Weighted("size", size), Weighted("answer", answer, 0.1)]
    groups, _ = RewardFunctions(weighted, outcome="size")(GROUPS)
    assert [(one.reward, one.outcome) for group in groups for one in group] == [(2.0, 1.0)] * 2 + [(4.0, 2.0)] * 2


def raises(**columns: Any) -> list[float]:
    raise ValueError("no\nway\x1b]0;")


def leaves(**columns: Any) -> list[float]:
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (raises, "raised"),
        (leaves, "raised"),
        (lambda **c: [1.0], "length"),
        (lambda **c: 1.0, "length"),
        (lambda **c: None, "length"),
        (lambda **c: [NAN, NAN], "nan"),
        (lambda **c: [float("inf")] * 2, "infinite"),
        (lambda **c: ["much", "more"], "not a number"),
        (lambda **c: [[1.0], [2.0]], "not a number"),
    ],
)
def test_function_errors_are_named_missing_rewards(function: Any, why: str) -> None:
    function.__name__ = "bad"
    found, said = rewarded(size, function)
    assert count_missing(found) == {f"bad: {why}": 4}
    assert all(np.isnan(one.reward) and np.isnan(one.outcome) for one in found)
    assert found[0].components["size"] == 1.0
    assert all("\x1b" not in sentence and "\n" not in sentence for sentence in said)


def test_one_bad_group_costs_no_other() -> None:
    def picky(completions: list[str], **columns: Any) -> list[float]:
        if completions[0] == "a":
            raise KeyError("a")
        return [1.0] * len(completions)

    found, said = rewarded(picky)
    assert [one.missing for one in found] == ["picky: raised", "picky: raised", None, None]
    (sentence,) = said
    assert sentence.startswith("picky raised KeyError: 'a' (test_reward.py, line ")


def test_hanging_function_is_abandoned_and_not_recalled() -> None:
    calls = []

    def slow(completions: list[str], **columns: Any) -> list[float]:
        calls.append(completions)
        time.sleep(1.0)
        return [1.0] * len(completions)

    begun = time.monotonic()
    found, said = rewarded(slow, timeout_seconds=0.05)
    assert time.monotonic() - begun < 0.9
    assert count_missing(found) == {"slow: busy": 2, "slow: timeout": 2}
    assert said == ["slow took more than 0.05 s", "slow still runs from a call that was given up"]
    assert len(calls) == 1


def test_a_reward_is_that_of_a_composite() -> None:
    from karl_fast.reward import Composite, Part

    def half(completions: list[str], **columns: Any) -> list[float | None]:
        return [None if text in ("a", "cc") else 0.25 for text in completions]

    def none(completions: list[str], **columns: Any) -> list[None]:
        return [None] * len(completions)

    found, _ = rewarded(size, half, none, size=2.0, half=-0.5, none=3.0)
    parts = (Part("size", 2.0, size), Part("half", -0.5, half), Part("none", 3.0, none))
    wanted = Composite(parts)([one.messages[0]["content"] for one in found], prompts=[""] * 4)
    assert [one.reward for one in found] == pytest.approx(wanted.rewards.tolist(), rel=1e-12)


def test_a_component_without_weight_is_no_reward() -> None:
    def none(completions: list[str], **columns: Any) -> list[None]:
        return [None] * len(completions)

    found, _ = rewarded(none, size, size=0.0)
    assert count_missing(found) == {"none: not applicable": 4}


def test_thread_is_reused_unless_abandoned() -> None:
    guard, go, used = Guard("f", 5.0), threading.Event(), list[int]()
    first = guard(threading.get_ident)
    assert guard(threading.get_ident) == first != threading.get_ident()
    late = Guard("late", 0.05)
    with pytest.raises(CallError, match="took more than"):
        late(lambda: (used.append(threading.get_ident()), go.wait()))
    assert guard(threading.get_ident) not in used
    with pytest.raises(CallError, match="still runs"):
        late(threading.get_ident)
    go.set()
    while late._abandoned is not None and late._abandoned.is_alive():
        time.sleep(0.01)
    assert late(threading.get_ident) != threading.get_ident()


def test_function_cannot_change_its_arguments() -> None:
    def spoils(prompts: Any, completions: Any, answer: Any, deep: Any) -> list[float]:
        prompts[0][0]["content"] = "other"
        prompts[1].clear()
        completions.clear()
        deep[0].append(1)
        return [1.0, 1.0]

    group = [rollout("a"), rollout("b")]
    for one in group:
        one.prompt.columns["deep"] = []  # type: ignore[index]
    (found,), said = RewardFunctions([Weighted("spoils", spoils)])([group])
    assert not said
    assert [one.prompt.messages for one in found] == [({"role": "user", "content": "q"},)] * 2
    assert [one.prompt.columns["deep"] for one in found] == [[], []]


def interrupts(**columns: Any) -> list[float]:
    raise KeyboardInterrupt


class SpeechlessError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


def speechless(**columns: Any) -> list[float]:
    raise SpeechlessError


async def later(**columns: Any) -> list[float]:
    return [1.0, 1.0]


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (interrupts, "interrupts raised KeyboardInterrupt:  (test_reward.py, line "),
        (speechless, "speechless raised SpeechlessError, which has no text (test_reward.py, line "),
        (later, "later gave a coroutine: an async function is not awaited for 2 completions"),
        (lambda **columns: dict.fromkeys("ab", 1.0), "<lambda> gave dict for 2 completions"),
        (lambda **columns: "12", "<lambda> gave str for 2 completions"),
        (lambda **columns: np.ones((2, 1)), "<lambda> gave an array of the shape (2, 1) for 2 completions"),
        (lambda **columns: iter(int, 1), "<lambda> gave more than 2 values for 2 completions"),
    ],
)
def test_wrong_results_are_reported_once_per_group(function: Any, says: str) -> None:
    found, said = rewarded(function)
    assert len(said) == 2
    assert all(sentence.startswith(says) for sentence in said), said
    assert all(np.isnan(one.reward) for one in found)
