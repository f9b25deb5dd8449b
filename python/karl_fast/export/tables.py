"""Rows of a data set as Parquet files, for trainers that read nothing else: verl and prime-rl.

Every row has the same columns, and the arguments of calls are JSON text: a column of objects would have the keys of all
of them in every row. verl reads tools as objects, so rows whose tools differ in their keys are refused.
"""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

from karl_fast.errors import DataSetError
from karl_fast.export.manifest import SPLITS
from karl_fast.log.parquet_out import require_pyarrow

if TYPE_CHECKING:
    from karl_fast import _core

SHAPES = ("verl", "prime-rl")
"""Shapes of rows that are written as Parquet."""

PART_BYTES = 8 << 20
"""Bytes of rows that are taken from a draft at a time."""

TEXT_KEYS = ("role", "content", "reasoning_content", "tool_call_id", "name")


def write_tables(draft: _core.Draft) -> dict[str, bytes]:
    """Return the Parquet file of each split that has rows, by name; train also without any.

    Args:
        draft: rows of one of the shapes in `SHAPES`.

    Returns:
        The bytes of each file by its name.

    Raises:
        MissingExtraError: pyarrow is not installed.
        DataSetError: the tools of the rows do not fit into one column.
    """
    splits = {split: _split_rows(draft, number) for number, split in enumerate(SPLITS)}
    columns = _columns([row for rows in splits.values() for row in rows])
    return {
        f"{split}.parquet": _write_table(rows, columns) for split, rows in splits.items() if rows or split == SPLITS[0]
    }


def _split_rows(draft: _core.Draft, split: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    while part := draft.lines(split, len(rows), PART_BYTES):
        rows += map(json.loads, part)
    return rows


def _columns(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the type of each column that one of the rows has."""
    pa, _ = require_pyarrow()
    call = pa.struct(
        [
            ("id", pa.string()),
            ("type", pa.string()),
            ("function", pa.struct([("name", pa.string()), ("arguments", pa.string())])),
        ]
    )
    used = {key for row in rows for message in row["messages"] for key in message}
    message = [(key, pa.string()) for key in TEXT_KEYS if key in used or key in ("role", "content")]
    if "tool_calls" in used:
        message.append(("tool_calls", pa.list_(call)))
    columns = {"messages": pa.list_(pa.struct(message))}
    if any(row.get("tools") for row in rows):
        columns["tools"] = _tools_type([row.get("tools") for row in rows])
    numbers = [(name, pa.float64()) for name in ("reward", "score", "log_weight")]
    names = [(name, pa.string()) for name in ("id", "group", "domain")]
    columns["karl_fast"] = pa.struct([*names, *numbers, ("copies", pa.int64())])
    return columns


def _tools_type(tools: list[Any]) -> Any:
    """Return the type of the tools of all rows, which are texts or lists of objects."""
    pa, _ = require_pyarrow()
    if any(isinstance(value, str) for value in tools):
        return pa.string()
    hint = "--as prime-rl and --as openai keep the tools of each row"
    try:
        array = pa.array(tools)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise DataSetError(f"the tools of the rows do not fit into one column of verl: {error}", hint=hint) from error
    if _has_empty(array.type):
        raise DataSetError("the tools of the rows have an empty object, for which Parquet has no column", hint=hint)
    changed = next(
        (at for at, (read, value) in enumerate(zip(array.to_pylist(), tools, strict=True)) if read != value), None
    )
    if changed is not None:
        raise DataSetError(
            f"the tools of the rows have different keys: in row {changed + 1:,} verl would read others as null",
            hint=hint,
        )
    return array.type


def _has_empty(kind: Any) -> bool:
    """Return whether a type has an object without a key inside."""
    inner = [kind.field(at).type for at in range(kind.num_fields)]
    return (not inner and str(kind).startswith("struct")) or any(map(_has_empty, inner))


def _write_table(rows: list[dict[str, Any]], columns: dict[str, Any]) -> bytes:
    pa, parquet = require_pyarrow()
    arrays = [pa.array([row.get(name) for row in rows], type=kind) for name, kind in columns.items()]
    out = io.BytesIO()
    parquet.write_table(pa.table(arrays, names=list(columns)), out, compression="zstd")
    return out.getvalue()
