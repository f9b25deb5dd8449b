"""Columns of any engine as a log's own: what comes back, and what is drawn by it."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import karl_fast
from karl_fast.errors import (
    ArgumentError,
    DTypeError,
    LayoutError,
    NothingToSampleError,
    UsageError,
)
from tests.rows import files, write
from tests.unit.boundary.engines import ROWS, same

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pandas as pd


def test_an_empty_frame_leaves_nothing_to_draw(log: karl_fast.Log) -> None:
    nothing = log.with_columns(pa.table(log).slice(0, 0), reward="reward", group="group")
    assert np.isnan(nothing.rewards).all()
    assert nothing.group_names == []
    with pytest.raises(NothingToSampleError, match="missing reward 64"):
        karl_fast.sample(nothing, None, k=1)


FRAMES: dict[str, Callable[[karl_fast.Log], Any]] = {
    "polars": lambda log: (
        pl.DataFrame(log)
        .filter(pl.col("row") % 3 != 0)
        .sort("length", descending=True)
        .select("row", mine=pl.col("row") * 0.5, team=pl.col("group").cast(pl.String) + "!")
    ),
    "pyarrow": lambda log: _by_pyarrow(pa.table(log)),
    "duckdb": lambda log: duckdb.connect().sql(
        """select "row", "row" * 0.5::double as mine, "group" || '!' as team from log
        where "row" % 3 != 0 order by length desc"""
    ),
    "pandas": lambda log: _by_pandas(pa.table(log).to_pandas()),
}


def _by_pyarrow(table: pa.Table) -> pa.Table:
    numbers = table["row"].to_numpy()
    table = table.append_column("mine", pa.array(numbers * 0.5))
    names = [None if name is None else f"{name}!" for name in table["group"].to_pylist()]
    table = table.append_column("team", pa.array(names).dictionary_encode())
    kept = table.filter(pa.array(numbers % 3 != 0)).sort_by([("length", "descending")])
    return pa.concat_tables([kept.slice(0, 7), kept.slice(7, 0), kept.slice(7)])


def _by_pandas(frame: pd.DataFrame) -> pd.DataFrame:
    frame = frame.assign(mine=frame["row"] * 0.5, team=frame["group"].astype("str") + "!")
    frame.loc[frame["group"].isna(), "team"] = None
    return frame[frame["row"] % 3 != 0].sort_values("length", ascending=False)


@pytest.mark.parametrize("engine", FRAMES)
def test_a_filtered_and_sorted_frame_matches_by_row(log: karl_fast.Log, engine: str) -> None:
    made = log.with_columns(FRAMES[engine](log), reward="mine", group="team")
    numbers = np.arange(ROWS)
    np.testing.assert_array_equal(made.rewards, np.where(numbers % 3 != 0, numbers * 0.5, np.nan))
    for number in range(ROWS):
        was, now = log.groups[number], made.groups[number]
        absent = was < 0 or number % 3 == 0
        assert (None if now < 0 else made.group_names[now]) == (None if absent else f"{log.group_names[was]}!")
    # What was not handed over is what it was.
    np.testing.assert_array_equal(made.domains, log.domains)
    np.testing.assert_array_equal(made.keys, log.keys)


def test_the_log_itself_is_left_as_it_was(log: karl_fast.Log) -> None:
    before = pa.table(log)
    log.with_columns(pl.DataFrame(log).with_columns(x=pl.lit(1.0)), reward="x", group="domain", log_weight="x")
    assert pa.table(log) == before
    assert log.replaced_columns == ()


def test_a_record_outside_the_frame_is_not_drawn(log: karl_fast.Log) -> None:
    frame = pl.DataFrame(log).filter(pl.col("domain") == "d1").select("row")
    drawn = karl_fast.sample(log.with_columns(frame), None, sampler="all", score="centre")
    assert set(drawn.manifest["domains"]) == {"d0", "d1", "d2"}
    assert [drawn.manifest["domains"][name]["after"] for name in ("d0", "d2")] == [0, 0]
    assert drawn.manifest["accounting"]["dropped"]["missing_reward"] > ROWS // 2


def test_without_row_numbers_rows_are_matched_by_position(log: karl_fast.Log) -> None:
    frame = pl.DataFrame(log).select(mine=pl.col("row").cast(pl.Float64))
    made = log.with_columns(frame, reward="mine")
    assert made.rewards.tolist() == list(range(ROWS))
    assert made.replaced_columns == ({"columns": {"reward": "mine"}, "matched_by": "position", "rows": ROWS},)
    with pytest.raises(LayoutError, match=r'^frame has 63 rows and no column "row", wanted 64 rows$'):
        log.with_columns(frame.head(63), reward="mine")


@pytest.mark.parametrize(
    "kind",
    ["bool", "float16", "float32", "float64"] + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)],
)
def test_numbers_of_every_type_are_read(log: karl_fast.Log, kind: str) -> None:
    values = [1, None, 0] + [1] * (ROWS - 3)
    column = pa.array([None if value is None else bool(value) for value in values])
    made = log.with_columns(pa.table({"x": column.cast("uint8").cast(kind)}), reward="x")
    np.testing.assert_array_equal(made.rewards, [math.nan if value is None else value for value in values])


def frame(**columns: Any) -> pl.DataFrame:
    return pl.DataFrame(columns)


@pytest.mark.parametrize(
    ("table", "names", "error", "match"),
    [
        (frame(row=[1, 2, 1]), {}, ArgumentError, "^row at index 2 is 1, wanted each row once$"),
        (frame(row=[1, 64]), {}, ArgumentError, "^row at index 1 is 64, wanted a row of the log, 0 to 64 exclusive$"),
        (frame(row=[-1]), {}, ArgumentError, "^row at index 0 is -1, wanted a row"),
        (frame(row=[2**63]), {}, ArgumentError, "^row at index 0 is 9223372036854775808, wanted a row"),
        (frame(row=[0, None]), {}, ArgumentError, "^row at index 1 is null, wanted a row"),
        (frame(row=[0.0]), {}, DTypeError, "^row is an Arrow column of Float64, wanted integers$"),
        (frame(row=[0], x=["1"]), {"reward": "x"}, DTypeError, "^x is an Arrow column of .*, wanted numbers$"),
        (frame(row=[0], x=["1"]), {"log_weight": "x"}, DTypeError, "^x is an Arrow column of .*, wanted numbers$"),
        (frame(row=[0], x=[1.5]), {"group": "x"}, DTypeError, "^x is an .* of Float64, wanted strings, integers, .*$"),
        (frame(row=[0], x=[[1]]), {"domain": "x"}, DTypeError, "^x is an .* nested values, wanted strings, "),
        (
            frame(row=[0], x=[1.5]),
            {"reward": "y"},
            ArgumentError,
            '^frame has 0 columns "y", wanted one; it has row, x$',
        ),
        (frame(row=[3], x=[math.inf]), {"reward": "x"}, ArgumentError, "^x at index 0 is inf, wanted a number up to"),
        (frame(row=[3], x=[-2e100]), {"reward": "x"}, ArgumentError, "^x at index 0 is -2"),
        (frame(row=[3], x=[math.inf]), {"log_weight": "x"}, ArgumentError, "^x at index 0 is inf, wanted the log"),
        ([0.5] * ROWS, {"reward": "x"}, DTypeError, "^frame is a list, wanted a table with __arrow_c_stream__$"),
        (np.zeros(ROWS), {"reward": "x"}, DTypeError, "^frame is a ndarray, wanted a table"),
        (pa.array([1.0] * ROWS), {"reward": "x"}, LayoutError, "^frame is a column of Float64, wanted a table$"),
        (pl.Series([1.0] * ROWS), {"reward": "x"}, LayoutError, "^frame is a column of Float64, wanted a table$"),
    ],
)
def test_unfit_columns_are_refused_by_name(
    log: karl_fast.Log, table: Any, names: dict[str, str], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        log.with_columns(table, **names)


def test_two_columns_of_one_name_are_refused(log: karl_fast.Log) -> None:
    twice = pa.Table.from_arrays([pa.array([0.5] * ROWS)] * 2, names=["x", "x"])
    with pytest.raises(ArgumentError, match=r'^frame has 2 columns "x", wanted one'):
        log.with_columns(twice, reward="x")


def test_chunks_of_any_text_type_become_groups(log: karl_fast.Log) -> None:
    names = [f"{n % 7}" * 40 for n in range(ROWS)]
    wanted = log.with_columns(pa.table({"g": names}), group="g")
    for kind in (pa.large_string(), pa.string_view(), pa.dictionary(pa.uint8(), pa.string())):
        table = pa.table({"g": pa.chunked_array([pa.array(names[:9], kind), pa.array(names[9:], kind)])})
        same(log.with_columns(table.slice(0, ROWS), group="g"), wanted)
    numbers = log.with_columns(pa.table({"g": [n % 7 for n in range(ROWS)]}), group="g")
    np.testing.assert_array_equal(numbers.groups, wanted.groups)


@pytest.mark.parametrize("engine", FRAMES)
def test_columns_handed_back_draw_like_read_ones(path: Path, tmp_path: Path, engine: str) -> None:
    """The whole job, with the columns read from the file, and with the same columns handed back by an engine."""
    log = karl_fast.read(path)
    made = log.with_columns(FRAMES[engine](log), reward="mine", group="team")
    offsets = {row["offset"]: row for row in pa.table(made).to_pylist()}
    rows, place = [], 0
    for line in path.read_text("utf-8").splitlines(keepends=True):
        row = offsets[place]
        rows.append(json.loads(line) | {"reward": row["reward"], "group": row["group"]})
        place += len(line)
    choices: dict[str, Any] = {"k": 12, "score": "zscore", "seed": 3, "force": True}
    read = karl_fast.sample(write(tmp_path / "other.jsonl", rows), tmp_path / "read", **choices)
    given = karl_fast.sample(made, tmp_path / "given", **choices)
    assert files(tmp_path / "given") == files(tmp_path / "read")
    assert given.manifest["columns_given"][0]["columns"] == {"reward": "mine", "group": "team"}
    assert "columns_given" not in read.manifest
    for part in ("accounting", "groups", "target", "draw", "reward"):
        assert given.manifest[part] == read.manifest[part], part


def test_a_log_draws_like_its_files(path: Path, tmp_path: Path) -> None:
    choices: dict[str, Any] = {"k": 9, "score": "centre", "seed": 5}
    log = karl_fast.read(path)
    karl_fast.sample(path, tmp_path / "files", **choices)
    karl_fast.sample(log, tmp_path / "log", **choices)
    assert files(tmp_path / "log") == files(tmp_path / "files")
    seen: list[int] = []
    found = karl_fast.inspect(log, progress=lambda done, _: seen.append(done), score="centre")
    assert found.ladder == karl_fast.inspect(path, score="centre").ladder
    assert not seen
    assert log.settings.score == "raw"


@pytest.mark.parametrize(
    ("choices", "match"),
    [
        ({"reward": {"other": 1.0}}, "^reward is .*, but the log was read with None: read it again$"),
        ({"group": "domain"}, "^group is 'domain', but"),
        ({"strict": True}, "^strict is True, but"),
        ({"partition_by": "domain"}, "^partition_by is domain, but the log was read without that field"),
        ({"dedup": True}, "^dedup wants hashes of trajectories"),
    ],
)
def test_a_setting_of_reading_is_refused(log: karl_fast.Log, choices: dict[str, Any], match: str) -> None:
    for call in (lambda: karl_fast.sample(log, None, k=2, **choices), lambda: karl_fast.inspect(log, **choices)):
        with pytest.raises(UsageError, match=match):
            call()


def test_log_weights_handed_back_are_drawn(log: karl_fast.Log) -> None:
    scores = karl_fast.zscore(log.rewards, log.groups)
    target = karl_fast.boltzmann(scores, inverse_temperature=2.0)
    table = pl.DataFrame({"row": range(ROWS), "w": target.log_weights + 30.0}).sort("w")
    drawn = karl_fast.sample(log.with_columns(table, log_weight="w"), None, k=10, seed=4)
    rows = karl_fast.draw(target.log_weights, 10, seed=4, keys=log.keys)
    assert drawn.draft.facts()["rows"] == rows.tolist()
    facts = drawn.manifest["target"]
    assert (facts["score"], facts["inverse_temperature"], facts["ess_wanted_share"]) == ("given", 1.0, None)
    assert facts["ess_rows"] == pytest.approx(target.reached_ess)
    assert facts["log_z"]["value"] == pytest.approx(30.0)
    assert drawn.manifest["settings"]["ess"] is None
    for line in drawn.lines():
        stamp = json.loads(line)["karl_fast"]
        row = next(row for row in rows if target.log_weights[row] + 30.0 == stamp["score"])
        assert stamp["log_weight"] == pytest.approx(target.log_weights[row])


def test_missing_log_weights_are_dropped_by_name(log: karl_fast.Log) -> None:
    table = pa.table({"w": [None, -math.inf, math.nan, *[0.0] * (ROWS - 3)]})
    drawn = karl_fast.sample(log.with_columns(table, log_weight="w"), None, sampler="all")
    dropped = drawn.manifest["accounting"]["dropped"]
    assert dropped["missing_reward"] + dropped["missing_log_weight"] == ROWS - drawn.manifest["accounting"]["rows_kept"]
    assert {0, 1, 2}.isdisjoint(drawn.draft.facts()["rows"])
    # They are a column of the log from now on, null where they are missing.
    assert pa.table(log.with_columns(table, log_weight="w"))["log_weight"].null_count == 2


@pytest.mark.parametrize(
    "choice", [{"score": "zscore"}, {"ess": 0.3}, {"inverse_temperature": 2.0}, {"partition_by": "group"}]
)
def test_a_choice_replaced_by_log_weights_is_refused(log: karl_fast.Log, choice: dict[str, Any]) -> None:
    weighted = log.with_columns(pa.table({"w": [0.0] * ROWS}), log_weight="w")
    with pytest.raises(UsageError, match=rf"^{next(iter(choice))} is .*, but log_weight was given"):
        karl_fast.sample(weighted, None, k=1, **choice)


def test_log_weights_with_a_uniform_sampler_are_refused(log: karl_fast.Log) -> None:
    weighted = log.with_columns(pa.table({"w": [0.0] * ROWS}), log_weight="w")
    with pytest.raises(UsageError, match=r"reservoir draws all rows alike: .* log_weight"):
        karl_fast.sample(weighted, None, k=1, sampler="reservoir")


def test_columns_may_come_one_frame_after_the_other(log: karl_fast.Log) -> None:
    first = log.with_columns(pa.table({"w": [1.0] * ROWS}), log_weight="w")
    second = first.with_columns(pl.DataFrame({"row": [4, 5], "r": [1.0, 0.5]}), reward="r")
    assert [call["rows"] for call in second.replaced_columns] == [ROWS, 2]
    assert sorted(karl_fast.sample(second, None, sampler="all").draft.facts()["rows"]) == [4, 5]


def test_a_reward_handed_back_replaces_all_components(path: Path) -> None:
    log = karl_fast.read(path, reward={"reward": 0.5, "missing": 0.5})
    made = log.with_columns(pa.table({"r": [0.25] * ROWS}), reward="r")
    assert made.rewards.tolist() == [0.25] * ROWS
    assert list(made.components) == ["reward"]
    # A frame that hands nothing back but rows leaves the components to the records that it has.
    kept = log.with_columns(pa.table({"row": pa.array([2, 4], pa.uint32())}))
    assert np.flatnonzero(~np.isnan(kept.components["reward"])).tolist() == [
        row for row in (2, 4) if not np.isnan(log.components["reward"][row])
    ]
