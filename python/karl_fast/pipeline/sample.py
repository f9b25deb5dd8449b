"""The main job in one call: from logs to a data set, and the look at a log before it."""

from __future__ import annotations

import contextlib
import json
import math
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from karl_fast import _core
from karl_fast._output_path import data_set, refuse_read
from karl_fast.errors import NothingToSampleError, UsageError
from karl_fast.export.manifest import SPLITS, Manifest, accounting, of_draft, of_selection
from karl_fast.export.provenance import hints, inputs, run
from karl_fast.export.write import check_any, plan, write
from karl_fast.log import Log, read
from karl_fast.log.discovery import PARQUET, listed
from karl_fast.log.field_hints import first, held, holder, lacking, record, recordless, top
from karl_fast.pipeline.select import select
from karl_fast.settings.choices import named
from karl_fast.settings.sample import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import Unpack

    from karl_fast.export.write import Progress
    from karl_fast.settings.choices import Choices

LADDER = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
"""Inverse temperatures that `inspect` shows, in units of one over the spread of the scores."""


@dataclass(frozen=True)
class Sample:
    """A data set that was drawn.

    Attributes:
        manifest: what ``manifest.json`` holds.
        draft: the rows themselves.
    """

    manifest: Manifest
    draft: _core.Draft

    def lines(self) -> Iterator[str]:
        """Yield the rows as JSON text in the order they were written, split after split.

        Of a data set that was written, long records that were written as they came are read again from their logs.

        Raises:
            LogError: such a log is no longer what it was.
        """
        return (line for split in range(len(SPLITS)) for line in self.draft.lines(split))


@dataclass(frozen=True)
class Inspection:
    """Statistics of a log.

    Attributes:
        report: the accounting, groups, rewards, target and domains of a manifest, with lengths and duplicates.
        ladder: the target at rising inverse temperatures.
    """

    report: Manifest
    ladder: list[_core.Tempered]


@named(Settings)
def sample(
    logs: Log | str | Path | Iterable[str | Path],
    out: str | Path | None,
    settings: Settings | None = None,
    *,
    force: bool = False,
    progress: Progress | None = None,
    written: Progress | None = None,
    **choices: Unpack[Choices],
) -> Sample:
    """Draw a training set from logs and write it as a directory, whole or not at all.

    Args:
        logs: files, folders, globs or ``-``, as :func:`karl_fast.read` takes them; or a log that it gave, which is not
            read again. A pipe alone (``-``) is read once, in memory for the rows that are drawn, where
            ``settings.streams``; else it is copied to a temporary file.
        out: the directory; None writes nothing.
        settings: every choice; ``choices`` change single ones (``k=512, score="zscore"``). Those of the log, where one
            is given, are the default.
        force: replace an existing data set.
        progress: called with the bytes read so far and the bytes there are, as :func:`karl_fast.read` does.
        written: called likewise with the bytes of rows written so far and their total.

    Raises:
        UsageError, FileError, LogError, BadRowError: as :func:`karl_fast.read`; and for a setting that a given log
            was not read with.
        NothingToSampleError: no row can be drawn or written.
        OutputExistsError: the directory exists.
    """
    start = time.perf_counter()
    settings = _settings(logs, settings, choices)
    settings.count(0)
    target = None if out is None else data_set(out, force=force)
    how = plan(settings, "held" if out is None else "unread")
    with _opened(logs, settings, progress) as log:
        if out is not None:
            refuse_read(out, (file["path"] for file in log.inputs))
        selection = select(log)
        if not selection.available:
            raise _nothing(log, selection)
        _refuse_range(selection.facts())
        made = partial(_made, log, selection, inputs(log), start)
        draft, manifest = made(how)
        if target is not None and not write(draft, manifest, target, progress=written):
            del draft  # and what it holds
            draft, manifest = made(how.judged())
            write(draft, manifest, target, progress=written)
        return Sample(manifest, draft)


