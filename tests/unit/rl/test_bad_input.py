"""What a person is told of reward functions, environments, prompts and models that are no good, word for word."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from karl_fast.cli.reports.rl import RoundLines
from karl_fast.errors import AlarmError, TemplateError, UsageError
from karl_fast.rl import rl
from karl_fast.rl.metrics import HINTS, MISSING
from karl_fast.rl.settings import Alarms
from tests.unit.rl.conftest import EXAMPLES, lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from karl_fast.rl.settings import Online

BAD = f"""
import sys
import time

sys.path.insert(0, {str(EXAMPLES)!r})


def raises(completions, **columns):
    return [int(text) and None for text in [*completions, "one\\x1b[2J"]]


def hangs(completions, **columns):
    time.sleep(2)


def nan(completions, **columns):
    return [0.5, *[float("nan")] * (len(completions) - 1)]


def infinite(completions, **columns):
    return [float("-inf")] * len(completions)


def words(completions, **columns):
    return ["good"] * len(completions)


def short(completions, **columns):
    return [1.0]


def nothing(completions, **columns):
    return None


def silent(completions, **columns):
    return [None] * len(completions)


class Dies:
    def reset(self, prompt):
        return None

    def step(self, text):
        raise ConnectionError("the browser has gone")


def repeats(seed):
    import mlx.core as mx
    from reversal import Reversal

    class Repeats(Reversal):
        def head(self, hidden):
            return super().head(hidden) + mx.array([60.0, *[0.0] * 9])

    return Repeats()
