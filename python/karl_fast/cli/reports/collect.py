"""The account of a collection as plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karl_fast._safe_text import clean, counted, in_bytes
from karl_fast.cli.reports.sample import counts_of, page

if TYPE_CHECKING:
    from collections.abc import Collection as Names

    from karl_fast.collection import Collection
    from karl_fast.collection.status import CollectionState

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
