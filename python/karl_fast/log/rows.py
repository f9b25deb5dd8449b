"""Rows of Parquet files as lines of JSON, through pyarrow, which the extra ``arrow`` installs."""

from __future__ import annotations

import contextlib
import json
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karl_fast.errors import FULL, FileError
from karl_fast.log.parquet import _pyarrow
from karl_fast.log.spool import not_kept, temporary

if TYPE_CHECKING:
    from collections.abc import Iterator

    Row = dict[str, Any]

ROWS, BATCH_BYTES, BUFFER_BYTES = 1024, 1 << 22, 1 << 20
"""What is in memory at a time: rows at most, and about how many bytes of them, and of a column of the file."""

TRL = ("step", "prompt", "completion", "advantage")
"""The columns of TRL's completions that are no rewards."""


@contextlib.contextmanager
def lines(path: str) -> Iterator[str]:
    """The path of a file with a line of JSON for each row, a key a column; it is gone afterwards.

    Raises:
        MissingExtraError: pyarrow is not installed.
        FileError: the file cannot be read, or is no Parquet; or the lines not be written.
    """
    pyarrow, parquet = _pyarrow()
    with temporary(path) as copy:
        try:
            # Left to itself pyarrow fetches row groups whole, and ahead of what is read.
            file = parquet.ParquetFile(path, pre_buffer=False, buffer_size=BUFFER_BYTES)
            with Path(copy).open("w", encoding="utf-8") as out, file as table:
                rewards = _rewards(table.schema_arrow, pyarrow)
                for batch in _batches(table):
                    out.writelines(_line(row, rewards) for row in batch.to_pylist())
        except OSError as error:
            if error.errno in FULL:
                raise not_kept(path, error) from error
            raise FileError(f"cannot read {path}: {error.strerror or error}", error.errno, path) from error
        except pyarrow.ArrowException as error:
            raise FileError(f"cannot read {path} as Parquet: {error}", None, path) from error
        yield copy


def _batches(table: Any) -> Iterator[Any]:
    """The rows of a table in their order, few at a time where they are long."""
    for at in range(table.num_row_groups):
        group = table.metadata.row_group(at)
        fits = BATCH_BYTES * group.num_rows // max(group.total_byte_size, 1)
        yield from table.iter_batches(min(max(fits, 1), ROWS), row_groups=[at])


def _rewards(schema: Any, pyarrow: Any) -> list[str]:
    """The columns of TRL's reward functions; none of another table."""
    if not set(TRL) <= set(schema.names):
        return []
    return [field.name for field in schema if field.name not in TRL and pyarrow.types.is_floating(field.type)]


def _line(row: Row, rewards: list[str]) -> str:
    # A function that does not apply to a row has no say in its sum, and a row to which none applies has no reward.
    said = [row[name] for name in rewards if row[name] is not None and row[name] == row[name]]
    total = {"trl_reward": sum(said) if said else None} if rewards else {}
    return json.dumps(row | total, default=_plain, ensure_ascii=False) + "\n"


def _plain(value: object) -> str | float:
    """What JSON has no form for: moments as text, decimals as numbers, bytes as what they spell."""
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal):
        return float(value)
    return bytes(value).decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
