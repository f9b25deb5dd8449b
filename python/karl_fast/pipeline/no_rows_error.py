"""The error of a log of which no row is left to draw."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karl_fast.errors import NothingToSampleError
from karl_fast.export.manifest import accounting
from karl_fast.log.discovery import PARQUET
from karl_fast.log.field_hints import first, held, holder, lacking, record, recordless, top

if TYPE_CHECKING:
    from karl_fast import _core
    from karl_fast.log import Log

UNREAD = {
    "reward_not_a_number": "a reward is a number, true, false or null; --reward names the field of another",
    "bad_group": "a group is a text, a number, true or false; --group names what is inside of it: task.id, hash(task)",
    "bad_id": "an id is a text, a number, true or false; --id names what is inside of it: run.id",
}
"""Hints for defects that every record has."""


def no_rows_error(log: Log, selection: _core.Selection) -> NothingToSampleError:
    """Return the error if no row is left, with suggestions if none has a reward."""
    account = accounting(log, selection.facts()["verdicts"])
    reasons = ", ".join(f"{reason.replace('_', ' ')} {count:,}" for reason, count in account["dropped"].items())
    read = account["rows_read"]
    sentence = f"no row is left to draw: {read:,} read" + (f", dropped: {reasons}" if reasons else "")
    damaged = sum(count for file in log.inputs for _, count in file["dropped"])
    if not 0 < account["dropped"].get("missing_reward", 0) == read - damaged:
        why = next((reason for reason in UNREAD if account["dropped"].get(reason) == read > 0), None)
        return NothingToSampleError(
            sentence + _available_fields(log) + (_first_bad(log) if why else ""), hint=(UNREAD[why] if why else None)
        )
    if log.unrewarded:
        return NothingToSampleError("; ".join([sentence, *log.unrewarded]))
    paths, keys, one = list(log.settings.paths or ()), first(log.inputs), record(log)
    lost = [path for path in paths if top(path) not in keys] or [path for path in paths if holder(one, path)]
    if lost and len(paths) > 1:
        sentence += f"; the first record lacks {', '.join(lost)}"
    elif lost and log.settings.reward is not None:
        sentence += f"; no record has the reward {lost[0]}"
    more, hint = lacking(log, "reward", next(iter(lost or paths), None))
    return NothingToSampleError(sentence + more, hint=hint)


def _first_bad(log: Log) -> str:
    """Return the place of the first row that could not be read, if it can be opened."""
    plain = (
        file
        for file in log.inputs
        if file["codec"] == "plain" and not file["path"].endswith(PARQUET) and file["path"] != "-"
    )
    places = ((file["path"], bad) for file in plain for bad in file["bad_rows"])
    return next((f"; the first at {path}, line {bad['line']}, byte {bad['offset']}" for path, bad in places), "")


def _available_fields(log: Log) -> str:
    """Return the fields of records, or the files without records, or why the first file of a folder was skipped."""
    if where := recordless(log.inputs):
        return f"; no record in {where}"
    passed = [f"; {path}: {why}" for path, why in (*log.core.refused(), *log.core.skipped())] if not log.inputs else []
    return held(first(log.inputs)) + "".join(passed[:1])
