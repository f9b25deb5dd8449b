"""Rows of Parquet files as lines of JSON, through pyarrow, which the extra ``arrow`` installs.

```text
table.parquet -> columns that are kept -> batches of rows -> a line of JSON a row, in a temporary file
                 (others are left out)    (+ TRL's summed reward, + columns in the names of folders)
```

The lines are then read as a log is. Columns without a JSON form are an error where a setting needs them, and left out
where none does.
"""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

import pyarrow.compute
from pyarrow import parquet

from karl_fast._safe_text import clean
from karl_fast.errors import ColumnError
from karl_fast.log.arrow_json import FormlessError, objects, writer
from karl_fast.log.parquet_out import damage, refuse_doubled, unreadable
from karl_fast.log.spool import refuse_change, temporary
from karl_fast.log.trl_rewards import TRL_REWARD, SummedReward, reward_columns, sum_rewards

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from karl_fast.log.arrow_json import Texts, Writer

    Needed = Callable[[list[str]], Collection[str] | None]
    """Function from the columns of a table to those that have to be kept; None for all."""

ROWS, BATCH_BYTES, BUFFER_BYTES = 1024, 1 << 22, 1 << 20
"""Limits of what is in memory at a time: rows, and about how many bytes of them, and of a column of the file."""

PROBE = 8
"""Rows of a row group that the size of the others is estimated from: a dictionary stores repeated values once."""


class ParquetLines(NamedTuple):
    """The path of a file of JSON lines, the columns that are not in it, and the reward that is a sum of columns."""

    path: str
    left_out: list[LeftOut]
    summed: SummedReward | None


class LeftOut(NamedTuple):
    """A column that is not needed and has a type without a JSON form."""

    column: str
    type: str


@contextlib.contextmanager
def lines(path: str, needed: Needed | None = None, *, rewarded: bool = False) -> Iterator[ParquetLines]:
    """Write a line of JSON for each row, with a key for each column, to a temporary file that is removed afterwards.

    Args:
        path: the Parquet file.
        needed: the columns that have to be kept; all by default. Others are left out if their type has no JSON form.
        rewarded: True if the rewards are not those of the table, or are named: none is computed of its columns.

    Raises:
        RewardError: it is not known which columns of TRL's completions are rewards.
        MissingExtraError: pyarrow is not installed.
        ColumnError: a column that has to be kept cannot be, or two columns have one name.
        FileError: the file cannot be read, is damaged, or is not Parquet; or the lines cannot be written.
    """
    with temporary(path) as copy:
        with refuse_change(path):
            left_out, summed = _write_lines(path, copy, needed, rewarded=rewarded)
        yield ParquetLines(copy, left_out, summed)


def _write_lines(
    path: str, copy: str, needed: Needed | None, *, rewarded: bool
) -> tuple[list[LeftOut], SummedReward | None]:
    """Write the rows of a Parquet file as lines; return the columns that are left out, and those that are summed."""
    with damage(path, writing=True):
        # By default pyarrow fetches whole row groups ahead of the reader.
        options = {"pre_buffer": False, "buffer_size": BUFFER_BYTES, "page_checksum_verification": True}
        with Path(copy).open("w", encoding="utf-8") as out, parquet.ParquetFile(path, **options) as file:
            columns, left_out = _columns(path, file.schema_arrow, needed, _find_wrapped_timestamps(path, file, options))
            rewards = reward_columns(path, file.schema_arrow, rewarded=rewarded)
            folders = _folder_columns(path, file.schema_arrow.names, needed)
            rows = 0
            for batch in _batches(path, file, list(columns)):
                out.writelines(f"{line}\n" for line in _row_lines(path, batch, columns, rewards, folders, rows))
                rows += batch.num_rows
            if rows != file.metadata.num_rows:
                raise ValueError(f"it has {rows} rows, and its footer says {file.metadata.num_rows}")
    return left_out, SummedReward(TRL_REWARD, rewards) if rewards else None


def _columns(
    path: str, schema: Any, needed: Needed | None, beyond: set[str]
) -> tuple[dict[str, Writer], list[LeftOut]]:
    """Return the writer of each column that is kept, and the columns that are left out.

    ``beyond`` names columns that cannot be kept for the range of their timestamps.
    """
    refuse_doubled(path, schema.names)
    wanted = needed(schema.names) if needed else None
    kept, left_out = {}, []
    for field in schema:
        is_needed = wanted is None or field.name in wanted
        try:
            if field.name in beyond:
                raise FormlessError("INT96 timestamps in lists or structs, or beyond the years 1677 to 2262")
            kept[field.name] = writer(field.type, binary=is_needed)
        except FormlessError as error:
            if is_needed:
                raise _formless_error(path, field.name, error) from error
            left_out.append(LeftOut(field.name, str(error)))
    return kept, left_out


def _formless_error(path: str, column: str, error: FormlessError) -> ColumnError:
    return ColumnError(f"{path}: the column {column} holds {clean(str(error))}, for which JSON has no form")


