"""Prompts of a benchmark are not drawn, and counted where they were left out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from karl_fast.errors import FileError, NothingToSampleError
from tests import rows
from tests.cli.run import karl

if TYPE_CHECKING:
    from pathlib import Path

QUESTION = "How many apples has Ann left, if she gave 3 of her 12 away?"


def record(number: int, prompt: str, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": prompt}, {"role": "assistant", "content": f"answer {number}"}]
    return {"id": str(number), "group": str(number // 4), "reward": number % 4 / 4, "messages": messages} | more


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Ten groups of four rows: one asks a question of the benchmark, one is the benchmark's short question."""
    asked = {0: f"Answer the question.\n{QUESTION}\nThink first.", 1: "What is it?"}
    records = [record(n, asked.get(n // 4, f"question {n // 4}")) for n in range(40)]
    records[3]["reward"] = None
    lines = [{"problem": QUESTION.lower()}, {"problem": "what is it"}, {"problem": "question"}]
    (tmp_path / "benchmark.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    rows.write(tmp_path / "log.jsonl", records)
    return tmp_path / "log.jsonl"


def test_rows_are_dropped_by_name(log: Path, tmp_path: Path) -> None:
    choices: Any = {"sampler": "all", "exclude": str(tmp_path / "benchmark.jsonl")}
    manifest = karl_fast.sample(log, tmp_path / "out", **choices).manifest
    account = manifest["accounting"]
    assert (account["rows_read"], account["rows_kept"]) == (40, 32)
    assert account["dropped"] == {"excluded_prompt": 7, "missing_reward": 1}
    assert manifest["excluded"] == {
        "path": str(tmp_path / "benchmark.jsonl"), "prompts": 3, "rows": 8, "with_reward": 7,
    }  # fmt: skip
    drawn = {row["karl_fast"]["group"] for row in rows.lines(tmp_path / "out")}
    assert drawn == {str(number) for number in range(2, 10)}
    again = karl_fast.sample(log, None, karl_fast.Settings.load(tmp_path / "out" / "manifest.json")).manifest
    assert again["excluded"] == manifest["excluded"]


def test_a_log_in_memory_keeps_its_rows(log: Path, tmp_path: Path) -> None:
    read = karl_fast.read(log)
    with_rule = karl_fast.sample(read, None, k=4, exclude=str(tmp_path / "benchmark.jsonl")).manifest
    assert with_rule["accounting"]["rows_kept"] == 32
    assert karl_fast.sample(read, None, k=4).manifest["accounting"]["rows_kept"] == 39


def test_a_benchmark_of_all_prompts_leaves_nothing(log: Path, tmp_path: Path) -> None:
    prompts = [*(f"question {n}" for n in range(10)), "What is it", QUESTION]
    (tmp_path / "all.txt").write_text("\n".join(prompts), "utf-8")
    with pytest.raises(NothingToSampleError, match="excluded prompt 39"):
        karl_fast.sample(log, None, k=4, exclude=str(tmp_path / "all.txt"))


def test_a_file_that_is_not_there(log: Path, tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot read"):
        karl_fast.sample(log, None, k=4, exclude=str(tmp_path / "none.jsonl"))


def test_the_report_says_how_many(log: Path, tmp_path: Path) -> None:
    done = karl("sample", log, "-o", "out", "-k", "8", "--exclude", "benchmark.jsonl", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "excluded  8 rows with one of 3 prompts of benchmark.jsonl" in done.stderr
    assert "excluded prompt 7" in done.stderr
    done = karl("inspect", log, "--exclude", "benchmark.jsonl", folder=tmp_path)
    assert "excluded  8 rows" in done.stdout
    piped = karl(
        *("sample", "-", "--dry-run", "-k", "8", "--sampler", "weighted-reservoir", "--inverse-temperature", "1"),
        *("--exclude", "benchmark.jsonl"),
        folder=tmp_path,
        input=log.read_text("utf-8"),
    )
    assert "excluded  8 rows" in piped.stderr
