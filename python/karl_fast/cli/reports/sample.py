"""Reports as plain text. Whatever comes from a log is made harmless before it is printed."""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING, Any, TextIO

from karl_fast._safe_text import clean, counted, decimal, in_bytes
from karl_fast.cli.reports.outcome_table import describe_outcomes, describe_unknown_outcomes, warn_about_outcomes
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
    from collections.abc import Iterable, Iterator, Mapping

    from karl_fast._core import Tempered
    from karl_fast.export.manifest import Manifest
    from karl_fast.settings.toml import SettingsFile

COLUMNS = 80
WARNING = "warning: "
INDENT = " " * 10
BAR = "▏▎▍▌▋▊▉█"
WIDTH = 32
DOMAINS_SHOWN = 12
KEYS_SHOWN = 16


def join_lines(lines: Iterable[str], to: TextIO | None = None) -> str:
    """Join the lines that are not empty, each wrapped between words; for stderr by default."""
    seen = (sys.stderr if to is None else to).isatty()
    return "\n".join(_wrap(line, seen) for whole in lines for line in whole.split("\n") if line)


def _wrap(line: str, seen: bool) -> str:
    if line.startswith("  ") and not line.startswith(INDENT):
        return line  # of a table, or a place in a file
    if line.startswith(WARNING) and not seen:
        return line  # which whoever reads a file of them looks for
    return textwrap.fill(
        line,
        COLUMNS,
        subsequent_indent=INDENT,
        replace_whitespace=False,
        break_long_words=False,
        break_on_hyphens=False,
    )


def describe_sample(manifest: Manifest, out: str | None) -> str:
    """Return the report of `sample`."""
    draw, splits = manifest["draw"], manifest["export"]["splits"]
    law = f"{draw['sampler']}, seed {manifest['seed']}"
    rows = ", ".join(f"{count:,} {name}" for name, count in splits.items() if count)
    lines = [
        _describe_inputs(manifest),
        _describe_rows(manifest),
        _describe_groups(manifest["groups"]),
        _describe_target_line(manifest["target"]),
        f"drawn     {_count_drawn(draw)} {_count_groups(draw['distinct_groups'])} ({law})",
        _describe_strata(draw),
        _describe_rewards(manifest),
        *_describe_failures(manifest),
        f"written   {rows} as {manifest['export']['shape']} to {clean(out)}"
        if out
        else f"dry run   {rows}; nothing written",
    ]
    warnings = [WARNING + warning for warning in warn_about_sample(manifest)]
    return join_lines([*lines, *warnings])


def describe_settings_change(config: SettingsFile, manifest: Manifest, *, reread: bool) -> Iterable[str]:
    """Yield a warning for each file that changed since the manifest of a repeated run was written.

    Inputs are compared only where the logs of the manifest are ``reread``.
    """
    inputs = config.inputs if reread else []
    before = {file["path"]: (file.get("xxh3_128"), file.get("hash_covers")) for file in inputs}
    for file in manifest["inputs"]:
        digest, covers = before.get(file["path"], (None, None))
        if covers == file["hash_covers"] and digest != file["xxh3_128"]:
            yield f"warning: {clean(file['path'])} has changed since {clean(config.path)} was written"
    for name, function in manifest.get("reward_functions", {}).items():
        if name in config.functions and _digest(config.functions[name]) != function["sha256"]:
            yield f"warning: {clean(function['fn'])} has changed since {clean(config.path)} was written"


def _digest(function: object) -> object:
    """Return the hash of the file of a function, as a manifest has it."""
    return function.get("sha256") if isinstance(function, dict) else None


def describe_inspection(report: Manifest, ladder: list[Tempered]) -> str:
    """Return the report of `inspect`."""
    lines = [
        _describe_inputs(report),
        _describe_rows(report),
        _describe_groups(report["groups"]),
        _describe_spread("sizes     rows a group", report["group_rows"]),
        _describe_spread("          bytes a record", report["record_bytes"]),
        _describe_keys(report["inputs"]),
        _describe_duplicates(report),
        *_describe_diversity(report["diversity"]),
        *_describe_domains(report["domains"], report.get("other_domains") or 0),
        *_draw_histogram(report),
        *describe_outcomes(report.get("outcomes")),
        *_describe_ladder(ladder, report["target"]),
        *_describe_bad_rows(report["inputs"]),
        *(WARNING + warning for warning in warn_about_inspection(report)),
    ]
    return join_lines(lines, sys.stdout)


