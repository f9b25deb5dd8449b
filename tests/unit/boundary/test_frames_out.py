"""A log as a table of any engine: what goes out, and whose memory it is."""

from __future__ import annotations

import gc
import json
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import xxhash

import karl_fast
from tests.rows import record, records, write
from tests.unit.boundary.engines import ENGINES, ROWS, same

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("engine", ENGINES)
def test_a_log_round_trips_unchanged(log: karl_fast.Log, engine: str) -> None:
    frame = ENGINES[engine](log)
    assert len(frame) == ROWS
    same(log.with_columns(frame, reward="reward", group="group", domain="domain"), log)


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_sees_the_same_values(log: karl_fast.Log, engine: str) -> None:
    found = ENGINES[engine](log)
    table = found.to_arrow() if engine == "polars" else pa.table(found)
    rewards = np.array([math.nan if value is None else value for value in table["reward"].to_pylist()])
    np.testing.assert_array_equal(rewards, log.rewards)
    groups = [None if code < 0 else log.group_names[code] for code in log.groups.tolist()]
    assert [None if name is None or name != name else name for name in table["group"].to_pylist()] == groups
    assert table["row"].to_pylist() == list(range(ROWS))


def test_a_missing_value_is_null_and_not_nan(log: karl_fast.Log) -> None:
    table = pa.table(log)
    table.validate(full=True)
    assert table["reward"].null_count == 2
    assert pc.sum(pc.is_nan(table["reward"])).as_py() == 0
    assert table["group"].null_count == 1
    assert table["domain"].null_count == 13
    assert duckdb.sql("select count(*) - count(reward) from log").fetchall() == [(2,)]
    assert pl.DataFrame(log)["reward"].null_count() == 2


def test_the_columns_and_their_types(path: Path) -> None:
    log = karl_fast.read(path, reward={"reward": 0.5, "missing": 1.0}, partition_by="domain", dedup=True)
    dictionary = pa.dictionary(pa.int32(), pa.large_string())
    wanted = pa.schema(
        [
            pa.field("row", pa.uint32(), nullable=False),
            pa.field("id_hash", pa.binary(16), nullable=False),
            pa.field("ordinal", pa.uint64(), nullable=False),
            pa.field("group", dictionary),
            pa.field("domain", dictionary),
            pa.field("reward", pa.float64()),
            pa.field("reward.reward", pa.float64()),
            pa.field("reward.missing", pa.float64()),
            pa.field("partition", dictionary),
            pa.field("trajectory_hash", pa.binary(16), nullable=False),
            pa.field("file", dictionary),
            pa.field("offset", pa.uint64(), nullable=False),
            pa.field("length", pa.uint32(), nullable=False),
        ]
    )
    assert pa.schema(log) == wanted
    table = pa.table(log)
    assert table.schema == wanted
    np.testing.assert_array_equal(table["reward.reward"].to_numpy(), log.components["reward"])
    assert table["reward"].null_count == ROWS


def test_a_record_can_be_found_and_joined(path: Path) -> None:
    content = path.read_bytes()
    for row in pa.table(karl_fast.read(path)).to_pylist():
        record = json.loads(content[row["offset"] : row["offset"] + row["length"]])
        assert row["id_hash"] == xxhash.xxh3_128_digest(record["id"].encode())
        assert (row["file"], row["ordinal"]) == (str(path), 0)


def test_records_of_one_id_are_told_apart(tmp_path: Path) -> None:
    log = karl_fast.read(write(tmp_path / "log.jsonl", [record(0, reward=n / 4) for n in range(4)]))
    table = pa.table(log)
    assert table["ordinal"].to_pylist() == [0, 1, 2, 3]
    assert len(set(table["id_hash"].to_pylist())) == 1


def test_a_single_component_shares_the_logs_memory(tmp_path: Path) -> None:
    log = karl_fast.read(write(tmp_path / "log.jsonl", records(64)))

    def address() -> int:
        buffer = pa.table(log)["reward"].chunk(0).buffers()[1]
        assert buffer is not None
        return buffer.address

    first = pa.table(log)
    assert address() == address() == first["reward"].chunk(0).buffers()[1].address


def test_a_frame_and_its_log_outlive_each_other(path: Path) -> None:
    log = karl_fast.read(path)
    rewards = log.rewards
    tables = [pa.table(log), pl.DataFrame(log), log.__arrow_c_stream__()]
    log2 = log.with_columns(tables[0], reward="reward")
    del log
    gc.collect()
    np.testing.assert_array_equal(tables[0]["reward"].to_numpy(), rewards)
    np.testing.assert_array_equal(tables[1]["reward"].to_numpy(), rewards)
    last = pa.RecordBatchReader._import_from_c_capsule(tables[2]).read_all()
    np.testing.assert_array_equal(last["reward"].to_numpy(), rewards)
    del tables
    gc.collect()
    np.testing.assert_array_equal(log2.rewards, rewards)
    np.testing.assert_array_equal(last["reward"].to_numpy(), rewards)


def test_a_capsule_is_consumed_once(log: karl_fast.Log) -> None:
    capsule = log.__arrow_c_stream__()
    assert pa.RecordBatchReader._import_from_c_capsule(capsule).read_all().num_rows == ROWS
    with pytest.raises(pa.ArrowInvalid, match="released"):
        pa.RecordBatchReader._import_from_c_capsule(capsule)
    assert pa.table(log) == pa.table(log)
    for _ in range(100):
        log.__arrow_c_stream__()  # No consumer takes it: it is released with its capsule.


def test_many_threads_take_one_log(log: karl_fast.Log) -> None:
    wanted = pa.table(log)
    barrier = threading.Barrier(8)

    def take(_: int) -> bool:
        barrier.wait()
        return pa.table(log).equals(wanted) and len(log.with_columns(pl.DataFrame(log), reward="reward")) == ROWS

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(take, range(8)))


def test_an_empty_log_is_an_empty_table(tmp_path: Path) -> None:
    log = karl_fast.read(write(tmp_path / "log.jsonl", [record(0) | {"reward": "none"}]))
    assert len(log) == 0
    for engine, make in ENGINES.items():
        assert len(make(log)) == 0, engine
    same(log.with_columns(pl.DataFrame(log), reward="reward", group="group", domain="domain"), log)
