"""`karl-fast push`."""

from __future__ import annotations

import dataclasses
import sys
from typing import Annotated

import typer

from karl_fast._safe_text import clean
from karl_fast.cli import options
from karl_fast.cli.app import add_command
from karl_fast.cli.progress import show_progress
from karl_fast.cli.reports.text import join_lines
from karl_fast.cli.signals import handle_signals
from karl_fast.export.manifest import dumps
from karl_fast.hub_upload import PushResult, push

Folder = Annotated[str, typer.Argument(metavar="FOLDER", help="The data set that sample wrote.")]
Repository = Annotated[str, typer.Argument(metavar="REPO", help="OWNER/NAME in the hub; created if there is none.")]
License = Annotated[
    str | None, typer.Option("--license", help="The licence on the card, as the hub names it: apache-2.0, cc-by-4.0.")
]
Public = Annotated[bool, typer.Option("--public", help="Create a public repository, or write into one.")]


@add_command("push", epilog="Example: karl-fast push data me/my-data --license apache-2.0")
def command(
    *,
    folder: Folder,
    repository: Repository,
    license: License = None,
    public: Public = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Upload a data set to the Hugging Face hub, private by default.

    A data set that was drawn with --allow-secrets, that was edited, or in which the search for secrets finds something
    is refused. A push that was interrupted goes on with the files that are missing.
    """
    handle_signals(lambda word: f"{word}; the same command goes on with the files that are missing")
    with show_progress(quiet) as watch:
        result = push(folder, repository, license=license, public=public, progress=watch("uploading"))
    if json:
        print(dumps(dataclasses.asdict(result), plain=True))
    elif not quiet:
        sys.stderr.write(join_lines(describe_push(result)) + "\n")


def describe_push(result: PushResult) -> list[str]:
    """Return the lines of the report."""
    whose = "private" if result.private else "public"
    there = f"; already there: {', '.join(result.unchanged)}" if result.unchanged else ""
    return [
        f"uploaded  {', '.join(result.uploaded) or 'nothing'}{there}",
        f"data set  {clean(result.url)} ({whose})",
    ]
