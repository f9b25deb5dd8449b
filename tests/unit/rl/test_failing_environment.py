"""A run with an environment that hangs, crashes and returns rubbish: it ends, and counts each failure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from karl_fast.rl import rl
from tests.unit.rl.conftest import EXAMPLES, lines
from tests.unit.train.conftest import ran

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    from karl_fast.rl.settings import Online

FAILING = """
import sys
import threading


class Failing:
    def reset(self, prompt):
        self.how, self.turns = prompt["how"], 0
        if self.how == "crashes at first":
            raise RuntimeError("no container is left")
        return 7 if self.how == "rubbish at first" else None

    def step(self, text):
        self.turns += 1
        return getattr(self, self.how.replace(" ", "_"), self.answers)()

    def answers(self):
        return "1 2", self.turns > 1, 0.0

    def hangs(self):
        threading.Event().wait()

    def crashes(self):
        raise ConnectionError("the browser has gone\\x1b[2J")

    def exits(self):
        sys.exit(3)

    def recurses(self):
        return self.recurses()

    def wrong_shape(self):
        return b"rubbish"

    def wrong_done(self):
        return "1", "yes"

    def surrogate(self):
        return "\\ud800", False

    def nan(self):
        return "1", False, float("nan")

    def floods(self):
        return "1 " * 100_000, False

    def score(self):
        if self.how == "crashes at last":
            raise KeyError("score")
        return "0.5" if self.how == "rubbish at last" else 0.5
"""

MISSING = {
    "hangs": "timeout",
    "crashes": "raised",
    "crashes at first": "raised",
    "crashes at last": "raised",
    "exits": "raised",
    "recurses": "raised",
    "rubbish at first": "length",
    "rubbish at last": "not a number",
    "wrong shape": "length",
    "wrong done": "length",
    "surrogate": "length",
    "nan": "nan",
    "floods": None,  # no failure: the rollout ends, for want of room
    "answers": None,
}
"""Why the reward is missing, by what the environment does."""

GROUP, ROUNDS = 2, 3
COUNTS = {
    "environment: length": 4 * GROUP,
    "environment: nan": GROUP,
    "environment: not a number": GROUP,
    "environment: raised": 5 * GROUP,
    "environment: timeout": GROUP,
}
"""Missing rewards of a round."""


@pytest.fixture
def failing(online: Callable[..., Online], tmp_path: Path) -> Callable[..., Online]:
    """Settings of a run in which each prompt makes the environment fail in its own way, once a round."""
    (tmp_path / "failing.py").write_text(FAILING)
    prompts = [json.dumps({"id": how, "prompt": "1 2", "how": how}) for how in MISSING]

    def settings(**over: Any) -> Online:
        given = {"environment": f"{tmp_path / 'failing.py'}:Failing", "rewards": {}, "timeout_seconds": 0.5}
        given |= {"prompts_per_round": len(MISSING), "group_size": GROUP, "rounds": ROUNDS, "max_context": 24}
        found = online(**given | {"max_turns": 2, "max_turn_tokens": 2} | over)
        (tmp_path / "prompts.jsonl").write_text("\n".join(prompts))
        return found

    return settings


@pytest.mark.parametrize("schedule", ["fixed", "overlap"])
def test_a_run_ends_and_counts_each_failure(failing: Callable[..., Online], schedule: str) -> None:
    settings = failing(schedule=schedule, alarms=_patient())
    done = rl(settings)
    assert [line["missing"] for line in lines(Path(settings.out) / "metrics.jsonl")] == [COUNTS] * ROUNDS
    assert done.missing == {why: count * ROUNDS for why, count in COUNTS.items()}
    assert done.rollouts == len(MISSING) * GROUP * ROUNDS
    for one in lines(Path(settings.out) / "rollouts.jsonl"):
        why = MISSING[one["prompt_id"]]
        assert one["missing"] == (why and f"environment: {why}")
        assert (one["reward"], one["learned"]) == ((0.5, True) if why is None else (None, False))
        assert one["finish"] != "length" or one["prompt_id"] == "floods"


def _patient() -> Any:
    from karl_fast.rl.settings import Alarms

    return Alarms(missing_share=1.0, flat_rounds=0)


def test_resumed_counts_cover_all_rounds(failing: Callable[..., Online]) -> None:
    rl(failing(rounds=1, alarms=_patient()))
    done = rl(failing(rounds=2, alarms=_patient()), resume=True)
    assert done.missing == {why: count * 2 for why, count in COUNTS.items()}


def test_command_reports_failures_and_counts(failing: Callable[..., Online], tmp_path: Path) -> None:
    done = _command(failing(), tmp_path)
    assert done.returncode == 0, done.stderr
    said = done.stderr.splitlines()
    assert sum(one.startswith("round ") and f"missing {sum(COUNTS.values())}" in one for one in said) == ROUNDS
    hung = "missing   the environment of prompt hangs took more than 0.5 s (2 times)"
    assert said.count(hung) == ROUNDS
    crashed = [one for one in said if "ConnectionError: the browser has gone" in one]
    assert len(crashed) == ROUNDS
    assert "\x1b" not in done.stderr
    reasons = ", ".join(f"{why} {count * ROUNDS}" for why, count in COUNTS.items())
    total = sum(COUNTS.values()) * ROUNDS
    assert f"missing   {total} of {len(MISSING) * GROUP * ROUNDS} rewards: {reasons}" in said


def _command(settings: Online, folder: Path) -> subprocess.CompletedProcess[str]:
    words = ["--model", f"{EXAMPLES / 'reversal.py'}:policy", "--prompts", settings.prompts, "--out", settings.out]
    words += ["--environment", str(settings.environment), "--timeout-seconds", "0.5", "--rounds", str(ROUNDS)]
    words += ["--prompts-per-round", str(len(MISSING)), "--group-size", str(GROUP), "--max-tokens", "4"]
    words += ["--max-turns", "2", "--max-turn-tokens", "2", "--max-context", "24"]
    return ran(["rl", *words, "--alarms-missing-share", "1", "--alarms-flat-rounds", "0"], folder)
