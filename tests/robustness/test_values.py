"""Values that no honest log holds, and what they may not do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import karl_fast
from tests import rows
from tests.cli.run import karl

if TYPE_CHECKING:
    from pathlib import Path

KEY = "AKIA" + "IOSFODNN7" + "EXAMPLE"


@pytest.mark.parametrize("huge", [1.7e308, -1.7e308, 1e101])
def test_a_huge_reward_is_a_bad_row(tmp_path: Path, huge: float) -> None:
    log = rows.write(tmp_path / "log.jsonl", [*rows.records(40), rows.record(40, "g1", huge)])
    for score in ("raw", "centre", "zscore", "leave-one-out"):
        account = karl_fast.inspect(log, score=score).report["accounting"]
        assert (account["rows_kept"], account["dropped"]) == (40, {"reward_infinite": 1})


def test_trajectories_that_are_not_found_are_not_identical(tmp_path: Path) -> None:
    made = [{"id": n, "group": "g", "reward": 1.0, "conversation": [n]} for n in range(20)]
    report = karl_fast.inspect(rows.write(tmp_path / "log.jsonl", made), dedup=True).report
    assert report["accounting"]["rows_kept"] == 20
    assert report["duplicate_trajectories"] == 0


def test_a_secret_in_a_name_is_not_shown(tmp_path: Path) -> None:
    made = [rows.record(n, f"task {KEY} {n % 2}", n % 3 / 2, domain=f"at {KEY}") for n in range(20)]
    rows.write(tmp_path / "log.jsonl", made)
    how = ("--partition-by", "group", "-k", 10)
    done = karl("sample", "log.jsonl", "-o", "data", *how, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    written = "".join(file.read_text() for file in (tmp_path / "data").iterdir())
    assert "REDACTED" in written
    assert KEY not in written
    for command in (["inspect", "log.jsonl"], ["sample", "log.jsonl", "--dry-run", "--json", *how]):
        done = karl(*command, folder=tmp_path)
        assert KEY not in done.stdout + done.stderr


def test_names_that_collide_after_redaction_keep_counts(tmp_path: Path) -> None:
    keys = [KEY, KEY[:-1] + "F"]
    made = [rows.record(n, domain=keys[n % 2]) for n in range(10)]
    domains = karl_fast.inspect(rows.write(tmp_path / "log.jsonl", made)).report["domains"]
    assert len(domains) == 2
    assert [count["before"] for count in domains.values()] == [5, 5]
    assert all("REDACTED" in name for name in domains)


def test_json_for_a_terminal_is_plain_ascii(tmp_path: Path) -> None:
    made = [rows.record(n, domain="\x9b31m\u202e\x7f\x1b[2J") for n in range(8)]
    rows.write(tmp_path / "log.jsonl", made)
    done = karl("inspect", "log.jsonl", "--json", folder=tmp_path)
    assert done.returncode == 0
    assert all(char == "\n" or " " <= char < "\x7f" for char in done.stdout)


def test_a_fraction_is_taken_as_it_is_written(tmp_path: Path) -> None:
    log = rows.write(tmp_path / "log.jsonl", rows.records(100))
    for fraction, count in ((0.07, 7), (0.29, 29), (0.001, 1), (1.0, 100)):
        assert karl_fast.sample(log, None, fraction=fraction).manifest["draw"]["rows"] == count


def test_a_failed_row_takes_no_group_place(tmp_path: Path) -> None:
    broken = [{"role": "user", "content": "?"}]
    made = [rows.record(n, f"g{n // 10}", 1 - n % 10 / 10) for n in range(40)]
    for row in made:
        if row["reward"] > 0.5:
            row["messages"] = broken
    log = rows.write(tmp_path / "log.jsonl", made)
    for cap, count in ((2, 8), (6, 20)):
        draw = karl_fast.sample(log, None, k=40, max_per_group=cap, inverse_temperature=30.0).manifest["draw"]
        assert (draw["rows"], draw["distinct_groups"], draw["failed"]) == (count, 4, {"no_assistant_turn": 20})
        assert draw["over_group_cap"] == 20 - count
