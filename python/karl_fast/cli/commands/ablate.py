"""`karl-fast ablate`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from karl_fast._safe_text import clean, decimal
from karl_fast.cli import options
from karl_fast.cli.app import COMMANDS, app
from karl_fast.cli.signals import describe_nothing, handle_signals
from karl_fast.cli.usage_errors import only_options
from karl_fast.errors import UsageError
from karl_fast.export.manifest import dumps, finite

if TYPE_CHECKING:
    from karl_fast.rl.ablation import Arm

Config = Annotated[str, typer.Option("--config", help="The settings of every run, a TOML file.")]
Out = Annotated[
    str, typer.Option("--out", help="The folder to write, with a folder for each run; runs in it are continued.")
]
Seeds = Annotated[str, typer.Option("--seeds", help="Seeds, separated by commas; each arm is run with each of them.")]
Arms = Annotated[
    str | None,
    typer.Option("--arms", help="Variants, separated by commas: no_kl, asym_clip, dynamic, token_loss. [default: all]"),
]
Rounds = Annotated[int | None, typer.Option("--rounds", help="Rounds of a run.")]


@app.command(
    "ablate",
    short_help=COMMANDS["ablate"],
    epilog="Example: karl-fast ablate --config rl.toml --out ablations --seeds 0,1,2,3,4",
)
def command(
    *,
    config: Config,
    out: Out,
    seeds: Seeds = "0,1,2,3,4",
    arms: Arms = None,
    rounds: Rounds = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Compare a baseline with arms that differ from it in one choice each, by outcomes before any shaping."""
    from karl_fast.rl import ablate, load

    only = None if arms is None else [name.strip().replace("-", "_") for name in arms.split(",")]
    with only_options("config", "out", "seeds", "rounds"):
        settings = load(config) if rounds is None else load(config, rounds=rounds)
        handle_signals(partial(_describe_stop, out))
        results = ablate(settings, out, seeds=_parse_seeds(seeds), only=only, told=None if quiet else _print_run)
    print(dumps({arm.name: _to_json(asdict(arm)) for arm in results}, plain=True) if json else describe_arms(results))


def _to_json(value: Any) -> Any:
    """Return a value for JSON: null for the outcome of a run without a reward."""
    if isinstance(value, dict):
        return {name: _to_json(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return [_to_json(item) for item in value]
    return finite(value) if isinstance(value, float) else value


def _parse_seeds(text: str) -> list[int]:
    try:
        return [int(seed) for seed in text.split(",")]
    except ValueError as error:
        raise UsageError(f"seeds is {text!r}, wanted whole numbers with commas", "seeds") from error


def _describe_stop(out: str, word: str) -> str:
    if not Path(out).exists():
        return describe_nothing(word)
    return f"{word}; the same command goes on with the runs in {clean(out)}"


def _print_run(arm: str, seed: int, outcome: float) -> None:
    sys.stderr.write(f"{arm:<12} seed {seed:<3} outcome {decimal(outcome)}\n")


def describe_arms(arms: list[Arm]) -> str:
    """Return a table of the arms, one a line; intervals are 95 % over seeds, and blank with one seed."""
    lines = [f"{'arm':<12} {'outcome':>8} {'95 % interval':>20} {'less baseline':>14} {'95 % interval':>20}"]
    for arm in arms:
        difference = ""
        if arm.name != "baseline":
            interval = _describe_interval(arm.difference_low, arm.difference_high)
            difference = f"{decimal(arm.difference, sign='+'):>14} {interval:>20}"
        lines.append(
            f"{arm.name:<12} {decimal(arm.mean):>8} {_describe_interval(arm.low, arm.high):>20} {difference}".rstrip()
        )
        lines += [f"  seed {seed} stopped: {clean(why)}" for seed, why in arm.stopped.items()]
    return "\n".join(lines)


def _describe_interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{decimal(low)} .. {decimal(high)}"
