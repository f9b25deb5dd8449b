"""`inspect` of a log with outcomes: components, correlations and warnings."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import karl_fast
from karl_fast.cli.reports.outcome_table import describe_outcomes, warn_about_outcomes

if TYPE_CHECKING:
    from pathlib import Path


def row(at: int, outcome: dict[str, Any]) -> dict[str, Any]:
    messages = [{"role": "user", "content": "x" * (10 + 5 * at)}, {"role": "assistant", "content": "done"}]
    return {"karl_fast_trajectory": 1, "id": str(at), "reward": 0.5, "outcome": outcome, "messages": messages}


def rows(count: int) -> list[dict[str, Any]]:
    """Rows with a component that follows the length, one that does not, one that is constant, and missing values."""
    coins = np.random.default_rng(3).integers(2, size=count)
    outcomes = [
        {
            "survived": at / count,
            "tests": float(coins[at]) if at % 3 else None,
            "committed": 1.0 if at % 2 else None,
            "merged": None,
        }
        for at in range(count)
    ]
    return [row(at, outcome) for at, outcome in enumerate(outcomes)]


def inspected(folder: Path, records: list[dict[str, Any]]) -> dict[str, Any]:
    path = folder / "log.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return karl_fast.inspect(path).report


def test_the_table_is_that_of_numpy(tmp_path: Path) -> None:
    records = rows(60)
    found = inspected(tmp_path, [*records, row(60, {})])["outcomes"]
    assert (found["rows"], found["rows_known"]) == (61, 60)
    facts = {one["name"]: one for one in found["components"]}
    assert list(facts) == ["survived", "committed", "tests"]
    outcomes = [record["outcome"] for record in records]
    tests = [one["tests"] for one in outcomes if one["tests"] is not None]
    assert (facts["tests"]["known"], facts["tests"]["mean"]) == (len(tests), pytest.approx(np.mean(tests), abs=1e-15))
    assert [one["constant"] for one in facts.values()] == [False, True, False]
    both = [(one["survived"], one["tests"]) for one in outcomes if one["tests"] is not None]
    [pair] = found["correlations"]
    assert (pair["components"], pair["rows"]) == (("survived", "tests"), len(both))
    assert pair["correlation"] == pytest.approx(np.corrcoef(np.array(both).T)[0, 1], abs=1e-12)
    lengths = [len(json.dumps(record["messages"])) for record in records]
    wanted = np.corrcoef([one["survived"] for one in outcomes], lengths)[0, 1]
    assert facts["survived"]["length"] == (60, pytest.approx(wanted, abs=1e-12))


def test_constant_and_length_bound_components_are_named(tmp_path: Path) -> None:
    found = inspected(tmp_path, rows(60))["outcomes"]
    warnings = list(warn_about_outcomes(found))
    assert [text.split(" ")[0] for text in warnings] == ["outcome.survived", "outcome.committed"]
    assert "follows the length of the conversation (correlation +1.00 in 60 rows)" in warnings[0]
    assert warnings[1] == "outcome.committed is 1 in all 30 rows that have it: it has no signal"
    assert any(line.split() == ["committed", "30", "1.000", "-", "constant"] for line in describe_outcomes(found))


def test_a_log_without_outcomes_has_no_table(tmp_path: Path) -> None:
    records = [{key: value for key, value in record.items() if key != "outcome"} for record in rows(4)]
    assert "outcomes" not in inspected(tmp_path, records)
    found = inspected(tmp_path, [record | {"outcome": {"tests": None}} for record in records])["outcomes"]
    assert (found["rows_known"], found["components"]) == (0, [])
    assert list(warn_about_outcomes(found)) == [
        "no row has a known component of an outcome: a reward of them would drop every row"
    ]
