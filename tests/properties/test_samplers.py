"""Every sampler through the whole job: its law's bounds, its accounting, and what becomes of a row that fails."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xxhash

import karl_fast
from karl_fast.errors import UsageError
from karl_fast.settings.validation import DEALS, REPLACING
from tests import rows

if TYPE_CHECKING:
    from pathlib import Path

WITHOUT = ("gumbel", "weighted-reservoir", "reservoir")


def lines(folder: Path) -> list[dict[str, Any]]:
    found = [json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in rows_of(file)]
    return [row["karl_fast"] for row in found]


def rows_of(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines()


def log(tmp_path: Path, count: int = 60) -> Path:
    return rows.write(tmp_path / "log.jsonl", rows.records(count))


@pytest.mark.parametrize("sampler", REPLACING)
def test_copies_are_lines_with_their_count(sampler: str, tmp_path: Path) -> None:
    drawn = karl_fast.sample(log(tmp_path), tmp_path / "out", k=200, sampler=sampler, inverse_temperature=3.0)
    stamps = lines(tmp_path / "out")
    counts = Counter(stamp["id"] for stamp in stamps)
    assert len(stamps) == drawn.manifest["draw"]["rows"] == 200
    assert len(counts) == drawn.manifest["draw"]["distinct_rows"] < 200
    assert all(stamp["copies"] == counts[stamp["id"]] for stamp in stamps)
    if sampler == "systematic":
        for stamp in stamps:
            assert abs(stamp["copies"] - 200 * np.exp(stamp["log_weight"])) < 1 + 1e-6
    assert drawn.manifest["draw"]["threshold"] is None


@pytest.mark.parametrize("sampler", REPLACING)
def test_copies_share_a_split_but_are_apart(sampler: str, tmp_path: Path) -> None:
    karl_fast.sample(log(tmp_path), tmp_path / "out", k=300, sampler=sampler, split=(0.5, 0.5, 0.0))
    homes: dict[str, set[str]] = {}
    beside = 0
    for name in ("train", "valid"):
        ids = [json.loads(row)["karl_fast"]["id"] for row in rows_of(tmp_path / "out" / f"{name}.jsonl")]
        beside += sum(a == b for a, b in pairwise(ids))
        for row in ids:
            homes.setdefault(row, set()).add(name)
    assert all(len(found) == 1 for found in homes.values())
    # In row order every copy but a row's first would be: 240 of 300.
    assert beside < 60


@pytest.mark.parametrize("sampler", REPLACING)
def test_after_a_failed_row_the_draw_repeats(sampler: str, tmp_path: Path) -> None:
    records = rows.records(40)
    broken = {record["id"] for record in records[::3]}
    for record in records[::3]:
        record["messages"] = [{"role": "user", "content": "no answer"}]
    path = rows.write(tmp_path / "log.jsonl", records)
    drawn = karl_fast.sample(path, tmp_path / "out", k=500, sampler=sampler, inverse_temperature=0.0).manifest
    stamps = lines(tmp_path / "out")
    assert len(stamps) == 500
    assert not broken & {stamp["id"] for stamp in stamps}
    assert sum(drawn["draw"]["failed"].values()) <= len(broken)
    if sampler == "systematic":
        # Two evenly spaced draws, each within one of its expectation, and so is how many are made again.
        assert all(abs(stamp["copies"] - 500 / (40 - len(broken))) < 3 for stamp in stamps)


def by_digest(path: Path, columns: karl_fast.Log) -> Any:
    """The keys of a log with the hash of each record's bytes for its ordinal."""
    keys = columns.keys.copy()
    lines = path.read_bytes().splitlines()
    hashes = {
        xxhash.xxh3_128_intdigest(json.loads(line)["id"].encode()): xxhash.xxh3_128_intdigest(line) for line in lines
    }
    keys[:, 2] = np.array([hashes[int(high) << 64 | int(low)] >> 64 for low, high, _ in keys], np.uint64)
    return keys


