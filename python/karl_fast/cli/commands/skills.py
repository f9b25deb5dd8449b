"""`karl-fast skills`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from karl_fast.cli import options
from karl_fast.cli.app import app
from karl_fast.cli.reports.skills import describe_routing, describe_skills
from karl_fast.cli.root_help import COMMANDS
from karl_fast.errors import UsageError
from karl_fast.export.manifest import dumps
from karl_fast.settings.sample_fields import SampleFields
from karl_fast.settings.schema import schema
from karl_fast.settings.types import STARTED_AT, Weighting

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
Alpha = Annotated[float, typer.Option("--alpha", help="Share of the newest reward in a weight.")]
Confidence = Annotated[float, typer.Option("--confidence", help="Level of the intervals.")]
Router = Annotated[
    str | None,
    typer.Option(
        "--router",
        help="Log of a shadow router to judge too: actual_skill, regex, vector and reciprocal_rank of each prompt.",
        show_default=False,
    ),
]


@app.command(
    "skills",
    short_help=COMMANDS["skills"],
    epilog="Example: karl-fast skills outcomes.jsonl --by source.git_branch --reward outcome.tests=1",
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
    """Weight, mean reward with its interval, trend and share of corrected rows of each skill or domain of a log."""
    from karl_fast.skill import routing, skills  # loads NumPy

    if not logs and router is None:
        raise UsageError("no log given: wanted files, folders, globs, or --router FILE")
    if logs and by is None:
        raise UsageError(
            "by names no field, wanted that with the skill of a row: skill, domain, source.git_branch", "by"
        )
    components = None if reward is None else schema(SampleFields)["reward"].from_text(reward)
    found = None
    if logs:
        found = skills(logs, str(by), reward=components, time=time, weighting=weighting, alpha=alpha, level=confidence)
    routed = None if router is None else routing(router)
    if json:
        print(dumps({"skills": found and asdict(found), "router": routed and asdict(routed)}, plain=True))
    else:
        print("\n".join([*(describe_skills(found) if found else ()), *(describe_routing(routed) if routed else ())]))
