"""Record of a draw: its law, and the rows drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from karl_fast import _core
    from karl_fast.log import Log

LAWS = {
    "gumbel": "without replacement, Plackett-Luce: each next row in proportion to weight among those left",
    "weighted-reservoir": "without replacement, Plackett-Luce: each next row in proportion to weight among those left",
    "reservoir": "without replacement, every set of rows alike; weights are not looked at",
    "systematic": "with replacement: a row of probability p is drawn k p times, rounded up or down",
    "multinomial": "with replacement: k independent draws in proportion to weight",
    "all": "every kept row once, weights in log_weight",
}


def sampler_law(log: Log) -> dict[str, Any]:
    """Return the sampler and its law of probabilities."""
    said = {"sampler": log.settings.sampler, "law": LAWS[log.settings.sampler]}
    if not log.core.streamed:
        return said
    held, _ = log.core.streamed
    return said | {"law": f"{said['law']}; streamed, in one pass", "rows_held": held}


def count_drawn(log: Log, written: _core.DraftFacts, wanted: int | None) -> dict[str, Any]:
    """Return the number of rows wanted and drawn, of their groups, and of rows that could not be written."""
    rows = written["rows"]
    groups, without = log.core.count_of("group", rows)
    return {
        "rows_wanted": wanted if wanted is not None else len(rows) + sum(dict(written["dropped"]).values()),
        "rows": len(rows),
        "distinct_rows": len(set(rows)),
        "duplicate_rows": written["duplicates"],
        "distinct_groups": len(groups),
        "rows_without_group": without,
        "failed": dict(written["dropped"]),
        "over_group_cap": written["over_group_cap"],
    }


def draw_threshold(log: Log, written: _core.DraftFacts) -> float | None:
    """Return the key of the first row not drawn.

    Row i was among the drawn with probability 1 - exp(-exp(log w_i - threshold)), given the keys of the others. An
    estimate over drawn rows that divides by it is unbiased. A cap per group breaks it: there is none then.
    """
    settings = log.settings
    plain = settings.sampler in ("gumbel", "weighted-reservoir") and settings.per is None
    capped = settings.max_per_group is not None or not plain
    return None if capped else written["threshold"]
