"""`karl-fast rl`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

import typer

from karl_fast._text import clean, counted
from karl_fast.cli import options
from karl_fast.cli.app import app
from karl_fast.cli.signals import listen, written
from karl_fast.cli.usage_errors import flags
from karl_fast.errors import UsageError
from karl_fast.export.manifest import dumps

Config = Annotated[str | None, typer.Option("--config", help="The settings of the run, a TOML file.")]
Recipe = Annotated[str | None, typer.Option("--recipe", help="A name, or a TOML file with a table for each axis.")]
Print = Annotated[bool, typer.Option("--print", help="Print the axes of --recipe with their sources, and do nothing.")]
Toml = Annotated[bool, typer.Option("--toml", help="With --print: as TOML, which --recipe takes again.")]
Out = Annotated[str | None, typer.Option("--out", help="The folder to write.")]
Model = Annotated[str | None, typer.Option("--model", help="A folder, a name on the hub, or file.py:function.")]
Rounds = Annotated[int | None, typer.Option("--rounds", help="How many rounds.")]
Seed = Annotated[int | None, typer.Option("--seed", help="Same seed and settings: same bytes.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint in --out.")]
Force = Annotated[bool, typer.Option("--force", help="Begin anew where a run is there.")]

TYPED = "Options from --recipe on count over those of the file of --config."


@app.command(
    "rl",
    short_help="Train on what rollouts are worth, with MLX.",
    epilog=f"{TYPED}\n\nExample: karl-fast rl --config rl.toml --seed 1",
)
def command(
    *,
    config: Config = None,
    recipe: Recipe = None,
    print_: Print = False,
    toml: Toml = False,
    out: Out = None,
    model: Model = None,
    rounds: Rounds = None,
    seed: Seed = None,
    resume: Resume = False,
    force: Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Train a policy online: rollouts, rewards, scores, steps; its log is one that inspect and sample read."""
    given = {"recipe": recipe, "out": out, "model": model, "rounds": rounds, "seed": seed}
    over: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    with flags("config", *given):
        if print_:
            _print(recipe, config, toml)
            return
        if config is None:
            error = UsageError("config names no file, wanted one with the settings of the run", "config")
            error.hint = "karl-fast rl --config examples/rl/reversal.toml runs one of a checkout"
            raise error
        _run(config, over, resume=resume, force=force, json=json, quiet=quiet)


def _print(name: str | None, config: str | None, toml: bool) -> None:
    from karl_fast.objective import to_toml
    from karl_fast.rl.config import chosen, load

    if name is None and config is None:
        raise UsageError("print needs a recipe: --recipe names one, or the file of --config does", "recipe")
    found = chosen(name if name is not None else load(str(config)).recipe)
    print(to_toml(found) if toml else str(found))


def _run(config: str, over: dict[str, Any], *, resume: bool, force: bool, json: bool, quiet: bool) -> None:
    from karl_fast.cli.reports.rl import watching
    from karl_fast.rl import load, rl

    settings = load(config, **over)
    with watching(settings.show, quiet) as viewer:
        done = rl(settings, resume=resume, force=force, viewer=viewer)
    listen(partial(written, str(done.out)))
    if json:
        print(dumps(asdict(done) | {"out": str(done.out)}, plain=True))
    elif not quiet:
        made = f"{counted(done.rounds, 'round')}, {counted(done.steps, 'step')}"
        sys.stderr.write(f"trained   {made}\nwritten   {clean(str(done.out))}\n")