def _describe_inputs(manifest: Manifest) -> str:
    files = manifest["inputs"]
    size = sum(file["size_bytes"] for file in files)
    formats = ", ".join(sorted({f"{file['format']} ({file['layout']})" for file in files}))
    name = clean(files[0]["path"]) if len(files) == 1 else counted(len(files), "file")
    skipped = manifest["run"]["skipped"]
    more = ", ..." if len(skipped) > 1 else ""
    note = f"; {counted(len(skipped), 'file')} passed over: {clean(skipped[0]['path'])}{more}" if skipped else ""
    form = f", format {clean(formats)}" if files else ""
    return f"read      {name}: {in_bytes(size)}{form}{note}{sums_of(files)}"


def sums_of(files: Iterable[Mapping[str, Any]]) -> str:
    """Return a line for each set of columns that rewards are the sums of."""
    sums = {(name, *columns): None for file in files for name, columns in file.get("summed_columns", {}).items()}
    return "".join(f"\n          {name} is the sum of {clean(', '.join(columns))}" for name, *columns in sums)


LINES = {"blank_lines": "blank_lines", "welded_lines": "lines_of_several_records"}
"""Counts of lines in the manifest, by the words of the report."""


def _describe_rows(manifest: Manifest) -> str:
    account, files = manifest["accounting"], manifest["inputs"]
    notes = account["notes"] | {label: sum(file[name] for file in files) for name, label in LINES.items()}
    dropped, noted = counts_of(account["dropped"]), counts_of(notes)
    head = f"rows      {account['rows_read']:,} read, {account['rows_kept']:,} kept"
    return head + (f"; dropped: {dropped}" if dropped else "") + (f"\n          (also: {noted})" if noted else "")


def counts_of(counts: dict[str, int]) -> str:
    """Format counts as `dropped 3, kept 5`; zeros are left out."""
    return ", ".join(f"{_words(name)} {count:,}" for name, count in counts.items() if count)


def _describe_groups(groups: dict[str, Any]) -> str:
    if groups["count"] is None:
        return "groups    not counted in a stream"
    if not groups["count"]:
        return "groups    none"
    by = groups["constant_by"]
    where = f"{by['at_top']:,} at the top, {by['at_bottom']:,} at the bottom, {by['other']:,} other"
    several = groups["with_two_or_more"]
    of = f" of the {several:,} with two rows or more" if several < groups["count"] else ""
    share = f" ({groups['constant'] / several:.0%}{of})" if several else ""
    alone = groups["count"] - several
    few = f"; {alone:,} with fewer than two rewards" if alone else ""
    without = f"; {counted(groups['rows_without'], 'row')} without a group" if groups["rows_without"] else ""
    return f"groups    {groups['count']:,}, constant {groups['constant']:,}{share}: {where}{few}{without}"


def _describe_target_line(target: dict[str, Any]) -> str:
    wanted = f" (wanted {target['ess_wanted_share']:.1%})" if target["ess_wanted_share"] is not None else ""
    if (recency := target.get("recency")) is not None:
        wanted = f", {recency['ess_share_before']:.1%} without age{wanted}"
    head = f"target    inverse temperature {target['inverse_temperature']:.6g} on {describe_target(target)}"
    ess = f"ESS {target['ess_rows']:,.1f} rows = {target['ess_reached_share']:.1%}{wanted}"
    return f"{head}{_describe_log_z(target['log_z'])}\n          {ess}, top row {target['largest_weight_share']:.2%}"


def _describe_log_z(log_z: dict[str, Any]) -> str:
    if "value" in log_z:
        return "" if log_z["value"] is None else f", log Z {log_z['value']:.6g}"
    return f", log Z over {counted(log_z['scopes'], 'scope')}" if log_z["scopes"] else ""


def _count_drawn(draw: dict[str, Any]) -> str:
    copies = f", {draw['distinct_rows']:,} of them different," if draw["distinct_rows"] < draw["rows"] else ""
    return counted(draw["rows"], "row") + copies


def _count_groups(groups: int) -> str:
    return f"of {counted(groups, 'group')}" if groups else "without a group"


def _describe_strata(draw: dict[str, Any]) -> str:
    strata = draw.get("strata")
    if strata is None:
        return ""
    by_name = list(strata.get("by_name", {}).items())
    shown = [f"{clean(name) or '(none)'} {counts['drawn']:,}" for name, counts in by_name[:DOMAINS_SHOWN]]
    more = [f"and {strata['count'] - len(shown):,} more"] if strata["count"] > len(shown) else []
    return f"strata    {strata['deal']} per {strata['field']}: " + ", ".join(shown + more)


