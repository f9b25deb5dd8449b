"""Export of opencode's database, also while opencode writes to it."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import sqlite3
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TABLES = ("project", "session", "session_message", "session_input", "session_pending", "message", "part", "todo")
"""Tables of conversations, in the order of export. Those of accounts and shares hold credentials, and are left out.
Version 2 keeps its sessions in `session_v2`, beside those of version 1; any version of a table is read.
"""

TIMEOUT = 5.0
"""Seconds to wait for a lock."""


def export(database: Path, lines: Path) -> None:
    """Write the rows of a database to a file, one JSON object a line, as they are at one moment.

    Raises:
        ValueError: the file is not a database that can be read.
    """
    try:
        with contextlib.closing(_open_database(database)) as connection, lines.open("w", encoding="ascii") as file:
            connection.execute("BEGIN")
            for table in _list_tables(connection):
                for row in _read_rows(connection, table):
                    file.write(json.dumps({"opencode_table": table, "row": row}) + "\n")
    except sqlite3.Error as error:
        raise ValueError(f"cannot read it as a database of SQLite: {error}") from error


def _open_database(database: Path) -> sqlite3.Connection:
    """Open a database for reading. One that its program closed has no files for a reader, and cannot change."""
    place = f"file:{quote(os.fsencode(database))}?mode=ro"
    try:
        return _connect(place)
    except sqlite3.OperationalError:
        if database.with_name(database.name + "-wal").exists():
            raise
        return _connect(place + "&immutable=1")


def _connect(place: str) -> sqlite3.Connection:
    connection = sqlite3.connect(place, uri=True, timeout=TIMEOUT, isolation_level=None)
    connection.text_factory = lambda text: text.decode("utf-8", "backslashreplace")
    try:
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _list_tables(connection: sqlite3.Connection) -> list[str]:
    names = [
        name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    ]
    return [name for table in TABLES for name in names if re.fullmatch(rf"{table}(_v\d+)?", name)]


def _read_rows(connection: sqlite3.Connection, table: str) -> Iterator[dict[str, Any]]:
    cursor = connection.execute(f'SELECT * FROM "{table}"')
    names = [column[0] for column in cursor.description]
    for row in cursor:
        yield {name: _to_json(value) for name, value in zip(names, row, strict=True)}


def _to_json(value: Any) -> Any:
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value
