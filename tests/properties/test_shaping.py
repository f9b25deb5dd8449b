"""A shaped reward is for scores: whatever is filtered, counted, reported or written sees the reward as it is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import karl_fast
from karl_fast.errors import UsageError
from karl_fast.reward import AsymmetricScale
from karl_fast.settings.sample import Settings
from tests import rows
from tests.cli.run import karl

if TYPE_CHECKING:
    from pathlib import Path

SCALE = AsymmetricScale(up=3.0, down=0.25, centre=0.5)


def by_hand(reward: float | None) -> float | None:
    """The formula, a row at a time."""
    if reward is None:
        return None
    apart = reward - SCALE.centre
    return (SCALE.up if apart > 0 else SCALE.down) * apart + SCALE.centre


def records() -> list[dict[str, Any]]:
    """Groups that differ, one that is constant at the centre, one above it, one with a reward missing."""
    made = rows.records(60, groups=6)
    for number, (group, reward) in enumerate([("centre", 0.5), ("centre", 0.5), ("above", 0.75), ("above", 0.75)]):
        made.append(rows.record(100 + number, group, reward))
    return [*made, rows.record(200, "g0", None)]


def shaped_before(path: Path) -> Path:
    """The same log with rewards that were shaped before it was written."""
    return rows.write(path, [record | {"reward": by_hand(record["reward"])} for record in records()])


@pytest.mark.parametrize("partition", ["global", "group"])
@pytest.mark.parametrize("score", ["raw", "centre", "zscore", "leave-one-out"])
def test_the_target_is_of_shaped_rewards(tmp_path: Path, score: str, partition: str) -> None:
    log, twin = rows.write(tmp_path / "log.jsonl", records()), shaped_before(tmp_path / "twin.jsonl")
    choices = {"sampler": "all", "score": score, "partition_by": partition, "inverse_temperature": 2.0}
    karl_fast.sample(log, tmp_path / "a", shaping=SCALE, **choices)
    karl_fast.sample(twin, tmp_path / "b", **choices)
    pairs = list(zip(rows.lines(tmp_path / "a"), rows.lines(tmp_path / "b"), strict=True))
    rewards = {record["id"]: record["reward"] for record in records()}
    for ours, theirs in pairs:
        mine, other = ours["karl_fast"], theirs["karl_fast"]
        assert {**mine, "reward": by_hand(mine["reward"])} == other
        assert mine["reward"] == rewards[mine["id"]]
    assert len(pairs) == 64
    a, b = rows.manifest(tmp_path / "a"), rows.manifest(tmp_path / "b")
    assert a["target"]["log_z"] == b["target"]["log_z"]
    assert a["target"]["ess_rows"] == b["target"]["ess_rows"]


def test_rules_and_reports_use_unshaped_rewards(tmp_path: Path) -> None:
    """Two groups differ in reward and are judged by it; shaping cannot split those that are constant."""
    log = rows.write(tmp_path / "log.jsonl", records())
    choices = {"k": 20, "score": "zscore", "drop_constant_groups": True, "min_reward": 0.25}
    plain = karl_fast.sample(log, None, **choices).manifest
    shaped = karl_fast.sample(log, None, shaping=SCALE, **choices).manifest
    assert shaped["accounting"] == plain["accounting"]
    assert shaped["accounting"]["dropped"]["constant_group"] == 4
    assert shaped["groups"] == plain["groups"]
    assert shaped["reward"]["before"] == plain["reward"]["before"]
    assert shaped["target"]["log_z"] != plain["target"]["log_z"]
    assert "shaping" not in plain["target"]
    assert shaped["target"]["shaping"] == {
        "transform": "asymmetric scale",
        "up": 3.0,
        "down": 0.25,
        "centre": 0.5,
        "formula": "s(r) = up (r - centre) + centre for r > centre, down (r - centre) + centre below; "
        "reward is r everywhere else",
        "tempered": "the zscore score of the shaped reward",
    }


def test_a_minimum_is_one_of_rewards(tmp_path: Path) -> None:
    log = rows.write(tmp_path / "log.jsonl", [rows.record(n, "g", reward) for n, reward in enumerate([0.0, 0.6, 1.0])])
    up = karl_fast.inspect(log, shaping=AsymmetricScale(up=10.0), min_reward=0.9).report
    assert up["accounting"]["dropped"] == {"below_minimum": 1 + 1}
    assert up["target"]["expected_reward"] == 1.0
    assert up["reward"]["before"]["max"] == 1.0


def test_expected_rewards_are_those_of_the_reward(tmp_path: Path) -> None:
    log = rows.write(tmp_path / "log.jsonl", [rows.record(0, "g", 0.0), rows.record(1, "g", 1.0)])
    found = karl_fast.inspect(log, shaping=AsymmetricScale(up=3.0), inverse_temperature=1.0)
    odds = np.exp(3.0)
    assert found.report["target"]["expected_reward"] == pytest.approx(odds / (1 + odds), rel=1e-14)
    assert max(rung["expected_reward"] for rung in found.ladder) <= 1.0


def test_a_stream_shapes_as_a_file_does(tmp_path: Path) -> None:
    log = rows.write(tmp_path / "log.jsonl", records())
    how = (
        "--sampler",
        "weighted-reservoir",
        "--inverse-temperature",
        3,
        "-k",
        9,
        "--shaping",
        "up=3,down=.25,centre=.5",
    )
    assert karl("sample", log, "-o", "a", *how, folder=tmp_path).returncode == 0
    done = karl("sample", "-", "-o", "b", *how, folder=tmp_path, input=log.read_text("utf-8"))
    assert done.returncode == 0
    assert json.loads((tmp_path / "b" / "manifest.json").read_text("utf-8"))["run"]["streamed"]
    assert rows.files(tmp_path / "a") == rows.files(tmp_path / "b")
    a, b = rows.manifest(tmp_path / "a")["target"], rows.manifest(tmp_path / "b")["target"]
    assert (a["log_z"], a["shaping"]) == (b["log_z"], b["shaping"])
    assert a["expected_reward"] == pytest.approx(b["expected_reward"], rel=1e-14)


def test_manifest_and_settings_file_draw_the_same(tmp_path: Path) -> None:
    rows.write(tmp_path / "log.jsonl", records())
    flags = ("-k", 9, "--shaping", "up=3,down=0.25,centre=0.5")
    assert karl("sample", "log.jsonl", "-o", "a", *flags, folder=tmp_path).returncode == 0
    assert karl("sample", "--config", "a", "-o", "b", folder=tmp_path).returncode == 0
    (tmp_path / "karl.toml").write_text("k = 9\n[shaping]\nup = 3\ndown = 0.25\ncentre = 0.5\n")
    assert karl("sample", "log.jsonl", "--config", "karl.toml", "-o", "c", folder=tmp_path).returncode == 0
    assert rows.files(tmp_path / "a") == rows.files(tmp_path / "b") == rows.files(tmp_path / "c")
    settings = Settings.load(tmp_path / "karl.toml")
    assert settings.shaping == SCALE
    (tmp_path / "again.toml").write_text(settings.to_toml())
    assert Settings.load(tmp_path / "again.toml") == Settings.from_dict(settings.to_dict()) == settings


@pytest.mark.parametrize(
    "text", ["up", "up=x", "up=0", "down=2", "up=2,up=3", "up=2,middle=1", "up=2,centre=nan", "=2"]
)
def test_a_shaping_that_means_nothing_is_refused(tmp_path: Path, text: str) -> None:
    rows.write(tmp_path / "log.jsonl", records())
    done = karl("sample", "log.jsonl", "--dry-run", "-k", 3, "--shaping", text, folder=tmp_path)
    assert (done.returncode, "--shaping is" in done.stderr, "wanted" in done.stderr) == (2, True, True), done.stderr
    with pytest.raises(UsageError, match="shaping"):
        Settings.from_dict({"shaping": text})


@pytest.mark.parametrize("value", [{}, {"down": 1.0}, {"up": True}, {"up": 2.0, "scale": 1.0}, [2.0], 2.0])
def test_a_table_that_means_nothing_is_refused(value: Any) -> None:
    with pytest.raises(UsageError, match="shaping"):
        Settings.from_dict({"shaping": value})
    with pytest.raises(UsageError, match="wanted an AsymmetricScale"):
        Settings(shaping=value)


def test_shaping_without_a_score_is_refused(tmp_path: Path) -> None:
    log = karl_fast.read(rows.write(tmp_path / "log.jsonl", records()))
    with pytest.raises(UsageError, match="no use for shaping"):
        karl_fast.sample(log, None, k=3, sampler="reservoir", shaping=SCALE)
    pyarrow = pytest.importorskip("pyarrow")
    weighted = log.with_columns(pyarrow.table({"w": np.zeros(len(log))}), log_weight="w")
    with pytest.raises(UsageError, match=r"shaping is .*, but log_weight was given"):
        karl_fast.sample(weighted, None, k=3, shaping=SCALE)


def test_a_shaped_reward_beyond_floats_ends_the_run(tmp_path: Path) -> None:
    log = rows.write(tmp_path / "log.jsonl", [rows.record(0, "g", 1e10), rows.record(1, "g", 0.0)])
    with pytest.raises(karl_fast.errors.ArgumentError, match="shaped reward"):
        karl_fast.inspect(log, shaping=AsymmetricScale(up=1e300))
