"""`karl-fast collect`."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from karl_fast._safe_text import clean, counted, in_bytes
from karl_fast.cli import options
from karl_fast.cli.app import COMMANDS, app
from karl_fast.cli.progress import progress
from karl_fast.cli.reports.sample import counts_of, page
from karl_fast.cli.signals import listen
from karl_fast.collection import collect
from karl_fast.collection.status import state
from karl_fast.collection.triggers import TRIGGERS, install, uninstall
from karl_fast.errors import UsageError
from karl_fast.export.manifest import dumps

if TYPE_CHECKING:
    from collections.abc import Collection as Names

    from karl_fast.collection import Collection
    from karl_fast.collection.status import CollectionState

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
            sys.stderr.write(
                describe_sources(
                    shown, [one["name"] for one in shown["triggers"] if one["installed"] != before[one["name"]]]
                )
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
        sys.stderr.write(describe_collection(collected) + "\n")
    if collected.failed:
        raise typer.Exit(1)


CHANGES = {"install": install, "uninstall": lambda name, _: uninstall(name)}
"""Actions that change a trigger."""


def _kept(word: str) -> str:
    """Return the last line of a collection that a signal ends."""
    return f"{word}; what was collected is kept, and the next collection goes on"


# The account of a collection as plain text.


FAILED_SHOWN = 10


def describe_collection(collected: Collection) -> str:
    """Return the report of `collect`."""
    agents = f": {counts_of(collected.agents)}" if collected.agents else ""
    reread = (
        f"; read again {counted(collected.reread, 'file')}, with {counted(collected.duplicates, 'known line')}"
        if collected.reread
        else ""
    )
    return page(
        [
            f"found     {counted(collected.files, 'file')}{agents}",
            f"new       in {counted(collected.grown, 'file')}; nothing in {collected.unchanged:,}{reread}",
            f"added     {counted(collected.lines, 'line')}, {in_bytes(collected.size_bytes)}, packed "
            f"{in_bytes(collected.written_bytes)}, to {clean(collected.archive)}",
            *(f"failed    {clean(path)}: {clean(why)}" for path, why in collected.failed[:FAILED_SHOWN]),
            f"failed    {len(collected.failed) - FAILED_SHOWN:,} more" if len(collected.failed) > FAILED_SHOWN else "",
        ]
    )


def describe_sources(shown: CollectionState, changed: Names[str]) -> str:
    """Return the report of `collect status`; a trigger in `changed` was just installed or removed."""
    archive = shown["archive"]
    lines = [
        f"archive   {clean(archive['path'])}: {counted(archive['files'], 'file')}, {in_bytes(archive['bytes'])}"
        + (f", last collected {archive['collected_at']}" if archive["collected_at"] else "")
    ]
    for trigger in shown["triggers"]:
        was, is_now = ("installed", "installed now") if trigger["installed"] else ("not installed", "removed now")
        state = is_now if trigger["name"] in changed else was
        lines.append(f"  {trigger['name']:<12}{state:<19}{clean(trigger['place'])}")
    return page(lines)
