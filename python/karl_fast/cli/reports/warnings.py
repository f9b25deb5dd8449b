"""Warnings of `sample` and `inspect`: problems that a run worked around, and likely mistakes of its user."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from karl_fast._safe_text import clean, counted
from karl_fast.cli.reports.outcome_table import describe_unknown_outcomes, warn_about_outcomes
from karl_fast.export.manifest import TARGET_NOTES
from karl_fast.export.write import FEWEST, MESSAGE, describe_media, messages_from
from karl_fast.log.conversation_hints import JOIN, REJECTED
from karl_fast.log.discovery import PARQUET, neighbours_glob, why_no_groups
from karl_fast.log.field_hints import (
    CONVERT,
    REDRAW,
    describe_data_set,
    describe_transcripts,
    describe_unrated,
    describe_unread,
    informative_outcomes,
    naming_hint,
    rating_hint,
)
from karl_fast.log.record_fields import list_keys, shorten_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karl_fast.export.manifest import Manifest

MANY = 0.25
"""Rows without a reward are many from this share on: then the format may be another."""

POOR = 0.5
"""A file with a larger share of damaged rows than this may be no log."""

TRAJECTORY = ("messages", "prompt", "completion", "text")
"""The fields that a row is made of."""

UNREAD = {
    "bad_arguments": "a tool call whose arguments are a text that is not a JSON object",
    "bad_tools": "tools that are not a list of functions with a name, nor the JSON text of one",
    "unknown_role": "a message of a role that is none of system, developer, user, assistant, model, tool, function",
    "bad_weight": "a message of the assistant with a weight that is neither 0 nor 1, or with weights of its parts",
    "bad_system": "a system message outside the conversation that is not text, or differs from its system message",
    "no_learned_turn": "a weight of 0 in every turn of the assistant",
    "unlearned_turn": "a turn with a weight of 0, and of a text all is learned: --as chat keeps such rows",
}
"""Reasons why rows are not read, in words."""

DAMAGE = ("torn", "not_an_object", "malformed", "too_long", "damaged_stream")
"""Reasons why a row is not a record; others are records with an invalid field, or that failed."""


def warn_about_inspection(report: Manifest) -> Iterator[str]:
    """Yield the warnings of `inspect`."""
    yield from _warn_about_inputs(report)
    if note := _describe_ess_note(report):
        yield note
    yield from _warn_about_conversations(report)
    yield from warn_about_outcomes(report.get("outcomes"))


def _warn_about_conversations(report: Manifest) -> Iterator[str]:
    """Yield warnings about rows that `sample` could not write, and about prompts that occur again without a group."""
    tried = report.get("conversations")
    if tried and not tried["written"]:
        hint = f": {tried['hint']}" if tried["hint"] else ""
        rows = counted(tried["tried"], "row that was tried", "rows that were tried")
        yield clean(f"sample could write none of the {rows}: {tried['why']}{hint}")
    if repeated := report.get("repeated_prompts"):
        group = repeated["group"]
        how = f"--group {shlex.quote(group)} groups" if group else "write the prompt's name into a field, which --group"
        end = "their rows" if group else "names"
        prompts = counted(repeated["prompts"], "prompt occurs", "prompts occur")
        yield f"no record has a group, and {prompts} more than once: {how} {end}"


def _warn_about_inputs(report: Manifest) -> Iterator[str]:
    """Yield warnings about fields that are in no record, or in few, and about mostly damaged files."""
    files = report["inputs"]
    yield from _warn_about_damaged_files(files)
    yield from _warn_about_checksums(files)
    yield from _warn_about_parquet(report["run"]["parquet_passed"])
    yield from _warn_about_refused(report["run"]["refused"])
    yield from _warn_about_columns(report["run"]["columns_left_out"])
    if why := why_no_groups(files):
        yield clean(why)
    yield from _warn_about_mixed_numbers(report.get("mixed_numbers", {}))
    yield from map(clean, report["run"].get("missing_rewards", ()))
    yield from _warn_about_missing_rewards(report)
    yield from _warn_about_rejected(files)
    if left := report["run"].get("left_beside"):
        yield f"the rows lack the texts of {clean(' and '.join(map(shorten_key, left)))}, which {JOIN}"


def _warn_about_rejected(files: list[dict[str, Any]]) -> Iterator[str]:
    """Warn of preferences of which one half is not read."""
    for file in files:
        read = {path for name, path in dict(file["fields"]).items() if name in TRAJECTORY}
        if left := [key for key in REJECTED if key in file["keys"] and key not in read]:
            yield clean(f"{left[0]} is not used: of a preference set only what is chosen is a row ({file['path']})")
            return


def _warn_about_mixed_numbers(mixed: dict[str, Any]) -> Iterator[str]:
    """Warn that names of a column are spellings of one number, which are different names."""
    for field, spellings in mixed.items():
        spelled = ", ".join(clean(name) for name in spellings["first"])
        more = f", and so of {counted(spellings['numbers'] - 1, 'other number')}" if spellings["numbers"] > 1 else ""
        yield f"{spelled} are different {field}s, for a name is the text in the log{more}: write each number in one way"


def _warn_about_checksums(files: list[dict[str, Any]]) -> Iterator[str]:
    """Yield warnings about packed files with wrong checksums, which do not locate the damage."""
    damaged = [clean(file["path"]) for file in files if "damaged_stream" in dict(file["dropped"])]
    if damaged:
        more = f" and {counted(len(damaged) - 1, 'other file')}" if len(damaged) > 1 else ""
        yield (
            f"the packed bytes of {damaged[0]}{more} are damaged: rows behind the damage are lost, and rows before it"
            " may have changed"
        )


def _warn_about_missing_rewards(report: Manifest) -> Iterator[str]:
    """Yield warnings about rows without a reward, or without a named component, with the likely cause."""
    settings, files, account = report["settings"], report["inputs"], report["accounting"]
    missing = account["dropped"].get("missing_reward", 0)
    reward, damaged = settings.get("reward") or {}, sum(sum(file["dropped"].values()) for file in files)
    nowhere = 0 < missing == account["rows_read"] - damaged
    if reward and nowhere:
        yield _describe_unrewarded(reward)
    if not missing or settings.get("format") is not None:
        return
    rows = f"{missing:,} of {counted(account['rows_read'], 'row')} have no reward"
    if unknown := describe_unknown_outcomes(reward):
        yield clean(f"{rows}: {unknown}")
        return
    if warning := _describe_other_kind(files, reward):
        yield clean(warning)
    elif reward or missing <= MANY * account["rows_read"]:
        return
    elif warning := describe_unrated(files, "reward", None):
        yield clean(
            f"{warning if nowhere else rows}: {rating_hint(files, informative_outcomes(report.get('outcomes')))}"
        )
    elif nowhere:
        yield clean(_describe_unnamed_reward(report))
    else:
        formats = ", ".join(sorted({clean(file["format"]) for file in files}))
        yield (
            f"{rows} where the format {formats} keeps it; it was detected from the first records: name another with"
            " --format, or give each format a file of its own"
        )


def _describe_other_kind(files: list[dict[str, Any]], reward: dict[str, Any]) -> str | None:
    """Return a hint if a file is a transcript or from a data set; None if functions score, which work on any file."""
    if reward and all(isinstance(value, dict) for value in reward.values()):
        return None
    if warning := describe_transcripts(files):
        return f"{warning}: {CONVERT}"
    if warning := describe_unread(files):
        return warning
    warning = None if reward else describe_data_set(files)
    return warning and f"{warning}: {REDRAW}"


def _describe_unnamed_reward(report: Manifest) -> str:
    """Return a warning that no record has a reward, with a likely field, or that all have null or NaN for it."""
    files = report["inputs"]
    keys = list(dict.fromkeys(key for file in files for key in file["keys"]))
    paths = {str(dict(file["fields"]).get("reward", "")) for file in files}
    if paths & {*keys}:
        meant = "name another with --reward, or the format with --format"
        return f"every record has null or NaN for {', '.join(sorted(paths))}, or lacks it: {meant}"
    # The hint as it was made while the records were available.
    hint = report["run"].get("hints", {}).get("reward") or naming_hint("reward", ())
    return f"no record has a reward{list_keys(keys)}: {hint}, or name the format with --format"


def _warn_about_damaged_files(files: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a warning about mostly damaged files, if others were read."""
    damaged = [(sum(file["dropped"].get(reason, 0) for reason in DAMAGE), file) for file in files]
    poor = [(bad, file) for bad, file in damaged if bad > POOR * file["rows_read"]]
    if poor and any(bad < file["rows_read"] for bad, file in damaged):
        bad, file = poor[0]
        others = f", and in most of {counted(len(poor) - 1, 'other file')}" if len(poor) > 1 else ""
        yield f"no record in {bad:,} of {counted(file['rows_read'], 'row')} of {clean(file['path'])}{others}"


