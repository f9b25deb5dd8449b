"""Scores over a moving baseline, and weights that fall with age: both by a field that orders the records."""

from __future__ import annotations

import gzip
import json
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import karl_fast
from karl_fast.errors import BadRowError, UsageError
from karl_fast.replay import ExponentialDecay
from tests import rows
from tests.slow import nightly

if TYPE_CHECKING:
    from pathlib import Path

B = 2.0
Record = dict[str, Any]


@pytest.fixture
def records() -> list[Record]:
    """Records of ten days of May; three share each time, and two have no reward."""
    found = rows.records(60, 5, seed=3)
    for number, record in enumerate(found):
        day, minutes = 1 + number // 6, 7 * (number // 3)
        record |= {"number": number, "day": day, "domain": "abc"[number % 3]}
        record["at"] = f"2026-05-{day:02}T{minutes // 60:02}:{minutes % 60:02}:00.250Z"
    found[7]["reward"] = found[30]["reward"] = None
    return found


@pytest.fixture
def log(tmp_path: Path, records: list[Record]) -> Path:
    return rows.write(tmp_path / "log.jsonl", records)


def drawn(log: Any, **choices: Any) -> dict[str, Record]:
    """The `karl_fast` object of every kept row, by id."""
    how: dict[str, Any] = {"sampler": "all", "inverse_temperature": B, "split": (1.0, 0.0, 0.0)} | choices
    found = [json.loads(line)["karl_fast"] for line in karl_fast.sample(log, None, **how).lines()]
    return {one["id"]: one for one in found}


def in_time(log: Path, records: list[Record]) -> list[Record]:
    """The records by time; those of one time in the order of a log's rows, which is that of their ids' hashes."""
    numbers = karl_fast.read(log, reward={"number": 1.0}).rewards.astype(int).tolist()
    return sorted(records, key=lambda record: (record["at"], numbers.index(record["number"])))


def ema(records: list[Record], by: str, alpha: float, start: float) -> dict[str, float]:
    """The naive twin, of records in time."""
    baselines: dict[str, float] = {}
    found = {}
    for record in records:
        if (reward := record["reward"]) is not None:
            baseline = baselines.get(record[by], start)
            found[record["id"]] = reward - baseline
            baselines[record[by]] = (1 - alpha) * baseline + alpha * reward
    return found


@pytest.mark.parametrize("by", ["group", "domain"])
@pytest.mark.parametrize(("alpha", "start"), [(0.1, 0.5), (0.6, -1.0)])
def test_the_score_is_reward_less_moving_mean(
    log: Path, records: list[Record], by: str, alpha: float, start: float
) -> None:
    how: Any = {"score": "advantage", "baseline": "ema", "baseline_by": by, "ema_alpha": alpha, "ema_start": start}
    found = drawn(log, order_by="at", **how)
    wanted = ema(in_time(log, records), by, alpha, start)
    assert {name: one["score"] for name, one in found.items()} == pytest.approx(wanted, abs=1e-12)
    assert wanted != pytest.approx(ema(records[::-1], by, alpha, start), abs=1e-3)


def weights_of_age(records: list[Record], half_life_days: float) -> dict[str, float]:
    """The naive twin: exp(b r) 2^(-age / half-life), normalised."""
    times = {
        record["id"]: np.datetime64(record["at"].rstrip("Z"), "ms").astype(float) / 86_400_000 for record in records
    }
    newest = max(times.values())
    kept = {record["id"]: record["reward"] for record in records if record["reward"] is not None}
    each = {
        name: np.exp(B * reward) * 0.5 ** ((newest - times[name]) / half_life_days) for name, reward in kept.items()
    }
    total = sum(each.values())
    return {name: one / total for name, one in each.items()}


@pytest.mark.parametrize(("half_life", "days"), [("2d", 2.0), ("36h", 1.5), ("1w", 7.0), ("90m", 0.0625)])
def test_weights_halve_with_each_half_life(log: Path, records: list[Record], half_life: str, days: float) -> None:
    found = drawn(log, order_by="at", recency_half_life=half_life)
    weights = {name: float(np.exp(one["log_weight"])) for name, one in found.items()}
    assert weights == pytest.approx(weights_of_age(records, days), rel=1e-9)
    assert {one["score"] for one in found.values()} == {0.0, 0.25, 0.5, 0.75, 1.0}


def test_numbers_order_and_decay_like_the_kernel(log: Path, records: list[Record]) -> None:
    found = drawn(log, order_by="day", recency_half_life="3", inverse_temperature=0.0)
    logs = ExponentialDecay(np.log(2) / 3)(np.array([10 - record["day"] for record in records]))
    by_id = {record["id"]: one for record, one in zip(records, logs, strict=True) if record["id"] in found}
    ours = np.array([found[name]["log_weight"] for name in by_id])
    theirs = np.array([*by_id.values()])
    assert ours - ours.max() == pytest.approx(theirs - theirs.max(), abs=1e-12)


HOW: dict[str, Any] = {
    "score": "advantage",
    "baseline": "ema",
    "order_by": "at",
    "recency_half_life": "2d",
    "split": (1.0, 0.0, 0.0),
    "inverse_temperature": B,
}


