"""Counts by names that come from a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karl_fast import _core

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karl_fast.log import Log

STRATA_LISTED = 1000
"""Up to so many strata are listed by name."""


def strata(per: dict[str, str], written: _core.DraftFacts) -> dict[str, Any]:
    """Each stratum: the rows that may be drawn, those it was to have, those it has."""
    counts = [
        (one["name"] or "", {"kept": one["kept"], "asked": one["budget"], "drawn": one["drawn"]})
        for one in written["strata"]
    ]
    [(field, deal)] = per.items()
    spread = {"field": field, "deal": deal, "count": len(counts)}
    return spread if len(counts) > STRATA_LISTED else spread | {"by_name": named(counts)}


def domains(log: Log, rows: list[int] | None) -> dict[str, Any]:
    """Rows of each domain in the log, and among drawn rows where there are some."""
    before, _ = log.core.count("domain")
    if rows is None:
        return named((name, {"before": count}) for name, count in sorted(before))
    after = dict(log.core.count("domain", rows)[0])
    return named((name, {"before": count, "after": after.get(name, 0)}) for name, count in sorted(before))


def domains_not_named(log: Log) -> dict[str, Any]:
    """Rows of a stream whose domain came after so many others that it was not counted by name; mostly nothing."""
    _, other = log.core.streamed or (0, 0)
    return {"rows_of_other_domains": other} if other else {}


def named(values: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Values by names from the log, without the secrets in them; names that become one are told apart by a number."""
    told: dict[str, Any] = {}
    alike: dict[str, int] = {}
    for name, value in values:
        clean = first = _core.redacted(name)
        while clean in told:
            alike[first] = alike.get(first, 1) + 1
            clean = f"{first}+{alike[first]}"
        told[clean] = value
    return told
