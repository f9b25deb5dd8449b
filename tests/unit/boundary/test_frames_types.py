"""Columns of every Arrow type that come back to a log: their values, or a refusal that names them."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import karl_fast
from karl_fast.errors import DTypeError, LayoutError
from tests import rows

if TYPE_CHECKING:
    from pathlib import Path

DIGITS = [12345678901234567890 + n for n in range(6)]


@pytest.fixture
def log(tmp_path: Path) -> karl_fast.Log:
    return karl_fast.read(rows.write(tmp_path / "log.jsonl", rows.records(6)))


def chunked(array: Any) -> Any:
    return pa.table({"x": pa.chunked_array([array.slice(0, 2), array.slice(2, 0), array.slice(2)])})


WIDTHS = [pa.decimal128(20, 0), pa.decimal256(40, 0), pa.decimal256(76, 0)]


@pytest.mark.parametrize("kind", WIDTHS, ids=str)
def test_decimals_keep_their_digits_as_names(kind: Any, log: karl_fast.Log) -> None:
    frame = chunked(pa.array(map(Decimal, DIGITS), kind))
    for role in ("group", "domain"):
        made = log.with_columns(frame, **{role: "x"})
        assert getattr(made, f"{role}_names") == [str(number) for number in DIGITS]


NUMBERS = {
    "decimal32": pa.array([Decimal("0.1"), None, Decimal("-0.05"), 1, 2, 3], pa.decimal32(9, 2)),
    "decimal64": pa.array([Decimal("0.1"), None, Decimal("-0.05"), 1, 2, 3], pa.decimal64(18, 2)),
    "decimal128": pa.array([Decimal("0.1"), None, Decimal("-0.05"), 1, 2, 3], pa.decimal128(38, 30)),
    "decimal256": pa.array([Decimal("0.1"), None, Decimal("-0.05"), 1, 2, 3], pa.decimal256(76, 60)),
    "dictionary": pa.array([0.1, None, -0.05, 1, 2, 3]).dictionary_encode(),
    "dictionary of float32": pa.array([0.125, None, -0.5, 1, 2, 3], pa.float32()).dictionary_encode(),
    "float16": pa.array([0.125, None, -0.5, 1, 2, 3], pa.float16()),
    "uint64": pa.array([0, None, 2**53, 1, 2, 3], pa.uint64()),
    "null": pa.nulls(6),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_of_any_type_are_rewards(name: str, log: karl_fast.Log) -> None:
    column = NUMBERS[name]
    wanted = [None if number is None else float(number) for number in column.to_pylist()]
    for frame in (chunked(column), pa.table({"x": column})):
        found = log.with_columns(frame, reward="x").rewards
        assert [None if number != number else number for number in found] == wanted


@pytest.mark.parametrize(
    ("column", "names"),
    [
        (pa.array([1.5, 2.5, 1.5, None, 2.5, 1.5]).cast(pa.decimal128(5, 2)).dictionary_encode(), ["1.50", "2.50"]),
        (pa.array([7, 8, 7, None, 8, 7]).dictionary_encode(), ["7", "8"]),
        (pa.array([True, False, True, None, False, True]), ["true", "false"]),
        (pa.array(["a", "b", "a", None, "b", "a"], pa.string_view()), ["a", "b"]),
        (pa.array(["a", "b", "a", None, "b", "a"], pa.large_string()).dictionary_encode(), ["a", "b"]),
        (pa.nulls(6), []),
    ],
    ids=lambda value: str(getattr(value, "type", "")),
)
def test_names_of_a_frame_equal_names_of_logs(
    column: Any, names: list[str], log: karl_fast.Log, tmp_path: Path
) -> None:
    for frame in (chunked(column), pa.table({"x": column})):
        made = log.with_columns(frame, group="x")
        assert made.group_names == names
    assert list(made.groups) == ([0, 1, 0, -1, 1, 0] if names else [-1] * 6)
    messages = [rows.record(n)["messages"] for n in range(6)]
    plain = pa.table({"id": range(6), "reward": [1.0] * 6, "messages": messages, "group": column})
    pq.write_table(plain, tmp_path / "a.parquet")
    assert sorted(karl_fast.read(tmp_path / "a.parquet").group_names) == sorted(names)


@pytest.mark.parametrize(
    "column",
    [
        pa.array(range(6), pa.timestamp("ns", "UTC")),
        pa.array(range(6), pa.date32()),
        pa.array(range(6), pa.duration("s")),
        pa.array([1.5] * 6),
        pa.array([b"a"] * 6),
        pa.array([["a"]] * 6),
        pa.array([{"a": 1}] * 6),
    ],
    ids=lambda column: str(column.type),
)
def test_invalid_names_are_refused_by_column(column: Any, log: karl_fast.Log) -> None:
    with pytest.raises(
        DTypeError, match=r"^x is an Arrow column of .*, wanted strings, integers, decimals or booleans$"
    ):
        log.with_columns(pa.table({"x": column}), group="x")
    if not pa.types.is_floating(column.type):
        with pytest.raises(DTypeError, match=r"^x is an Arrow column of .*, wanted numbers$"):
            log.with_columns(pa.table({"x": column}), reward="x")


def test_a_type_is_refused_without_any_row(log: karl_fast.Log) -> None:
    empty = pa.table({"row": pa.array([], pa.int64()), "x": pa.array([], pa.date32())})
    for role in ("group", "reward"):
        with pytest.raises(DTypeError, match=r"^x is an Arrow column of Date32"):
            log.with_columns(empty, **{role: "x"})


def test_names_that_are_not_utf8_are_refused(log: karl_fast.Log) -> None:
    offsets = pa.array(range(7), pa.int32()).buffers()[1]
    bad = pa.Array.from_buffers(pa.string(), 6, [None, offsets, pa.py_buffer(b"ab\xffdef")])
    for column in (bad, pa.DictionaryArray.from_arrays(pa.array(range(6)), bad)):
        with pytest.raises(LayoutError, match=r"^x cannot be read as Arrow data: "):
            log.with_columns(pa.table({"x": column}), group="x")


def test_engines_hand_decimals_over(log: karl_fast.Log) -> None:
    frame = pl.DataFrame({"x": DIGITS}, schema={"x": pl.Decimal(38, 0)})
    assert log.with_columns(frame, group="x").group_names == [str(number) for number in DIGITS]
    made = duckdb.sql("select r as row, r * 0.1 as x, (r % 2)::hugeint as g from range(6) t(r)")
    log = log.with_columns(made, reward="x", group="g")
    assert list(log.rewards) == [float(Decimal(n) / 10) for n in range(6)]
    assert log.group_names == ["0", "1"]
