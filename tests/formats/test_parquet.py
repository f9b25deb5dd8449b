"""Parquet: a row is a record. TRL's completions are made from its schema, for no real ones are at hand."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import karl_fast
from karl_fast import errors
from tests import rows

if TYPE_CHECKING:
    from pathlib import Path

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def write(path: Path, records: list[dict[str, Any]], **schema: Any) -> Path:
    parquet.write_table(pyarrow.Table.from_pylist(records, **schema), path)
    return path


def test_rows_are_the_records_of_a_log_of_lines(tmp_path: Path) -> None:
    records = rows.records(3000)
    table = write(tmp_path / "log.parquet", records)
    lines = rows.write(tmp_path / "log.jsonl", records)
    for name, path in (("a", table), ("b", lines)):
        karl_fast.sample(path, tmp_path / name, k=64, score="zscore", seed=3)
    assert rows.files(tmp_path / "a") == rows.files(tmp_path / "b")
    assert karl_fast.read(table).inputs[0]["path"] == str(table)


def completions(step: int) -> list[dict[str, Any]]:
    """What TRL logs of four completions of two prompts, with two reward functions."""
    return [
        {
            "step": step,
            "prompt": f"prompt {n // 2} ü",
            "completion": f"answer {n}",
            "correct": [1.0, 0.0, None, math.nan][n],
            "brief": [0.5, 0.25, 0.125, None][n],
            "advantage": 0.0,
        }
        for n in range(4)
    ]


def test_completions_of_trl_are_grouped_by_step_and_prompt_and_their_rewards_added(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"completions_{step:05}.parquet", completions(step)) for step in (10, 20)]
    log = karl_fast.read(paths)
    assert {file["format"] for file in log.inputs} == {"trl"}
    assert sorted(np.bincount(log.groups)) == [2] * 4
    assert sorted(log.rewards[~np.isnan(log.rewards)]) == [0.125, 0.125, 0.25, 0.25, 1.5, 1.5]
    sample = karl_fast.sample(log, None, k=4, score="centre")
    assert sample.manifest["accounting"]["dropped"] == {"missing_reward": 2}
    assert "answer" in next(sample.lines())


def test_reward_functions_are_weighed_by_name(tmp_path: Path) -> None:
    path = write(tmp_path / "completions_00010.parquet", completions(10)[:2])
    log = karl_fast.read(path, reward={"correct": 0.5, "brief": 2.0})
    assert sorted(log.rewards) == [0.5, 1.5]


def test_what_json_has_no_form_for_is_spelled_out(tmp_path: Path) -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    odd = {"at": moment, "cost": Decimal("0.5"), "raw": b"a\xff", "nested": [{"a": moment}]}
    log = karl_fast.read(write(tmp_path / "a.parquet", [rows.record(0) | odd]), reward={"cost": 1.0})
    assert list(log.rewards) == [0.5]
    line = next(karl_fast.sample(log, None, k=1, shape="raw").lines())
    assert '"at": "2026-01-01T00:00:00+00:00"' in line
    assert '"raw": "a\\\\xff"' in line


def test_what_is_no_parquet_is_a_file_error(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    for damage in (b"", b"PAR1", b"{}\n" * 100):
        path.write_bytes(damage)
        with pytest.raises(errors.FileError):
            karl_fast.read(path)


def test_a_folder_is_not_searched_for_tables(tmp_path: Path) -> None:
    """Columns that were written beside a log are no log."""
    lines = rows.write(tmp_path / "log.jsonl", rows.records(8))
    karl_fast.read(lines).to_parquet(tmp_path / "columns.parquet")
    assert len(karl_fast.read(tmp_path)) == 8
