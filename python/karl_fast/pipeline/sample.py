"""The main job in one call: from logs to a data set.

```text
settings -> open_log: columns of numbers -> select: rows that may be drawn, weights -> Draft: rows drawn and rendered
         -> write: train.jsonl, valid.jsonl, test.jsonl, manifest.json
```

The draw itself is in the core: a Gumbel key a row, the k largest win. To follow a sample from the command to its draw,
read ``cli/commands/sample.py``, ``cli/sample_body.py``, this file, ``log/__init__.py``, ``pipeline/selection.py``, and
in Rust ``karl-py/src/export.rs``, ``karl-core/src/selection.rs`` and ``karl-core/src/sample/gumbel.rs``.
"""

from __future__ import annotations

import contextlib
import math
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from karl_fast import _core
from karl_fast._output_path import check_data_set, refuse_read
from karl_fast.errors import NothingToSampleError, UsageError
from karl_fast.export.manifest import (
    SPLITS,
    Manifest,
    accounting,
    describe_draft,
    describe_inputs,
    describe_run,
    field_hints,
)
from karl_fast.export.token_limit import bad_templates, length_judge
from karl_fast.export.write import check_any, export_plan, media_beside, write
from karl_fast.log import Log, read
from karl_fast.log.discovery import PARQUET, as_list
from karl_fast.log.field_hints import describe_recordless, explain_missing_field, group_rows_hint
from karl_fast.log.record_fields import (
    first_keys,
    first_record,
    holder,
    list_keys,
    top_key,
)
from karl_fast.pipeline.selection import select
from karl_fast.settings.sample import Settings
from karl_fast.settings.sample_fields import show_keywords
from karl_fast.settings.validation import BASELINE
from karl_fast.stores import is_url, new_data_set

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path
    from typing import Unpack

    from karl_fast.export.token_limit import RowJudge
    from karl_fast.export.write import Progress
    from karl_fast.settings.sample_fields import SampleKeywords


@dataclass(frozen=True)
class Sample:
    """A data set that was drawn.

    Attributes:
        manifest: what ``manifest.json`` holds.
        draft: the rows themselves.
    """

    manifest: Manifest
    draft: _core.Draft

    def _repr_html_(self) -> str:
        """Return a table, and the rewards before and after the draw, for the output of a cell of a notebook."""
        from karl_fast._plots import fragment, reward_plots, table

        account, draw, reward = (self.manifest[name] for name in ("accounting", "draw", "reward"))
        rows = [
            ("rows", account["rows_kept"], draw["rows"]),
            ("groups", self.manifest["groups"]["count"], draw["distinct_groups"]),
            ("mean reward", reward["before"]["mean"], reward["after"]["mean"]),
        ]
        return fragment(table(("", "kept", "drawn"), rows), *(plot.html() for plot in reward_plots(reward)))

    def lines(self) -> Iterator[str]:
        """Yield the rows as JSON text in the order they were written, split after split.

        Of a data set that was written, long records that were written as they came are read again from their logs.

        Raises:
            LogError: such a log is no longer what it was.
        """
        return lines_of(self.draft)


PART_BYTES = 8 << 20
"""Bytes of rows that are taken from a draft at a time."""


def lines_of(draft: _core.Draft) -> Iterator[str]:
    """Yield the rows of a draft, split after split, a part of them in memory at a time."""
    for split in range(len(SPLITS)):
        first = 0
        while part := draft.lines(split, first, PART_BYTES):
            yield from part
            first += len(part)


