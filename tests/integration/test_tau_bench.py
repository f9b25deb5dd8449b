"""tau-bench: 200 logged trajectories of an airline agent, 50 tasks of 4 trials each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import karl_fast
from tests import rows

if TYPE_CHECKING:
    from pathlib import Path


def test_log_is_recognised_and_kept_whole(tau_bench: Path) -> None:
    report = karl_fast.inspect(tau_bench).report
    assert report["inputs"][0]["format"] == "tau-bench"
    assert report["accounting"]["rows_read"] == report["accounting"]["rows_kept"] == 200
    assert report["accounting"]["dropped"] == {}
    assert abs(report["reward"]["before"]["mean"] - 0.42) < 1e-12


def test_half_of_the_groups_are_constant(tau_bench: Path) -> None:
    groups = karl_fast.inspect(tau_bench).report["groups"]
    assert (groups["count"], groups["constant"]) == (50, 24)
    assert groups["constant_by"] == {"at_top": 10, "at_bottom": 14, "other": 0}


def test_constant_groups_have_a_zscore_of_zero(tau_bench: Path) -> None:
    log = karl_fast.read(tau_bench)
    scores = karl_fast.zscore(log.rewards, log.groups)
    zeros = sum(1 for score in scores if score == 0.0)
    assert zeros == 24 * 4


def test_dropping_constant_groups_leaves_the_other_104_rows(tau_bench: Path) -> None:
    log = karl_fast.inspect(tau_bench, drop_constant_groups=True).report["accounting"]
    assert log["dropped"] == {"constant_group": 96}
    assert log["rows_kept"] == 104


def test_written_rows_end_with_an_assistant_turn(tau_bench: Path, tmp_path: Path) -> None:
    out = tmp_path / "data"
    manifest = karl_fast.sample(tau_bench, out, k=60, seed=7).manifest
    source = {f"{row['task_id']}/{row['trial']}": row for row in json.loads(tau_bench.read_text("utf-8"))}
    written = rows.lines(out)
    assert len(written) == 60
    trimmed = 0
    for row in written:
        original = source[row["karl_fast"]["id"]]
        kept = len(row["messages"])
        assert row["messages"][-1]["role"] == "assistant"
        assert all(message["role"] != "assistant" for message in original["traj"][kept:])
        assert [m["content"] for m in row["messages"]] == [m["content"] for m in original["traj"][:kept]]
        assert row["karl_fast"]["group"] == str(original["task_id"])
        assert row["karl_fast"]["reward"] == original["reward"]
        trimmed += len(original["traj"]) - kept
    assert trimmed > 0
    counted = manifest["export"]["trimmed_after_last_assistant_turn"]
    assert counted["messages"] == trimmed
    assert counted["rows"] == 60


def test_a_group_is_never_dealt_to_two_splits(tau_bench: Path, tmp_path: Path) -> None:
    out = tmp_path / "data"
    karl_fast.sample(tau_bench, out, k=120, split=(0.6, 0.2, 0.2))
    groups = {
        path.stem: {json.loads(line)["karl_fast"]["group"] for line in path.read_text("utf-8").splitlines()}
        for path in out.glob("*.jsonl")
    }
    assert set(groups) == {"train", "valid", "test"}
    assert not groups["train"] & groups["valid"]
    assert not groups["train"] & groups["test"]
    assert not groups["valid"] & groups["test"]


def test_the_draw_moves_the_mean_reward_up(tau_bench: Path) -> None:
    reward = karl_fast.sample(tau_bench, None, k=60).manifest["reward"]
    assert reward["after"]["mean"] > reward["before"]["mean"] + 0.2
