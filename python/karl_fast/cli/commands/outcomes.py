"""`karl-fast outcomes`."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from karl_fast._safe_text import clean, counted, in_bytes
from karl_fast.cli import options
from karl_fast.cli.app import add_command
from karl_fast.cli.commands.convert import (
    AllowSecrets,
    Force,
    Format,
    MaxLineBytes,
    Out,
    Pseudonyms,
    Threads,
    require_paths,
)
from karl_fast.cli.progress import show_progress
from karl_fast.cli.reports.text import describe_counts, describe_places, join_lines
from karl_fast.export.manifest import dumps
from karl_fast.settings.sample import Settings
from karl_fast.transcripts.conversion import AFTER_DAYS
from karl_fast.transcripts.outcomes import outcomes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karl_fast.transcripts.outcomes import Outcomes

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
        help="File with the output of `gh pr view --json number,state,mergedAt,mergeCommit,commits`.",
        show_default=False,
    ),
]


@add_command("outcomes", epilog="Example: karl-fast outcomes ~/.claude/projects -o outcomes.jsonl")
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
    pseudonyms: Pseudonyms = None,
    force: Force = False,
    max_line_bytes: MaxLineBytes = Settings.max_line_bytes,
    threads: Threads = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Find the outcome of the work in trajectories, and write them with it and the evidence for it."""
    sources, out = require_paths(sources, out, "trajectory")
    with show_progress(quiet) as watch:
        account = outcomes(
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
        print(dumps(dataclasses.asdict(account), plain=True))
    elif not quiet:
        sys.stderr.write(describe_outcomes(account, clean(out)) + "\n")


def describe_outcomes(account: Outcomes, out: str) -> str:
    """Return the report of `outcomes`."""
    missed = f"; without: {describe_counts(account.without_repository)}" if account.without_repository else ""
    lines = [
        *_describe_inputs(account),
        f"known     {account.known:,} of {counted(account.written, 'trajectory', 'trajectories')} have any evidence"
        f"; {counted(account.commits, 'commit')} attributed",
        f"git       {counted(account.repositories, 'repository', 'repositories')} compared{missed}"
        if account.repositories or account.without_repository
        else "",
        *(
            f"  {name:<12} {known:>7,} known" + ("" if mean is None else f", mean {mean:.3f}")
            for name, (known, mean) in account.components.items()
        ),
        f"dropped   {describe_counts(account.dropped)}" if account.dropped else "",
        f"secrets   replaced: {describe_counts(account.secrets)}" if account.secrets else "",
        f"written   {counted(account.written, 'trajectory', 'trajectories')} to {out}: "
        f"{in_bytes(account.written_bytes)}",
        *describe_places(account.files, "bad_lines"),
    ]
    return join_lines(lines)


def _describe_inputs(account: Outcomes) -> Iterable[str]:
    if account.files:
        yield f"read      {counted(len(account.files), 'file')} of trajectories: {in_bytes(account.size_bytes)}"
    if converted := account.converted:
        rows = counted(converted.trajectories, "trajectory", "trajectories")
        yield (
            f"converted {counted(len(converted.files), 'transcript')}: {in_bytes(converted.size_bytes)}, {rows}; "
            f"lines: used {converted.lines_used:,}, duplicates {converted.duplicates:,}, "
            f"dropped {sum(converted.dropped.values()):,}, bad {sum(converted.bad.values()):,}"
        )
        for path, why in converted.refused:
            yield f"refused   {clean(path)}: {why}"
