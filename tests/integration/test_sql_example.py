"""The questions over SQLite databases: what the log holds, what a query is worth, what the environment answers."""

from __future__ import annotations

import importlib
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "rl"


@pytest.fixture
def sql(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module("sql")


@pytest.fixture
def line(sql: Any) -> dict[str, Any]:
    lines: list[dict[str, Any]] = sql.prompt_lines(sql.TABLES, 3, "prompt", random.Random(0))
    return lines[2]


def test_right_and_wrong_queries_have_their_rewards(sql: Any, line: dict[str, Any]) -> None:
    rewards = [
        [sql.score(query, line["right"][0], line["databases"]) for query in line[kind]] for kind in ("right", "wrong")
    ]
    assert rewards == [[1.0] * len(line["right"]), [0.2] * len(line["wrong"])]


@pytest.mark.parametrize(
    "query", ["SELECT 1", "DROP TABLE staff", "SELECT nothing FROM staff", "PRAGMA user_version", ""]
)
def test_what_reads_no_table_is_worth_nothing(sql: Any, line: dict[str, Any], query: str) -> None:
    assert sql.score(query, line["right"][0], line["databases"]) == 0


def test_endless_query_is_stopped(sql: Any, line: dict[str, Any]) -> None:
    endless = "SELECT (WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT SUM(x) FROM n) FROM staff"
    assert sql.score(endless, line["right"][0], line["databases"]) == 0


def test_environment_runs_queries_before_the_answer(sql: Any, line: dict[str, Any]) -> None:
    environment = sql.Database()
    assert environment.reset(line) is None
    table = line["table"]
    rows, done = environment.step(f"RUN SELECT COUNT(*) FROM {table}")
    assert (len(json.loads(rows)), done) == (1, False)
    assert environment.step("RUN SELECT") == ("error", False)
    assert environment.step(line["right"][0]) == (None, True)
    assert environment.score() == 1.0


@pytest.mark.parametrize(("share", "solved"), [(1.0, 12), (0.25, 3)])
def test_log_has_right_attempts_for_a_share_of_prompts(tmp_path: Path, share: float, solved: int) -> None:
    sizes = ("--train", "12", "--held-out", "3", "--right-share", str(share))
    subprocess.run([sys.executable, str(EXAMPLES / "sql.py"), str(tmp_path), *sizes], check=True)
    rewards: dict[str, list[float]] = {}
    for text in (tmp_path / "attempts.jsonl").read_text("utf-8").splitlines():
        row = json.loads(text)
        rewards.setdefault(row["group"], []).append(row["reward"])
    assert [len(group) for group in rewards.values()] == [6] * 12
    assert sum(1.0 in group for group in rewards.values()) == solved
