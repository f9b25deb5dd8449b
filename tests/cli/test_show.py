"""`karl-fast show`: rows in order, filters, whole rows, data sets and runs, hostile text, what is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast as kf
from tests import rows
from tests.cli.run import karl

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Twelve rows with rewards from 0 to 11 but for one without, and a number of their own."""
    records = [
        record | {"reward": float(at) if at != 5 else None, "turns": 20 - at}
        for at, record in enumerate(rows.records(12))
    ]
    rows.write(tmp_path / "log.jsonl", records)
    return tmp_path / "log.jsonl"


def shown(log: Path, *words: Any) -> dict[str, Any]:
    done = karl("show", log.name, "--json", *words, folder=log.parent)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_rows_are_ranked_by_reward(log: Path) -> None:
    result = shown(log, "-n", 3)
    assert [row["reward"] for row in result["rows"]] == [11, 10, 9]
    assert (result["read"], result["with_value"], result["source"]) == (12, 11, "reward")
    assert [row["reward"] for row in shown(log, "-n", 2, "--worst")["rows"]] == [0, 1]
    assert shown(log, "-n", 12)["rows"][-1]["reward"] is None


def test_rows_are_ranked_by_another_number(log: Path) -> None:
    result = shown(log, "-n", 2, "--by", "turns")
    assert [(row["value"], row["reward"]) for row in result["rows"]] == [(20, 0), (19, 1)]


def test_group_and_row_are_chosen_by_name(log: Path) -> None:
    first = json.loads(log.read_text().splitlines()[3])
    (row,) = shown(log, "--row", first["id"])["rows"]
    assert row["record"]["messages"] == first["messages"]
    group = shown(log, "--of-group", first["group"], "-n", 99)
    assert {row["group"] for row in group["rows"]} == {first["group"]}
    assert group["read"] == sum(json.loads(line)["group"] == first["group"] for line in log.read_text().splitlines())
    for words, said in ((("--row", "nothing"), "no row has the id 'nothing'"), (("--of-group", "x"), "no group 'x'")):
        done = karl("show", log.name, *words, folder=log.parent)
        assert done.returncode == 2
        assert said in done.stderr


def test_pipe_is_read_once(log: Path) -> None:
    done = karl("show", "-", "-n", 1, folder=log.parent, input=log.read_text())
    assert "11.0000" in done.stdout
    twice = karl("show", "-", "--by", "turns", folder=log.parent, input=log.read_text())
    assert twice.returncode == 2
    assert "--by reads the log twice" in twice.stderr


def test_row_is_shown_whole_and_folded(tmp_path: Path) -> None:
    result = "".join(f"line {number}\n" for number in range(40))
    call = {"id": "c", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    messages = [
        {"role": "user", "content": "list"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": result},
        {"role": "assistant", "content": "done"},
    ]
    rows.write(tmp_path / "log.jsonl", [rows.record(0, "g", 1.0, messages=messages)])
    (row,) = shown(tmp_path / "log.jsonl")["rows"]
    words = ("show", "log.jsonl", "--row", row["id"])
    folded = karl(*words, folder=tmp_path).stdout
    assert '=> bash({"command": "ls"})' in folded
    assert "line 4\n... 35 more lines; --full shows them" in folded
    assert "line 39" in karl(*words, "--full", folder=tmp_path).stdout


def test_evidence_is_shown_with_its_place(tmp_path: Path) -> None:
    evidence = [
        {"component": "tests", "value": 1.0, "message": 9, "why": "pytest: exit status 0"},
        {"component": "interrupted", "value": 0.0, "why": "no turn was stopped and no call refused"},
    ]
    record = rows.record(0, "g", None) | {"outcome": {"tests": 1.0, "interrupted": 0.0}, "evidence": evidence}
    rows.write(tmp_path / "log.jsonl", [record])
    text = karl("show", "log.jsonl", folder=tmp_path).stdout
    assert "tests 1: pytest: exit status 0 (message 9)" in text
    assert "interrupted" not in text
    assert "no row has one; --by outcome.tests ranks by what the records have" in text
    assert "1.0000" in karl("show", "log.jsonl", "--by", "outcome.tests", folder=tmp_path).stdout


def test_data_set_and_run_are_read(log: Path) -> None:
    karl("sample", log.name, "-o", "data", "-k", 6, "-q", folder=log.parent)
    result = shown(log.parent / "data")
    assert result["source"] == "karl_fast.reward"
    assert result["rows"][0]["reward"] == max(row["reward"] for row in result["rows"])
    (log.parent / "run").mkdir()
    (log.parent / "run" / "rollouts.jsonl").write_bytes(log.read_bytes())
    assert [row["reward"] for row in shown(log.parent / "run", "-n", 1)["rows"]] == [11]


def test_hostile_text_and_secrets_are_made_harmless(tmp_path: Path) -> None:
    token = "ghp_" + "a1B2" * 9
    messages = [{"role": "user", "content": f"\x1b[2Jhi {token}"}, {"role": "assistant", "content": "\x07ok"}]
    rows.write(tmp_path / "log.jsonl", [rows.record(0, "g", 1.0, messages=messages)])
    for words in ((), ("--row", shown(tmp_path / "log.jsonl")["rows"][0]["id"]), ("--json",)):
        text = karl("show", "log.jsonl", *words, folder=tmp_path).stdout
        assert "\x1b" not in text
        assert "\x07" not in text
        assert token not in text


def test_row_that_sample_cannot_write_is_named(tmp_path: Path) -> None:
    rows.write(tmp_path / "log.jsonl", [rows.record(0, "g", 1.0, messages=[])])
    assert "sample cannot write this row" in karl("show", "log.jsonl", folder=tmp_path).stdout


def test_python_function_returns_the_ranking(log: Path) -> None:
    ranking = kf.show(log, count=2)
    assert [row.reward for row in ranking.rows] == [11, 10]
    with kf.read(log) as held:
        assert [row.id for row in kf.show(held, count=2).rows] == [row.id for row in ranking.rows]
