"""Skills of a log against a plain computation by rows, and a shadow router."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from karl_fast.errors import UsageError
from karl_fast.skill import routing
from tests.cli.run import karl

if TYPE_CHECKING:
    from pathlib import Path

SKILLS = ("review", "debug", "deploy", None)


def rows(count: int = 200) -> list[dict[str, Any]]:
    """Rows in no order of time; a deploy is worth less each day, and one row in nine has no reward."""
    draw, found = random.Random(3), []
    for number in range(count):
        skill = SKILLS[number % 4]
        reward = 1 - number / count if skill == "deploy" else draw.random()
        corrected = draw.choice([0, 1, None])
        moment = f"2026-02-{1 + number * 27 // count:02d}T{number % 24:02d}:00:00Z"
        row: dict[str, Any] = {"id": f"r{number}", "skill": skill, "started_at": moment}
        row |= {"reward": None if number % 9 == 0 else reward, "outcome": {"corrected": corrected}}
        found.append(row | {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})
    draw.shuffle(found)
    return found


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "log.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows()))
    return file


def naive(skill: str, *, start: float, alpha: float = 0.1) -> dict[str, Any]:
    own = sorted((row for row in rows() if row["skill"] == skill), key=lambda row: row["started_at"])
    rewards = [row["reward"] for row in own if row["reward"] is not None]
    weight, half = start, len(rewards) // 2
    for reward in rewards:
        weight = (1 - alpha) * weight + alpha * reward
    known = [row["outcome"]["corrected"] for row in own if row["outcome"]["corrected"] is not None]
    return {
        "rows": len(own),
        "rewarded": len(rewards),
        "mean": sum(rewards) / len(rewards),
        "weight": weight,
        "trend": sum(rewards[-half:]) / half - sum(rewards[:half]) / half,
        "corrected": sum(known) / len(known),
        "corrected_known": len(known),
    }


def test_the_evidence_is_that_of_a_plain_computation(log: Path) -> None:
    found = karl_fast.skills(log, "skill")
    rewards = [row["reward"] for row in rows() if row["reward"] is not None and row["skill"] is not None]
    start = sum(rewards) / len(rewards)
    assert {one.name for one in found.skills} == {"review", "debug", "deploy"}
    for one in found.skills:
        wanted = naive(one.name, start=start)
        assert {name: getattr(one, name) for name in wanted} == pytest.approx(wanted)
        assert one.low is not None
        assert one.high is not None
        assert one.mean is not None
        assert one.low < one.mean < one.high
    assert [one.weight for one in found.skills] == sorted((one.weight for one in found.skills), reverse=True)
    assert (found.rows, found.without_skill, found.without_time) == (200, 50, 0)
    [deploy] = [one for one in found.skills if one.name == "deploy"]
    assert deploy.trend is not None
    assert deploy.trend < -0.3


def test_weights_of_karl_begin_at_a_half(log: Path) -> None:
    found = {one.name: one.weight for one in karl_fast.skills(log, "skill", weighting="karl").skills}
    assert found == pytest.approx({name: 0.5 + naive(name, start=0.5)["weight"] for name in found})
    ours = {one.name: one.weight for one in karl_fast.skills(log, "skill").skills}
    assert all(abs(found[name] - 0.5 - ours[name]) > 1e-6 for name in ours if found[name] and ours[name])
    with pytest.raises(UsageError, match="weighting is 'kral', wanted ema or karl"):
        karl_fast.skills(log, "skill", weighting="kral")  # type: ignore[arg-type]


def test_rows_without_a_time_enter_no_weight(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    kept = [{name: value for name, value in row.items() if name != "started_at"} for row in rows(40)]
    file.write_text("".join(json.dumps(row) + "\n" for row in kept))
    found = karl_fast.skills(file, "skill")
    assert all(one.weight is None and one.trend is None and one.mean is not None for one in found.skills)
    assert found.without_time == sum(one.rewarded for one in found.skills)


def test_the_reward_may_be_made_of_outcomes(log: Path) -> None:
    found = karl_fast.skills(log, "skill", reward={"outcome.corrected": 1.0})
    for one in found.skills:
        assert one.mean == pytest.approx(1 - one.corrected if one.corrected is not None else None)


SHADOW = [
    {"actual_skill": "a", "regex": "a", "vector": "a", "reciprocal_rank": 1.0},
    {"actual_skill": "a", "regex": "b", "vector": "a", "reciprocal_rank": 1.0},
    {"actual_skill": "b", "regex": "b", "vector": "c", "reciprocal_rank": 1 / 3},
    {"actual_skill": "b", "regex": None, "vector": "z", "reciprocal_rank": 0.25},
    {"actual_skill": None, "regex": "b", "vector": "b", "reciprocal_rank": 0.0},
]


def test_a_shadow_router_is_compared_with_used_skills(tmp_path: Path) -> None:
    file = tmp_path / "routing_shadow.jsonl"
    file.write_text("".join(json.dumps({"id": str(at)} | row) + "\n" for at, row in enumerate(SHADOW)))
    found = routing(file)
    assert (found.rows, found.agreement) == (4, pytest.approx(1 / 3))
    assert (found.shadow_correct, found.router_correct) == (0.5, 0.5)
    assert found.in_top == 0.75
    assert found.reciprocal_rank == pytest.approx((1 + 1 + 1 / 3 + 0.25) / 4)
    assert found.by_skill == {"a": (2, 1.0), "b": (2, 0.0)}
    text = karl("skills", "--router", file).stdout
    assert "in top 3  0.750; mean reciprocal rank 0.646" in text


def test_the_command_prints_a_table_and_json(log: Path) -> None:
    text = karl("skills", log, "--by", "skill").stdout
    assert text.splitlines()[0].split() == [
        *("skill", "rows", "rewarded", "weight", "mean", "interval", "trend", "corrected")
    ]
    assert "weights   running means of rewards, from the mean of all (KARL begins at 0.5: --weighting karl)" in text
    found = json.loads(karl("skills", log, "--by", "skill", "--json").stdout)
    assert found["router"] is None
    assert len(found["skills"]["skills"]) == 3
    assert "wanted that with the skill of a row" in karl("skills", log).stderr