def _warn_about_parquet(parquet: list[str]) -> Iterator[str]:
    """Yield a warning about Parquet files of folders that were not read."""
    if parquet:
        files = counted(len(parquet), "Parquet file of a folder was", "Parquet files of folders were")
        yield clean(f"{files} passed over: Parquet is read where it is named, as by {neighbours_glob(parquet[0])}")


def _warn_about_refused(refused: list[dict[str, str]]) -> Iterator[str]:
    """Yield a warning about files of folders in formats that cannot be read."""
    if refused:
        files = counted(len(refused), "file of a folder was", "files of folders were")
        first = ", the first" if len(refused) > 1 else ""
        yield clean(f"{files} passed over{first}: {refused[0]['path']}: {refused[0]['reason']}")


def _warn_about_columns(columns: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a warning about columns of Parquet that are in no record."""
    if columns:
        first, others = columns[0], f" and {counted(len(columns) - 1, 'other column')}" if len(columns) > 1 else ""
        yield clean(
            f"the column {first['column']} of {first['path']}{others} was left out: no option names it, and JSON "
            f"has no form for {first['type']}"
        )


def _describe_ess_note(manifest: Manifest) -> str | None:
    """Return the reason why the target ESS and the one reached differ."""
    note, wanted = manifest["target"]["note"], manifest["target"]["ess_wanted_share"]
    rows = (wanted or 0) * manifest["accounting"]["rows_kept"]
    if note == "ties_at_top" and rows < 1 and manifest["target"]["ess_rows"] < 1.5:
        return f"the wanted ESS is {rows:.2g} rows, and no target has less than 1: the nearest is taken"
    if note not in TARGET_NOTES:
        return None
    ways = "; ".join(map("with {} it is reached".format, manifest["run"].get("reach_ess") or ()))
    return TARGET_NOTES[note] + (f": {ways}" if ways else "")


def _describe_unrewarded(reward: dict[str, Any]) -> str:
    """Return a warning that no record has the components of a reward, which may be fields or functions."""
    which = f"{'the reward' if len(reward) == 1 else 'all of the rewards'} {clean(', '.join(reward))}"
    scored = all(isinstance(value, dict) for value in reward.values())
    return f"no record was given a number by {which}" if scored else f"no record has a value for {which}"


def _describe_first_place(manifest: Manifest, reason: str) -> str:
    """Return `, the first at byte 120 of log.jsonl` for rows that failed for a reason; empty if no place is known."""
    plain = {file["path"] for file in manifest["inputs"] if file["codec"] == "plain"}
    row = next((row for row in manifest["run"]["failed_rows"] if row["reason"] == reason), None)
    if not row or row["path"] not in plain or row["path"].endswith(PARQUET):
        return ""
    return f", the first at byte {row['offset']:,} of {clean(row['path'])}"


def warn_about_sample(manifest: Manifest) -> Iterator[str]:
    """Yield the warnings of `sample`."""
    yield from _warn_about_inputs(manifest)
    yield from map(clean, manifest["run"].get("bad_templates", ()))
    if note := _describe_ess_note(manifest):
        yield note
    draw, ess = manifest["draw"], round(manifest["target"]["ess_rows"], 1)
    if draw["sampler"] in ("gumbel", "weighted-reservoir") and draw["rows"] > ess:
        yield f"more rows were drawn than the ESS of {ess:,.1f}: many of them are unlikely under the target"
    yield from _warn_about_imitated_failures(manifest)
    yield from _warn_about_whole_draw(manifest)
    yield from _warn_about_repeats(draw)
    if draw["rows"] < draw["rows_wanted"] and not _takes_all(manifest):
        wanted = counted(draw["rows_wanted"], "row was", "rows were")
        # Of a stream rows went by that can be drawn, and were not held.
        rows_kept, held = manifest["accounting"]["rows_kept"], draw.get("rows_held", 0)
        if 0 < held < rows_kept:
            yield f"{wanted} wanted, only {draw['rows']:,} of the {held:,} held of the stream can be written"
        else:
            why = "strata with too few rows are not filled from others" if "strata" in draw else "no other can be drawn"
            yield f"{wanted} wanted, {counted(draw['rows'], 'was', 'were')} drawn: {why}"
    if bad := draw["failed"].get("unparsable"):
        place = _describe_first_place(manifest, "unparsable")
        yield f"{counted(bad, 'drawn row is', 'drawn rows are')} not JSON{place}"
    for reason, what in UNREAD.items():
        if bad := draw["failed"].get(reason):
            yield f"{counted(bad, 'row has', 'rows have')} {what}{_describe_first_place(manifest, reason)}"
    media = manifest["run"].get("media_beside", {})
    yield from describe_media(media)
    if bad := draw["failed"].get("bad_message", 0) - sum(media.values()):
        path = messages_from(manifest["inputs"])
        where = f" in {clean(path)}" if path else ""
        first = "" if media else _describe_first_place(manifest, "bad_message")
        yield f"{counted(bad, 'row has', 'rows have')} a bad message{where}{first}: {MESSAGE}"
    yield from _warn_about_duplicates(manifest)
    for name, rows in manifest["export"]["merged_into_train"].items():
        went = f"{'it' if rows == 1 else 'they'} went to train{_describe_larger_split(manifest, name)}"
        yield f"{name} would have {counted(rows, 'row')}, too few for a batch: {went}"
    yield from _warn_about_quotas(manifest)
    train = manifest["export"]["splits"]["train"]
    if manifest["settings"]["split"][0] > 0 and train < FEWEST:
        yield f"train has {counted(train, 'row')}: mlx_lm lora needs --batch-size {train} or less"


def _warn_about_duplicates(manifest: Manifest) -> Iterator[str]:
    """Warn of copies that were dropped with another reward, and of rows with a key twice in one object."""
    if other := manifest["accounting"]["notes"].get("duplicates_with_other_reward"):
        copies = counted(manifest["accounting"]["dropped"].get("duplicate", 0), "dropped copy", "dropped copies")
        yield (
            f"{other:,} of {copies} had another reward than the record that was kept, the first by id: the reward of a"
            " row is that of one rollout, not the mean of its copies"
        )
    if rows := manifest["export"].get("rows_with_duplicate_keys"):
        have = counted(rows, "row has", "rows have")
        yield f"{have} a key twice in one object, of which the last was taken: --strict refuses such records"


def _takes_all(manifest: Manifest) -> bool:
    """Return whether a draw that asks for so many rows, or more, takes every row that can be drawn."""
    draw, rows_kept = manifest["draw"], manifest["accounting"]["rows_kept"]
    drawable = rows_kept - sum(draw["failed"].values())
    plain = draw["sampler"] in ("gumbel", "weighted-reservoir", "reservoir") and "rows_held" not in draw
    return plain and "strata" not in draw and not draw["over_group_cap"] and draw["rows"] == drawable > 1


TOP_ROWS = 8
"""Rows with the highest reward from which on they may be a training set by themselves."""

GAP_BINS = 2
"""Empty bins below the highest reward that set it apart, as a right answer is; graded rewards have no such gap."""


def _warn_about_imitated_failures(manifest: Manifest) -> Iterator[str]:
    """Warn of a draw of mostly other rows than those with the highest reward, where enough rows reach it.

    A model imitates each row alike: with a right answer to each question, or to a quarter of them, a pretrained model
    learned several times as much from the right answers alone as from any draw that had mostly others (docs/proof.md).
    """
    in_log, drawn, draw = manifest["reward"]["kept"], manifest["reward"]["after"], manifest["draw"]
    chosen = manifest["settings"]["min_reward"] is not None or draw["sampler"] == "all"
    # A stream read in one pass has no histogram.
    known = in_log["count"] and in_log["histogram"] and drawn and drawn["histogram"]
    if chosen or not known or draw["rows"] < draw["rows_wanted"]:
        return
    edges, counts = in_log["histogram"]["edges"], in_log["histogram"]["counts"]
    top, shown = counts[-1], drawn["histogram"]["counts"][-1]
    has_gap = edges[0] < edges[-1] and not any(counts[-1 - GAP_BINS : -1])
    if has_gap and top >= TOP_ROWS and shown < drawn["count"] / 2:
        low = f"{edges[-2]:.6g}"
        yield (
            f"{drawn['count'] - shown:,} of {drawn['count']:,} drawn rows have a reward below {low}, and a model "
            f"imitates them like the others: --min-reward {low} draws from the {counted(top, 'row')} above it"
        )


def _warn_about_whole_draw(manifest: Manifest) -> Iterator[str]:
    """Warn of a draw of every row, by which nothing is selected."""
    if _takes_all(manifest):
        draw = manifest["draw"]
        wanted = f"{draw['rows_wanted']:,} rows were wanted, and " if draw["rows_wanted"] > draw["rows"] else ""
        by = "" if draw["sampler"] == "reservoir" else ", so the reward selected nothing"
        yield f"{wanted}all {draw['rows']:,} rows that can be drawn were drawn{by}: a smaller -k selects"


def _warn_about_repeats(draw: Manifest) -> Iterator[str]:
    """Warn of rows that teach what others teach, other than copies that a draw with replacement makes."""
    if draw["duplicate_rows"] > REPEATED * draw["distinct_rows"]:
        rows, of = counted(draw["duplicate_rows"], "drawn row"), draw["distinct_rows"]
        share = draw["duplicate_rows"] / of
        yield f"{rows} of {of:,} ({share:.0%}) repeat the text of another of their group: --dedup keeps one of each"


REPEATED = 0.1
"""Share of the drawn rows from which on repeated ones are worth a warning."""


def _describe_larger_split(manifest: Manifest, name: str) -> str:
    """Return the fractions that give a split enough rows, as they were tried; or what else may."""
    larger = manifest["export"].get("larger_split")
    if larger is None:
        return "; no other --split of these rows leaves it enough: draw more rows, or rows of more groups"
    shares = ",".join(f"{share:g}" for share in larger["split"])
    return f"; --split {shares} leaves it {counted(larger['rows'][name], 'row')}"


def _warn_about_quotas(manifest: Manifest) -> Iterator[str]:
    """Warn of splits that are far from their share of the rows, because a group falls into one split whole."""
    export = manifest["export"]
    for name, quota in export["quotas"].items():
        if name in export["merged_into_train"]:
            continue
        wanted, rows = quota["wanted"], quota["rows"]
        far = name != "train" and abs(rows - wanted) > max(wanted / 2, FEWEST)
        if rows == 0 < wanted < 1:
            yield f"{name} has no row: its share of so few rows is {wanted:.2g}{_describe_larger_split(manifest, name)}"
        elif far or (rows == 0 and wanted >= 1):
            yield (
                f"{name} has {counted(rows, 'row')} of {wanted:,.4g} wanted: the rows of a group, of a session, or of a"
                " prompt where there is no group, fall into one split"
                f"{'' if rows else _describe_larger_split(manifest, name)}"
            )
