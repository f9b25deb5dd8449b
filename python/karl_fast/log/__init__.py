"""Reading: files of records to columns of numbers."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

from karl_fast import _core
from karl_fast.errors import BadRowError
from karl_fast.log.discovery import as_list, resolve_logs
from karl_fast.log.log import Log, columns, reader_settings
from karl_fast.log.order import refuse_unordered
from karl_fast.settings.sample import Settings
from karl_fast.settings.sample_fields import show_keywords

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from typing import Unpack

    from karl_fast.log.parquet_in import Needed
    from karl_fast.log.reward_functions import Scorers
    from karl_fast.settings.sample_fields import SampleKeywords

__all__ = ["Log", "columns", "read", "refuse_bad_rows"]


@show_keywords(Settings)
def read(
    logs: str | Path | Iterable[str | Path],
    settings: Settings | None = None,
    *,
    fingerprint: bool = False,
    index: bool = False,
    progress: Callable[[int, int], None] | None = None,
    **choices: Unpack[SampleKeywords],
) -> Log:
    """Read logs into columns.

    Args:
        logs: a file, a folder, a glob, ``-`` for standard input, or several of these. JSON Lines, plain or packed by
            gzip or zstd; or one JSON array, or an object that holds one.
        settings: what to take from each record; ``choices`` change single ones (``reward={"outcome": 1.0}``).
        fingerprint: hash what each record teaches, so that equal ones can be counted; ``dedup`` does it too. With the
            shape ``raw`` it is the record itself.
        index: keep the columns of each file in ``FILE.karl-index`` beside it, and read only what was appended since.
        progress: called about fifty times a second with the bytes read so far and the bytes there are (unpacked; 0
            where that is not known).

    Raises:
        FileError: a file cannot be read.
        LogError: a file holds no records; ``TranscriptError``, where it is one that ``convert`` makes a log of,
            ``PackedError`` or ``EncodingError``, where it may hold some that nothing here reads, and ``ColumnError``,
            where a column of Parquet is needed that JSON has no form for.
        RewardError: a function of ``reward`` is not there, or its file does not run.
        BadRowError: with ``strict``, for the first row that is not a record; with ``order_by``, for a record without
            one.
        UsageError: a field path or setting that means nothing.
    """
    settings = (settings or Settings()).replace(**choices)
    folder_guard = _folder_guard(settings)
    scorers, unrewarded = _scorers(settings), list[str]()
    spool = contextlib.ExitStack()
    with contextlib.ExitStack() as undo:
        undo.push(spool)
        with folder_guard():
            # Rewards of TRL's columns are summed only where none are named and no other format is.
            rewarded = settings.reward is not None or (settings.format or "trl").lower() != "trl"
            resolved = spool.enter_context(resolve_logs(as_list(logs), needed=_needed(settings), rewarded=rewarded))
            # An index serves runs with and without `dedup`.
            reader = reader_settings(settings, fingerprint=fingerprint or index)
            if index:
                from karl_fast.log.index import read_indexed  # most runs read without

                core = read_indexed(resolved.files, reader, settings.threads, progress)
            else:
                core = _core.read(resolved.files, **reader, progress=progress)
        if settings.order_by is not None:
            refuse_unordered(core, settings.order_by)
        if settings.strict:
            refuse_bad_rows(core)
        if scorers is not None:
            from karl_fast.log.reward_functions import score  # with NumPy, which logs without functions do without

            core, unrewarded = score(core, settings, scorers)
        undo.pop_all()
    facts = scorers.facts if scorers else None
    facts_of_files = (resolved.left_out, resolved.skipped, resolved.summed)
    return Log(core, settings, spool, (), facts, resolved.passed, unrewarded, *facts_of_files)


def _folder_guard(settings: Settings) -> Callable[[], contextlib.AbstractContextManager[None]]:
    """Return to this folder, which paths are relative to, in case a function of a file changes it."""
    if not settings.functions:
        return contextlib.nullcontext
    from karl_fast._user_code import return_to, working_folder  # with hashlib, which logs without functions do without

    return partial(return_to, working_folder())


def _scorers(settings: Settings) -> Scorers | None:
    if not settings.functions:
        return None
    from karl_fast.log.reward_functions import load_functions  # with NumPy, as in `read`

    return load_functions(settings)


def _needed(settings: Settings) -> Needed | None:
    """Return which columns of Parquet have to be kept: all where whole records are written, scored or compared."""
    if settings.shape == "raw" or settings.functions or settings.dedup:
        return None
    return partial(
        _core.columns_needed, **columns(settings), partition=settings.partition_field, order=settings.order_by
    )


def refuse_bad_rows(core: _core.Log) -> None:
    """Raise for the first row that is damaged."""
    for file in core.inputs():
        damage = [reason for reason, _ in file["dropped"] if reason not in SOUND]
        if damage:
            # Of many bad rows the first places are kept: it may not be among them.
            bad = next((bad for bad in file["bad_rows"] if bad["reason"] in damage), None)
            place = f", line {bad['line']}, byte {bad['offset']}" if bad else ""
            reason = (bad["reason"] if bad else damage[0]).replace("_", " ")
            reason += f" {bad['key']}" if bad and "key" in bad else ""
            raise BadRowError(f"{file['path']}{place}: the row is not a sound record: {reason}")


SOUND = ("failed_rollout",)
"""Reasons why an intact row may not be a record."""