def _describe_reward_source(manifest: Manifest) -> str:
    """Return where the reward of the rows is from: fields, components with their weights, functions."""
    components = manifest["reward"].get("components") or {}
    if "reward" in manifest.get("columns_given", []):
        return "a given column"
    named = (name if part["weight"] == 1 else f"{part['weight']:g} {name}" for name, part in components.items())
    fields = {file["fields"].get("reward") for file in manifest["inputs"]}
    return clean(", ".join(named) or " or ".join(sorted(filter(None, fields))) or "reward")


def _describe_rewards(manifest: Manifest) -> str:
    reward = manifest["reward"]
    parts = {"read": reward["before"], "kept": reward["kept"], "drawn": reward["after"]}
    if not all(part["count"] for part in parts.values()):
        return ""
    means = ", ".join(f"{decimal(part['mean'])} {name}" for name, part in parts.items())
    stds = ", ".join(decimal(part["std"], 3) for part in parts.values())
    return f"reward    mean {means}; std {stds}\n{INDENT}source: {_describe_reward_source(manifest)}"


def _describe_failures(manifest: Manifest) -> Iterable[str]:
    draw = manifest["draw"]
    if failed := draw["failed"]:
        others = draw["sampler"] != "all" and draw["rows"] == draw["rows_wanted"]
        yield f"{'replaced' if others else 'left out'}  {counts_of(failed)}"
    if draw["over_group_cap"]:
        yield f"skipped   {counted(draw['over_group_cap'], 'row')} of groups that had reached --max-per-group"
    trimmed = manifest["export"]["trimmed_after_last_assistant_turn"]
    if trimmed["rows"]:
        messages, rows = counted(trimmed["messages"], "message"), counted(trimmed["rows"], "row")
        yield f"trimmed   {messages} after the last assistant turn of {rows}"
    if manifest["secrets"]:
        yield "secrets   replaced: " + ", ".join(f"{name} {count:,}" for name, count in manifest["secrets"].items())


def _describe_spread(head: str, values: dict[str, int]) -> str:
    numbers = ", ".join(f"{name} {value:,}" for name, value in values.items())
    return f"{head}: {numbers}" if values else ""


def _describe_keys(files: list[dict[str, Any]]) -> str:
    keys = list(dict.fromkeys(clean(shorten_key(key)) for file in files for key in file["keys"]))
    more = f", and {len(keys) - KEYS_SHOWN:,} more" if len(keys) > KEYS_SHOWN else ""
    return f"fields    {', '.join(keys[:KEYS_SHOWN])}{more}" if keys else ""


DIVERSITY = {
    "distinct_1": "distinct words",
    "distinct_2": "pairs",
    "self_bleu": "self-BLEU",
    "unique": "unique in groups",
}
"""Names of the measures of diversity in reports."""


def _describe_diversity(measures: dict[str, Any] | None) -> Iterable[str]:
    """Yield the diversity of answers, without the numbers that are not known."""
    known = [f"{name} {measures[key]:.3f}" for key, name in DIVERSITY.items() if measures and measures[key] is not None]
    if measures and known:
        yield f"diversity {', '.join(known)}, of {counted(measures['rows'], 'answer')}"


def _describe_duplicates(report: Manifest) -> str:
    ids, same = report["accounting"]["notes"]["repeated_ids"], report["duplicate_trajectories"]
    again, alike = counted(ids, "repeated id"), counted(same, "identical trajectory", "identical trajectories")
    return f"doubles   {again}, {alike}" if ids or same else ""


def _describe_domains(domains: dict[str, Any], others: int) -> Iterable[str]:
    if domains:
        counts = sorted(domains.items(), key=lambda item: -item[1]["before"])
        shown = [f"{clean(name)} {count['before']:,}" for name, count in counts[:DOMAINS_SHOWN]]
        count = len(counts) + others
        more = [f"and {count - DOMAINS_SHOWN:,} more"] if count > DOMAINS_SHOWN else []
        yield "domains   " + ", ".join(shown + more)


