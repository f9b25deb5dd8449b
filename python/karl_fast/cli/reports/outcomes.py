"""The account of outcomes as plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karl_fast._safe_text import clean, counted, in_bytes
from karl_fast.cli.reports.sample import counts_of, page

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karl_fast.outcome import Outcomes

PLACES_SHOWN = 10


def describe_outcomes(account: Outcomes, out: str) -> str:
    """Return the report of `outcomes`."""
    lines = [
        *_read(account),
        f"known     {account.known:,} of {counted(account.written, 'trajectory', 'trajectories')} have any evidence"
        f"; {counted(account.commits, 'commit')} attributed",
        *_repositories(account),
        *_components(account),
        f"dropped   {counts_of(account.dropped)}" if account.dropped else "",
        f"secrets   replaced: {counts_of(account.secrets)}" if account.secrets else "",
        f"written   {counted(account.written, 'trajectory', 'trajectories')} to {out}: "
        f"{in_bytes(account.written_bytes)}",
        *_places(account),
    ]
    return page(lines)


def _read(account: Outcomes) -> Iterable[str]:
    if account.files:
        yield f"read      {counted(len(account.files), 'file')} of trajectories: {in_bytes(account.size_bytes)}"
    if converted := account.converted:
        made = counted(converted.trajectories, "trajectory", "trajectories")
        yield (
            f"converted {counted(len(converted.files), 'transcript')}: {in_bytes(converted.size_bytes)}, {made}; "
            f"lines: used {converted.lines_used:,}, duplicates {converted.duplicates:,}, "
            f"dropped {sum(converted.dropped.values()):,}, bad {sum(converted.bad.values()):,}"
        )
        for path, why in converted.refused:
            yield f"refused   {clean(path)}: {why}"


def _repositories(account: Outcomes) -> Iterable[str]:
    if account.repositories or account.without_repository:
        missed = f"; without: {counts_of(account.without_repository)}" if account.without_repository else ""
        yield f"git       {counted(account.repositories, 'repository', 'repositories')} compared{missed}"


def _components(account: Outcomes) -> Iterable[str]:
    for name, (known, mean) in account.components.items():
        yield f"  {name:<12} {known:>7,} known" + ("" if mean is None else f", mean {mean:.3f}")


def _places(account: Outcomes) -> Iterable[str]:
    places = [(file["path"], bad) for file in account.files for bad in file["bad_lines"]]
    for path, bad in places[:PLACES_SHOWN]:
        yield f"  {clean(path)}, line {bad['line']}, byte {bad['offset']}: {bad['reason'].replace('_', ' ')}"
