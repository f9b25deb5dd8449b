"""The evidence of skills and of a shadow router as plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karl_fast._safe_text import clean, counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karl_fast.skill import Routing, Skill, Skills

HEADS = ("skill", "rows", "rewarded", "weight", "mean", "interval", "trend", "corrected")

DEFINITIONS = {
    "ema": "running means of rewards, from the mean of all (KARL begins at 0.5: --weighting karl)",
    "karl": "0.5 + running means of rewards, from 0.5, as KARL",
}

NONE = "-"


def describe_skills(found: Skills) -> Iterator[str]:
    """Yield the table of skills, and what is left out of it."""
    rows = [HEADS, *map(_row, found.skills)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADS))]
    for row in rows:
        first, *rest = (cell.ljust(width) if not at else cell.rjust(width) for at, (cell, width) in _cells(row, widths))
        yield "  ".join([first, *rest])
    yield f"weights   {DEFINITIONS[found.weighting]}"
    if found.without_skill:
        yield f"left out  {found.without_skill:,} of {counted(found.rows, 'row')} without a skill"
    if found.without_time:
        missed = counted(found.without_time, "rewarded row")
        yield f"no time   {missed}: in no weight and no trend; --time names the field"


def _cells(row: tuple[str, ...], widths: list[int]) -> Iterator[tuple[int, tuple[str, int]]]:
    return enumerate(zip(row, widths, strict=True))


def _row(one: Skill) -> tuple[str, ...]:
    interval = NONE if one.low is None else f"{one.low:.3f} to {one.high:.3f}"
    corrected = NONE if one.corrected is None else f"{one.corrected:.0%} of {one.corrected_known:,}"
    trend = NONE if one.trend is None else f"{one.trend:+.3f}"
    counts = (f"{one.rows:,}", f"{one.rewarded:,}")
    return (clean(one.name), *counts, _number(one.weight), _number(one.mean), interval, trend, corrected)


def _number(value: float | None) -> str:
    return NONE if value is None else f"{value:.3f}"


def describe_routing(found: Routing) -> Iterator[str]:
    """Yield the shares of a shadow router."""
    yield f"router    {counted(found.rows, 'row')} with the skill that was used"
    yield f"agree     {_number(found.agreement)} of both routers"
    shadow, other = _number(found.shadow_correct), _number(found.router_correct)
    yield f"correct   {shadow} of the shadow router, {other} of the other"
    yield f"in top 3  {_number(found.in_top)}; mean reciprocal rank {_number(found.reciprocal_rank)}"
    for name, (rows, right) in found.by_skill.items():
        yield f"  {clean(name)}: {right:.3f} of {counted(rows, 'row')}"
