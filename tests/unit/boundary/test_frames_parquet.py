"""Columns of a log as a Parquet file: there and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from karl_fast.errors import ArgumentError, FileError, OutputExistsError, OutputForeignError, OutputTakenError
from tests.rows import dumps, records
from tests.unit.boundary.engines import ROWS, same

if TYPE_CHECKING:
    from pathlib import Path

    import karl_fast


def test_parquet_there_and_back(log: karl_fast.Log, tmp_path: Path) -> None:
    path = tmp_path / "columns.parquet"
    log.to_parquet(path)
    assert pq.read_table(path).num_rows == ROWS
    same(log.with_columns(path, reward="reward", group="group", domain="domain"), log)
    assert path.stat().st_mode & 0o777 == (tmp_path / "log.jsonl").stat().st_mode & 0o777
    duckdb.sql(f"copy (select row, reward * 2 as twice from '{path}') to '{tmp_path}/twice.parquet'")
    made = log.with_columns(str(tmp_path / "twice.parquet"), reward="twice")
    np.testing.assert_array_equal(made.rewards, log.rewards * 2)


def test_parquet_is_written_whole_or_not_at_all(
    log: karl_fast.Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "columns.parquet"
    path.write_text("PAR1, what was there")
    with pytest.raises(OutputExistsError, match="exists") as caught:
        log.to_parquet(path)
    assert caught.value.hint == "force=True replaces a file that is there"

    def full(_: pa.Table, sink: Any) -> None:
        sink.write(b"PAR1")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(pq, "write_table", full)
        with pytest.raises(FileError, match=r"cannot write .*: No space left on device"):
            log.to_parquet(path, force=True)
    assert path.read_text() == "PAR1, what was there"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["columns.parquet", "log.jsonl"]
    log.to_parquet(path, force=True)
    assert pq.read_table(path).num_rows == ROWS


def test_foreign_or_concurrent_files_are_not_replaced(
    log: karl_fast.Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "columns.parquet"
    path.write_text("precious")
    with pytest.raises(OutputForeignError, match="is not a file of Parquet"):
        log.to_parquet(path, force=True)
    path.unlink()
    path.symlink_to("log.jsonl")
    with pytest.raises(OutputForeignError, match="is not a file of Parquet"):
        log.to_parquet(path, force=True)
    path.unlink()
    whole = pq.write_table
    for before in (b"", b"PAR1"):
        path.write_bytes(before) if before else None

        def late(table: pa.Table, sink: Any) -> None:
            whole(table, sink)
            path.write_text("precious")

        with monkeypatch.context() as patch:
            patch.setattr(pq, "write_table", late)
            with pytest.raises(OutputTakenError, match="while this run was at work"):
                log.to_parquet(path, force=True)
        assert path.read_text() == "precious"
        path.unlink()
    assert [file.name for file in tmp_path.iterdir()] == ["log.jsonl"]


def test_a_missing_or_foreign_parquet_file_is_refused(log: karl_fast.Log, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"cannot read .*nowhere.parquet"):
        log.with_columns(tmp_path / "nowhere.parquet", reward="x")
    (tmp_path / "text.parquet").write_text(dumps(records(2)))
    with pytest.raises(FileError, match=r"cannot read .*text.parquet as Parquet"):
        log.with_columns(tmp_path / "text.parquet", reward="x")
    with pytest.raises(FileError, match="cannot write"):
        log.to_parquet(tmp_path / "no such folder" / "x.parquet")
    log.to_parquet(tmp_path / "fine.parquet")
    with pytest.raises(ArgumentError, match=r'^frame has 0 columns "x", wanted one'):
        log.with_columns(tmp_path / "fine.parquet", reward="x")