@pytest.mark.parametrize("sampler", ["gumbel", "weighted-reservoir", "systematic", "multinomial", "all"])
def test_no_draw_depends_on_file_order(tmp_path: Path, records: list[Record], sampler: Any) -> None:
    shuffled = random.Random(5).sample(records, len(records))
    rows.write(tmp_path / "one.jsonl", records)
    rows.write(tmp_path / "b.jsonl", shuffled[:25])
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(rows.dumps(shuffled[25:]).encode()))
    count = {} if sampler == "all" else {"k": 12}
    whole = karl_fast.sample(tmp_path / "one.jsonl", None, sampler=sampler, **HOW, **count)
    parts = karl_fast.sample([tmp_path / "b.jsonl", tmp_path / "a.jsonl.gz"], None, sampler=sampler, **HOW, **count)
    assert [*whole.lines()] == [*parts.lines()]
    plain = karl_fast.sample(tmp_path / "one.jsonl", None, sampler=sampler, **count, split=(1.0, 0.0, 0.0))
    assert [*plain.lines()] != [*whole.lines()]
    apart = ("inputs", "run")
    assert {k: v for k, v in whole.manifest.items() if k not in apart} == {
        k: v for k, v in parts.manifest.items() if k not in apart
    }


@pytest.mark.parametrize("sampler", nightly(["gumbel", "weighted-reservoir", "systematic", "multinomial"]))
def test_rows_are_drawn_in_proportion_to_the_product(log: Path, records: list[Record], sampler: Any) -> None:
    draws = 2_000  # the standard error of a share is at most 0.011; the bound is over four of them
    wanted = weights_of_age(records, 2.0)
    read = karl_fast.read(log, order_by="at")
    first: dict[str, int] = {}
    for seed in range(draws):
        how: Any = {"sampler": sampler, "seed": seed, "k": 1, "inverse_temperature": B, "split": (1.0, 0.0, 0.0)}
        (line,) = karl_fast.sample(read, None, recency_half_life="2d", **how).lines()
        name = json.loads(line)["karl_fast"]["id"]
        first[name] = first.get(name, 0) + 1
    assert {name: first.get(name, 0) / draws for name in wanted} == pytest.approx(wanted, abs=0.045)
    top = max(wanted, key=wanted.__getitem__)
    assert wanted[top] > 0.08  # of equal weights each has 0.017


def test_the_manifest_says_what_the_weights_are(log: Path) -> None:
    settings = {"ess": 0.5, "order_by": "at", "recency_half_life": "2d", "k": 9}
    plain = karl_fast.sample(log, None, k=9, ess=0.5).manifest
    made = karl_fast.sample(log, None, **settings).manifest
    target, recency = made["target"], made["target"]["recency"]
    assert target["inverse_temperature"] == plain["target"]["inverse_temperature"]
    assert recency["ess_share_before"] == plain["target"]["ess_reached_share"] > target["ess_reached_share"]
    assert recency["newest"] == "2026-05-10T02:13:00.250000Z"
    assert (recency["half_life"], recency["order_by"], made["settings"]["recency_half_life"]) == ("2d", "at", "2d")
    assert karl_fast.Settings.from_dict(made["settings"]).recency_half_life == "2d"
    moving = karl_fast.sample(log, None, k=9, score="advantage", baseline="ema", order_by="day").manifest["target"]
    assert moving["baseline"] == {"kind": "ema", "by": "group", "order_by": "day", "alpha": 0.1, "start": 0.5}
    assert "recency" not in moving


def test_the_ladder_of_inspect_has_the_product(log: Path) -> None:
    found = karl_fast.inspect(log, order_by="at", recency_half_life="2d", ess=0.5)
    target = found.report["target"]
    rung = next(one for one in found.ladder if one["inverse_temperature"] == target["inverse_temperature"])
    assert rung["ess"] == pytest.approx(target["ess_rows"], rel=1e-9)
    assert rung["expected_reward"] == pytest.approx(target["expected_reward"], rel=1e-9)


def test_given_weights_fall_with_age_too(log: Path) -> None:
    read = karl_fast.read(log, order_by="day")
    frame = {"row": np.arange(len(read)), "w": np.zeros(len(read))}
    pa = pytest.importorskip("pyarrow")
    given = read.with_columns(pa.table(frame), log_weight="w")
    found = drawn(given, recency_half_life="1", inverse_temperature=None)
    logs = sorted({round(one["log_weight"], 9) for one in found.values()})
    assert np.diff(logs) == pytest.approx(np.log(2))


def test_a_parquet_table_keeps_its_order_column(tmp_path: Path, log: Path, records: list[Record]) -> None:
    pa = pytest.importorskip("pyarrow")
    from datetime import datetime

    import pyarrow.parquet

    table = pa.Table.from_pylist([record | {"at": datetime.fromisoformat(record["at"])} for record in records])
    pyarrow.parquet.write_table(table, tmp_path / "log.parquet")
    found = drawn(tmp_path / "log.parquet", order_by="at", recency_half_life="2d")
    wanted = drawn(log, order_by="at", recency_half_life="2d")
    assert {name: one["log_weight"] for name, one in found.items()} == pytest.approx(
        {name: one["log_weight"] for name, one in wanted.items()}, abs=1e-12
    )


