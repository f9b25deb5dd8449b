"""KARL's store: two forms of record in one file, and no words of the model in one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import karl_fast
from tests import rows
from tests.unit.formats import builders

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> Path:
    taps = [builders.karl_tap(n, n / 10) for n in range(8)]
    extracts = [builders.karl_extract(n, n / 10) for n in range(8)]
    both = [record for pair in zip(taps, extracts, strict=True) for record in pair]
    return rows.write(tmp_path / "trajectories.jsonl", both)


def test_both_forms_are_read_from_one_file(store: Path) -> None:
    log = karl_fast.read(store)
    assert sorted(log.group_names) == sorted(log.domain_names) == ["ops", "web"]
    assert sorted(np.bincount(log.groups)) == [8, 8]
    assert np.allclose(sorted(log.rewards), sorted([n / 10 for n in range(8)] * 2))
    assert log.inputs[0]["without_id"] == 0


def test_centre_is_the_advantage_over_the_domain_mean(store: Path) -> None:
    log = karl_fast.read(store)
    for at, name in enumerate(log.group_names):
        members = log.groups == at
        found = karl_fast.centre(log.rewards, log.groups)[members]
        assert np.allclose(found, log.rewards[members] - log.rewards[members].mean()), name


def test_tap_learns_its_plan_extract_its_response(store: Path, tmp_path: Path) -> None:
    karl_fast.sample(store, tmp_path / "out", k=16, shape="prompt-completion-text")
    written = {row["karl_fast"]["id"]: (row["prompt"], row["completion"]) for row in rows.lines(tmp_path / "out")}
    plan = "1. Read(file_path=/src/3.py)\n2. Bash(command=make, description=builds)\n3. TodoWrite"
    assert written["traj_3"] == ("deploy 3", plan)
    assert written["x3"] == ("fix 3", "done")


def test_a_plan_says_nothing_of_reward_or_success(store: Path, tmp_path: Path) -> None:
    karl_fast.sample(store, tmp_path / "out", k=16)
    for row in rows.lines(tmp_path / "out"):
        assert not any(word in row["completion"] for word in ("reward", "ok", "fail", "succeeded", "True", "False"))


def test_an_extract_without_a_response_is_a_plan(tmp_path: Path) -> None:
    path = rows.write(tmp_path / "t.jsonl", [builders.karl_extract(n, 0.5, response="") for n in range(4)])
    karl_fast.sample(path, tmp_path / "out", k=4)
    assert {row["completion"] for row in rows.lines(tmp_path / "out")} == {"1. Bash({'command': 'ls'})"}


def test_an_uncomputed_reward_is_missing(tmp_path: Path) -> None:
    records = [
        *(builders.karl_tap(n, 0.5, None) for n in range(4)),
        builders.karl_tap(4, None),
        builders.karl_extract(5, None),
    ]
    path = rows.write(tmp_path / "t.jsonl", records)
    report = karl_fast.inspect(path).report
    assert report["accounting"]["dropped"] == {"missing_reward": 2}
    assert karl_fast.inspect(path, score="zscore").report["accounting"]["dropped"]["missing_group"] == 4


@pytest.mark.parametrize(
    ("flaw", "trajectory"),
    [
        ("no_trajectory", {}),
        ("no_assistant_turn", {"tool_calls": []}),
        ("bad_message", {"events": ["Read"]}),
        ("bad_message", {"events": [{"key_params": {}}]}),
        ("bad_message", {"events": {"tool_name": "Read"}}),
    ],
)
def test_a_record_without_a_plan_is_dropped(tmp_path: Path, flaw: str, trajectory: dict[str, object]) -> None:
    records = [builders.karl_tap(0, 1.0, trajectory=trajectory), *(builders.karl_tap(n, 0.5) for n in range(1, 6))]
    manifest = karl_fast.sample(rows.write(tmp_path / "t.jsonl", records), None, k=6).manifest
    assert manifest["draw"]["failed"] == {flaw: 1}
