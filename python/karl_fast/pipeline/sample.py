"""The main job in one call: from logs to a data set."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from karl_fast import _core
from karl_fast._output_path import data_set, refuse_read
from karl_fast.errors import UsageError
from karl_fast.export.manifest import SPLITS, Manifest, describe_draft
from karl_fast.export.provenance import field_hints, describe_inputs, describe_run
from karl_fast.export.token_length import length_judge
from karl_fast.export.write import bad_templates, check_any, media_beside, export_plan, write
from karl_fast.pipeline.no_rows_error import no_rows_error
from karl_fast.pipeline.open_log import open_log, merge_settings
from karl_fast.pipeline.select import select
from karl_fast.settings.keywords import show_keywords
from karl_fast.settings.sample import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import Unpack

    from karl_fast.export.token_length import RowJudge
    from karl_fast.export.write import Progress
    from karl_fast.log import Log
    from karl_fast.settings.keywords import SampleKeywords


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


@show_keywords(Settings)
def sample(
    logs: Log | str | Path | Iterable[str | Path],
    out: str | Path | None,
    settings: Settings | None = None,
    *,
    force: bool = False,
    progress: Progress | None = None,
    written: Progress | None = None,
    **choices: Unpack[SampleKeywords],
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
    settings = merge_settings(logs, settings, choices)
    settings.count(0)
    target = None if out is None else data_set(out, force=force)
    row_judge = length_judge(settings)
    how = export_plan(settings, "held" if out is None else "unread", row_judge)
    with open_log(logs, settings, progress) as log:
        if out is not None:
            refuse_read(out, (file["path"] for file in log.inputs))
        selection = select(log)
        if not selection.available:
            raise no_rows_error(log, selection)
        _refuse_range(selection.facts())
        made = partial(_sample_log, log, selection, describe_inputs(log), start, row_judge)
        draft, manifest = made(how)
        if target is not None and not write(draft, manifest, target, progress=written):
            del draft  # and what it holds
            draft, manifest = made(how.judged())
            write(draft, manifest, target, progress=written)
        return Sample(manifest, draft)


def _sample_log(
    log: Log,
    selection: _core.Selection,
    files: list[Manifest],
    start: float,
    row_judge: RowJudge | None,
    how: _core.Export,
) -> tuple[_core.Draft, Manifest]:
    """Return the rows and their manifest, with files, and seconds since the start."""
    wanted = log.settings.count(selection.available)
    if row_judge is not None:
        row_judge.reasons.clear()  # of a draft that was made before
    draft = _core.Draft.of(selection, wanted, how)
    check_any(draft, log, row_judge)
    manifest = describe_draft(log, selection, draft, wanted) | {"inputs": files}
    seconds = round(time.perf_counter() - start, 3)
    return draft, manifest | {
        "run": describe_run(log, seconds, draft.failed_rows)
        | media_beside(draft)
        | bad_templates(row_judge)
        | field_hints(log, manifest)
    }


def _refuse_range(facts: _core.SelectionFacts) -> None:
    """Raise if weights are beyond the range of their sums: the ESS of valid weights is one row or more."""
    ess = facts["reached_ess"]
    if not (math.isfinite(ess) and ess > 1 - 1e-9 and facts["largest_weight_share"] < 1 + 1e-9):
        raise UsageError("scores times the inverse temperature, or log-weights, are beyond 1e14: scale them down")
