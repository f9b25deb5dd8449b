"""Damaged Parquet files: an error that names the file, or the values that were written; never another exception."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from karl_fast import errors
from karl_fast.log.parquet_in import lines
from tests import rows
from tests.cli.run import karl

if TYPE_CHECKING:
    from pathlib import Path

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

BAD = pa.Array.from_buffers(
    pa.string(), 3, [None, pa.array([0, 1, 3, 4], pa.int32()).buffers()[1], pa.py_buffer(b"a\xff\xfeb")]
)
"""Strings of which the second is not UTF-8."""


def whole(**how: Any) -> bytes:
    made = [row | {"meta": {"n": n, "tags": ["x"] * n}} for n, row in enumerate(rows.records(5))]
    table = pa.Table.from_pylist(made)
    table = table.append_column("at", pa.array(range(5), pa.timestamp("ns", "UTC")))
    file = io.BytesIO()
    pq.write_table(table, file, row_group_size=2, **how)
    return file.getvalue()


def text(path: Path) -> str:
    with lines(str(path)) as found, open(found.path, encoding="utf-8") as file:  # noqa: PTH123
        return file.read()


@pytest.mark.parametrize(
    "how", [{}, {"data_page_version": "2.0"}, {"compression": "none", "use_dictionary": False}], ids=str
)
def test_flipped_bytes_are_errors_or_right_values(how: dict[str, Any], tmp_path: Path) -> None:
    """Of pages with check sums; what a footer says of the columns, their names say, has none in this format."""
    data = whole(write_page_checksum=True, **how)
    path = tmp_path / "a.parquet"
    path.write_bytes(data)
    right, found = text(path), []
    last = pq.read_metadata(path).row_group(2)
    chunk = last.column(last.num_columns - 1)
    end = (chunk.dictionary_page_offset or chunk.data_page_offset) + chunk.total_compressed_size
    for at in range(0, len(data), 29):
        path.write_bytes(data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :])
        found.append(outcome(path))
    refused = [one for one in found if one.startswith("error")]
    assert len(refused) > len(found) // 4
    assert all("a.parquet" in one for one in refused)
    assert {one for one in found[: end // 29] if not one.startswith("error")} == {right}


def outcome(path: Path) -> str:
    try:
        return text(path)
    except (errors.FileError, errors.ColumnError) as error:
        return f"error: {error}"


def test_a_file_that_was_cut_is_an_error(tmp_path: Path) -> None:
    data = whole()
    path = tmp_path / "a.parquet"
    for at in range(0, len(data), 97):
        path.write_bytes(data[:at])
        with pytest.raises(errors.FileError, match=r"cannot read .*a\.parquet as Parquet: "):
            text(path)


@pytest.mark.parametrize("name", ["id", "group", "note"])
def test_a_string_outside_utf8_names_its_place(name: str, tmp_path: Path) -> None:
    columns = {
        "id": ["a", "b", "c"],
        "messages": [rows.record(n)["messages"] for n in range(3)],
        "reward": [1.0] * 3,
    }
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(columns | {name: BAD}), path)
    for act in (karl_fast.read, lambda path: karl_fast.convert(path, tmp_path / "out.jsonl")):
        with pytest.raises(errors.FileError, match=rf"a\.parquet as Parquet: column {name}, row 1: .*utf-8"):
            act(path)


def test_a_damaged_column_name_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    file = io.BytesIO()
    pq.write_table(pa.table({"id": ["a"], "a_column": [1.0]}), file, store_schema=False)
    path.write_bytes(file.getvalue().replace(b"a_column", b"a_col\xffmn"))
    assert path.read_bytes() != file.getvalue()
    with pytest.raises(errors.FileError, match=r"a\.parquet as Parquet: "):
        karl_fast.read(path)


def test_a_damaged_row_group_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    data = bytearray(whole(write_page_checksum=True))
    path.write_bytes(data)
    chunk = pq.read_metadata(path).row_group(1).column(0)
    data[chunk.data_page_offset + chunk.total_compressed_size // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(errors.FileError, match=r"a\.parquet as Parquet: row group 1, column id: "):
        karl_fast.read(path)


def test_damage_ends_a_command_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(whole()[:-20] + b"\xff" * 12 + b"PAR1\0\0\0\0")
    done = karl("sample", str(path), "-o", str(tmp_path / "out"), "-k", "2")
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: cannot read {path} as Parquet: ")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("start", [b'{"id": "a", "reward": 1}\n', b"[{}]\n", b"\x1f\x8b\x08\0"])
def test_json_named_parquet_gets_a_hint(start: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(start * 20)
    with pytest.raises(errors.FileError, match=r"a\.parquet as Parquet: ") as caught:
        karl_fast.read(path)
    assert "name that ends in .jsonl" in str(caught.value.hint)


def test_columns_that_come_back_are_checked_too(tmp_path: Path) -> None:
    log = karl_fast.read(rows.write(tmp_path / "log.jsonl", rows.records(3)))
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"name": BAD, "reward": [1.0] * 3}), path)
    with pytest.raises(errors.FileError, match=r"a\.parquet as Parquet: .*UTF8"):
        log.with_columns(path, group="name")
    assert list(log.with_columns(path, reward="reward").rewards) == [1.0] * 3
    pq.write_table(pa.table([[1.0] * 3, [2.0] * 3], names=["reward", "reward"]), path)
    with pytest.raises(errors.ColumnError, match="2 columns are named reward"):
        log.with_columns(path, reward="reward")