"""

REWARDS = {
    "raises": ("raises raised ValueError: invalid literal for int() with base 10: '", "raised", "mend the function"),
    "hangs": ("hangs took more than 0.1 s", "busy", "raise timeout_seconds"),
    "nan": (
        "nan gave NaN for 12 of 16 completions, the first for rollout 0-1: nan",
        "nan",
        "give a finite number within 1e100",
    ),
    "infinite": (
        "infinite gave a number beyond 1e100 in size for 16 of 16 completions, the first for rollout 0-0: -inf",
        "infinite",
        "give a finite number",
    ),
    "words": (
        "words gave no number for 16 of 16 completions, the first for rollout 0-0: 'good'",
        "not a number",
        "give a finite number",
    ),
    "short": (
        "short gave 1 value for 4 completions (4 times)",
        "length",
        "a reward function gives a number for each",
    ),
    "nothing": ("nothing gave NoneType for 4 completions (4 times)", "length", "a reward function gives a number"),
}
"""The sentence of a round, why rewards are missing, and what there is to do."""


@pytest.fixture
def bad(tmp_path: Path) -> str:
    (tmp_path / "bad.py").write_text(BAD)
    return str(tmp_path / "bad.py")


def told(settings: Online, capsys: pytest.CaptureFixture[str]) -> tuple[list[str], AlarmError]:
    """What a run says behind its first three lines, and the alarm that stops it."""
    with pytest.raises(AlarmError) as raised:
        rl(settings, viewer=RoundLines())
    assert len(lines(Path(settings.out) / "metrics.jsonl")) <= 2
    return capsys.readouterr().err.splitlines()[4:], raised.value


@pytest.mark.parametrize("name", REWARDS)
def test_failing_reward_function_is_named_with_a_hint(
    online: Callable[..., Online], bad: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sentence, why, hint = REWARDS[name]
    said, alarm = told(online(rewards={f"{bad}:{name}": 1.0}, timeout_seconds=0.1), capsys)
    missing = 12 if name == "nan" else 16
    assert said[0].startswith("round     1  outcome ")
    assert f"  missing {missing}  " in said[0]
    assert said[1].startswith(f"missing   {sentence}")
    assert "\x1b" not in "".join(said)
    share = f"{missing} of 16 rewards are missing, more than 50% of them"
    assert str(alarm) == f"round 1: {share}; the most for {name}: {why}"
    assert str(alarm.hint).startswith(hint)


def test_raised_error_is_reported_with_its_line(
    online: Callable[..., Online], bad: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said, _ = told(online(rewards={f"{bad}:raises": 1.0}), capsys)
    line = 1 + BAD.splitlines().index(next(text for text in BAD.splitlines() if "int(text)" in text))
    assert all(sentence.endswith(f"(bad.py, line {line})") for sentence in said[1:-1])
    assert said[-1] == "note      every reward of this round is missing: no step was made"


def test_functions_that_say_nothing_teach_nothing(
    online: Callable[..., Online], bad: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said, alarm = told(online(rewards={f"{bad}:silent": 1.0}), capsys)
    assert said[0].startswith("round     1  outcome missing  mixed 0%  ")
    assert said[1:] == ["note      every reward of this round is missing: no step was made"]
    assert str(alarm).endswith("; the most for none: not applicable")
    assert alarm.hint == "give every rollout a component that has something to say of it"


def test_dead_environment_is_named_by_prompt(
    online: Callable[..., Online], bad: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said, alarm = told(online(rewards={}, environment=f"{bad}:Dies", max_turns=2, max_context=64), capsys)
    line = 1 + BAD.splitlines().index('        raise ConnectionError("the browser has gone")')
    error = f"raised ConnectionError: the browser has gone (bad.py, line {line}) (4 times)"
    assert len(said) == 6
    assert all(one.startswith("missing   the environment of prompt ") and one.endswith(error) for one in said[1:-1])
    assert str(alarm).endswith("; the most for environment: raised")


def test_repeating_policy_is_distinguished_from_hard_task(
    online: Callable[..., Online], bad: str, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = online(model=f"{bad}:repeats", alarms=Alarms(flat_rounds=2))
    said, alarm = told(settings, capsys)
    assert "entropy 0.000" in said[-1]
    assert (
        str(alarm) == "round 2: in 2 rounds in a row no group had rewards that differ: there is nothing to learn from"
    )
    assert str(alarm.hint).startswith("the policy says one thing only: raise temperature")
    rows = lines(Path(settings.out) / "rollouts.jsonl")
    assert {row["messages"][-1]["content"] for row in rows} == {"0 0 0 0"}
    assert {row["finish"] for row in rows} == {"length"}


def test_too_long_prompts_are_counted_or_refused(
    online: Callable[..., Online], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError) as raised:
        rl(online(max_context=3))
    said = "max_context is 3, and the shortest prompt has 3 tokens: no room for an answer"
    assert str(raised.value) == said
    with (tmp_path / "prompts.jsonl").open("a") as file:
        file.write('{"prompt": "1 1 1 1 1 1 1 1"}\n')
    rl(online(max_context=8, rounds=1), viewer=RoundLines())
    assert capsys.readouterr().err.splitlines()[0] == "prompts   64 prompts, 1 prompt too long; shuffle"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"prompt": "\\ud800"}', "line 1: UnicodeEncodeError"),
        ('{"prompt": "1", "domain": "\\ud800"}', "line 1: UnicodeEncodeError"),
        ('{"messages": [{"role": "user"}]}', "line 1: prompt is neither a text nor messages with a role and a content"),
        ('{"messages": [{"role": "user", "content": 3}]}', "line 1: prompt is neither a text nor messages"),
        ('{"prompt": "1", "id": {"a": 1}}', 'line 1: id is {"a": 1}, wanted a text or a number'),
    ],
)
def test_invalid_prompt_is_refused_by_line(online: Callable[..., Online], tmp_path: Path, line: str, says: str) -> None:
    (tmp_path / "prompts.jsonl").write_text(line + "\n")
    with pytest.raises(UsageError, match=re.escape(f"prompts.jsonl, {says}")):
        rl(online())


def test_a_prompt_that_the_template_refuses_is_named(online: Callable[..., Online], tmp_path: Path) -> None:
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "1 2"}\n{"prompt": "one", "id": "words"}\n')
    with pytest.raises(TemplateError, match="the chat template does not take the prompt words: ValueError"):
        rl(online())


def test_byte_order_mark_and_null_ids_pass(online: Callable[..., Online], tmp_path: Path) -> None:
    text = '\ufeff{"prompt": "1 2", "id": null}\n{"prompt": "2 1", "id": null}\n'
    (tmp_path / "prompts.jsonl").write_text(text, "utf-8")
    rl(online(rounds=1))
    assert {row["prompt_id"] for row in lines(tmp_path / "out" / "rollouts.jsonl")} == {"0", "1"}


def test_every_missing_reward_has_a_hint() -> None:
    assert set(MISSING.values()) <= HINTS.keys()