def _made(
    log: Log, selection: _core.Selection, files: list[Manifest], start: float, how: _core.Export
) -> tuple[_core.Draft, Manifest]:
    """Return the rows and their manifest, with files, and seconds since the start."""
    wanted = log.settings.count(selection.available)
    draft = _core.Draft.of(selection, wanted, how)
    check_any(draft, log)
    manifest = of_draft(log, selection, draft, wanted) | {"inputs": files}
    seconds = round(time.perf_counter() - start, 3)
    return draft, manifest | {"run": run(log, seconds, draft.failed_rows) | hints(log, manifest)}


@named(Settings)
def inspect(
    logs: Log | str | Path | Iterable[str | Path],
    settings: Settings | None = None,
    *,
    progress: Progress | None = None,
    **choices: Unpack[Choices],
) -> Inspection:
    """Look at logs without drawing: rows, groups, rewards, duplicates, and what each temperature would do.

    Of a log that is given, equal trajectories are counted only where it was read with ``fingerprint``.

    Raises:
        UsageError, FileError, LogError, BadRowError: as :func:`sample`.
    """
    settings = _settings(logs, settings, choices)
    with _opened(logs, settings, progress, fingerprint=True) as log:
        selection = select(log)
        report = of_selection(log, selection) | {"inputs": inputs(log)}
        report["run"] = run(log) | hints(log, report)
        report["record_bytes"] = quartet(log.core.lengths())
        report["group_rows"] = quartet(log.core.group_sizes())
        if (outcomes := log.core.outcomes(log.settings.threads)) is not None:
            report["outcomes"] = outcomes
        report["diversity"] = _diversity(log)
        report["duplicate_trajectories"] = log.core.duplicates()[1]
        return Inspection(report, ladder(selection))


WINDOW = 16 << 20
"""Bytes of records, in the order of their ids, in which `inspect` looks for answers."""

LONG = 1 << 20
"""Mean bytes of records from which on it does not: one is parsed whole, which takes many times its text."""


def _diversity(log: Log) -> Manifest | None:
    """Return the diversity of the first answers of a log, in the order of ids; None without records of its own."""
    from karl_fast.diversity.answers import of_answers  # with NumPy, which other commands do without

    if sum(one["size_bytes"] for one in log.inputs) >= LONG * len(log):  # or there are none
        return None
    texts = _core.answered(log.core, 0, WINDOW, log.settings.threads)
    groups = log.groups[: len(texts)].tolist()
    each = zip(groups, texts, strict=True)
    return of_answers((None if group < 0 else group, _answer(text)) for group, text in each if text is not None)


def _answer(text: str) -> object:
    """Return the completion of a row; None of one that is nested too deeply for Python."""
    try:
        return json.loads(text)[1]
    except RecursionError:
        return None


def _settings(logs: object, settings: Settings | None, choices: Choices) -> Settings:
    default = logs.settings if isinstance(logs, Log) else Settings()
    return (settings or default).replace(**choices)


@contextlib.contextmanager
def _opened(
    logs: Log | str | Path | Iterable[str | Path],
    settings: Settings,
    progress: Progress | None,
    *,
    fingerprint: bool = False,
) -> Iterator[Log]:
    """Yield a given log, which stays open; or one that is read here and closed afterwards."""
    if isinstance(logs, Log):
        yield logs.under(settings)
    else:
        with _read(logs, settings, progress, fingerprint=fingerprint) as log:
            yield log


def _read(
    logs: str | Path | Iterable[str | Path],
    settings: Settings,
    progress: Progress | None,
    *,
    fingerprint: bool,
) -> Log:
    """Read files, or a pipe in one pass if that suffices for the draw."""
    if settings.streams and not fingerprint:
        from karl_fast.log.stream import alone, stream  # most runs have no stream

        logs = listed(logs)
        if (pipe := alone(logs)) is not None:
            return stream(pipe, settings, progress)
    return read(logs, settings, fingerprint=fingerprint, progress=progress)


