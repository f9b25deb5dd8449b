"""Decisions on adapters: each adapter is judged once, and a decision is never made twice."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from karl_fast.cycle.tasks import LINK, task

if TYPE_CHECKING:
    from pathlib import Path

    from karl_fast.cycle.config import CycleConfig
    from karl_fast.cycle.records import CycleRecords
    from karl_fast.cycle.tasks import Task

DECIDED = {"promoted": True, "refused": False}
"""States of a look at held-out data that end it, and whether they promote."""

DECISION_FIGURES = ("value", "limit", "p", "alpha", "look", "units", "unit")


def find_decision(config: CycleConfig, outputs: dict[str, Path], records: CycleRecords) -> dict[str, Any] | None:
    """Return the result of `promote` for an adapter that is already decided on; None for a new one.

    A decision does not depend on the adapter in use: without this, a promoted adapter would be compared with itself.
    """
    if "promote" not in config.steps:
        return None
    found = records.done("promote", task(config, "promote", outputs).key)
    return found["result"] if found and "result" in found else None


def is_step_complete(now: Task, result: dict[str, Any] | None) -> bool:
    """Return whether a command that exits with 1 has done its work.

    It refused to promote, or it collected all files but those that cannot be read: these are in its report and its
    record, and the next collection tries them again.
    """
    if result is None:
        return False
    return (now.step == "promote" and result.get("promoted") is False) or (now.step == "collect" and "failed" in result)


def adopt_decision(config: CycleConfig, now: Task, records: CycleRecords) -> dict[str, Any] | None:
    """Return the decision of a `promote` that was killed after it decided; None if there is none.

    The beginning is recorded here, so that only looks since then count.
    """
    if now.step != "promote":
        return None
    # Loads NumPy, which the other steps do without.
    from karl_fast.evaluation.promotions import PromotionRecords
    from karl_fast.evaluation.rollouts import adapter_hash

    begun = records.done("promote", now.key)
    if begun is None:
        records.finish("promote", now.key, {"begun": datetime.now(UTC).isoformat(timespec="seconds")})
        return None
    looks, digest = PromotionRecords(config.folder / "adapters" / LINK), adapter_hash(now.arguments[1])
    with looks.locked():  # which finishes a promotion that was killed
        for _, record in looks.looks():
            same = record["new"]["sha256"] == digest and record["time"] >= begun["begun"]
            if same and record["state"] in DECIDED:
                figures = {name: record[name] for name in DECISION_FIGURES}
                return json.loads(json.dumps({"promoted": DECIDED[record["state"]]} | figures))  # type: ignore[no-any-return]
    return None