def test_a_weighted_reservoir_is_a_gumbel_draw(tmp_path: Path) -> None:
    path = log(tmp_path)
    columns = karl_fast.read(path)
    for seed in range(5):
        how: dict[str, Any] = {"k": 15, "seed": seed, "inverse_temperature": 4.0}
        job = karl_fast.sample(path, None, sampler="weighted-reservoir", **how).draft.facts()["rows"]
        drawn = karl_fast.draw(4 * columns.rewards, 15, seed=seed, keys=by_digest(path, columns))
        assert drawn.tolist() == job


def lines_of(path: Path, **choices: Any) -> list[dict[str, Any]]:
    return [json.loads(line)["karl_fast"] for line in karl_fast.sample(path, None, **choices).lines()]


def test_a_reservoir_takes_the_smallest_uniforms(tmp_path: Path) -> None:
    path = log(tmp_path)
    columns = karl_fast.read(path)
    uniforms = karl_fast.uniforms(len(columns), seed=3, purpose="draw", keys=columns.keys)
    smallest = np.sort(uniforms)[:12]
    kept = np.isin(uniforms, smallest)
    drawn = karl_fast.sample(path, None, k=12, sampler="reservoir", seed=3)
    assert sorted(drawn.draft.facts()["rows"]) == np.flatnonzero(kept).tolist()
    assert drawn.manifest["target"]["inverse_temperature"] == 0


@pytest.mark.parametrize("sampler", [*WITHOUT, *REPLACING, "all"])
def test_drawing_arrays_equals_the_job(sampler: Any, tmp_path: Path) -> None:
    path = log(tmp_path)
    columns = karl_fast.read(path)
    choices: dict[str, Any] = {} if sampler == "reservoir" else {"inverse_temperature": 2.0}
    count = {} if sampler == "all" else {"k": 20}
    job = karl_fast.sample(path, None, sampler=sampler, seed=9, **choices, **count).draft.facts()["rows"]
    target = karl_fast.boltzmann(columns.rewards, inverse_temperature=2.0)
    k = 20 if count else len(columns)
    keys = by_digest(path, columns) if sampler == "weighted-reservoir" else columns.keys
    drawn = karl_fast.draw(target.log_weights, k, sampler=sampler, seed=9, keys=keys)
    assert drawn.tolist() == job


@pytest.mark.parametrize("deal", DEALS)
def test_strata_get_what_they_were_dealt(deal: str, tmp_path: Path) -> None:
    records = rows.records(90)
    for at, record in enumerate(records):
        record["domain"] = "abc"[0 if at < 60 else 1 if at < 85 else 2]
    path = rows.write(tmp_path / "log.jsonl", records)
    drawn = karl_fast.sample(path, None, k=24, per={"domain": deal}, inverse_temperature=1.0).manifest["draw"]
    wanted = {"equal": [10, 9, 5], "proportional": [16, 7, 1], "sqrt": [12, 8, 4]}[deal]
    strata = drawn["strata"]["by_name"]
    assert [strata[name]["asked"] for name in "abc"] == wanted == [strata[name]["drawn"] for name in "abc"]
    assert [strata[name]["kept"] for name in "abc"] == [60, 25, 5]
    assert drawn["threshold"] is None


def test_a_failed_row_is_replaced_within_its_stratum(tmp_path: Path) -> None:
    records = rows.records(60)
    for at, record in enumerate(records):
        record["domain"] = "ab"[at % 2]
        if at % 3 == 0:
            record["messages"] = [{"role": "user", "content": "no answer"}]
    path = rows.write(tmp_path / "log.jsonl", records)
    drawn = karl_fast.sample(path, None, k=30, per={"domain": "equal"}).manifest["draw"]
    assert drawn["failed"]
    assert [one["drawn"] for one in drawn["strata"]["by_name"].values()] == [15, 15]


