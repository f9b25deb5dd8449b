"""`karl-fast audit` as a person runs it, on the rollouts of examples/make_rollouts.py."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.run import karl

MAKE = Path(__file__).parents[2] / "examples" / "make_rollouts.py"

FAULTS = {
    "none": [],
    "length": ["length_hack"],
    "scope": ["wrong_scope"],
    "mismatch": ["mismatch"],
}


def make(folder: Path, fault: str) -> Path:
    subprocess.run([sys.executable, MAKE, folder / "run.jsonl", fault], check=True)
    return folder / "run.jsonl"


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_found_and_no_other(fault: str, tmp_path: Path) -> None:
    done = karl("audit", make(tmp_path, fault), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [one["kind"] for one in found["findings"] if one["weight"] >= 0.5] == FAULTS[fault]
    assert found["advantages"]["reproduced"]
    assert found["accounting"] == found["accounting"] | {"rows_read": 640, "rows_kept": 640, "dropped": {}}


def test_the_report_fits_a_terminal_and_begins_with_the_answer(tmp_path: Path) -> None:
    done = karl("audit", make(tmp_path, "length").name, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    first = " ".join(line.strip() for line in lines[: next(n for n, line in enumerate(lines) if "wrong " in line[:6])])
    assert first.startswith("audit     There is something to learn: the rewards of 73 of 80 groups (91%")
    assert first.endswith("differ in outcome. Wrong with it: reward follows length (1.00).")
    assert "GRPO as in TRL" in done.stdout


def test_what_comes_from_a_log_is_made_harmless(tmp_path: Path) -> None:
    log = make(tmp_path, "mismatch")
    records = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    for record in records:
        record["id"] = f"\x1b[31m{record['id']}"
    log.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    done = karl("audit", log)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    assert "\\x1b[31m" in done.stdout


def test_advantages_are_written_once(tmp_path: Path) -> None:
    log, out = make(tmp_path, "scope"), tmp_path / "anew.jsonl"
    done = karl("audit", log, "--write", out, "--convention", "verl")
    assert done.returncode == 0, done.stderr
    assert f"written   640 rows to {out}"[:60] in done.stdout.replace("\n          ", " ")
    assert len(out.read_text("utf-8").splitlines()) == 640
    assert karl("audit", log, "--write", out, "--convention", "verl").returncode == 5
    assert karl("audit", log, "--write", out, "--convention", "verl", "--force").returncode == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--convention", "trl"], "there is no --write"),
        (["--field", "advantage"], "wanted NAME=PATH"),
        (["--field", "advantag=x"], "there is no field advantag"),
        (["--write", "x.jsonl", "--convention", "grpo"], "there is no convention grpo"),
    ],
)
def test_wrong_usage(words: list[str], said: str, tmp_path: Path) -> None:
    done = karl("audit", make(tmp_path, "none"), *words, folder=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_page_is_of_a_file_and_not_in_the_place_of_another_output(tmp_path: Path) -> None:
    log = make(tmp_path, "length")
    piped = karl("audit", "-", "--page", "page.html", folder=tmp_path, input=log.read_text())
    assert (piped.returncode, "--page reads the log twice" in piped.stderr) == (2, True)
    twice = karl("audit", log.name, "--page", "out.jsonl", "--write", "./out.jsonl", folder=tmp_path)
    assert (twice.returncode, "name the same file" in twice.stderr) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == [log.name]


def test_a_log_without_records_has_nothing_to_audit(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("{\n", "utf-8")
    done = karl("audit", tmp_path / "empty.jsonl")
    assert done.returncode == 4
    assert "no record was read" in done.stderr
