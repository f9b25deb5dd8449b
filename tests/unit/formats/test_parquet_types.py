"""Every type that a Parquet file can have keeps its value in the record, or its column is refused by name."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from karl_fast import errors
from tests import rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

EXTREMES = [-(2**63), 2**63 - 1]


def ticks(numbers: list[int], kind: Any) -> Any:
    return pa.array(numbers, f"int{kind.bit_width}").view(kind)


def values() -> Iterator[tuple[str, Any, list[str]]]:
    """A name, an array without nulls, and the JSON text of each of its values."""
    yield "bool", pa.array([True, False]), ["true", "false"]
    for bits in (8, 16, 32, 64):
        low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        yield f"int{bits}", pa.array([low, high], f"int{bits}"), [str(low), str(high)]
        yield f"uint{bits}", pa.array([0, 2**bits - 1], f"uint{bits}"), ["0", str(2**bits - 1)]
    for width in ("float16", "float32", "float64"):
        odd = [1.5, float("nan"), float("inf"), -float("inf"), -0.0]
        yield width, pa.array(odd, width), ["1.5", "NaN", "Infinity", "-Infinity", "-0.0"]
    for kind in (pa.decimal32(9, 3), pa.decimal64(18, 3), pa.decimal128(38, 3), pa.decimal256(76, 3)):
        yield str(kind), pa.array([Decimal("-0.010"), Decimal(12)], kind), ["-0.010", "12.000"]
    digits = "1234567890" * 7 + "123456"
    yield "76 digits", pa.array([Decimal(digits)], pa.decimal256(76, 0)), [digits]
    yield "small decimal", pa.array([Decimal("1e-12")], pa.decimal128(38, 15)), ["0.000000000001000"]
    for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()):
        yield str(kind), pa.array(['"ü\n\u2028\0'], pa.string()).cast(kind), ['"\\"ü\\n\u2028\\u0000"']
    yield "fixed binary", pa.array([b"ab"], pa.binary(2)), ['"ab"']
    days = ticks([0, -719_529, 10_000_000, -(2**31), 2**31 - 1], pa.date32())
    far = ["1970-01-01", "-0001-12-31", "+29349-01-26", "-5877641-06-23", "+5881580-07-11"]
    yield "date32", days, [f'"{day}"' for day in far]
    yield "date64", ticks([86_400_000], pa.date64()), ['"1970-01-02"']
    yield "time32", ticks([1], pa.time32("ms")), ['"00:00:00.001000"']
    yield "time64", ticks([1, 86_399_999_999_999], pa.time64("ns")), ['"00:00:00.000000001"', '"23:59:59.999999999"']
    edges = ['"1677-09-21T00:12:43.145224192"', '"2262-04-11T23:47:16.854775807"']
    yield "nanoseconds", ticks(EXTREMES, pa.timestamp("ns")), edges
    seconds = ['"1970-01-01T00:00:00+00:00"', '"1970-01-01T00:00:01.500000+00:00"']
    yield "zone", ticks([0, 1_500_000], pa.timestamp("us", "Europe/Berlin")), seconds
    yield "no such zone", ticks([0, 1500], pa.timestamp("ms", "nowhere")), seconds
    yield "duration", ticks([1, -1_500_000_001], pa.duration("ns")), ["0.000000001", "-1.500000001"]
    yield "long duration", ticks([2**63 - 1], pa.duration("s")), ["9223372036854775807.0"]
    for kind in (pa.list_(pa.int64()), pa.large_list(pa.int8()), pa.list_view(pa.int8())):
        yield str(kind), pa.array([[1, 2], []], kind), ["[1, 2]", "[]"]
    yield "fixed list", pa.array([[1, 2], [3, 4]], pa.list_(pa.int8(), 2)), ["[1, 2]", "[3, 4]"]
    yield "map", pa.array([[("a%s", 1), ("b", None)]], pa.map_(pa.string(), pa.int8())), ['{"a%s": 1, "b": null}']
    yield "map of numbers", pa.array([[(2, 1)]], pa.map_(pa.int8(), pa.int8())), ["[[2, 1]]"]
    yield "struct", pa.array([{"a%d": 1, "b.c": [{"d": "x"}]}]), ['{"a%d": 1, "b.c": [{"d": "x"}]}']
    yield "nested decimal", pa.array([[{"d": Decimal("0.10")}]]), ['[{"d": 0.10}]']
    yield "dictionary", pa.array(["a", "b", "a"]).dictionary_encode(), ['"a"', '"b"', '"a"']
    yield "uuid", pa.array([bytes(range(16))], pa.uuid()), ['"00010203-0405-0607-0809-0a0b0c0d0e0f"']
    yield "json", pa.array(['{"a":1}'], pa.json_()), ['"{\\"a\\":1}"']
    bools = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([0, 3], pa.int8()))
    yield "bool8", bools, ["false", "true"]
    tensor = pa.fixed_shape_tensor(pa.int8(), [2])
    yield "tensor", pa.ExtensionArray.from_storage(tensor, pa.array([[1, 2]], pa.list_(pa.int8(), 2))), ["[1, 2]"]


CASES = {name: (array, texts) for name, array, texts in values()}


def table(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def conversation(count: int) -> Any:
    return pa.array([rows.record(n)["messages"] for n in range(count)])


def raw(path: Path) -> list[str]:
    """The rows of a table as they are written whole, in the order of their ids."""
    sample = karl_fast.sample(path, None, sampler="all", shape="raw")
    return sorted(sample.lines(), key=lambda line: int(json.loads(line)["id"]))


@pytest.mark.parametrize("name", CASES)
def test_a_value_keeps_its_json_form(name: str, tmp_path: Path) -> None:
    array, texts = CASES[name]
    count = len(array) + 1
    with_null = pa.concat_arrays([array, pa.nulls(1, array.type)])
    path = table(
        tmp_path / "a.parquet", id=range(count), reward=[1.0] * count, messages=conversation(count), x=with_null
    )
    for line, text in zip(raw(path), [*texts, "null"], strict=True):
        assert line.endswith(f', "x": {text}}}')


NAMES = [name for name, (array, _) in CASES.items() if not pa.types.is_nested(array.type) and name != "tensor"]


@pytest.mark.parametrize("name", NAMES)
def test_what_differs_in_a_group_is_two_groups(name: str, tmp_path: Path) -> None:
    array, texts = CASES[name]
    twice = pa.concat_arrays([array, array])
    count = len(twice)
    path = table(tmp_path / "a.parquet", id=range(count), reward=[1.0] * count, messages=conversation(count), g=twice)
    names = {text if text[0] != '"' else json.loads(text) for text in texts}
    # What is no finite number names nothing.
    assert {*karl_fast.read(path, group="g").group_names} == names - {"NaN", "Infinity", "-Infinity"}


def test_decimals_keep_all_digits_as_names(tmp_path: Path) -> None:
    numbers = [12345678901234567890 + n for n in range(6)]
    column = pa.array(map(Decimal, numbers), pa.decimal128(20, 0))
    path = table(tmp_path / "a.parquet", id=column, group=column, reward=[1.0] * 6, messages=conversation(6))
    log = karl_fast.read(path)
    assert sorted(log.group_names) == [str(number) for number in numbers]
    found = [json.loads(line)["karl_fast"] for line in karl_fast.sample(log, None, sampler="all").lines()]
    assert sorted(one["id"] for one in found) == [str(number) for number in numbers]


@pytest.mark.parametrize("kind", [pa.decimal128(10, 4), pa.float32(), pa.float16(), pa.int8(), pa.bool_()], ids=str)
def test_a_reward_of_any_type_is_a_number(kind: Any, tmp_path: Path) -> None:
    numbers = pa.array([0, 1, None, 1], pa.int8()).cast(kind)
    path = table(tmp_path / "a.parquet", id=range(4), reward=numbers, messages=conversation(4))
    log = karl_fast.read(path)
    assert sorted(reward for reward in log.rewards if reward == reward) == [0.0, 1.0, 1.0]
    assert len(log) == 4


SAME = {
    "row groups": lambda table: (table, {"row_group_size": 7}),
    "one row a group": lambda table: (table, {"row_group_size": 1}),
    "no dictionary": lambda table: (table, {"use_dictionary": False}),
    "zstd": lambda table: (table, {"compression": "zstd"}),
    "second pages": lambda table: (table, {"data_page_version": "2.0", "data_page_size": 64}),
    "large strings": lambda table: (recast(table, id=pa.large_string(), group=pa.large_string()), {}),
    "string views": lambda table: (recast(table, id=pa.string_view()), {}),
    "dictionaries": lambda table: (recast(table, group=pa.dictionary(pa.int32(), pa.string())), {}),
    "narrow integers": lambda table: (recast(table, step=pa.int32()), {}),
    "unsigned integers": lambda table: (recast(table, step=pa.uint64()), {}),
    "other units": lambda table: (recast(table, at=pa.timestamp("ns", "Asia/Tokyo")), {}),
    "large lists": lambda table: (recast(table, messages=pa.large_list(table["messages"].type.value_type)), {}),
}


def recast(table: Any, **kinds: Any) -> Any:
    for name, kind in kinds.items():
        at = table.column_names.index(name)
        column = table[name].dictionary_encode() if pa.types.is_dictionary(kind) else table[name].cast(kind)
        table = table.set_column(at, name, column)
    return table


@pytest.mark.parametrize("name", SAME)
def test_a_record_depends_on_values_alone(name: str, tmp_path: Path) -> None:
    """Without an id, the record's bytes decide its place in the draw."""
    made = [row | {"step": n, "at": n * 10**9} for n, row in enumerate(rows.records(200))]
    plain = pa.Table.from_pylist(made)
    plain = recast(plain, at=pa.timestamp("us", "UTC")).rename_columns({"id": "name"})
    other, how = SAME[name](recast(plain.rename_columns({"name": "id"})))
    pq.write_table(plain, tmp_path / "a.parquet")
    pq.write_table(other.rename_columns({"id": "name"}), tmp_path / "b.parquet", **how)
    for one in "ab":
        karl_fast.sample(tmp_path / f"{one}.parquet", tmp_path / one, k=50, seed=3, shape="raw")
    assert rows.files(tmp_path / "a") == rows.files(tmp_path / "b")