def test_strata_are_drawn_by_the_same_keys(tmp_path: Path) -> None:
    """Within a stratum the draw is that of the stratum alone: its largest keys."""
    records = rows.records(80)
    for at, record in enumerate(records):
        record["domain"] = "ab"[at % 2]
    path = rows.write(tmp_path / "log.jsonl", records)
    columns = karl_fast.read(path)
    target = karl_fast.boltzmann(columns.rewards, inverse_temperature=2.0)
    drawn = karl_fast.sample(path, None, k=20, per={"domain": "equal"}, inverse_temperature=2.0).draft.facts()["rows"]
    for code in (0, 1):
        inside = np.where(columns.domains == code, target.log_weights, -np.inf)
        alone = karl_fast.draw(inside, 10, keys=columns.keys)
        assert [row for row in drawn if columns.domains[row] == code] == alone.tolist()


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"sampler": "reservoir", "ess": 0.5}, "no use for ess"),
        ({"sampler": "reservoir", "score": "zscore"}, "no use for score"),
        ({"sampler": "reservoir", "inverse_temperature": 1.0}, "no use for inverse_temperature"),
        ({"sampler": "weighted-reservoir", "partition_by": "group"}, "partition_by global only"),
        ({"sampler": "systematic", "max_per_group": 1}, "max_per_group would break"),
        ({"sampler": "multinomial", "per": {"domain": "equal"}}, "per needs a sampler"),
        ({"sampler": "all", "per": {"domain": "equal"}}, "per needs a sampler"),
        ({"per": {"domain": "evenly"}}, "per has 'evenly'"),
        ({"per": {"language": "equal"}}, "per names 'language'"),
    ],
)
def test_choices_that_do_not_go_together_are_refused(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        karl_fast.Settings(**choices)


def test_strata_without_a_domain_are_refused(tmp_path: Path) -> None:
    records = [{key: value for key, value in record.items() if key != "domain"} for record in rows.records(8)]
    with pytest.raises(UsageError, match="per is by domain, but no record has a domain"):
        karl_fast.sample(rows.write(tmp_path / "log.jsonl", records), None, k=2, per={"domain": "equal"})


@pytest.mark.parametrize("sampler", REPLACING)
def test_copies_of_raw_records_are_the_records(sampler: str, tmp_path: Path) -> None:
    karl_fast.sample(log(tmp_path), tmp_path / "chat", k=40, split=(1.0, 0.0, 0.0))
    asked: dict[str, Any] = {
        "shape": "raw",
        "reward": {"karl_fast.reward": 1.0},
        "sampler": sampler,
        "split": (1.0, 0.0, 0.0),
        "allow_secrets": True,
    }
    karl_fast.sample(tmp_path / "chat" / "train.jsonl", tmp_path / "raw", k=200, **asked)
    found = Counter(rows_of(tmp_path / "raw" / "train.jsonl"))
    assert set(found) <= set(rows_of(tmp_path / "chat" / "train.jsonl"))
    assert max(found.values()) > 1


def test_replacement_allows_more_draws_than_rows(tmp_path: Path) -> None:
    drawn = karl_fast.sample(log(tmp_path, 8), None, k=1000, sampler="multinomial").manifest["draw"]
    assert (drawn["rows"], drawn["rows_wanted"]) == (1000, 1000)


def test_rows_given_twice_are_written_twice(tmp_path: Path) -> None:
    columns = karl_fast.read(log(tmp_path))
    chosen = np.array([5, 3, 5, 5, 8], dtype=np.int64)
    manifest = karl_fast.export(columns, chosen, tmp_path / "out")
    stamps = lines(tmp_path / "out")
    assert sorted(stamp["copies"] for stamp in stamps) == [1, 1, 3, 3, 3]
    assert (manifest["draw"]["rows"], manifest["draw"]["distinct_rows"]) == (5, 3)


def test_one_pass_kernels_draw_each_row_once() -> None:
    assert len(set(karl_fast.reservoir(10_000, 50, seed=1).tolist())) == 50
    weights = np.log(np.arange(1000.0) + 1)
    weights[:500] = -np.inf
    drawn = karl_fast.weighted_reservoir(weights, 600, seed=1)
    assert sorted(drawn.tolist()) == list(range(500, 1000))
