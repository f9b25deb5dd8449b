"""`karl-fast sample`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from karl_fast.cli import app, options
from karl_fast.cli.progress import progress
from karl_fast.cli.show import changed, sampled
from karl_fast.config import Config  # noqa: TC001  (typer reads the annotation)
from karl_fast.errors import UsageError
from karl_fast.export.manifest import dumps
from karl_fast.pipeline import sample
from karl_fast.settings import Settings  # noqa: TC001  (typer reads the annotation)

Out = Annotated[str | None, typer.Option("--out", "-o", help="The directory to write, or - to print the rows.")]
Force = Annotated[bool, typer.Option("--force", help="Replace a data set that is there.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Do everything but write.")]


@app.command(
    "sample",
    short_help="Draw a training set from trajectory logs.",
    epilog=options.epilog("karl-fast sample runs/ -o data -k 512 --score zscore"),
)
@options.takes(*options.DRAW, *options.READ, *options.TARGET, *options.RULES, *options.EXPORT, *options.RUN)
def command(
    *,
    settings: Settings,
    config: Config,
    logs: options.Logs = None,
    out: Out = None,
    force: Force = False,
    dry_run: DryRun = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Draw a training set from trajectory logs, in proportion to exp(inverse temperature * score)."""
    out = out or config.out
    print_rows = out == "-"
    if out is None and not dry_run:
        raise UsageError("say where to write: -o DIR, -o - for stdout, or --dry-run")
    if print_rows and json:
        raise UsageError("-o - and --json both want stdout: give one")
    if print_rows:
        settings = settings.replace(split=(1.0, 0.0, 0.0))
    target = None if dry_run or print_rows else out
    with progress(quiet) as watch:
        result = sample(logs or (), target, settings, force=force, progress=watch)
    if print_rows and not dry_run:
        # Bytes: what a terminal is said to read must not change a record.
        sys.stdout.buffer.writelines(line.encode() + b"\n" for line in result.lines())
        sys.stdout.flush()
    if json:
        print(dumps(result.manifest, plain=True))
    elif not quiet:
        report = sampled(result.manifest, None if dry_run else out)
        sys.stderr.write("\n".join([report, *changed(config, result.manifest)]) + "\n")
