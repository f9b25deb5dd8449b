"""Equal trajectories: counted in all groups, or estimated from some of them."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from karl_fast.cli.reports.sample import describe_inspection
from karl_fast.pipeline import inspect as module
from tests import rows

if TYPE_CHECKING:
    from pathlib import Path

GROUPS, ROWS = 300, 4
COPIES = [draw.choice([0, 0, 1, 3]) for draw in [random.Random(5)] for _ in range(GROUPS)]


def record(number: int, group: str | None, answer: str) -> dict[str, Any]:
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": answer}]
    return rows.record(number, group, number % 2) | {"messages": messages}


def write(path: Path, *, seed: int = 1) -> Path:
    """Write groups in which some answers repeat the first; ids differ, so that records do."""
    records = [
        record(ROWS * group + row, f"g{group}", f"answer {0 if row <= copies else row}")
        for group, copies in enumerate(COPIES)
        for row in range(ROWS)
    ]
    random.Random(seed).shuffle(records)
    rows.write(path, records)
    return path


@pytest.fixture
def small_sample(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    log = write(tmp_path / "log.jsonl")
    monkeypatch.setattr(module, "COMPARED_BYTES", log.stat().st_size // 3)
    return log


def test_a_small_log_is_compared_whole(tmp_path: Path) -> None:
    report = karl_fast.inspect(write(tmp_path / "log.jsonl")).report
    assert (report["duplicate_trajectories"], report["duplicate_sample"]) == (sum(COPIES), None)


@pytest.mark.parametrize("choices", [{"exact": True}, {"dedup": True}])
def test_all_are_compared_where_asked(small_sample: Path, choices: dict[str, Any]) -> None:
    report = karl_fast.inspect(small_sample, **choices).report
    assert (report["duplicate_trajectories"], report["duplicate_sample"]) == (sum(COPIES), None)


def test_intervals_of_samples_contain_the_number(small_sample: Path) -> None:
    covered = 0
    for seed in range(40):
        report = karl_fast.inspect(small_sample, seed=seed).report
        sample = report["duplicate_sample"]
        assert sample["groups"] == GROUPS
        assert 90 <= sample["groups_compared"] <= 110
        assert sample["rows_compared"] == ROWS * sample["groups_compared"]
        assert report["duplicate_trajectories"] == round(sample["copies"])
        covered += abs(sample["copies"] - sum(COPIES)) <= sample["error_95"]
    assert covered >= 34  # of 40 with a chance of 0.95 each, fewer come once in 1,500 times


def test_a_sample_depends_on_the_seed_and_the_records_alone(small_sample: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "other.jsonl", seed=2)
    sample = karl_fast.inspect(small_sample, seed=3).report["duplicate_sample"]
    assert karl_fast.inspect(other, seed=3, threads=1).report["duplicate_sample"] == sample
    assert karl_fast.inspect(small_sample, seed=4).report["duplicate_sample"] != sample


def test_rows_without_a_group_are_all_compared(small_sample: Path) -> None:
    extra = [record(number + 10_000, None, "same") for number in range(20)]
    rows.write(small_sample.with_name("extra.jsonl"), extra)
    alone = karl_fast.inspect(small_sample).report["duplicate_sample"]
    sample = karl_fast.inspect([small_sample, small_sample.with_name("extra.jsonl")]).report["duplicate_sample"]
    assert sample["copies"] == pytest.approx(alone["copies"] + 19)
    assert sample["rows_compared"] == alone["rows_compared"] + 20


def test_a_long_log_without_groups_is_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = rows.write(tmp_path / "log.jsonl", [record(number, None, "same") for number in range(20)])
    assert karl_fast.inspect(log).report["duplicate_trajectories"] == 19
    monkeypatch.setattr(module, "COMPARED_BYTES", log.stat().st_size // 3)
    found = karl_fast.inspect(log)
    assert (found.report["duplicate_trajectories"], found.report["duplicate_sample"]["rows_compared"]) == (None, 0)
    text = " ".join(describe_inspection(found.report, found.ladder).split())
    assert "20 rows without a group not compared (--exact compares all)" in text
    assert karl_fast.inspect(log, exact=True).report["duplicate_trajectories"] == 19


def test_the_report_says_how_sure_it_is(small_sample: Path) -> None:
    found = karl_fast.inspect(small_sample)
    text = describe_inspection(found.report, found.ladder)
    assert "identical trajectories, give or take " in text
    assert f"of {GROUPS} groups; --exact compares all)" in text
    none = found.report | {
        "duplicate_trajectories": 0,
        "duplicate_sample": found.report["duplicate_sample"] | {"error_95": 12.2},
    }
    assert "0 identical trajectories seen, fewer than 13 in all" in describe_inspection(none, found.ladder)
