"""Order of the records of a log, which each of them has to state where it is asked for."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from karl_fast._suggest import ask_whether, nearest
from karl_fast.errors import BadRowError, UsageError
from karl_fast.log.record_fields import top_key
from karl_fast.settings.values import parse_half_life

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karl_fast import _core
    from karl_fast.log.log import Log

MICRO = 1_000_000


def refuse_unordered(core: _core.Log, field: str) -> None:
    """Raise BadRowError for a record without an order, and for a log with orders of both kinds."""
    files = core.inputs()
    if (file := next((entry for entry in files if "bad_order" in dict(entry["dropped"])), None)) is not None:
        raise _order_error(file, field)
    first = {kind: f"{file['path']}, line {line}" for file in reversed(files) for kind, line, _ in file["orders"]}
    if len(first) > 1:
        raise BadRowError(
            f"{field} is a number in {first['number']}, and a time in {first['time']}, wanted one of them",
            hint=_rename_hint(field),
        )


def _order_error(file: _core.InputFacts, field: str) -> BadRowError:
    """Return the error for the first record without an order."""
    # Of many bad rows the first places are kept: it may not be among them.
    bad = next((row for row in file["bad_rows"] if row["reason"] == "bad_order"), None)
    place = f", line {bad['line']}, byte {bad['offset']}" if bad else ", a record after many bad ones"
    problem = f"is {bad['value']}" if bad and "value" in bad else "is missing" if bad else "is not there"
    error = BadRowError(f"{file['path']}{place}: {field} {problem}, wanted a number or an RFC 3339 time")
    near = [] if top_key(field) in file["keys"] else nearest(field, file["keys"])
    error.hint = ask_whether(f"--order-by {shlex.quote(name)}" for name in near) or _rename_hint(field)
    return error


def _rename_hint(field: str) -> str:
    return f"--order-by {field} orders all records: name another field, or take the others out of the log"


def of_times(files: Sequence[_core.InputFacts]) -> bool:
    """Return whether the order of records is a time."""
    return any(kind == "time" for file in files for kind, _, _ in file["orders"])


def half_life_of(log: Log) -> float | None:
    """Return the half-life of weights in the unit of the order, seconds for times; None if none was asked for.

    Raises:
        UsageError: a number without a unit for times, or with one for numbers.
    """
    recency, field = log.settings.recency_half_life, log.settings.order_by
    if recency is None:
        return None
    (number, unit), times = parse_half_life(recency), of_times(log.inputs)
    if times != (unit is not None) and len(log):
        kind, wanted = ("time", "a unit, like 14d") if times else ("number", "a number without a unit")
        raise UsageError(
            f"recency_half_life is {recency}, and {field} is a {kind}: wanted {wanted}", "recency_half_life"
        )
    return number * (unit or 1)


def newest(log: Log) -> float | str | None:
    """Return the order of the newest record, a time as text in UTC; None of an empty log."""
    from karl_fast.log.times import moment  # with datetime, which most runs do without

    order = log.core.order()
    if order is None or not len(order):
        return None
    latest = float(order.max())
    return moment(round(latest * MICRO), MICRO, "Z") if of_times(log.inputs) else latest