@show_keywords(Settings)
def sample(
    logs: Log | str | Path | Iterable[str | Path],
    out: str | Path | None,
    settings: Settings | None = None,
    *,
    force: bool = False,
    index: bool = False,
    progress: Progress | None = None,
    written: Progress | None = None,
    **choices: Unpack[SampleKeywords],
) -> Sample:
    """Draw a training set from logs and write it as a directory, whole or not at all.

    Args:
        logs: files, folders, globs or ``-``, as `karl_fast.read` takes them; or a log that it gave, which is not
            read again. A pipe alone (``-``) is read once, in memory for the rows that are drawn, where
            ``settings.streams``; else it is copied to a temporary file.
        out: the directory, or a URL of ``s3://``, ``gs://``, ``az://`` or ``hf://``; None writes nothing.
        settings: every choice; ``choices`` change single ones (``k=512, score="zscore"``). Those of the log, where one
            is given, are the default.
        force: replace an existing data set.
        index: as for `karl_fast.read`.
        progress: called with the bytes read so far and the bytes there are, as `karl_fast.read` does.
        written: called likewise with the bytes of rows written so far and their total.

    Raises:
        UsageError, FileError, LogError, BadRowError: as `karl_fast.read`; and for a setting that a given log
            was not read with.
        NothingToSampleError: no row can be drawn or written.
        OutputExistsError: the directory exists.
    """
    start = time.perf_counter()
    settings = merge_settings(logs, settings, choices)
    settings.count(0)
    if is_url(out):
        with new_data_set(str(out), force=force) as (folder, upload):
            result = sample(logs, folder, settings, index=index, progress=progress, written=written)
            upload()
        return result
    target = None if out is None else check_data_set(out, force=force)
    row_judge = length_judge(settings)
    plan = export_plan(settings, "held" if out is None else "unread", row_judge)
    with open_log(logs, settings, progress, index=index) as log:
        if out is not None:
            refuse_read(out, (file["path"] for file in log.inputs))
        draw = _drawing(log, start, row_judge)
        draft, manifest = draw(plan)
        # Long records are first written unread. Where one of them is not a row, all are read, and others drawn.
        if target is not None and not write(draft, manifest, target, progress=written):
            del draft  # frees its rows before others are drawn
            draft, manifest = draw(plan.judged())
            write(draft, manifest, target, progress=written)
        return Sample(manifest, draft)


def draw_rows(
    logs: str | Path | Iterable[str | Path],
    settings: Settings,
    progress: Progress | None = None,
    *,
    index: bool = False,
) -> Sample:
    """Draw rows as :func:`sample`, without writing them, for one pass over them.

    Long records of files that are not changed are not held: ``lines`` reads them again.
    """
    start = time.perf_counter()
    settings.count(0)
    row_judge = length_judge(settings)
    with open_log(logs, settings, progress, index=index) as log:
        draft, manifest = _drawing(log, start, row_judge)(export_plan(settings, "judged", row_judge))
        return Sample(manifest, draft)


def _drawing(
    log: Log, start: float, row_judge: RowJudge | None
) -> Callable[[_core.Export], tuple[_core.Draft, Manifest]]:
    """Return a function that draws rows of a log for a plan, and their manifest."""
    selection = select(log)
    if not selection.available:
        raise no_rows_error(log, selection)
    _refuse_range(selection.facts())
    return partial(_draw, log, selection, describe_inputs(log), start, row_judge)


def merge_settings(logs: object, settings: Settings | None, choices: SampleKeywords) -> Settings:
    """Return the settings of a call: those given, or of the log, or the defaults, with single choices changed."""
    default = logs.settings if isinstance(logs, Log) else Settings()
    return (settings or default).replace(**choices)


@contextlib.contextmanager
def open_log(
    logs: Log | str | Path | Iterable[str | Path],
    settings: Settings,
    progress: Progress | None,
    *,
    fingerprint: bool = False,
    index: bool = False,
    all_rows: bool = False,
) -> Iterator[Log]:
    """Yield a given log, which stays open; or one that is read here and closed afterwards.

    The rows of a pipe are held, even where its draw needs one pass, if ``all_rows`` are wanted.
    """
    if isinstance(logs, Log):
        if settings.parent is not None and logs.trees is None:
            raise UsageError("parent reads the log three times, and a log that was read is given", "parent")
        yield _without_excluded(logs.under(settings))
    else:
        with _read_log(logs, settings, progress, fingerprint=fingerprint, index=index, all_rows=all_rows) as log:
            yield _without_excluded(_with_trees(log, as_list(logs)))


def _with_trees(log: Log, logs: list[str | Path]) -> Log:
    """Return a log whose rows have the reward of the trajectory that called them, if it is asked for."""
    if log.settings.parent is None:
        return log
    if "-" in logs:
        raise UsageError(
            "parent reads the log three times, and standard input is there once", "parent", hint="name a file"
        )
    from karl_fast.log.trees import credit_trees  # with NumPy, which most runs do without

    plain = log.settings.replace(
        parent=None,
        score="raw",
        partition_by="global",
        drop_constant_groups=False,
        variance_top_p=None,
        **{name: getattr(Settings, name) for name in BASELINE},
    )
    return credit_trees(log, lambda path: read(logs, plain.replace(group=path, max_per_group=None, per=None)))


def _without_excluded(log: Log) -> Log:
    """Return a log without rewards of rows that must not be learned from."""
    if log.settings.exclude is None:
        return log
    from karl_fast.log.exclude import exclude_rows  # with NumPy, which most runs do without

    return exclude_rows(log)


