"""Statistics of a log before anything is drawn: the accounting of a manifest, and the target at rising temperatures."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karl_fast import _core
from karl_fast.export.manifest import SPLITS, describe_inputs, describe_run, describe_selection, field_hints
from karl_fast.log import Log
from karl_fast.log.discovery import as_list, is_output, path_of
from karl_fast.log.field_hints import STAMP, describe_data_set, find_repeated_prompts
from karl_fast.log.record_fields import records
from karl_fast.pipeline.sample import merge_settings, open_log
from karl_fast.pipeline.selection import select
from karl_fast.settings.sample import Settings
from karl_fast.settings.sample_fields import show_keywords

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Unpack

    from karl_fast._plots import Plot
    from karl_fast.export.manifest import Manifest
    from karl_fast.export.write import Progress
    from karl_fast.settings.sample_fields import SampleKeywords

LADDER = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
"""Inverse temperatures that `inspect` shows, in units of one over the spread of the scores."""


@dataclass(frozen=True)
class Inspection:
    """Statistics of a log.

    Attributes:
        report: the accounting, groups, rewards, target and domains of a manifest, with lengths and duplicates.
        ladder: the target at rising inverse temperatures.
    """

    report: Manifest
    ladder: list[_core.Tempered]

    def plots(self) -> list[Plot]:
        """Return the target at rising inverse temperatures, the chosen one marked."""
        from karl_fast._plots import ladder_plots

        return ladder_plots(self.ladder, self.report["target"]["inverse_temperature"])

    def _repr_html_(self) -> str:
        """Return a table and the plots of the target, for the output of a cell of a notebook."""
        from karl_fast._plots import counts_table, fragment, row_of_plots

        account, groups, target = (self.report[name] for name in ("accounting", "groups", "target"))
        facts = {"rows read": account["rows_read"], "rows kept": account["rows_kept"], "groups": groups["count"]}
        facts |= {"constant groups": groups["constant"], "mean reward": self.report["reward"]["before"]["mean"]}
        facts |= {"effective rows": target["ess_rows"], "inverse temperature": target["inverse_temperature"]}
        return fragment(counts_table(facts), row_of_plots(self.plots()))


@show_keywords(Settings)
def inspect(
    logs: Log | str | Path | Iterable[str | Path],
    settings: Settings | None = None,
    *,
    exact: bool = False,
    index: bool = False,
    progress: Progress | None = None,
    **choices: Unpack[SampleKeywords],
) -> Inspection:
    """Look at logs without drawing: rows, groups, rewards, duplicates, and what each temperature would do.

    Equal trajectories are counted in groups that the seed selects, up to `COMPARED_BYTES`, and the number in all groups
    is estimated, with the error of the estimate beside it. They are counted in all groups with ``exact`` or ``dedup``,
    of raw rows, and of a log that was read with ``fingerprint``.

    Args:
        logs: files, folders or globs as of :func:`read`, or a log.
        settings: what to read and how to weight it; ``choices`` change single ones.
        exact: True to compare every trajectory, which parses every record.
        index: as of :func:`read`; it holds hashes of trajectories, so that all of them are compared.
        progress: as of :func:`read`.

    Returns:
        The statistics.

    Raises:
        UsageError, FileError, LogError, BadRowError: as `sample`.
    """
    from karl_fast.pipeline.before_draw import (  # with NumPy, which starting up does without
        reach_ess,
        try_conversations,
    )

    settings = merge_settings(logs, settings, choices)
    with open_with_stamps(logs, settings, progress, fingerprint=exact or settings.shape == "raw", index=index) as log:
        selection = select(log)
        report = describe_selection(log, selection) | {"inputs": describe_inputs(log)}
        report["run"] = describe_run(log) | field_hints(log, report)
        report["run"]["reach_ess"] = reach_ess(log, selection)
        report["conversations"] = try_conversations(log)
        report["repeated_prompts"] = find_repeated_prompts(log)
        report["record_bytes"] = quartet(log.core.lengths())
        report["group_rows"] = quartet(log.core.group_sizes())
        outcomes = log.core.outcomes(log.settings.threads)
        # An `outcome` that is a number, as in rollouts of rl, has no components.
        if outcomes is not None and (
            outcomes["rows_known"] or any(isinstance(record.get("outcome"), dict) for record in records(log))
        ):
            report["outcomes"] = outcomes
        report["diversity"] = measure_diversity(log)
        report["duplicate_trajectories"], report["duplicate_sample"] = _count_duplicates(log)
        return Inspection(report, ladder(selection))


@contextlib.contextmanager
def open_with_stamps(
    logs: Log | str | Path | Iterable[str | Path],
    settings: Settings,
    progress: Progress | None,
    *,
    fingerprint: bool = False,
    index: bool = False,
) -> Iterator[Log]:
    """Yield a log; rows of a data set with the rewards, groups and ids in their stamps, where none are named.

    Files of data sets are read without an index.
    """
    if not isinstance(logs, Log):
        logs = [file for path in map(path_of, as_list(logs)) for file in _split_files(path)]
    with open_log(logs, settings, progress, fingerprint=fingerprint, index=index, all_rows=True) as log:
        read_once = isinstance(logs, Log) or "-" in logs or log.settings.reward
        stamped = None if read_once else _stamp_settings(log)
        if stamped is None:
            yield log
            return
    with open_log(logs, stamped, progress, fingerprint=fingerprint, all_rows=True) as log:
        yield log


def _split_files(path: str) -> list[str]:
    """Return the files of the splits of a data set's folder; any other path alone."""
    if not (Path(path).is_dir() and is_output(path)):
        return [path]
    return [str(file) for name in SPLITS if (file := Path(path, f"{name}.jsonl")).is_file()] or [path]


