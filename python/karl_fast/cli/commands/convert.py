"""`karl-fast convert`."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from karl_fast import _core
from karl_fast._safe_text import clean
from karl_fast.cli import options
from karl_fast.cli.app import app
from karl_fast.cli.progress import progress
from karl_fast.cli.root_help import COMMANDS
from karl_fast.cli.signals import writing
from karl_fast.commit_questions import convert_commits
from karl_fast.conversion import convert
from karl_fast.errors import UsageError
from karl_fast.export.manifest import dumps
from karl_fast.settings.sample import Settings
from karl_fast.settings.types import Rate, To

GIT = "git"
"""Format of repositories."""

Sources = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SOURCE",
        help="Transcripts or logs of rollouts: files, folders, globs, or - for standard input.",
        show_default=False,
    ),
]
Out = Annotated[str | None, typer.Option("--out", "-o", help="The file to write, a .jsonl; never standard output.")]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        help=f"Who wrote them: {', '.join(name for name, _ in _core.transcripts())}; found by looking at each file.",
        autocompletion=lambda: [name for name, _ in _core.transcripts()],
    ),
]
FormatOrGit = Annotated[
    str | None,
    typer.Option(
        "--format",
        help=f"Who wrote them: {', '.join(name for name, _ in _core.transcripts())}; found by looking at each file. "
        "git: the sources are repositories, and each commit becomes a synthetic question, answered by its diff.",
        autocompletion=lambda: [*(name for name, _ in _core.transcripts()), GIT],
    ),
]
Written = Annotated[
    To,
    typer.Option(
        "--to",
        help="What is written: trajectories, one a session; or KARL's records, one a prompt with calls of tools.",
    ),
]
Rated = Annotated[
    Rate,
    typer.Option(
        "--rate",
        help="Where rewards come from: the log; the end of the run, 1 for success, else 0; KARL's of tool calls; "
        "the outcome of the work.",
    ),
]
AllowSecrets = Annotated[bool, typer.Option("--allow-secrets", help="Keep secrets, which are replaced by default.")]
Key = Annotated[
    str | None,
    typer.Option(
        "--pseudonyms",
        metavar="FILE",
        help="Replace e-mail addresses and the names of users and hosts by pseudonyms; the file has their key, and is "
        "made if it is missing.",
        show_default=False,
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that was written before, and no other.")]
MaxLineBytes = Annotated[int, typer.Option("--max-line-bytes", help="Longer lines are dropped and counted.")]
Threads = Annotated[int | None, typer.Option("--threads", help="Threads to work with. [default: all cores]")]


@app.command(
    "convert",
    short_help=COMMANDS["convert"],
    epilog="Example: karl-fast convert ~/.claude/projects -o trajectories.jsonl",
)
def command(
    *,
    sources: Sources = None,
    out: Out = None,
    format: FormatOrGit = None,
    to: Written = "trajectory",
    rate: Rated = "log",
    allow_secrets: AllowSecrets = False,
    pseudonyms: Key = None,
    force: Force = False,
    max_line_bytes: MaxLineBytes = Settings.max_line_bytes,
    threads: Threads = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Make trajectories of the transcripts that agents leave behind: one line a session, as sample reads it."""
    if not sources:
        raise UsageError("no transcript given: wanted files, folders, globs, or - for standard input")
    if not out:
        raise UsageError("say where to write: -o FILE")
    if out.endswith(("/", "/.")):
        raise UsageError(
            f"-o is {out}, wanted the name of a file",
            hint=f"-o {Path(out) / 'trajectories.jsonl'} is one: folders on the way to it are made",
        )
    if out == "-":
        raise UsageError("-o is -, wanted the name of a file: it appears whole or not at all")
    writing(out)
    settings = _of_commits(rate, to) if format == GIT else {"format": format, "to": to, "rate": rate}
    run = convert_commits if format == GIT else convert
    with progress(quiet) as watch:
        found = run(
            sources,
            out,
            **settings,
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
        from karl_fast.cli.reports.convert import describe_conversion

        sys.stderr.write(describe_conversion(found, clean(out), rate, allowed=allow_secrets) + "\n")


def _of_commits(rate: str, to: str) -> dict[str, Any]:
    """Return the settings of a conversion of commits, which has none of these.

    Raises:
        UsageError: rewards or KARL's records are asked for.
    """
    for option, value, usual in (("--rate", rate, "log"), ("--to", to, "trajectory")):
        if value != usual:
            raise UsageError(
                f"{option} is {value!r}, and --format is git: commits become trajectories without rewards",
                hint="sample --reward synthetic takes 1 for the reward of each",
            )
    return {}