def _read_log(
    logs: str | Path | Iterable[str | Path],
    settings: Settings,
    progress: Progress | None,
    *,
    fingerprint: bool,
    index: bool,
    all_rows: bool,
) -> Log:
    """Read files, or a pipe in one pass if that suffices for the draw."""
    if settings.streams and not all_rows:
        from karl_fast.log.stream import only_pipe, stream  # most runs read files

        logs = as_list(logs)
        if (pipe := only_pipe(logs)) is not None:
            return stream(pipe, settings, progress)
    return read(logs, settings, fingerprint=fingerprint, index=index, progress=progress)


def _refuse_range(facts: _core.SelectionFacts) -> None:
    """Raise if weights are beyond the range of their sums: the ESS of valid weights is one row or more."""
    ess = facts["reached_ess"]
    # 1e-9 is room for the rounding of the sums.
    if not (math.isfinite(ess) and ess > 1 - 1e-9 and facts["largest_weight_share"] < 1 + 1e-9):
        raise UsageError("scores times the inverse temperature, or log-weights, are beyond 1e14: scale them down")


def _draw(
    log: Log,
    selection: _core.Selection,
    files: list[Manifest],
    start: float,
    row_judge: RowJudge | None,
    plan: _core.Export,
) -> tuple[_core.Draft, Manifest]:
    """Draw rows, and return them with their manifest."""
    wanted = log.settings.count(selection.available)
    if row_judge is not None:
        row_judge.reasons.clear()  # those of an earlier draft
    draft = _core.Draft.of(selection, wanted, plan)
    check_any(draft, log, row_judge)
    manifest = describe_draft(log, selection, draft, wanted) | {"inputs": files}
    seconds = round(time.perf_counter() - start, 3)
    return draft, manifest | {
        "run": describe_run(log, seconds, draft.failed_rows)
        | media_beside(draft)
        | bad_templates(row_judge)
        | field_hints(log, manifest)
        | _ess_options(log, selection)
    }


def _ess_options(log: Log, selection: _core.Selection) -> Manifest:
    """Return options that reach an ESS, where the wanted one was not reached for rows that share the top score."""
    if selection.facts()["note"] != "ties_at_top":
        return {}
    from karl_fast.pipeline.before_draw import reach_ess  # with NumPy, which other runs do without

    return {"reach_ess": reach_ess(log, selection)}


def no_rows_error(log: Log, selection: _core.Selection) -> NothingToSampleError:
    """Return the error if no row is left, with suggestions if none has a reward."""
    account = accounting(log, selection.facts()["verdicts"])
    reasons = ", ".join(f"{reason.replace('_', ' ')} {count:,}" for reason, count in account["dropped"].items())
    read = account["rows_read"]
    sentence = f"no row is left to draw: {read:,} read" + (f", dropped: {reasons}" if reasons else "")
    damaged = sum(count for file in log.inputs for _, count in file["dropped"])
    if not 0 < account["dropped"].get("missing_reward", 0) == read - damaged:
        why = next((reason for reason in UNREAD if account["dropped"].get(reason) == read > 0), None)
        hint = (group_rows_hint(log) if why == "reward_not_a_number" else None) or (UNREAD[why] if why else None)
        return NothingToSampleError(sentence + _available_fields(log) + (_first_bad(log) if why else ""), hint=hint)
    if log.unrewarded:
        return NothingToSampleError("; ".join([sentence, *log.unrewarded]))
    paths, keys, example = list(log.settings.paths or ()), first_keys(log.inputs), first_record(log)
    missing = [path for path in paths if top_key(path) not in keys] or [path for path in paths if holder(example, path)]
    if missing and len(paths) > 1:
        sentence += f"; the first record lacks {', '.join(missing)}"
    elif missing and log.settings.reward is not None:
        sentence += f"; no record has the reward {missing[0]}"
    more, hint = explain_missing_field(log, "reward", next(iter(missing or paths), None))
    if log.settings.format not in (None, "generic") and not paths:
        hint = "leave --format out, so that the format is detected, or name the field of the reward with --reward"
    return NothingToSampleError(sentence + more, hint=hint)


UNREAD = {
    "reward_not_a_number": "a reward is a number, true, false or null; --reward names the field of another",
    "bad_group": "a group is a text, a number, true or false; --group names what is inside of it: task.id, hash(task)",
    "bad_list": "each field with [] is a list, and all of a record are of one length; --reward 'rewards[]' names one",
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


def _available_fields(log: Log) -> str:
    """Return the fields of records, or the files without records, or why the first file of a folder was skipped."""
    if files := describe_recordless(log.inputs):
        return f"; no record in {files}"
    skipped = [f"; {path}: {why}" for path, why in (*log.core.refused(), *log.core.skipped())] if not log.inputs else []
    return list_keys(first_keys(log.inputs)) + "".join(skipped[:1])