def _stamp_settings(log: Log) -> Settings | None:
    """Return the settings that read the stamps of a data set's rows; None of other logs."""
    if not log.inputs or any(not describe_data_set([file]) for file in log.inputs):
        return None
    stamps = [record[STAMP] for record in records(log) if isinstance(record.get(STAMP), dict)]
    if not any(isinstance(stamp.get("reward"), int | float) for stamp in stamps):
        return None
    stamped_fields = [
        name for name in ("id", "group", "domain") if any(stamp.get(name) is not None for stamp in stamps)
    ]
    names: dict[str, Any] = {name: f"{STAMP}.{name}" for name in stamped_fields if getattr(log.settings, name) is None}
    return log.settings.replace(reward={f"{STAMP}.reward": 1.0}, **names)


def ladder(selection: _core.Selection) -> list[_core.Tempered]:
    """Compute the target at rising inverse temperatures, and at the chosen one."""
    scores = selection.score_summary()
    if not scores["count"]:
        return []
    spread = scores["max"] - scores["min"]
    # Two digits, so that a rung can be typed as an option.
    rungs = {float(f"{rung / spread:.2g}") for rung in LADDER} if spread > 0 else {0.0}
    chosen = selection.facts()["inverse_temperature"]
    return selection.temper(sorted(rungs | {chosen}))


def quartet(values: list[int] | None) -> dict[str, int]:
    """Name four numbers; empty if there is nothing to describe."""
    return dict(zip(("smallest", "median", "90%", "largest"), values or [], strict=False))


COMPARED_BYTES = 32 << 20
"""Bytes of groups, selected by the seed, in which `inspect` looks for equal trajectories; rows without a group are
compared where they have no more."""


def _count_duplicates(log: Log) -> tuple[int | None, Manifest | None]:
    """Return the number of equal trajectories, and the sample it was estimated from, None where all were compared.

    The number is None where rows without a group were left out: no part of them says how many copies the rest has.
    """
    if (copies := log.core.duplicates()[1]) is not None:
        return copies, None
    sample = log.core.estimate_duplicates(log.settings.seed, COMPARED_BYTES, log.settings.threads)
    if sample["rows_left_out"]:
        return None, {**sample}
    is_exact = sample["groups_compared"] == sample["groups"]
    return round(sample["copies"]), None if is_exact else {**sample}


WINDOW_BYTES = 16 << 20
"""Bytes of records, in the order of their ids, in which `inspect` looks for answers."""

LONG_RECORD_BYTES = 1 << 20
"""Mean bytes of records from which on it does not: one is parsed whole, which takes many times its text."""


def measure_diversity(log: Log, count: int | None = None) -> Manifest | None:
    """Return the diversity of the first answers of a log, in the order of ids; None without records of its own.

    Shares of different words fall with the number of answers: sets are compared at an equal ``count``.
    """
    from karl_fast.diversity.answers import of_answers  # with NumPy, which other commands do without

    if sum(file["size_bytes"] for file in log.inputs) >= LONG_RECORD_BYTES * len(log):  # or there are none
        return None
    texts = _core.answered(log.core, 0, WINDOW_BYTES, log.settings.threads)
    groups = log.groups[: len(texts)].tolist()
    each = zip(groups, texts, strict=True)
    answers = ((None if group < 0 else group, _answer(text)) for group, text in each if text is not None)
    return of_answers(islice(answers, count))


def _answer(text: str) -> object:
    """Return the completion of a row; None of one that is nested too deeply for Python."""
    try:
        return json.loads(text)[1]
    except RecursionError:
        return None
