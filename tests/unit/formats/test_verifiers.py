"""vf-eval's results: what failed, what was cut short, and whose example it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import karl_fast
from tests import rows
from tests.unit.formats import builders
from tests.unit.formats.builders import turn

if TYPE_CHECKING:
    from pathlib import Path


def test_the_group_is_example_and_environment(tmp_path: Path) -> None:
    ours = [builders.verifiers(n // 4, n, n % 2) for n in range(16)]
    other = [builders.verifiers(n // 4, n, n % 2, prompt=[turn("user", f"other {n // 4}")]) for n in range(16)]
    log = karl_fast.read([rows.write(tmp_path / "a.jsonl", ours), rows.write(tmp_path / "b.jsonl", other)])
    assert sorted(np.bincount(log.groups)) == [4] * 8
    assert {name.split("/")[0] for name in log.group_names} == {"0", "1", "2", "3"}


def test_a_failed_rollout_is_no_reward_of_0(tmp_path: Path) -> None:
    broken = [{"error": "ModelError", "error_chain_repr": "", "error_chain_str": ""}, "APITimeoutError()"]
    records = [builders.verifiers(0, n, 1.0) for n in range(6)]
    records += [builders.verifiers(0, 6 + n, 0.0, error=error, completion=None) for n, error in enumerate(broken)]
    path = rows.write(tmp_path / "results.jsonl", records)
    report = karl_fast.inspect(path).report
    assert report["accounting"]["dropped"] == {"failed_rollout": 2}
    assert report["accounting"]["rows_read"] == 8
    assert report["groups"]["constant"] == 1
    assert len(karl_fast.read(path, strict=True)) == 6


def test_strict_still_finds_damage_behind_many_failed_rollouts(tmp_path: Path) -> None:
    records = [builders.verifiers(0, n, 0.0, error="no") for n in range(30)] + [builders.verifiers(0, 30, 1.0)]
    path = rows.write(tmp_path / "results.jsonl", records)
    path.write_text(path.read_text(encoding="utf-8") + '{"example_id": 0, "reward": tru\n', encoding="utf-8")
    with pytest.raises(karl_fast.errors.BadRowError, match="malformed"):
        karl_fast.read(path, strict=True)


@pytest.mark.parametrize("fine", [None, False, ""])
def test_no_error_is_no_failure(tmp_path: Path, fine: object) -> None:
    path = rows.write(tmp_path / "results.jsonl", [builders.verifiers(0, n, 1.0, error=fine) for n in range(8)])
    assert len(karl_fast.read(path)) == 8


def test_a_cut_rollout_counts_but_is_not_written(tmp_path: Path) -> None:
    records = [builders.verifiers(0, n, n % 2, is_truncated=n < 3) for n in range(8)]
    path = rows.write(tmp_path / "results.jsonl", records)
    manifest = karl_fast.sample(path, tmp_path / "out", k=8, score="centre").manifest
    assert manifest["accounting"]["rows_kept"] == 8
    assert manifest["draw"]["failed"] == {"truncated": 3}
    assert len(rows.lines(tmp_path / "out")) == 5


def test_prompt_and_completion_are_one_conversation(tmp_path: Path) -> None:
    path = rows.write(tmp_path / "results.jsonl", [builders.verifiers(0, n, 1.0) for n in range(8)])
    karl_fast.sample(path, tmp_path / "out", k=8)
    row = next(row for row in rows.lines(tmp_path / "out") if row["messages"][-1]["content"] == "answer 3")
    call = {"id": "c", "type": "function", "function": {"name": "add", "arguments": {"a": 1}}}
    assert row["messages"] == [
        turn("user", "question 0"),
        turn("assistant", "", tool_calls=[call]),
        turn("tool", "2", tool_call_id="c"),
        turn("assistant", "answer 3"),
    ]
    assert row["tools"] == [{"type": "function", "function": builders.verifiers(0, 0, 1.0)["tool_defs"][0]}]


def test_texts_stay_texts(tmp_path: Path) -> None:
    records = [builders.verifiers(0, n, 1.0, prompt="1 + 1 =", completion=f" {n}", tool_defs=[]) for n in range(8)]
    karl_fast.sample(rows.write(tmp_path / "r.jsonl", records), tmp_path / "out", k=8, shape="prompt-completion-text")
    assert {row["prompt"] for row in rows.lines(tmp_path / "out")} == {"1 + 1 ="}


def test_older_files_have_their_task_for_a_domain(tmp_path: Path) -> None:
    log = karl_fast.read(rows.write(tmp_path / "r.jsonl", [builders.old_verifiers(0, n, 1.0) for n in range(8)]))
    assert log.domain_names == ["sums"]