def _batches(path: str, file: Any, columns: list[str]) -> Iterator[Any]:
    """Yield the rows of a table in order, fewer at a time if they are long."""
    for at in range(file.num_row_groups):
        try:
            for batch in file.iter_batches(_rows_a_batch(file, at, columns), row_groups=[at], columns=columns):
                # A name with dots in it may have brought a part of another column along.
                yield batch.select(columns)
        except Exception as error:
            raise unreadable(path, error, f"row group {at}{_culprit(file, at, columns)}") from error


def _rows_a_batch(file: Any, group: int, columns: list[str]) -> int:
    """Return the number of rows of a row group in a batch."""
    facts: Any = file.metadata.row_group(group)
    size: int = facts.total_byte_size // max(facts.num_rows, 1)
    if facts.num_rows > PROBE:
        probe: Any = next(file.iter_batches(PROBE, row_groups=[group], columns=columns), None)
        size = max(size, probe.nbytes // max(probe.num_rows, 1) if probe else 0)
    return min(max(BATCH_BYTES // max(size, 1), 1), ROWS)


def _culprit(file: Any, group: int, columns: list[str]) -> str:
    """Return `, column reward` if one column of a row group cannot be read."""
    for name in columns:
        try:
            for _ in file.iter_batches(ROWS, row_groups=[group], columns=[name]):
                pass
        except Exception:
            return f", column {name}"
    return ""


def _row_lines(
    path: str, batch: Any, columns: dict[str, Writer], rewards: list[str] | None, folders: dict[str, str], first: int
) -> Texts:
    """Return the rows of a batch as lines; the number is that of the first row."""
    names, texts = list(columns), []
    for at, (name, write) in enumerate(columns.items()):
        texts.append(_write_column(path, name, write, batch.column(at), first))
    if rewards is not None:
        names.append(TRL_REWARD)
        texts.append(sum_rewards([batch.column(name).to_pylist() for name in rewards], batch.num_rows))
    for name, value in folders.items():
        names.append(name)
        texts.append([value] * batch.num_rows)
    return objects(names, texts, batch.num_rows)


def _write_column(path: str, name: str, write: Writer, column: Any, first: int) -> Texts:
    """Write a column; an error names the first row that cannot be written."""
    try:
        return write(column)
    except Exception:
        for row in range(len(column)):
            try:
                write(column.slice(row, 1))
            except FormlessError as error:
                raise _formless_error(path, f"{name} of row {first + row}", error) from error
            except Exception as error:
                raise unreadable(path, error, f"column {name}, row {first + row}") from error
        raise


def _folder_columns(path: str, names: list[str], needed: Needed | None) -> dict[str, str]:
    """Return the columns in the names of folders (`task=7/part.parquet`), with each value as JSON text."""
    pairs = (part.partition("=") for part in Path(path).parent.parts)
    columns = {unquote(key): value for key, sign, value in pairs if sign and key and unquote(key) not in names}
    wanted = needed([*names, *columns]) if needed and columns else None
    return {key: _folder_value(value) for key, value in columns.items() if wanted is None or key in wanted}


ABSENT = "__HIVE_DEFAULT_PARTITION__"
"""Folder name of a partition without a value."""


def _folder_value(text: str) -> str:
    if text == ABSENT:
        return "null"
    return text if re.fullmatch(r"-?(0|[1-9][0-9]{0,17})", text) else json.dumps(unquote(text))


NANOSECONDS_END = 2**63 // 10**9
"""Seconds before and after 1970 that a timestamp in nanoseconds has room for."""

INT96_ROWS = 1 << 16
"""Rows that are checked at a time."""


def _find_wrapped_timestamps(path: str, file: Any, options: dict[str, Any]) -> set[str]:
    """Return the columns with timestamps of Parquet's older type INT96 that would change, or may.

    pyarrow reads them as nanoseconds since 1970 and wraps around where those have no room. Timestamps inside lists and
    structs are not looked at, and so may change.

    Args:
        path: path of the file.
        file: the open file.
        options: those it was opened with.
    """
    columns = [file.schema.column(at) for at in range(len(file.schema))]
    paths = {column.path for column in columns if column.physical_type == "INT96"}
    if not paths:
        return set()
    names = [field.name for field in file.schema_arrow]
    nested = {name for name in names if any(inner.startswith(f"{name}.") for inner in paths - {*names})}
    return nested | _find_beyond_nanoseconds(path, [name for name in names if name in paths], options)


def _find_beyond_nanoseconds(path: str, names: list[str], options: dict[str, Any]) -> set[str]:
    """Return the columns that hold a timestamp beyond nanoseconds."""
    beyond = set()
    with parquet.ParquetFile(path, coerce_int96_timestamp_unit="s", **options) as file:
        for batch in file.iter_batches(INT96_ROWS, columns=names):
            for name in names:
                ends = pyarrow.compute.min_max(batch.column(name).view("int64"))
                least, most = ends["min"].as_py() or 0, ends["max"].as_py() or 0
                if least < -NANOSECONDS_END or most >= NANOSECONDS_END:
                    beyond.add(name)
    return beyond
