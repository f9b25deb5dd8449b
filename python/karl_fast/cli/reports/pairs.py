"""The account of a search for preference pairs as plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karl_fast._safe_text import counted, in_bytes
from karl_fast.cli.reports.sample import counts_of, page

if TYPE_CHECKING:
    from karl_fast.pairing import Pairs


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
