"""The main job in one call: from logs to a data set."""

from __future__ import annotations

import contextlib
import math
import shlex
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from karl_fast import _core
from karl_fast._output_path import data_set, refuse_read
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
from karl_fast.export.write import bad_templates, check_any, export_plan, length_judge, media_beside, write
from karl_fast.log import Log, read
from karl_fast.log.discovery import PARQUET, as_list, why_no_groups
from karl_fast.log.field_hints import describe_recordless, explain_missing_field
from karl_fast.log.order import half_life_of
from karl_fast.log.record_fields import (
    first_keys,
    first_record,
    fitting_paths,
    holder,
    likeliest_key,
    list_keys,
    records,
    top_key,
)
from karl_fast.settings.sample import Settings
from karl_fast.settings.sample_fields import show_keywords

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import Unpack

    import numpy as np
    from numpy.typing import NDArray

    from karl_fast.export.write import Progress, RowJudge
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


# The error of a log of which no row is left to draw.


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
    paths, keys, one = list(log.settings.paths or ()), first_keys(log.inputs), first_record(log)
    lost = [path for path in paths if top_key(path) not in keys] or [path for path in paths if holder(one, path)]
    if lost and len(paths) > 1:
        sentence += f"; the first record lacks {', '.join(lost)}"
    elif lost and log.settings.reward is not None:
        sentence += f"; no record has the reward {lost[0]}"
    more, hint = explain_missing_field(log, "reward", next(iter(lost or paths), None))
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
    if where := describe_recordless(log.inputs):
        return f"; no record in {where}"
    passed = [f"; {path}: {why}" for path, why in (*log.core.refused(), *log.core.skipped())] if not log.inputs else []
    return list_keys(first_keys(log.inputs)) + "".join(passed[:1])


# The log and the settings of a call of `sample` or `inspect`.


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
) -> Iterator[Log]:
    """Yield a given log, which stays open; or one that is read here and closed afterwards."""
    if isinstance(logs, Log):
        yield logs.under(settings)
    else:
        with _read_log(logs, settings, progress, fingerprint=fingerprint) as log:
            yield log


def _read_log(
    logs: str | Path | Iterable[str | Path],
    settings: Settings,
    progress: Progress | None,
    *,
    fingerprint: bool,
) -> Log:
    """Read files, or a pipe in one pass if that suffices for the draw."""
    if settings.streams and not fingerprint:
        from karl_fast.log.stream import alone, stream  # most runs have no stream

        logs = as_list(logs)
        if (pipe := alone(logs)) is not None:
            return stream(pipe, settings, progress)
    return read(logs, settings, fingerprint=fingerprint, progress=progress)


# Selection: from the columns of a log to the rows that may be drawn, and their weights.


GROUP_RULES = ("drop_constant_groups", "variance_top_p", "max_per_group")
"""Rules that leave every row where no row has a group."""


def select(log: Log) -> _core.Selection:
    """Score, judge and temper every record of a log, as its settings say; or weigh it as its caller did."""
    settings = log.settings
    if log.core.weighted:
        _refuse_target(settings)
    _refuse_absent_fields(log)
    selection = _core.Selection(
        log.core,
        weights=settings.weights,
        shaping=settings.shaping.numbers if settings.shaping else None,
        score=("centre" if settings.score_by == "group" else "raw")
        if settings.score == "advantage"
        else settings.score,
        scores=_advantages(log) if settings.score == "advantage" else None,
        ddof=settings.ddof,
        eps=settings.eps,
        min_reward=settings.min_reward,
        drop_constant_groups=settings.drop_constant_groups,
        variance_top_p=settings.variance_top_p,
        dedup=settings.dedup,
        partition_by="field" if settings.partition_field else settings.partition_by,
        ess=settings.wanted_ess,
        inverse_temperature=settings.tempered_by,
        half_life=half_life_of(log),
        sampler=settings.sampler,
        seed=settings.seed,
        threads=settings.threads,
    )
    _refuse_unknown_names(log, selection.facts()["ungrouped"])
    return selection


def _refuse_unknown_names(log: Log, ungrouped: int) -> None:
    """Refuse paths of an id, a group or a domain that no record has: names without effect are misspelt."""
    settings, files = log.settings, log.inputs
    records_read = sum(file["rows_read"] - sum(count for _, count in file["dropped"]) for file in files)
    without_id, domains = sum(file["without_id"] for file in files), log.core.domains()
    absent = {
        "id": without_id == records_read,
        "group": ungrouped == records_read,
        "domain": not (domains["listed"] or domains["other_rows"]),
    }
    for field, is_absent in absent.items():
        if records_read and is_absent and getattr(settings, field):
            raise _absent_field_error(log, "", field, field)


