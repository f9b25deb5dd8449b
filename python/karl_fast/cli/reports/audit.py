"""Report of `audit`. Whatever comes from a log is made harmless before it is printed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from karl_fast._safe_text import clean, counted, decimal
from karl_fast.audit.findings import WRONG
from karl_fast.audit.signal import KIND_NAMES
from karl_fast.cli.reports.sample import describe_inputs, describe_rows
from karl_fast.cli.reports.text import INDENT, describe_counts, join_lines
from karl_fast.log.record_fields import shorten_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karl_fast.audit.conventions import Match, Reproduction
    from karl_fast.audit.result import Audit, Finding
    from karl_fast.audit.signal import Signal

NEAREST_SHOWN = 3
"""Conventions that are shown where none reproduces the log."""

EQUAL_SHOWN = 3
"""Conventions that are shown where several do."""


def describe_audit(audit: Audit) -> str:
    """Return the report of `audit`."""
    lines = [
        f"audit     {audit.headline}",
        *_describe_findings(audit.findings),
        describe_inputs(audit.report),
        describe_rows(audit.report),
        _describe_fields(audit),
        *_describe_signal(audit.signal),
        *_describe_advantages(audit),
        *_describe_forms(audit),
        *_describe_mismatch(audit),
        *_describe_prompts(audit),
        *_describe_course(audit),
        *_describe_written(audit),
    ]
    return join_lines(lines, sys.stdout)


def _describe_findings(findings: list[Finding]) -> Iterator[str]:
    """Yield each finding with the rows or groups concerned and what to do."""
    for finding in findings:
        label = "wrong" if finding.weight >= WRONG else "note"
        yield f"{label:<10}{clean(finding.text)}"
        if finding.where:
            yield f"{INDENT}{', '.join(clean(shorten_key(name)) for name in finding.where)}"
        yield f"{INDENT}-> {finding.advice}"


def _describe_fields(audit: Audit) -> str:
    fields = ", ".join(
        name if name == path else f"{name} ({clean(path)})" for name, path in sorted(audit.rollouts.fields.items())
    )
    unread = describe_counts(audit.rollouts.unread)
    return f"fields    {fields or 'none beside rewards'}{f'; not read: {unread}' if unread else ''}"


def _describe_signal(signal: Signal) -> Iterator[str]:
    source = f"outcome {clean(signal.outcome)}" if signal.outcome else "outcome taken from the reward"
    yield f"signal    {counted(signal.groups, 'group')}, {source}"
    for name, kind in signal.kinds.items():
        if kind.groups:
            cost = f"{kind.compute:>4.0%} of the {signal.unit}"
            yield f"  {KIND_NAMES[name]:<24} {counted(kind.groups, 'group'):>13}  {kind.rows:>9,} rows  {cost}"
    if signal.shaping_share:
        yield f"{INDENT}shaping makes {signal.shaping_share:.0%} of the variance within groups"
    if signal.without_group:
        yield f"{INDENT}{counted(signal.without_group, 'row')} without a group"


def _describe_advantages(audit: Audit) -> Iterator[str]:
    found = audit.advantages
    if found is None:
        yield "advantage none is logged"
        return
    best, compared = (
        found.best,
        f"{found.compared:,} of {found.logged:,} rows, in {counted(found.groups, 'whole group')}",
    )
    if found.reproduced:
        name = f" ({best.convention.known_as})" if best.convention.known_as else ""
        yield f"advantage {best.convention}{name}: reproduced to {best.largest:.1g} on {compared}"
        yield from _describe_equal(found)
    else:
        yield f"advantage not reproduced on {compared}; the nearest:"
        yield from map(_describe_match, found.nearest[:NEAREST_SHOWN])
    if found.per_token:
        yield f"{INDENT}{counted(found.per_token, 'row')} with advantages that differ by token, not compared"


def _describe_equal(found: Reproduction) -> Iterator[str]:
    if found.equal:
        shown = "; ".join(str(convention) for convention in found.equal[:EQUAL_SHOWN])
        more = f"; and {len(found.equal) - EQUAL_SHOWN} more" if len(found.equal) > EQUAL_SHOWN else ""
        yield f"{INDENT}not told apart on these rows: {shown}{more}"


def _describe_match(match: Match) -> str:
    return f"{INDENT}{match.convention}: {match.share:.0%} of rows equal, off by up to {match.largest:.2g}"


def _describe_forms(audit: Audit) -> Iterator[str]:
    for test in audit.forms:
        where = "at an equal outcome" if test.at_equal_outcome else "within groups"
        verdict = "follows" if test.follows else "falls with" if test.high < 0 else "does not follow"
        label = "forms     " if test is audit.forms[0] else INDENT
        level = "" if verdict == "falls with" else f" p {test.adjusted:.2g},"  # the test is whether it rises
        yield (
            f"{label}reward {verdict} {test.form} {where}: rho {test.rho:+.2f} ({test.low:+.2f} to {test.high:+.2f}),"
            f"{level} {counted(test.groups, 'group')}"
        )


def _describe_mismatch(audit: Audit) -> Iterator[str]:
    gap, age = audit.mismatch, audit.staleness
    if gap is None:
        yield "mismatch  not known: log-probabilities of sampler and trainer are not both logged"
    elif gap["beyond"] is None:
        rounds = counted(len(gap["steps"]), "round")
        yield f"mismatch  k3 {gap['k3']:.3g}, chi-square {gap['chi2']:.3g} a token, as the run measured over {rounds}"
    else:
        tokens = f"{gap['beyond']:.2%} of {gap['tokens']:,} tokens have a weight beyond {gap['cap']:g}"
        rollouts = f"{gap['sequence_beyond']:.1%} of rollouts a product beyond {gap['sequence_cap']:g}"
        yield f"mismatch  k3 {gap['k3']:.3g}, chi-square {gap['chi2']:.3g} a token; {tokens}, {rollouts}"
    if age is not None:
        yield (
            f"age       {age['mean']:.2f} steps on average, 90% {age['90%']:g}, largest {age['largest']:g};"
            f" {age['stale']:.0%} of rollouts one step or more"
        )


def _describe_prompts(audit: Audit) -> Iterator[str]:
    prompts = audit.prompts
    several = f", {counted(prompts.split_groups, 'prompt')} in several groups of a step" if prompts.split_groups else ""
    excluded = "" if prompts.excluded is None else f", {counted(prompts.excluded, 'row')} of the excluded file"
    yield (
        f"prompts   {prompts.count:,} different in {counted(prompts.rows, 'row')}{several}, {prompts.copies:,} copied"
        f" answers{excluded}"
    )


def _describe_course(audit: Audit) -> Iterator[str]:
    course = audit.diversity
    whole = [f"unique in groups {course.unique:.2f}"] if course.unique is not None else []
    whole += [f"pairs of words {course.distinct_2:.2f}"] if course.distinct_2 is not None else []
    if whole:
        yield f"diversity {', '.join(whole)}"
    if len(course.steps) > 1:
        moves = [
            f"{name} {decimal(trend.first, 3)} to {decimal(trend.last, 3)}" for name, trend in course.trends.items()
        ]
        yield f"course    over {len(course.steps):,} steps: {', '.join(moves)}"


def _describe_written(audit: Audit) -> Iterator[str]:
    if audit.written:
        written = audit.written
        yield f"written   {counted(written['rows'], 'row')} to {clean(written['path'])}: {written['convention']}"
