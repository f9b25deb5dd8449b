"""Timestamps of Parquet's older type INT96, which pyarrow wraps around where nanoseconds since 1970 have no room."""

from __future__ import annotations

from typing import Any

ROOM = 2**63 // 10**9
"""Seconds before and after 1970 that a timestamp in nanoseconds has room for."""

INT96_ROWS = 1 << 16
"""Rows that are looked at together."""


def wrapped(path: str, file: Any, how: dict[str, Any]) -> set[str]:
    """Return the columns with timestamps that would change, or may: those inside lists and structs.

    Args:
        path: path of the file.
        file: the open file.
        how: the options it was opened with.
    """
    old = [file.schema.column(at) for at in range(len(file.schema))]
    paths = {column.path for column in old if column.physical_type == "INT96"}
    if not paths:
        return set()
    names = [field.name for field in file.schema_arrow]
    inside = {name for name in names if any(one.startswith(f"{name}.") for one in paths - {*names})}
    return inside | _beyond(path, [name for name in names if name in paths], how)


def _beyond(path: str, names: list[str], how: dict[str, Any]) -> set[str]:
    """Return the columns that hold a timestamp beyond nanoseconds."""
    import pyarrow.compute
    from pyarrow import parquet

    found = set()
    with parquet.ParquetFile(path, coerce_int96_timestamp_unit="s", **how) as file:
        for batch in file.iter_batches(INT96_ROWS, columns=names):
            for name in names:
                ends = pyarrow.compute.min_max(batch.column(name).view("int64"))
                least, most = ends["min"].as_py() or 0, ends["max"].as_py() or 0
                if least < -ROOM or most >= ROOM:
                    found.add(name)
    return found