def quartet(values: list[int] | None) -> dict[str, int]:
    """Name four numbers; empty if there is nothing to describe."""
    return dict(zip(("smallest", "median", "90%", "largest"), values or [], strict=False))


def ladder(selection: _core.Selection) -> list[_core.Tempered]:
    """Compute the target at rising inverse temperatures, and at the chosen one."""
    scores = selection.score_summary()
    if not scores["count"]:
        return []
    spread = scores["max"] - scores["min"]
    rungs = {float(f"{rung / spread:.2g}") for rung in LADDER} if spread > 0 else {0.0}
    chosen = selection.facts()["inverse_temperature"]
    return selection.temper(sorted(rungs | {chosen}))


def _refuse_range(facts: _core.SelectionFacts) -> None:
    """Raise if weights are beyond the range of their sums: the ESS of valid weights is one row or more."""
    ess = facts["reached_ess"]
    if not (math.isfinite(ess) and ess > 1 - 1e-9 and facts["largest_weight_share"] < 1 + 1e-9):
        raise UsageError("scores times the inverse temperature, or log-weights, are beyond 1e14: scale them down")


def _nothing(log: Log, selection: _core.Selection) -> NothingToSampleError:
    """Return the error if no row is left, with suggestions if none has a reward."""
    account = accounting(log, selection.facts()["verdicts"])
    reasons = ", ".join(f"{reason.replace('_', ' ')} {count:,}" for reason, count in account["dropped"].items())
    read = account["rows_read"]
    sentence = f"no row is left to draw: {read:,} read" + (f", dropped: {reasons}" if reasons else "")
    damaged = sum(count for file in log.inputs for _, count in file["dropped"])
    if not 0 < account["dropped"].get("missing_reward", 0) == read - damaged:
        why = next((reason for reason in UNREAD if account["dropped"].get(reason) == read > 0), None)
        error = NothingToSampleError(sentence + _there(log) + (_first_bad(log) if why else ""))
        error.hint = UNREAD[why] if why else None
        return error
    if log.unrewarded:
        return NothingToSampleError("; ".join([sentence, *log.unrewarded]))
    paths, keys, one = list(log.settings.paths or ()), first(log.inputs), record(log)
    lost = [path for path in paths if top(path) not in keys] or [path for path in paths if holder(one, path)]
    if lost and len(paths) > 1:
        sentence += f"; the first record lacks {', '.join(lost)}"
    more, hint = lacking(log, "reward", next(iter(lost or paths), None))
    error = NothingToSampleError(sentence + more)
    error.hint = hint
    return error


UNREAD = {
    "reward_not_a_number": "a reward is a number, true, false or null; --reward names the field of another",
    "bad_group": "a group is a text, a number, true or false; --group names what is inside of it: task.id, hash(task)",
    "bad_id": "an id is a text, a number, true or false; --id names what is inside of it: run.id",
}
"""Hints for defects that every record has."""


def _first_bad(log: Log) -> str:
    """Return the place of the first row that could not be read, if it can be opened."""
    plain = (
        file
        for file in log.inputs
        if file["codec"] == "plain" and not file["path"].endswith(PARQUET) and file["path"] != "-"
    )
    places = ((file["path"], bad) for file in plain for bad in file["bad_rows"])
    return next((f"; the first at {path}, line {bad['line']}, byte {bad['offset']}" for path, bad in places), "")


def _there(log: Log) -> str:
    """Return the fields of records, or the files without records, or why the first file of a folder was skipped."""
    if where := recordless(log.inputs):
        return f"; no record in {where}"
    passed = [f"; {path}: {why}" for path, why in (*log.core.refused(), *log.core.skipped())] if not log.inputs else []
    return held(first(log.inputs)) + "".join(passed[:1])
