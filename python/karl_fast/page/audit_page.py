"""The page of an audit: what a dump of rollouts teaches, what is wrong with it, and every measure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from karl_fast._core import VERSION
from karl_fast._plots import Curve, Item, Plot, dots, lines, number, table
from karl_fast._safe_text import counted
from karl_fast.audit.findings import WRONG
from karl_fast.audit.signal import KIND_NAMES
from karl_fast.page.document import Fact, Page, Section, definitions, folded
from karl_fast.page.log_page import account_table, files_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karl_fast.audit.conventions import Reproduction
    from karl_fast.audit.result import Audit

CONVENTIONS_SHOWN = 8
"""Conventions of a table: the nearest to what was logged."""

COURSE = {
    "unique": "Different answers in a group",
    "distinct_2": "Different pairs of words",
    "entropy": "Entropy, nats a token",
    "length": "Tokens of a rollout",
    "reward": "Reward",
}
"""Measures over the steps, with their titles."""


def audit_page(audit: Audit, subject: str) -> Page:
    """Return the page of an audit, without rows.

    Args:
        audit: what `karl_fast.audit` returns.
        subject: path of the dump, for the head of the page.
    """
    sections = [
        Section("Findings", _findings(audit), "The weightiest first. Repair what is wrong before you learn from it."),
        Section("What the groups teach", _signal(audit), _signal_note(audit)),
        Section("Advantages", _advantages(audit.advantages)),
        Section(
            "Reward and form",
            _forms(audit),
            "Rank correlation within groups with its 95 % interval. The reward follows a form where it is above 0.1 "
            "and larger than in 99 of 100 permutations, over all forms together.",
        ),
        Section("Sampler and trainer", _mismatch(audit)),
        Section("Over the steps", list(_course(audit))),
    ]
    return Page(
        "Audit",
        subject,
        audit.headline,
        list(_facts(audit)),
        [section for section in sections if section.parts],
        how=_how(audit),
    )


def _facts(audit: Audit) -> Iterator[Fact]:
    account, signal = audit.report["accounting"], audit.signal
    yield Fact("rows", account["rows_read"], remark=f"{audit.rewards['count']:,} with a reward")
    mixed = signal.kinds["mixed"].groups
    yield Fact("groups", signal.groups, remark=f"{mixed:,} differ in outcome")
    if signal.groups:
        wasted = sum(kind.compute for name, kind in signal.kinds.items() if name != "mixed")
        yield Fact("compute without a signal", f"{wasted:.0%}", remark=f"of the {signal.unit}")
    if audit.mismatch is not None:
        yield Fact("k3 of sampler and trainer", audit.mismatch["k3"], remark="nats a token")
    if audit.staleness is not None:
        yield Fact("age of rollouts", audit.staleness["mean"], remark="steps, mean")
    if audit.diversity.unique is not None:
        yield Fact("different answers", audit.diversity.unique, remark="share in a group, mean")


def _findings(audit: Audit) -> list[Plot | str]:
    rows = [
        (
            "wrong" if finding.weight >= WRONG else "note",
            finding.text,
            ", ".join(finding.where),
            finding.advice,
        )
        for finding in audit.findings
    ]
    return [table(("", "what is the case", "where", "what to do"), rows)] if rows else []


def _signal(audit: Audit) -> list[Plot | str]:
    items = [
        Item(KIND_NAMES[name], kind.compute, remark=counted(kind.groups, "group"))
        for name, kind in audit.signal.kinds.items()
        if kind.groups
    ]
    if not items:
        return []
    columns = ("groups", "", "share", "", "", "number")
    return [dots(f"Share of the {audit.signal.unit}", items, axis=f"share of the {audit.signal.unit}", columns=columns)]


def _signal_note(audit: Audit) -> str:
    signal = audit.signal
    outcome = f"the outcome is the field {signal.outcome}" if signal.outcome else "the reward is taken for the outcome"
    alone = f"; {counted(signal.without_group, 'row')} without a group" if signal.without_group else ""
    return f"Only groups whose outcomes differ teach what was right: {outcome}{alone}."


def _advantages(reproduction: Reproduction | None) -> list[Plot | str]:
    if reproduction is None:
        return [definitions([("logged advantages", "none")])]
    compared = (
        f"{reproduction.compared:,} of {reproduction.logged:,} rows, in {counted(reproduction.groups, 'whole group')}"
    )
    verdict = f"reproduced to {reproduction.best.largest:.1g}" if reproduction.reproduced else "not reproduced"
    pairs = [("verdict", verdict), ("compared", compared)]
    if reproduction.reproduced:
        known_as = reproduction.best.convention.known_as
        pairs.insert(0, ("convention", f"{reproduction.best.convention}{f' ({known_as})' if known_as else ''}"))
        if reproduction.equal:
            pairs.append(("the same on these rows", "; ".join(map(str, reproduction.equal[:CONVENTIONS_SHOWN]))))
        return [definitions(pairs)]
    rows = [(str(match.convention), match.share, match.largest) for match in reproduction.nearest[:CONVENTIONS_SHOWN]]
    return [definitions(pairs), table(("nearest convention", "equal rows", "largest difference"), rows)]


def _forms(audit: Audit) -> list[Plot | str]:
    items = [
        Item(
            test.form,
            test.rho,
            low=test.low,
            high=test.high,
            remark=f"{'follows' if test.follows else 'does not follow'}, {counted(test.groups, 'group')}",
        )
        for test in audit.forms
    ]
    columns = ("form", "", "rho", "low", "high", "verdict")
    where = "within groups, at an equal outcome" if audit.forms and audit.forms[0].at_equal_outcome else "within groups"
    return [dots(f"Rank correlation of the reward {where}", items, axis="rho", columns=columns)] if items else []


def _mismatch(audit: Audit) -> list[Plot | str]:
    gap = audit.mismatch
    if gap is None:
        return []
    pairs = [("k3, nats a token", number(gap["k3"])), ("chi-square a token", number(gap["chi2"]))]
    if gap["beyond"] is not None:
        pairs.append((f"tokens with a weight beyond {gap['cap']:g}", f"{gap['beyond']:.2%} of {gap['tokens']:,}"))
        pairs.append((f"rollouts with a product beyond {gap['sequence_cap']:g}", f"{gap['sequence_beyond']:.1%}"))
    if audit.staleness is not None:
        pairs.append(("age, 90 % are at most", f"{audit.staleness['90%']:g} steps"))
    points = [(float(step["step"]), float(step["k3"])) for step in gap["steps"] if math.isfinite(step["k3"])]
    plots = [lines("k3 of sampler and trainer", [Curve(points)], axis="step", small=False)] if len(points) > 1 else []
    return [*plots, definitions(pairs)]


def _course(audit: Audit) -> Iterator[Plot]:
    course = audit.diversity
    for name, title in COURSE.items():
        if name not in course.trends:
            continue
        values = zip(course.steps, course.trends[name].values, strict=True)
        points = [(float(step), float(value)) for step, value in values if math.isfinite(value)]
        if len({value for _, value in points}) > 1:
            yield lines(title, [Curve(points)], axis="step")


def _how(audit: Audit) -> list[Section]:
    fields = sorted(audit.rollouts.fields.items())
    parts = [
        definitions([("karl-fast", VERSION)]),
        account_table(audit.report["accounting"]),
        folded("Fields", table(("field", "path"), fields)),
        files_table(audit.report["inputs"]),
    ]
    return [Section("How it was made", parts)]
