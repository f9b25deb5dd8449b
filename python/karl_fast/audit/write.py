"""The records of a log with advantages computed anew, in the order of the files.

A record keeps its text: only the value of ``advantage`` is put in, and the one that was logged becomes
``advantage_logged``. Keys and passwords are replaced, as in everything that is written.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from karl_fast import _atomic, _core
from karl_fast._output_path import check_around, refuse_link, refuse_read
from karl_fast._suggest import ask_whether, nearest
from karl_fast.audit.conventions import BY_NAME, Convention, compute_advantages
from karl_fast.errors import OutputExistsError, OutputForeignError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from karl_fast.audit.result import Audit
    from karl_fast.log import Log

WINDOW_BYTES = 64 << 20
"""Bytes of records that are read at a time."""


def write_advantages(
    log: Log, audit: Audit, path: str | Path, convention: str | None = None, *, force: bool = False
) -> dict[str, Any]:
    """Write the records of a log with advantages computed anew, whole or not at all.

    Args:
        log: the log; its records are read again.
        audit: what was found in it.
        path: the file, JSON Lines.
        convention: name of a convention; by default the one that reproduces what was logged.
        force: replace the file.

    Returns:
        ``path``, ``convention`` in words, and ``rows`` written.

    Raises:
        UsageError: an unknown convention, or none that reproduces the log.
        OutputExistsError: the file exists, or the log is read from it.
        KarlError: a file is no longer what it was, or cannot be written.
    """
    how = choose_convention(audit, convention)
    target = Path(path)
    check_file(target, (file["path"] for file in log.inputs), force=force)
    advantages = compute_advantages(audit.rollouts, how)
    rows = 0
    with tempfile.TemporaryFile() as spool:
        places = _spool(log, advantages, spool)

        def write(file: IO[bytes]) -> None:
            for start, length in places:
                spool.seek(start)
                file.write(spool.read(length))

        _atomic.write_file(target, write)
        rows = len(places)
    return {"path": str(target), "convention": str(how), "rows": rows}


def check_file(path: Path, inputs: Iterable[str], *, force: bool) -> None:
    """Refuse a file that cannot be written, that is there already, or that the log is read from.

    Raises:
        OutputExistsError, OutputForeignError, FileError: it is one.
    """
    refuse_link(path)
    refuse_read(path, inputs)
    check_around(path)
    if path.is_dir():
        raise OutputForeignError(f"{path}: it exists and is a folder", hint="name a file")
    if path.exists() and not force:
        raise OutputExistsError(f"{path} exists", hint="--force replaces it")


def choose_convention(audit: Audit, name: str | None) -> Convention:
    """Return the convention of a name, or the one that reproduces what was logged.

    Raises:
        UsageError: there is none of that name, or none reproduces the log.
    """
    if name is not None:
        return named_convention(name)
    found = audit.advantages
    if found is None or not found.reproduced:
        why = "no advantage is logged" if found is None else "no known convention reproduces the logged advantages"
        raise UsageError(
            f"{why}: say by which convention advantages are computed", hint=f"--convention {'|'.join(BY_NAME)}"
        )
    return found.best.convention


def named_convention(name: str) -> Convention:
    """Return the convention of a name.

    Raises:
        UsageError: there is none of that name.
    """
    if name not in BY_NAME:
        raise UsageError(
            f"there is no convention {name}, wanted one of {', '.join(BY_NAME)}",
            hint=ask_whether(nearest(name, BY_NAME)),
        )
    return BY_NAME[name]


def _spool(log: Log, advantages: NDArray[np.float64], spool: IO[bytes]) -> list[tuple[int, int]]:
    """Write the records in the order of rows, and return where each lies, in the order of the files."""
    places, order, first, end = [], [], 0, 0
    while first < len(log):
        for row, text in enumerate(_core.answered(log.core, first, WINDOW_BYTES, log.settings.threads), first):
            if text is not None:
                line = _core.redacted(with_advantage(_record_of(text), float(advantages[row]))).encode() + b"\n"
                spool.write(line)
                places.append((end, len(line)))
                order.append(_core.place(log.core, row))
                end += len(line)
        first = row + 1
    return [places[index] for index in sorted(range(len(order)), key=order.__getitem__)]


def _record_of(text: str) -> str:
    """Return the text of the record in ``[prompt, answer, record]``."""
    decoder = json.JSONDecoder(parse_int=float)
    _, end = decoder.raw_decode(text, 1)
    _, end = decoder.raw_decode(text, end + 1)
    return text[end + 1 : -1]


def with_advantage(record: str, value: float) -> str:
    """Return the text of a record with an advantage, and the logged one under another name.

    Args:
        record: a JSON object, on one line.
        value: the advantage; NaN becomes null.

    Returns:
        The same text but for the two keys.
    """
    number = "null" if np.isnan(value) else json.dumps(value)
    kept = [
        f'"{LOGGED}": {item}' if key == "advantage" else f"{json.dumps(key)}: {item}"
        for key, item in _items(record)
        if key != LOGGED
    ]
    return "{" + ", ".join([*kept, f'"advantage": {number}']) + "}"


LOGGED = "advantage_logged"
"""Key of the advantage that was in the log."""


def _items(record: str) -> Iterator[tuple[str, str]]:
    """Yield each key of a JSON object with the text of its value."""
    decoder, place = json.JSONDecoder(parse_int=float), _skip(record, 1)
    while record[place] != "}":
        key, end = decoder.raw_decode(record, place)
        start = _skip(record, _skip(record, end) + 1)
        _, end = decoder.raw_decode(record, start)
        yield key, record[start:end]
        place = _skip(record, end)
        if record[place] == ",":
            place = _skip(record, place + 1)


def _skip(text: str, place: int) -> int:
    """Return the place of the first character from here on that is not white space."""
    while text[place] in " \t\n\r":
        place += 1
    return place
