"""`karl-fast cycle`."""

from __future__ import annotations

import sys
from json import dumps
from typing import Annotated, Any

import typer

from karl_fast._safe_text import clean
from karl_fast.cli import options
from karl_fast.cli.app import app
from karl_fast.cli.reports.cycle import describe_event, describe_plan, describe_runs
from karl_fast.cli.root_help import COMMANDS
from karl_fast.cli.signals import listen
from karl_fast.cycle.config import STEPS, CycleConfig, load
from karl_fast.cycle.plan import plan_run
from karl_fast.cycle.records import CycleRecords
from karl_fast.cycle.run import run
from karl_fast.errors import UsageError

Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[status] FILE", help="The file of the cycle; status shows its last runs.", show_default=False
    ),
]
Until = Annotated[
    str | None,
    typer.Option("--until", help=f"The last step to run: {', '.join(STEPS)}.", autocompletion=lambda: list(STEPS)),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the plan, with sizes and memory, and run nothing.")]
Last = Annotated[int, typer.Option("--last", help="Runs that status shows.", min=1)]
Json = Annotated[
    bool, typer.Option("--json", help="Print a JSON object a line: each step as it begins and ends, and the run.")
]


@app.command(
    "cycle",
    short_help=COMMANDS["cycle"],
    epilog="Exit code 0 also where the new adapter is refused; that of the failed command where a step fails.\n\n"
    "Example: karl-fast cycle cycle.toml --dry-run\n\nExample: karl-fast cycle status cycle.toml",
)
def command(
    *,
    words: Words = None,
    until: Until = None,
    dry_run: DryRun = False,
    last: Last = 10,
    json: Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Run the steps of a project whose inputs have changed, from transcripts to the adapter in use."""
    status, file = _file(words or [])
    config = load(file)
    if status:
        _status(config, last, json)
    elif dry_run:
        entries = plan_run(config, until)
        print(_lines(entries) if json else describe_plan(config, entries))
    else:
        _run(config, until, json, quiet)


def _file(words: list[str]) -> tuple[bool, str]:
    """Return whether the status is wanted, and the file."""
    status = words[:1] == ["status"]
    files = words[1:] if status else words
    if len(files) != 1:
        came = f"{len(files)} files are named" if files else "no file is named"
        raise UsageError(f"{came}, wanted the .toml file of one cycle")
    return status, files[0]


def _lines(objects: list[dict[str, Any]]) -> str:
    """Return objects as JSON, one a line, in ASCII."""
    return "\n".join(map(dumps, objects))


def _status(config: CycleConfig, last: int, json: bool) -> None:
    runs = CycleRecords(config.folder).runs()[-last:]
    print(_lines(runs) if json else describe_runs(runs))


def _run(config: CycleConfig, until: str | None, json: bool, quiet: bool) -> None:
    listen(lambda word: f"{word}; the next run goes on from the last finished step")

    def tell(event: dict[str, Any]) -> None:
        if json:
            print(_lines([event]), flush=True)
        elif not quiet and (line := describe_event(event)):
            sys.stderr.write(line + "\n")

    def say(line: str) -> None:
        if not (quiet or json):
            sys.stderr.write(f"  {clean(line)}\n")

    record = run(config, until, say=say, tell=tell)
    if record["state"] == "failed":
        sys.stderr.write(f"error: {clean(record['error'].splitlines()[0])}\n")
        raise typer.Exit(record.get("code", 1))
