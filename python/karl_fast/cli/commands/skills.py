"""`karl-fast skills`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from karl_fast._safe_text import clean, counted
from karl_fast.cli import options
from karl_fast.cli.app import add_command
from karl_fast.errors import UsageError
from karl_fast.export.manifest import dumps
from karl_fast.settings.sample_fields import SampleFields
from karl_fast.settings.schema import STARTED_AT, Weighting, schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karl_fast.skill import Routing, Skill, Skills

By = Annotated[str | None, typer.Option("--by", help="Field with the skill or domain of a row.", show_default=False)]
Reward = Annotated[
    str | None,
    typer.Option(
        "--reward",
        help="Path of the reward, or of its components with weights: outcome.tests=0.5,...",
        show_default=False,
    ),
]
Time = Annotated[str, typer.Option("--time", help="Field with the time of a row, as text that sorts by time.")]
Weights = Annotated[
    Weighting,
    typer.Option(
        "--weighting",
        help="ema: running mean of the rewards, from the mean of all. karl: 0.5 + running mean, from 0.5, as KARL.",
    ),
]
Alpha = Annotated[float, typer.Option("--alpha", help="Weight of the newest reward in the running mean.")]
Confidence = Annotated[float, typer.Option("--confidence", help="Confidence level of the intervals.")]
Router = Annotated[
    str | None,
    typer.Option(
        "--router",
        help="Log of a shadow router to judge too: actual_skill, regex, vector and reciprocal_rank of each prompt.",
        show_default=False,
    ),
]


@add_command(
    "skills", epilog="Example: karl-fast skills outcomes.jsonl --by source.git_branch --reward outcome.tests=1"
)
def command(
    *,
    logs: options.Logs = None,
    by: By = None,
    reward: Reward = None,
    time: Time = STARTED_AT,
    weighting: Weights = "ema",
    alpha: Alpha = 0.1,
    confidence: Confidence = 0.95,
    router: Router = None,
    json: options.Json = False,
) -> None:
    """Show weight, mean reward with interval, trend and share of corrected rows of each skill or domain of a log."""
    from karl_fast.skill import routing, skills  # loads NumPy

    if not logs and router is None:
        raise UsageError("no log given: wanted files, folders, globs, or --router FILE")
    if logs and by is None:
        raise UsageError(
            "by names no field, wanted that with the skill of a row: skill, domain, source.git_branch", "by"
        )
    components = None if reward is None else schema(SampleFields)["reward"].from_text(reward)
    account = None
    if logs:
        account = skills(
            logs, str(by), reward=components, time=time, weighting=weighting, alpha=alpha, level=confidence
        )
    routed = None if router is None else routing(router)
    if json:
        print(dumps({"skills": account and asdict(account), "router": routed and asdict(routed)}, plain=True))
    else:
        print(
            "\n".join([*(describe_skills(account) if account else ()), *(describe_routing(routed) if routed else ())])
        )


HEADS = ("skill", "rows", "rewarded", "weight", "mean", "interval", "trend", "corrected")

DEFINITIONS = {
    "ema": "running means of rewards, from the mean of all (KARL begins at 0.5: --weighting karl)",
    "karl": "0.5 + running means of rewards, from 0.5, as KARL",
}

NONE = "-"


def describe_skills(account: Skills) -> Iterator[str]:
    """Yield the table of skills, and what is left out of it."""
    rows = [HEADS, *map(_row_cells, account.skills)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADS))]
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        yield "  ".join([row[0].ljust(widths[0]), *cells[1:]])
    yield f"weights   {DEFINITIONS[account.weighting]}"
    if account.without_skill:
        yield f"left out  {account.without_skill:,} of {counted(account.rows, 'row')} without a skill"
    if account.without_time:
        missed = counted(account.without_time, "rewarded row")
        yield f"no time   {missed}: in no weight and no trend; --time names the field"


def _row_cells(skill: Skill) -> tuple[str, ...]:
    interval = NONE if skill.low is None else f"{skill.low:.3f} to {skill.high:.3f}"
    corrected = NONE if skill.corrected is None else f"{skill.corrected:.0%} of {skill.corrected_known:,}"
    trend = NONE if skill.trend is None else f"{skill.trend:+.3f}"
    counts = (f"{skill.rows:,}", f"{skill.rewarded:,}")
    return (clean(skill.name), *counts, _decimal(skill.weight), _decimal(skill.mean), interval, trend, corrected)


def _decimal(value: float | None) -> str:
    return NONE if value is None else f"{value:.3f}"


def describe_routing(account: Routing) -> Iterator[str]:
    """Yield the shares of a shadow router."""
    yield f"router    {counted(account.rows, 'row')} with the skill that was used"
    yield f"agree     {_decimal(account.agreement)} of both routers"
    shadow, other = _decimal(account.shadow_correct), _decimal(account.router_correct)
    yield f"correct   {shadow} of the shadow router, {other} of the other"
    yield f"in top 3  {_decimal(account.in_top)}; mean reciprocal rank {_decimal(account.reciprocal_rank)}"
    for name, (rows, right) in account.by_skill.items():
        yield f"  {clean(name)}: {right:.3f} of {counted(rows, 'row')}"
