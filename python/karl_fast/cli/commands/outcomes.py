"""`karl-fast outcomes`."""

from __future__ import annotations

import dataclasses
import sys
from typing import Annotated

import typer

from karl_fast._safe_text import clean
from karl_fast.cli import options
from karl_fast.cli.app import app
from karl_fast.cli.commands.convert import AllowSecrets, Force, Format, Key, MaxLineBytes, Out, Threads
from karl_fast.cli.progress import progress
from karl_fast.cli.signals import writing
from karl_fast.conversion import AFTER_DAYS
from karl_fast.errors import UsageError
from karl_fast.export.manifest import dumps
from karl_fast.outcome import outcomes
from karl_fast.settings.sample import Settings

Sources = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SOURCE",
        help="Trajectories or transcripts: files, folders, globs, or - for standard input.",
        show_default=False,
    ),
]
Reports = Annotated[
    list[str] | None,
    typer.Option(
        "--report",
        metavar="PATH",
        help='Verdicts of a grader: a report of SWE-bench, or rows like {"id": "SESSION", "verified": true}.',
        show_default=False,
    ),
]
Repositories = Annotated[
    list[str] | None,
    typer.Option(
        "--repo",
        metavar="PATH",
        help="Git repository to compare every trajectory with; by default that of its working directory.",
        show_default=False,
    ),
]
AfterDays = Annotated[int, typer.Option("--after-days", help="Days after which a commit is judged.")]
PullRequests = Annotated[
    list[str] | None,
    typer.Option(
        "--pull-requests",
        metavar="PATH",
        help="What `gh pr view --json number,state,mergedAt,mergeCommit,commits` saved.",
        show_default=False,
    ),
]


@app.command(
    "outcomes",
    short_help="Find out what the work in trajectories earned, from evidence.",
    epilog="Example: karl-fast outcomes ~/.claude/projects -o outcomes.jsonl",
)
def command(
    *,
    sources: Sources = None,
    out: Out = None,
    format: Format = None,
    report: Reports = None,
    repo: Repositories = None,
    after_days: AfterDays = AFTER_DAYS,
    pull_requests: PullRequests = None,
    allow_secrets: AllowSecrets = False,
    pseudonyms: Key = None,
    force: Force = False,
    max_line_bytes: MaxLineBytes = Settings.max_line_bytes,
    threads: Threads = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Find out what the work in trajectories earned, and write them with that and the evidence for it."""
    if not sources:
        raise UsageError("no trajectory given: wanted files, folders, globs, or - for standard input")
    if not out:
        raise UsageError("say where to write: -o FILE")
    if out == "-" or out.endswith(("/", "/.")):
        raise UsageError(f"-o is {out}, wanted the name of a file: it appears whole or not at all")
    writing(out)
    with progress(quiet) as watch:
        found = outcomes(
            sources,
            out,
            format=format,
            reports=report or (),
            repositories=repo or (),
            after_days=after_days,
            pull_requests=pull_requests or (),
            allow_secrets=allow_secrets,
            pseudonyms=pseudonyms,
            max_line_bytes=max_line_bytes,
            threads=threads,
            force=force,
            progress=watch("reading"),
        )
    if json:
        print(dumps(dataclasses.asdict(found), plain=True))
    elif not quiet:
        from karl_fast.cli.reports.outcomes import describe_outcomes

        sys.stderr.write(describe_outcomes(found, clean(out)) + "\n")
