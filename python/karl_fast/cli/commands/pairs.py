"""`karl-fast pairs`."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from karl_fast._safe_text import clean, counted, in_bytes
from karl_fast.cli import options
from karl_fast.cli.app import COMMANDS, app
from karl_fast.cli.commands.convert import AllowSecrets, Format, Key, MaxLineBytes, Sources, Threads, require_paths
from karl_fast.cli.progress import progress
from karl_fast.cli.reports.sample import counts_of, page
from karl_fast.export.manifest import dumps
from karl_fast.settings.sample import Settings
from karl_fast.transcripts.pairs import Shape, pairs

if TYPE_CHECKING:
    from karl_fast.transcripts.pairs import Pairs

Out = Annotated[
    str | None, typer.Option("--out", "-o", help="The file of pairs to write, a .jsonl; never standard output.")
]
Form = Annotated[
    Shape,
    typer.Option("--shape", help="Shape of a row: chat, lists of messages for TRL; text, for mlx-lm-lora's DPO."),
]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing file of pairs.")]


@app.command(
    "pairs",
    short_help=COMMANDS["pairs"],
    epilog="Example: karl-fast pairs ~/.claude/projects -o pairs.jsonl",
)
def command(
    *,
    sources: Sources = None,
    out: Out = None,
    format: Format = None,
    shape: Form = "chat",
    allow_secrets: AllowSecrets = False,
    pseudonyms: Key = None,
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
    with progress(quiet) as watch:
        found = pairs(
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
        print(dumps(dataclasses.asdict(found), plain=True))
    elif not quiet:
        sys.stderr.write(describe_pairs(found, clean(out)) + "\n")


# The account of a search for preference pairs as plain text.


def describe_pairs(found: Pairs, out: str) -> str:
    """Return the report of `pairs`."""
    converted = found.converted
    dropped = f"; dropped: {counts_of(found.dropped)}" if found.dropped else ""
    candidates = sum(found.candidates.values())
    secrets = f"secrets   replaced: {counts_of(found.secrets)}" if found.secrets else ""
    return page(
        [
            f"read      {counted(len(converted.files), 'file')}: {in_bytes(converted.size_bytes)}, "
            f"{counted(found.sessions, 'session')}",
            f"pairs     {counted(candidates, 'candidate')}: {counts_of(found.candidates)}{dropped}",
            secrets,
            f"written   {counted(sum(found.pairs.values()), 'pair')} ({counts_of(found.pairs)}) to {out}: "
            f"{in_bytes(found.written_bytes)}",
        ]
    )
