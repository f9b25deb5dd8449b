"""`karl-fast collect`."""

from __future__ import annotations

import dataclasses
import sys
from typing import Annotated, Literal

import typer

from karl_fast.cli import options
from karl_fast.cli.app import app
from karl_fast.cli.progress import progress
from karl_fast.cli.root_help import COMMANDS
from karl_fast.cli.signals import listen
from karl_fast.collection import collect
from karl_fast.collection.status import state
from karl_fast.collection.triggers import TRIGGERS, install, uninstall
from karl_fast.errors import UsageError
from karl_fast.export.manifest import dumps

Action = Annotated[
    Literal["install", "uninstall", "status"] | None,
    typer.Argument(
        metavar="ACTION",
        help="Add or remove a trigger of collections, or show the triggers and the archive.",
        show_default=False,
    ),
]
Trigger = Annotated[
    list[str] | None,
    typer.Option(
        "--trigger",
        metavar="NAME",
        help=f"The trigger to install or uninstall: {', '.join(TRIGGERS)}; several times for several. "
        "[default: claude-code]",
        autocompletion=lambda: list(TRIGGERS),
        show_default=False,
    ),
]
Archive = Annotated[
    str | None,
    typer.Option(
        "--archive",
        help="The folder of the archive, made where it is missing. [default: ~/.local/share/karl-fast/archive, or "
        "$KARL_FAST_ARCHIVE]",
        show_default=False,
    ),
]
From = Annotated[
    list[str] | None,
    typer.Option(
        "--from",
        metavar="PATH",
        help="Collect from this file or folder instead of the usual places of agents; several times for several.",
        show_default=False,
    ),
]


@app.command(
    "collect",
    short_help=COMMANDS["collect"],
    epilog="Example: karl-fast collect && karl-fast convert ~/.local/share/karl-fast/archive -o trajectories.jsonl",
)
def command(
    *,
    action: Action = None,
    trigger: Trigger = None,
    archive: Archive = None,
    sources: From = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Copy what agents wrote since the last time into an archive, which only grows.

    Sessions of Claude Code, Codex, Gemini CLI, Copilot CLI and opencode are found in their usual places.
    """
    if action:
        before = {one["name"]: one["installed"] for one in state(archive)["triggers"]}
        for name in (trigger or ["claude-code"]) if action in CHANGES else []:
            CHANGES[action](name, archive)
        shown = state(archive)
        if json:
            print(dumps(dict(shown), plain=True))
        elif not quiet:
            from karl_fast.cli.reports.collect import describe_sources

            sys.stderr.write(
                describe_sources(shown, [one["name"] for one in shown["triggers"] if one["installed"] != before[one["name"]]])
                + "\n"
            )
        return
    if trigger:
        raise UsageError("--trigger goes with install or uninstall, wanted karl-fast collect install --trigger NAME")
    listen(_kept)
    with progress(quiet) as watch:
        collected = collect(archive, sources or None, progress=watch("reading"))
    if json:
        print(dumps(dataclasses.asdict(collected), plain=True))
    elif not quiet or collected.failed:
        from karl_fast.cli.reports.collect import describe_collection

        sys.stderr.write(describe_collection(collected) + "\n")
    if collected.failed:
        raise typer.Exit(1)


CHANGES = {"install": install, "uninstall": lambda name, _: uninstall(name)}
"""Actions that change a trigger."""


def _kept(word: str) -> str:
    """Return the last line of a collection that a signal ends."""
    return f"{word}; what was collected is kept, and the next collection goes on"
