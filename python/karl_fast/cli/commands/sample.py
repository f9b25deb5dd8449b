"""`karl-fast sample`."""

from __future__ import annotations

from typing import Annotated

import typer

from karl_fast.cli import options
from karl_fast.cli.app import add_command
from karl_fast.cli.sample_body import draw_and_report
from karl_fast.settings.sample import Settings
from karl_fast.settings.sample_fields import DRAW, EXPORT, READ, RULES, RUN, TARGET
from karl_fast.settings.toml import SettingsFile, load

Out = Annotated[str | None, typer.Option("--out", "-o", help="The directory to write, or - to print the rows.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing data set.")]
Engine = Annotated[
    str | None, typer.Option("--engine", metavar="ENGINE", help="ray: have the logs read by the workers of Ray.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Do everything but write.")]


@add_command(
    "sample",
    epilog=options.epilog(
        "--max-per-group", "the file of --config", "karl-fast sample runs/ -o data -k 512 --score zscore"
    ),
    common="--out --force --config -k --group --reward --score --ess --split --seed",
)
@options.add_settings(
    Settings,
    load,
    "Options from a TOML file, or from the manifest.json of a data set to make it again.",
    (DRAW, READ, TARGET, RULES, EXPORT, RUN),
)
def command(
    *,
    settings: Settings,
    config: SettingsFile | None,
    logs: options.Logs = None,
    out: Out = None,
    force: Force = False,
    dry_run: DryRun = False,
    engine: Engine = None,
    index: options.Index = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Draw a training set from trajectory logs, in proportion to exp(inverse temperature * score)."""
    draw_and_report(
        settings=settings,
        config=config,
        logs=logs,
        out=out,
        force=force,
        dry_run=dry_run,
        engine=engine,
        index=index,
        json=json,
        quiet=quiet,
    )
