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


def test_rows_are_ranked_by_their_length(log: Path) -> None:
    lengths = sorted((len(line) for line in log.read_text().splitlines()), reverse=True)
    assert [row["value"] for row in shown(log, "-n", 12, "--by", "length")["rows"]] == lengths


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


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of 90 rounds: its outcome rises, its entropy falls, its loss does not vary."""
    folder = tmp_path / "run"
    folder.mkdir()
    lines = [
        {
            "round": at,
            "outcome": at / 90,
            "entropy": 2 - at / 90,
            "groups_mixed": 0.5,
            "missing_share": 0.9 * (at == 40),
        }
        | {"loss": 0.1, "reward": at / 90, "steps": 1, "skipped": 0}
        for at in range(90)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "held_out.jsonl").write_text('{"round": 0, "reward": 0.25}\n{"round": 90, "reward": 0.75}\n')
    return folder


def test_curves_of_a_run_are_drawn_in_text(run: Path) -> None:
    done = karl("show", "run", "--curves", folder=run.parent)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("run       run: Held-out 0.25 \u2192 0.75 in 90 rounds")
    plot = lines[lines.index("Outcome of rollouts") + 1 :][:8]
    heights = [sum(line[at : at + 1] not in ("", " ") for line in plot) for at in range(8, 96)]
    assert heights == sorted(heights)
    assert (min(heights), max(heights)) == (1, 8)
    entropy = next(line for line in lines if line.startswith("Entropy"))
    assert entropy.split("  ")[1].startswith("\u2588")
    assert "2 \u2192 1.01" in entropy
    assert not any(line.startswith("Loss") for line in lines)  # a curve that does not vary
    assert all(len(line) <= 100 for line in lines)


def test_curves_are_ascii_where_a_terminal_shows_no_blocks() -> None:
    from karl_fast.cli.reports.curves import LETTERS, sparkline

    assert sparkline([(0, 0.0), (1, 1.0), (2, 0.5)], 20, LETTERS) == ".@+"
    assert sparkline([(float(at), float(at % 2)) for at in range(1000)], 10, LETTERS).isascii()


def test_curves_as_json_have_every_point(run: Path) -> None:
    result = json.loads(karl("show", "run", "--curves", "--json", folder=run.parent).stdout)
    assert result["curves"]["outcome"] == [[at + 1, at / 90] for at in range(90)]
    assert result["held_out"][-1] == {"round": 90, "reward": 0.75}


def test_curves_are_of_one_run(run: Path, log: Path) -> None:
    for words, said in (((log.name,), "has no metrics.jsonl"), (("run", "run"), "one run, and 2 were given")):
        done = karl("show", *words, "--curves", folder=run.parent)
        assert (done.returncode, said in done.stderr) == (2, True)


def test_inspect_shows_the_best_rows_below_its_report(log: Path) -> None:
    ranking = karl("show", log.name, "-n", 2, folder=log.parent).stdout
    done = karl("inspect", log.name, "--show", 2, folder=log.parent)
    assert done.stdout.endswith("\n\n" + ranking)
    assert done.stdout.startswith("read ")
