"""Counts by names that come from a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karl_fast import _core

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karl_fast.log import Log

LISTED = 10_000
"""Maximum names or files of a list in a manifest; the extension uses the same limit."""


def count_strata(per: dict[str, str], written: _core.DraftFacts) -> dict[str, Any]:
    """List each stratum: the rows that may be drawn, those it was to have, those it has; of many the largest."""
    counts = [
        (one["name"] or "", {"kept": one["kept"], "asked": one["budget"], "drawn": one["drawn"]})
        for one in written["strata"]
    ]
    [(field, deal)] = per.items()
    return {"field": field, "deal": deal, "count": written["strata_count"], "by_name": redact_names(counts)}


def count_domains(log: Log, rows: list[int] | None) -> dict[str, Any]:
    """Count the rows of each domain in the log, and among drawn rows where there are some; of many the largest."""
    found = log.core.domains(rows)
    drawn = rows is not None
    counts = ((name, {"before": all_} | ({"after": after} if drawn else {})) for name, all_, after in found["listed"])
    rest = {"other_domains": found["others"], "rows_of_other_domains": found["other_rows"]}
    return {"domains": redact_names(counts)} | (rest if found["other_rows"] else {})


def mixed_numbers(log: Log) -> dict[str, Any]:
    """List the columns that spell one number in several ways, with the first such number; usually empty."""
    found = {field: log.core.mixed_numbers(field) for field in ("group", "domain", "partition")}
    told = {
        field: {"numbers": mixed[0], "first": [_core.redacted(name) for name in mixed[1]]}
        for field, mixed in found.items()
        if mixed
    }
    return {"mixed_numbers": told} if told else {}


def redact_names(values: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Map names from the log, redacted, to values; names that become equal get a number."""
    told: dict[str, Any] = {}
    alike: dict[str, int] = {}
    for name, value in values:
        clean = first = _core.redacted(name)
        while clean in told:
            alike[first] = alike.get(first, 1) + 1
            clean = f"{first}+{alike[first]}"
        told[clean] = value
    return told