def _refuse_absent_fields(log: Log) -> None:
    """Refuse settings that need a group, a domain or another field that no record has."""
    settings = log.settings
    by_group = settings.partition_by == "group"
    groupless = len(log) > 0 and not log.core.distinct("group")
    rules = [rule for rule in GROUP_RULES if getattr(settings, rule)]
    by = settings.score_by
    needs_groups = by_group or by == "group" or rules or "group" in (settings.per or ())
    if groupless and needs_groups and (why := why_no_groups(log.inputs)):
        raise UsageError(why)
    if groupless and by_group:
        raise _absent_field_error(log, "partition_by is group", "partition_by", "group")
    if groupless and by == "group":
        raise _absent_field_error(log, f"score {settings.score} is taken within groups", "score", "group")
    if by == "domain" and len(log) and not log.core.distinct("domain"):
        raise _absent_field_error(log, "baseline_by is domain", "baseline_by", "domain")
    if groupless and rules:
        raise _absent_field_error(log, f"{rules[0]} is a rule of groups", rules[0], "group")
    for field in settings.per or ():
        if len(log) and not log.core.distinct(field):
            raise _absent_field_error(log, f"per is by {field}", "per", field)
    if settings.partition_field and len(log) and not log.core.distinct("partition"):
        raise _no_partition_error(log, settings.partition_field)


def _kind_of_score(settings: Settings) -> str:
    """Return the score that rules judge rows by: advantages are within groups, or of each row alone."""
    if settings.score != "advantage":
        return settings.score
    return "centre" if settings.score_by == "group" else "raw"


def _advantages(log: Log) -> NDArray[np.float64]:
    """Return the reward of each record less the baseline of its group or domain; 0 without a domain. [B]"""
    import numpy as np  # here, for other scores do without

    from karl_fast.advantage import centre, partition_baseline

    settings = log.settings
    rewards = log.rewards if settings.shaping is None else settings.shaping(log.rewards)
    codes = log.groups if settings.baseline_by == "group" else log.domains
    if settings.baseline == "mean":
        scores = centre(rewards, codes)
    elif settings.baseline == "ema":
        scores = _less_moving_mean(log, rewards, codes)
    else:  # the validation of settings has seen that there is a temperature
        scores = partition_baseline(rewards, codes, inverse_temperature=settings.inverse_temperature or 1.0)
    # A row without a domain has none to be compared with, as one that is alone in its group.
    return np.where((codes < 0) & ~np.isnan(rewards), 0.0, scores)


def _less_moving_mean(log: Log, rewards: NDArray[np.float64], codes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the reward of each record less the moving mean of those before it; equal times are in id order. [B]"""
    import numpy as np

    from karl_fast.advantage import ema_baseline

    settings, times = log.settings, log.core.order()
    assert times is not None, "settings.order_by"
    order = np.argsort(times, kind="stable")
    found = ema_baseline(rewards[order], codes[order], alpha=settings.ema_alpha, start=settings.ema_start)
    scores = np.empty(len(order))
    scores[order] = found.advantages
    return scores


def _absent_field_error(log: Log, need: str, setting: str, field: str) -> UsageError:
    """Return the error for a field that no record has, under its name if it was given, and what needs it."""
    asked = getattr(log.settings, field)
    wanted = f"a {field}" if asked is None else f"the {field} {asked}"
    more, hint = explain_missing_field(log, field, asked)
    return UsageError(
        f"{need + ', but ' if need else ''}no record has {wanted}{more}", *([setting] if need else []), hint=hint
    )


def _no_partition_error(log: Log, field: str) -> UsageError:
    keys = first_keys(log.inputs)
    error = UsageError(f"partition_by is {field}, but no record has that field{list_keys(keys)}", "partition_by")
    if key := likeliest_key("partition", fitting_paths(records(log), "partition"), field):
        error.hint = f"did you mean --partition-by {shlex.quote(key)}?"
    return error


def _refuse_target(settings: Settings) -> None:
    """Refuse settings that would be ignored."""
    untouched = Settings()
    for name in ("shaping", "score", "ess", "inverse_temperature", "partition_by"):
        if getattr(settings, name) != getattr(untouched, name):
            raise UsageError(f"{name} is {getattr(settings, name)}, but log_weight was given, which replaces it", name)
    if settings.sampler == "reservoir":
        raise UsageError("the sampler reservoir draws all rows alike: it has no use for the log_weight that was given")
