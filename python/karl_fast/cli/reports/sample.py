"""Reports of `sample` and `inspect`. Whatever comes from a log is made harmless before it is printed."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

from karl_fast._safe_text import clean, counted, decimal, in_bytes
from karl_fast.cli.reports.outcome_table import describe_outcomes
from karl_fast.cli.reports.text import INDENT, WARNING, describe_counts, describe_places, join_lines
from karl_fast.cli.reports.warnings import warn_about_inspection, warn_about_sample
from karl_fast.log.record_fields import shorten_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from karl_fast._core import Tempered
    from karl_fast.export.manifest import Manifest
    from karl_fast.settings.toml import SettingsFile

BAR = "▏▎▍▌▋▊▉█"
WIDTH = 32
DOMAINS_SHOWN = 12
KEYS_SHOWN = 16


def describe_sample(manifest: Manifest, out: str | None) -> str:
    """Return the report of `sample`."""
    draw, splits = manifest["draw"], manifest["export"]["splits"]
    law = f"{draw['sampler']}, seed {manifest['seed']}"
    copies = f", {draw['distinct_rows']:,} of them different," if draw["distinct_rows"] < draw["rows"] else ""
    drawn = counted(draw["rows"], "row") + copies
    groups = f"of {counted(draw['distinct_groups'], 'group')}" if draw["distinct_groups"] else "without a group"
    rows = ", ".join(f"{count:,} {name}" for name, count in splits.items() if count)
    lines = [
        describe_inputs(manifest),
        describe_rows(manifest),
        _describe_excluded(manifest),
        _describe_trees(manifest),
        _describe_groups(manifest["groups"]),
        _describe_target_line(manifest["target"]),
        f"drawn     {drawn} {groups} ({law})",
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
        recorded = config.functions.get(name, function)
        if not isinstance(recorded, dict) or recorded.get("sha256") != function["sha256"]:
            yield f"warning: {clean(function['fn'])} has changed since {clean(config.path)} was written"


def describe_inspection(report: Manifest, ladder: list[Tempered]) -> str:
    """Return the report of `inspect`."""
    lines = [
        describe_inputs(report),
        describe_rows(report),
        _describe_excluded(report),
        _describe_trees(report),
        _describe_groups(report["groups"]),
        _describe_spread("sizes     rows a group", report["group_rows"]),
        _describe_spread("          bytes a record", report["record_bytes"]),
        _describe_keys(report["inputs"]),
        _describe_duplicates(report),
        _describe_conversations(report["conversations"]),
        *_describe_diversity(report["diversity"]),
        *_describe_domains(report["domains"], report.get("other_domains") or 0),
        *_draw_histogram(report),
        *describe_outcomes(report.get("outcomes")),
        *_describe_ladder(ladder, report["target"]),
        *describe_places(report["inputs"], "bad_rows"),
        *(WARNING + warning for warning in warn_about_inspection(report)),
    ]
    return join_lines(lines, sys.stdout)


def describe_inputs(manifest: Manifest) -> str:
    """Return what was read: the file or the number of files, its size and format."""
    files = manifest["inputs"]
    size = sum(file["size_bytes"] for file in files)
    formats = ", ".join(sorted({f"{file['format']} ({file['layout']})" for file in files}))
    name = clean(files[0]["path"]) if len(files) == 1 else counted(len(files), "file")
    skipped = manifest["run"]["skipped"]
    more = ", ..." if len(skipped) > 1 else ""
    note = f"; {counted(len(skipped), 'file')} passed over: {clean(skipped[0]['path'])}{more}" if skipped else ""
    form = f", format {clean(formats)}" if files else ""
    return f"read      {name}: {in_bytes(size)}{form}{note}{describe_sums(files)}"


def describe_sums(files: Iterable[Mapping[str, Any]]) -> str:
    """Return a line for each set of columns that rewards are the sums of."""
    sums = {(name, *columns): None for file in files for name, columns in file.get("summed_columns", {}).items()}
    return "".join(f"\n          {name} is the sum of {clean(', '.join(columns))}" for name, *columns in sums)


LINES = {"blank_lines": "blank_lines", "welded_lines": "lines_of_several_records"}
"""Counts of lines in the manifest, by the words of the report."""


def describe_rows(manifest: Manifest) -> str:
    """Return how many rows were read and kept, and why others were dropped."""
    account, files = manifest["accounting"], manifest["inputs"]
    notes = account["notes"] | {label: sum(file[name] for file in files) for name, label in LINES.items()}
    dropped, noted = describe_counts(account["dropped"]), describe_counts(notes)
    head = f"rows      {account['rows_read']:,} read, {account['rows_kept']:,} kept"
    return head + (f"; dropped: {dropped}" if dropped else "") + (f"\n          (also: {noted})" if noted else "")


def _describe_trees(manifest: Manifest) -> str:
    """Return how many rows have the reward of a trajectory that called them; empty without trees."""
    if (trees := manifest.get("trees")) is None:
        return ""
    alone = f"; {counted(trees['without_caller'], 'row')} without it in the log" if trees["without_caller"] else ""
    of = f"the reward of a caller, in {counted(trees['trees'], 'tree')}"
    return f"trees     {counted(trees['callees'], 'row')} with {of}{alone}"


def _describe_excluded(manifest: Manifest) -> str:
    """Return how many rows have a prompt of the excluded file; empty without one."""
    if (excluded := manifest.get("excluded")) is None:
        return ""
    of = f"{counted(excluded['prompts'], 'prompt')} of {clean(excluded['path'])}"
    return f"excluded  {counted(excluded['rows'], 'row')} with one of {of}"


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
        yield f"{'replaced' if others else 'left out'}  {describe_counts(failed)}"
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
    again = counted(ids, "repeated id")
    if same is None:
        rows = counted(report["duplicate_sample"]["rows_left_out"], "row")
        return f"doubles   {again}; {rows} without a group not compared (--exact compares all)"
    alike = counted(same, "identical trajectory", "identical trajectories")
    if (sample := report["duplicate_sample"]) is None:
        return f"doubles   {again}, {alike}" if ids or same else ""
    error = f"{math.ceil(sample['error_95']):,}"
    about = f"about {alike}, give or take {error}" if same else f"{alike} seen, fewer than {error} in all"
    compared = f"{sample['groups_compared']:,} of {counted(sample['groups'], 'group')}"
    return f"doubles   {again}, {about}\n{INDENT}(95 %, from {compared}; --exact compares all)"


def _describe_conversations(tried: dict[str, Any] | None) -> str:
    """Return how many of a few rows `sample` could write, with the reasons of the others."""
    if not tried:
        return ""
    dropped = f"; not: {describe_counts(tried['dropped'])}" if tried["dropped"] else ""
    return f"writable  {tried['written']:,} of {counted(tried['tried'], 'row')} that were tried{dropped}"


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
