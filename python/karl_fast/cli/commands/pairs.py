"""`karl-fast pairs`."""

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
    Format,
    MaxLineBytes,
    Pseudonyms,
    Sources,
    Threads,
    require_paths,
)
from karl_fast.cli.progress import show_progress
from karl_fast.cli.reports.text import describe_counts, join_lines
from karl_fast.export.manifest import dumps
from karl_fast.settings.sample import Settings
from karl_fast.transcripts.pairs import Shape, pairs

if TYPE_CHECKING:
    from karl_fast.transcripts.pairs import Pairs

Out = Annotated[
    str | None, typer.Option("--out", "-o", help="The file of pairs to write, a .jsonl; never standard output.")
]
ShapeOption = Annotated[
    Shape,
    typer.Option("--shape", help="Shape of a row: chat, lists of messages for TRL; text, for mlx-lm-lora's DPO."),
]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing file of pairs.")]


@add_command("pairs", epilog="Example: karl-fast pairs ~/.claude/projects -o pairs.jsonl")
def command(
    *,
    sources: Sources = None,
    out: Out = None,
    format: Format = None,
    shape: ShapeOption = "chat",
    allow_secrets: AllowSecrets = False,
    pseudonyms: Pseudonyms = None,
    force: Force = False,
    max_line_bytes: MaxLineBytes = Settings.max_line_bytes,
    threads: Threads = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write the preference pairs that a user made in transcripts.

    A pair comes from a session that was rewound, or from a request that was made again.
    """
    sources, out = require_paths(sources, out, "transcript")
    with show_progress(quiet) as watch:
        account = pairs(
            sources,
            out,
            format=format,
            shape=shape,
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
        sys.stderr.write(describe_pairs(account, clean(out)) + "\n")


def describe_pairs(account: Pairs, out: str) -> str:
    """Return the report of `pairs`."""
    converted = account.converted
    dropped = f"; dropped: {describe_counts(account.dropped)}" if account.dropped else ""
    candidates = sum(account.candidates.values())
    secrets = f"secrets   replaced: {describe_counts(account.secrets)}" if account.secrets else ""
    return join_lines(
        [
            f"read      {counted(len(converted.files), 'file')}: {in_bytes(converted.size_bytes)}, "
            f"{counted(account.sessions, 'session')}",
            f"pairs     {counted(candidates, 'candidate')}: {describe_counts(account.candidates)}{dropped}",
            secrets,
            f"written   {counted(sum(account.pairs.values()), 'pair')} ({describe_counts(account.pairs)}) to {out}: "
            f"{in_bytes(account.written_bytes)}",
        ]
    )