@pytest.mark.parametrize(
    ("order", "came"),
    [
        (None, "at is null"),
        ("2026-05-04", 'at is "2026-05-04"'),
        ("2026-05-04T10:00:00", 'at is "2026-05-04T10:00:00"'),
        (True, "at is true"),
        ([1], r"at is \[1\]"),
        (..., "at is missing"),
    ],
)
def test_a_record_without_an_order_is_refused(tmp_path: Path, records: list[Record], order: Any, came: str) -> None:
    bad = {name: value for name, value in (records[4] | {"at": order}).items() if value is not ...}
    rows.write(tmp_path / "a.jsonl", records[:4])
    path = rows.write(tmp_path / "b.jsonl", [records[5], bad])
    place = f"b.jsonl, line 2, byte {len(path.read_text().splitlines()[0]) + 1}: "
    with pytest.raises(BadRowError, match=place + came + ", wanted a number or an RFC 3339 time") as error:
        karl_fast.sample(tmp_path, None, k=4, order_by="at", recency_half_life="2d")
    assert "--order-by at" in str(error.value.hint)


def test_a_misspelled_order_gets_a_suggestion(log: Path) -> None:
    with pytest.raises(BadRowError, match="line 1, byte 0: att is missing") as error:
        karl_fast.read(log, order_by="att")
    assert error.value.hint == "did you mean --order-by at?"


def test_a_late_bad_order_is_refused(tmp_path: Path, records: list[Record]) -> None:
    bad = [record | {"reward": "none"} for record in records[:40]]
    rows.write(tmp_path / "log.jsonl", [*bad, records[41] | {"at": None}])
    with pytest.raises(BadRowError, match=r"log.jsonl, a record after many bad ones: at is not there, wanted"):
        karl_fast.read(tmp_path / "log.jsonl", order_by="at")


def test_numbers_and_times_are_not_compared(tmp_path: Path, records: list[Record]) -> None:
    rows.write(tmp_path / "a.jsonl", records[:4])
    rows.write(tmp_path / "b.jsonl", [records[5], records[6] | {"at": 17}])
    with pytest.raises(BadRowError, match=r"at is a number in .*b.jsonl, line 2, and a time in .*a.jsonl, line 1"):
        karl_fast.read(tmp_path, order_by="at")


@pytest.mark.parametrize(
    ("choices", "why"),
    [
        ({"score": "advantage", "baseline": "ema"}, "baseline is ema, which needs an order of the records"),
        ({"recency_half_life": "2d"}, "recency_half_life is 2d, which needs an order of the records"),
        ({"recency_half_life": "2y", "order_by": "at"}, "recency_half_life is '2y', wanted a time like 14d"),
        ({"recency_half_life": "-2d", "order_by": "at"}, "recency_half_life is '-2d', wanted a time like 14d"),
        ({"recency_half_life": "2", "order_by": "at"}, "recency_half_life is 2, and at is a time: wanted a unit"),
        ({"recency_half_life": "2d", "order_by": "day"}, "is 2d, and day is a number: wanted a number without a unit"),
        ({"recency_half_life": "2d", "order_by": "at", "sampler": "reservoir"}, "no use for recency_half_life"),
        ({"score": "advantage", "ema_alpha": 0.5}, "ema_alpha applies only to the baseline ema, and baseline is mean"),
        ({"score": "raw", "ema_start": 0.0}, "ema_start applies only to the score advantage, and score is raw"),
        ({"score": "advantage", "baseline": "ema", "order_by": "at", "ema_alpha": 1.5}, "ema_alpha is 1.5, wanted"),
        ({"order_by": ""}, "order_by is empty"),
    ],
)
def test_settings_that_mean_nothing_are_refused(log: Path, choices: Any, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        karl_fast.sample(log, None, k=4, **choices)


def test_a_log_read_without_an_order_has_none(log: Path) -> None:
    read = karl_fast.read(log)
    with pytest.raises(UsageError, match="order_by is 'at', but the log was read with None"):
        karl_fast.sample(read, None, k=4, order_by="at", recency_half_life="2d")


def test_a_stronger_layer_takes_the_moving_baseline_back() -> None:
    assert karl_fast.Settings._displaced({"baseline": "mean"}) >= {"ema_alpha", "ema_start"}
    assert "recency_half_life" in karl_fast.Settings._displaced({"sampler": "reservoir"})
    assert not karl_fast.Settings(order_by="at", sampler="weighted-reservoir", inverse_temperature=1.0, k=3).streams


def test_toml_takes_a_number_or_a_time(tmp_path: Path) -> None:
    for written, wanted in (("30", "30"), ('"14d"', "14d"), ("0.5", "0.5")):
        (tmp_path / "s.toml").write_text(f'order-by = "at"\nrecency-half-life = {written}\n')
        assert karl_fast.Settings.load(tmp_path / "s.toml").recency_half_life == wanted
