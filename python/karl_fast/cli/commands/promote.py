"""`karl-fast promote`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from karl_fast._safe_text import clean, decimal
from karl_fast.cli import options
from karl_fast.cli.app import add_command
from karl_fast.cli.rollout_options import Attempts, Config, Seed, Temperature, build_rollout_settings
from karl_fast.cli.signals import handle_signals
from karl_fast.export.manifest import dumps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karl_fast.evaluation import Decision

New = Annotated[str, typer.Argument(metavar="NEW", help="The folder of the new adapter.")]
Over = Annotated[str, typer.Option("--over", help="The adapter in use, or base for the model alone.")]
Data = Annotated[str, typer.Option("--data", help="Held-out data: prompts, two logs, or a data set, as --by says.")]
By = Annotated[
    Literal["rollouts", "rewards", "likelihood"],
    typer.Option(
        "--by", help="What is compared: attempts made now, rewards in two logs, or the likelihood of a split."
    ),
]
Margin = Annotated[
    float,
    typer.Option("--margin", help="Smallest difference that counts, in the unit of the reward or nats per token."),
]
Confidence = Annotated[
    float, typer.Option("--confidence", help="One minus the probability of any false promotion, over all uses of DATA.")
]
Link = Annotated[
    str | None, typer.Option("--link", help="The link to move. [default: current, beside NEW]", show_default=False)
]
Model = Annotated[
    str | None, typer.Option("--model", help="The model; with --by rollouts, by default that of --config.")
]
Split = Annotated[
    Literal["train", "valid", "test"], typer.Option("--split", help="The rows to compare on, with --by likelihood.")
]


@add_command(
    "promote",
    epilog="Exit code 1 where NEW is not promoted.\n\n"
    "Example: karl-fast promote runs/second --over runs/current --data held-out.jsonl --by rollouts --config rl.toml",
    common="--over --data --by --margin --confidence --link --config --attempts",
)
def command(
    *,
    new: New,
    over: Over,
    data: Data,
    by: By = "rollouts",
    margin: Margin = 0.0,
    confidence: Confidence = 0.95,
    link: Link = None,
    config: Config = None,
    model: Model = None,
    split: Split = "test",
    attempts: Attempts = 8,
    temperature: Temperature = 1.0,
    seed: Seed = 0,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Promote an adapter that is better than the one in use by a margin, at a confidence that holds over all looks."""
    from karl_fast.cli.reports.evaluation import Chunks, Tokens
    from karl_fast.evaluation import promote

    spent = "the look is spent" if by == "rollouts" else "the look is not spent"
    handle_signals(lambda word: f"{word} before a decision; {spent}, and no link was moved")
    rollouts = None
    if by == "rollouts":
        rollouts = build_rollout_settings(
            config, data, model=model, attempts=attempts, temperature=temperature, seed=seed
        )
    chunks = Chunks()
    decision = promote(
        new,
        over=over,
        data=data,
        by=by,
        margin=margin,
        confidence=confidence,
        link=link,
        rollouts=rollouts,
        model=model,
        split=split,
        progress=None if quiet else chunks,
        on_tokens=None if quiet else Tokens(),
        on_attempts=None if quiet else chunks.on_tokens,
        on_remark=chunks.on_remark,
    )
    if json:
        print(dumps(asdict(decision) | {"link": str(decision.link), "record": str(decision.record)}, plain=True))
    elif not quiet:
        print("\n".join(_describe_decision(decision, margin)))
    if not decision.promoted:
        raise typer.Exit(1)


def _describe_decision(decision: Decision, margin: float) -> Iterator[str]:
    limit = "no limit" if decision.limit is None else f"at least {decimal(decision.limit, sign='+')}"
    yield f"differs   by {decimal(decision.value, sign='+')} {decision.unit} ({limit}; {decision.units:,} pairs)"
    above = f" above a margin of {margin:g}" if margin else ""
    yield f"look      {decision.look} at this data: p {decision.p:.3g}{above}, wanted at most {decision.alpha:.3g}"
    where = clean(str(decision.link))
    yield (
        f"promoted  {where} points to it"
        if decision.promoted
        else f"refused   not significantly better: {where} is unchanged"
    )
    yield f"record    {clean(str(decision.record))}"