BYTES = [b"\xff\xd8\xff", b"plain", b"more"]


def images(path: Path, **more: Any) -> Path:
    return table(path, id=range(3), reward=[1.0] * 3, messages=conversation(3), image=BYTES, **more)


def test_an_unneeded_column_is_left_out_and_named(tmp_path: Path) -> None:
    path = images(tmp_path / "a.parquet", pixels=pa.array([{"bytes": one} for one in BYTES]))
    manifest = karl_fast.sample(path, None, sampler="all").manifest
    assert manifest["accounting"]["rows_kept"] == 3
    left_out = {"type": "binary", "path": str(path), "files": 1}
    assert manifest["run"]["columns_left_out"] == [{"column": name, **left_out} for name in ("image", "pixels")]


@pytest.mark.parametrize(
    "choices",
    [
        {"shape": "raw"},
        {"dedup": True},
        {"group": "image"},
        {"domain": "image"},
        {"reward": {"image": 1.0}},
        {"id": "nowhere"},
    ],
)
def test_a_needed_column_is_refused_by_name(choices: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(errors.ColumnError, match=r"a\.parquet: the column image of row 0 holds binary that is not"):
        karl_fast.read(images(tmp_path / "a.parquet"), **choices)


def test_a_conversion_writes_records_whole(tmp_path: Path) -> None:
    with pytest.raises(errors.ColumnError, match="the column image of row 0"):
        karl_fast.convert(images(tmp_path / "a.parquet"), tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()


def test_a_log_without_a_column_refuses_raw_rows(tmp_path: Path) -> None:
    log = karl_fast.read(images(tmp_path / "a.parquet"))
    with pytest.raises(errors.UsageError, match=r"without the column image of .*a\.parquet"):
        karl_fast.sample(log, None, k=1, shape="raw")


def test_needed_binary_text_is_text(tmp_path: Path) -> None:
    path = table(
        tmp_path / "a.parquet", id=[b"a", b"b"], reward=[1.0, 2.0], prompt=[b"p", b"p"], completion=[b"x", b"y"]
    )
    found = [json.loads(line) for line in karl_fast.sample(path, None, sampler="all").lines()]
    assert sorted(one["karl_fast"]["id"] for one in found) == ["a", "b"]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", ["reward", "note"])
def test_two_columns_of_one_name_are_refused(strict: bool, name: str, tmp_path: Path) -> None:
    columns = [["a", "b"], [1.0, 2.0], conversation(2), [3.0, 4.0], [5.0, 6.0]]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(columns, names=["id", "reward", "messages", name, name]), path)
    with pytest.raises(errors.ColumnError, match=rf"a\.parquet: [23] columns are named {name}"):
        karl_fast.read(path, strict=strict)
    with pytest.raises(errors.ColumnError, match=f"columns are named {name}"):
        karl_fast.convert(path, tmp_path / "out.jsonl")


def test_two_needed_fields_of_one_name_are_refused(tmp_path: Path) -> None:
    twice = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"])
    path = table(tmp_path / "a.parquet", id=[1], reward=[1.0], messages=conversation(1), meta=twice)
    assert karl_fast.sample(path, None, k=1).manifest["run"]["columns_left_out"][0]["column"] == "meta"
    with pytest.raises(errors.ColumnError, match=r"the column meta holds struct<.*two fields of one name"):
        karl_fast.read(path, group="meta.a")


def test_names_with_dots_and_nothing_at_all(tmp_path: Path) -> None:
    dotted = {"a.b": ["x", "y"], "a": [{"b": 1, "c": b"\xff"}] * 2}
    path = table(tmp_path / "a.parquet", id=[1, 2], reward=[1.0, 2.0], messages=conversation(2), **dotted)
    assert sorted(karl_fast.read(path, group=r"a\.b").group_names) == ["x", "y"]
    empty = tmp_path / "empty.parquet"
    schema = pa.schema([("id", pa.string()), ("reward", pa.float64())])
    with pq.ParquetWriter(empty, schema) as out:
        out.write_table(pa.table([[], []], schema=schema))
    assert len(karl_fast.read([path, empty])) == 2
    pq.write_table(pa.table({}), tmp_path / "none.parquet")
    assert len(karl_fast.read(tmp_path / "none.parquet")) == 0


def test_old_timestamps_are_kept_or_named(tmp_path: Path) -> None:
    near, far = [pa.array([ticks, None], pa.timestamp("us")) for ticks in (1_500_000, 253_402_214_400_000_000)]
    columns = {"id": ["0", "1"], "reward": [1.0, 1.0], "messages": conversation(2), "at": near}
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(columns), path, use_deprecated_int96_timestamps=True)
    assert karl_fast.read(path, group="at").group_names == ["1970-01-01T00:00:01.500000"]
    pq.write_table(pa.table(columns | {"at": far}), path, use_deprecated_int96_timestamps=True)
    assert [one.column for _, one in karl_fast.read(path).left_out] == ["at"]
    with pytest.raises(errors.ColumnError, match="the column at holds INT96 timestamps"):
        karl_fast.read(path, group="at")