def _draw_histogram(report: Manifest) -> Iterable[str]:
    reward = report["reward"]["before"]
    if not reward["count"]:
        return
    numbers = (
        f"mean {decimal(reward['mean'])}, std {decimal(reward['std'])}, from {reward['min']:.6g} to {reward['max']:.6g}"
    )
    yield f"reward    {reward['count']:,} present, {numbers}"
    yield f"{INDENT}source: {_describe_reward_source(report)}"
    edges, counts = reward["histogram"]["edges"], reward["histogram"]["counts"]
    most = max(counts)
    for low, high, count in zip(edges, edges[1:], counts, strict=False):
        if count:
            yield f"  {low:>9.4g} .. {high:<9.4g} {count:>9,} {_draw_bar(count / most)}"


def _draw_bar(share: float) -> str:
    eighths = max(1, round(share * WIDTH * 8))
    return "█" * (eighths // 8) + (BAR[eighths % 8 - 1] if eighths % 8 else "")


def _describe_ladder(ladder: list[Tempered], target: dict[str, Any]) -> Iterable[str]:
    if ladder:
        yield f"target    on {describe_target(target)}; the marked line is what sample takes"
        yield f"  {'inverse temperature':>20} {'ESS rows':>12} {'ESS':>7} {'top row':>8} {'expected reward':>16}"
    for rung in ladder:
        mark = " <-" if rung["inverse_temperature"] == target["inverse_temperature"] else ""
        ess = f"{rung['ess']:>12,.1f} {rung['share']:>7.1%} {rung['top_share']:>8.2%}"
        yield f"  {rung['inverse_temperature']:>20.6g} {ess} {rung['expected_reward']:>16.4f}{mark}"


def _describe_bad_rows(files: list[dict[str, Any]]) -> Iterable[str]:
    places = [(file["path"], bad) for file in files for bad in file["bad_rows"]][:10]
    for path, bad in places:
        key = f" {clean(bad['key'])}" if "key" in bad else ""
        yield f"  {clean(path)}, line {bad['line']}, byte {bad['offset']}: {_words(bad['reason'])}{key}"


def _words(name: str) -> str:
    return name.replace("_", " ")


# Description of a target in reports.


def describe_target(target: Manifest) -> str:
    """Return the kind of scores, such as `raw scores`, and their source if not the plain reward."""
    baseline, shaping = target.get("baseline"), target.get("shaping")
    over = "" if baseline is None else f" over the {baseline['kind']} of each {baseline['by']}"
    recency = target.get("recency")
    aged = "" if recency is None else f", halved with each {recency['half_life']} of age by {recency['order_by']}"
    if shaping is None:
        return f"{target['score']} scores{over}{aged}"
    numbers = ", ".join(f"{name} {shaping[name]:g}" for name in ("up", "down", "centre"))
    return f"{target['score']} scores{over} of shaped rewards ({numbers}){aged}"


# Warnings about problems that a run worked around, and about likely mistakes of its user.


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

NOTES = {
    "ties_at_top": "so many rows share the top score that no temperature reaches the wanted ESS; the nearest is taken",
    "equal_scores": "all scores are equal: every temperature is the same uniform draw",
    "uneven_scopes": "uneven scopes are below the wanted ESS even at inverse temperature 0, which is taken",
}


def warn_about_inspection(report: Manifest) -> Iterator[str]:
    """Yield the warnings of `inspect`."""
    yield from _warn_about_inputs(report)
    yield from warn_about_outcomes(report.get("outcomes"))


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
    return f"no record has a reward{list_keys(keys)}: {_hint('reward', report)}, or name the format with --format"


def _hint(field: str, report: Manifest) -> str:
    """Return the hint to name a field, as it was made while the records were available."""
    return str(report["run"].get("hints", {}).get(field) or naming_hint(field, ()))


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
    return NOTES.get(note or "")


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
    yield from _warn_about_whole_draw(manifest)
    yield from _warn_about_repeats(draw)
    if draw["rows"] < draw["rows_wanted"] and not _takes_all(manifest):
        wanted = counted(draw["rows_wanted"], "row was", "rows were")
        # Of a stream rows went by that can be drawn, and were not held.
        kept, held = manifest["accounting"]["rows_kept"], draw.get("rows_held", 0)
        if 0 < held < kept:
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
    draw, kept = manifest["draw"], manifest["accounting"]["rows_kept"]
    drawable = kept - sum(draw["failed"].values())
    plain = draw["sampler"] in ("gumbel", "weighted-reservoir", "reservoir") and "rows_held" not in draw
    return plain and "strata" not in draw and not draw["over_group_cap"] and draw["rows"] == drawable > 1


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
