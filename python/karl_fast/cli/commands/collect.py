"""`karl-fast collect`."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from karl_fast._safe_text import clean, counted, in_bytes
from karl_fast.cli import options
from karl_fast.cli.app import add_command
from karl_fast.cli.progress import show_progress
from karl_fast.cli.reports.text import describe_counts, join_lines
from karl_fast.cli.signals import handle_signals
from karl_fast.collection import collect
from karl_fast.collection.status import read_state
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


@add_command(
    "collect",
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
        before = dict(_installed(read_state(archive)))
        for name in (trigger or ["claude-code"]) if action in CHANGES else []:
            CHANGES[action](name, archive)
        state = read_state(archive)
        if json:
            print(dumps(dict(state), plain=True))
        elif not quiet:
            changed = [name for name, is_installed in _installed(state) if is_installed != before[name]]
            sys.stderr.write(describe_sources(state, changed) + "\n")
        return
    if trigger:
        raise UsageError("--trigger goes with install or uninstall, wanted karl-fast collect install --trigger NAME")
    handle_signals(_describe_stop)
    with show_progress(quiet) as watch:
        account = collect(archive, sources or None, progress=watch("reading"))
    if json:
        print(dumps(dataclasses.asdict(account), plain=True))
    elif not quiet or account.failed:
        sys.stderr.write(describe_collection(account) + "\n")
    if account.failed:
        raise typer.Exit(1)


def _installed(state: CollectionState) -> list[tuple[str, bool]]:
    return [(trigger["name"], trigger["installed"]) for trigger in state["triggers"]]


CHANGES = {"install": install, "uninstall": lambda name, _: uninstall(name)}
"""Actions that change a trigger."""


def _describe_stop(word: str) -> str:
    """Return the last line of a collection that a signal ends."""
    return f"{word}; what was collected is kept, and the next collection goes on"


FAILED_SHOWN = 10


def describe_collection(account: Collection) -> str:
    """Return the report of `collect`."""
    agents = f": {describe_counts(account.agents)}" if account.agents else ""
    reread = (
        f"; read again {counted(account.reread, 'file')}, with {counted(account.duplicates, 'known line')}"
        if account.reread
        else ""
    )
    return join_lines(
        [
            f"found     {counted(account.files, 'file')}{agents}",
            f"new       in {counted(account.grown, 'file')}; nothing in {account.unchanged:,}{reread}",
            f"added     {counted(account.lines, 'line')}, {in_bytes(account.size_bytes)}, packed "
            f"{in_bytes(account.written_bytes)}, to {clean(account.archive)}",
            *(f"failed    {clean(path)}: {clean(why)}" for path, why in account.failed[:FAILED_SHOWN]),
            f"failed    {len(account.failed) - FAILED_SHOWN:,} more" if len(account.failed) > FAILED_SHOWN else "",
        ]
    )


def describe_sources(state: CollectionState, changed: Names[str]) -> str:
    """Return the report of `collect status`; a trigger in `changed` was just installed or removed."""
    archive = state["archive"]
    lines = [
        f"archive   {clean(archive['path'])}: {counted(archive['files'], 'file')}, {in_bytes(archive['bytes'])}"
        + (f", last collected {archive['collected_at']}" if archive["collected_at"] else "")
    ]
    for trigger in state["triggers"]:
        before, now = ("installed", "installed now") if trigger["installed"] else ("not installed", "removed now")
        word = now if trigger["name"] in changed else before
        lines.append(f"  {trigger['name']:<12}{word:<19}{clean(trigger['place'])}")
    return join_lines(lines)
