"""Parquet: a row is a record. TRL's completions are made from its schema, for no real ones are at hand."""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import karl_fast
from karl_fast import errors
from karl_fast.errors import RewardError
from karl_fast.log import parquet_in
from tests import rows
from tests.cli.run import karl
from tests.robustness.peak import MIB, run

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def write(path: Path, records: list[dict[str, Any]], **schema: Any) -> Path:
    parquet.write_table(pyarrow.Table.from_pylist(records, **schema), path)
    return path


def test_rows_equal_the_records_of_lines(tmp_path: Path) -> None:
    records = rows.records(3000)
    table = write(tmp_path / "log.parquet", records)
    lines = rows.write(tmp_path / "log.jsonl", records)
    for name, path in (("a", table), ("b", lines)):
        karl_fast.sample(path, tmp_path / name, k=64, score="zscore", seed=3)
    assert rows.files(tmp_path / "a") == rows.files(tmp_path / "b")
    assert karl_fast.read(table).inputs[0]["path"] == str(table)


def test_messages_have_the_fields_of_lines(tmp_path: Path) -> None:
    function = {"name": "f", "arguments": '{"a": 1}'}
    parameters = [{"type": "object", "properties": {"a": {"type": "integer"}}}, {"type": "object", "required": ["b"]}]
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": function}]},
        {"role": "tool", "content": "3", "tool_call_id": "c", "name": "f"},
        {"role": "assistant", "content": "done"},
    ]
    tools = [
        {"type": "function", "function": {"name": name, "parameters": one}}
        for name, one in zip("fg", parameters, strict=True)
    ]
    record = {"id": "a", "group": None, "messages": messages, "tools": tools, "info": {"seed": None}, "reward": 1.0}
    table = write(tmp_path / "log.parquet", [record])
    lines = rows.write(tmp_path / "log.jsonl", [record])
    made = []
    for name, path in (("a", table), ("b", lines)):
        karl_fast.sample(path, tmp_path / name, k=1, split=(1, 0, 0))
        made.append(json.loads((tmp_path / name / "train.jsonl").read_text("utf-8")))
    assert made[0] == made[1]
    with parquet_in.lines(str(table)) as copy:
        assert json.loads(Path(copy.path).read_text("utf-8")) == record


def test_nulls_in_a_list_stay(tmp_path: Path) -> None:
    made = {
        "a": [None, 1],
        "b": [None, {"x": None}],
        "c": [{"x": {"y": None, "z": [None]}}],
        "d": [{"m": [("k", None)]}],
    }
    keyed = pyarrow.list_(pyarrow.struct([("m", pyarrow.map_(pyarrow.string(), pyarrow.int64()))]))
    columns = {name: pyarrow.array([value], keyed if name == "d" else None) for name, value in made.items()}
    parquet.write_table(pyarrow.table(columns), tmp_path / "log.parquet")
    with parquet_in.lines(str(tmp_path / "log.parquet")) as copy:
        found = json.loads(Path(copy.path).read_text("utf-8"))
    assert found == {"a": [None, 1], "b": [None, {}], "c": [{"x": {"z": [None]}}], "d": [{"m": {"k": None}}]}


def completions(step: int) -> list[dict[str, Any]]:
    """What TRL logs of four completions of two prompts, with two reward functions."""
    return [
        {
            "step": step,
            "prompt": f"prompt {n // 2} ü",
            "completion": f"answer {n}",
            "correct_reward": [1.0, 0.0, None, math.nan][n],
            "brief_reward": [0.5, 0.25, 0.125, None][n],
            "advantage": 0.0,
        }
        for n in range(4)
    ]


def test_trl_completions_are_grouped_and_their_rewards_summed(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"completions_{step:05}.parquet", completions(step)) for step in (10, 20)]
    log = karl_fast.read(paths)
    assert {file["format"] for file in log.inputs} == {"trl"}
    assert sorted(np.bincount(log.groups)) == [2] * 4
    assert sorted(log.rewards[~np.isnan(log.rewards)]) == [0.125, 0.125, 0.25, 0.25, 1.5, 1.5]
    sample = karl_fast.sample(log, None, k=4, score="centre")
    assert sample.manifest["accounting"]["dropped"] == {"missing_reward": 2}
    assert "answer" in next(sample.lines())


def scored(step: int, **numbers: float) -> list[dict[str, Any]]:
    """What TRL logs with other columns of numbers than those."""
    kept = ("step", "prompt", "completion", "advantage")
    return [{key: row[key] for key in kept} | numbers | {"solution": "s"} for row in completions(step)]


UNCLEAR = {
    "accuracy, fmt, entropy, kl": ({"accuracy": 1.0, "fmt": 0.5, "entropy": 0.1, "kl": 1.0}, "accuracy,fmt"),
    "accuracy_reward, entropy": ({"accuracy_reward": 1.0, "entropy": 0.1}, "accuracy_reward"),
    "kl, response_length": ({"kl": 1.0, "response_length": 8.0}, "NAME"),
    **{name: ({name: 0.5}, "NAME") for name in ("kl", "entropy", "loss", "learning_rate", "clip_ratio", "reward_std")},
    "accuracy": ({"accuracy": 1.0}, "accuracy"),
    "accuracy_reward, reward": ({"accuracy_reward": 1.0, "reward": 1.5}, "reward takes it alone"),
    "a_reward, b_reward, rewards": ({"a_reward": 1.0, "b_reward": 0.5, "rewards": 1.5}, "rewards takes it alone"),
    "a_reward, rewardTotal": ({"a_reward": 1.0, "rewardTotal": 1.5}, "rewardTotal takes it alone"),
    "accuracy_reward, reward_std": ({"accuracy_reward": 1.0, "reward_std": 0.5}, "accuracy_reward"),
}


@pytest.mark.parametrize("names", UNCLEAR)
def test_ambiguous_numbers_of_trl_are_an_error(tmp_path: Path, names: str) -> None:
    numbers, likely = UNCLEAR[names]
    table = write(tmp_path / "completions_00001.parquet", scored(1, **numbers))
    told = f"{table}: TRL's completions do not say which of their numbers are rewards: {names}"
    for command in (karl_fast.read, karl_fast.inspect, lambda path: karl_fast.convert(path, tmp_path / "out.jsonl")):
        with pytest.raises(RewardError, match=f"^{re.escape(told)}$") as raised:
            command(table)
        assert f"--reward {likely}" in str(raised.value.hint)
    wanted = likely.replace("NAME", next(iter(numbers))).partition(" ")[0].split(",")
    log = karl_fast.read(table, reward=dict.fromkeys(wanted, 1.0))
    assert set(log.rewards) == {sum(numbers[name] for name in wanted)}
    assert log.inputs[0]["format"] == "trl"
    assert len(karl_fast.read(table, format="generic", reward={next(iter(numbers)): 1.0})) == 4


def in_place(step: int, **numbers: float) -> list[dict[str, Any]]:
    """What TRL logs of other reward functions, in the order of its columns: rewards stand before the advantage."""
    return [
        {key: row[key] for key in ("step", "prompt", "completion")} | numbers | {"advantage": 0.0}
        for row in completions(step)
    ]


REWARDS = [["accuracy"], ["reward_len"], ["think_format_reward", "length_reward"], ["reward_1", "reward_2"]]


@pytest.mark.parametrize("names", REWARDS)
def test_trl_columns_named_after_functions_are_summed(tmp_path: Path, names: list[str]) -> None:
    table = write(tmp_path / "completions_00001.parquet", in_place(1, **dict.fromkeys(names, 0.5)))
    assert set(karl_fast.read(table).rewards) == {0.5 * len(names)}
    out = tmp_path / "out.jsonl"
    assert karl_fast.convert(table, out).files[0]["summed_columns"] == {"trl_reward": names}
    done = karl("convert", table, "-o", out, "--force", folder=tmp_path)
    assert f"trl_reward is the sum of {', '.join(names)}" in " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize("name", ["reward", "rewards", "total_reward", "score", "kl_score"])
def test_the_only_trl_number_named_reward_counts(tmp_path: Path, name: str) -> None:
    table = write(tmp_path / "completions_00001.parquet", scored(1, **{name: 0.5}))
    assert set(karl_fast.read(table).rewards) == {0.5}


def test_a_measure_in_a_rewards_place_is_ambiguous(tmp_path: Path) -> None:
    table = write(tmp_path / "completions_00001.parquet", in_place(1, kl=0.5))
    with pytest.raises(RewardError, match="which of their numbers are rewards: kl"):
        karl_fast.read(table)


def test_columns_of_trl_that_are_summed_are_named(tmp_path: Path) -> None:
    two = write(tmp_path / "completions_00001.parquet", completions(1))
    one = write(tmp_path / "completions_00002.parquet", in_place(2, accuracy=1.0))
    files = karl_fast.inspect([two, one]).report["inputs"]
    sums = [["correct_reward", "brief_reward"], ["accuracy"]]
    assert [file["summed_columns"] for file in files] == [{"trl_reward": names} for names in sums]
    done = karl("inspect", two, folder=tmp_path)
    assert "trl_reward is the sum of correct_reward, brief_reward" in " ".join(done.stdout.split())
    assert "summed_columns" not in karl_fast.inspect(two, reward={"brief_reward": 1.0}).report["inputs"][0]


def test_completions_of_trl_convert_to_trajectories(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"completions_{step:05}.parquet", completions(step)) for step in (10, 20)]
    account = karl_fast.convert(tmp_path / "*.parquet", tmp_path / "out.jsonl")
    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text("utf-8").splitlines()]
    assert (account.lines_read, account.lines_used, account.trajectories) == (8, 8, 8)
    assert [file["path"] for file in account.files] == [str(path) for path in paths]
    assert [one["policy_version"] for one in found] == [10] * 4 + [20] * 4
    assert [one["reward"] for one in found[:4]] == [1.5, 0.25, 0.125, None]
    assert [message["content"] for message in found[0]["messages"]] == ["prompt 0 ü", "answer 0"]
    assert found[0]["source"] == {
        "format": "trl",
        "files": [str(paths[0])],
        "record": {"correct_reward": 1.0, "brief_reward": 0.5, "advantage": 0.0},
    }
    direct, back = karl_fast.read(paths), karl_fast.read(tmp_path / "out.jsonl")
    assert sorted(np.bincount(direct.groups)) == sorted(np.bincount(back.groups))
    np.testing.assert_array_equal(np.sort(direct.rewards), np.sort(back.rewards))


def test_any_table_of_conversations_converts_to_trajectories(tmp_path: Path) -> None:
    records = rows.records(50)
    table = write(tmp_path / "log.parquet", records)
    lines = rows.write(tmp_path / "log.jsonl", records)
    found = []
    for path in (table, lines):
        karl_fast.convert(path, tmp_path / "out.jsonl", force=True)
        found.append([json.loads(line) for line in (tmp_path / "out.jsonl").read_text("utf-8").splitlines()])
        for one in found[-1]:
            assert one["source"].pop("files") == [str(path)]
    assert found[0] == found[1]
    assert len(found[0]) == 50


def test_a_foreign_table_is_refused_by_name(tmp_path: Path) -> None:
    for path in (
        write(tmp_path / "columns.parquet", [{"a": 1, "b": "x"}]),
        write(tmp_path / "empty.parquet", [], schema=pyarrow.schema([("messages", pyarrow.string())])),
    ):
        with pytest.raises(errors.LogError, match=path.name):
            karl_fast.convert(path, tmp_path / "out.jsonl")
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes((tmp_path / "columns.parquet").read_bytes()[:-9])
    with pytest.raises(errors.FileError, match="damaged"):
        karl_fast.convert(damaged, tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()


def test_wrong_types_are_reported_row_by_row(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", [{"prompt": "p", "completion": n, "reward": 1.0} for n in range(3)])
    with pytest.raises(errors.LogError, match=r"a\.parquet: .*byte 0: completion is a number, wanted a text or a list"):
        karl_fast.convert(path, tmp_path / "out.jsonl")


@pytest.mark.parametrize("group", [1500, 100], ids=["one row group", "row groups"])
def test_a_table_is_not_held_in_memory(tmp_path: Path, group: int) -> None:
    """120 MB of rows that share no text, in pages of a few; pyarrow itself takes some 60 MiB."""
    rng = np.random.default_rng(0)
    fields = [("prompt", pyarrow.string()), ("completion", pyarrow.string()), ("reward", pyarrow.float64())]
    how = {"compression": "none", "use_dictionary": False, "write_batch_size": 16}
    with parquet.ParquetWriter(tmp_path / "a.parquet", pyarrow.schema(fields), **how) as out:
        for _ in range(0, 1500, group):
            texts = [rng.bytes(40_000).hex() for _ in range(group)]
            made = {"prompt": ["p"] * group, "completion": texts, "reward": [1.0] * group}
            out.write_table(pyarrow.table(made, schema=pyarrow.schema(fields)), row_group_size=group)
    done = run("convert", "a.parquet", "-o", "out.jsonl", "--threads", "1", folder=tmp_path)
    assert done.code == 0, done.err
    assert done.peak < 200 * MIB, f"{done.peak / MIB:.0f} MiB"


def test_a_text_shared_by_rows_is_held_once(tmp_path: Path) -> None:
    """150 MB of rows, of which the file holds the one text that they share."""
    shared = np.random.default_rng(0).bytes(125_000).hex()
    made = {"id": range(600), "prompt": [shared] * 600, "completion": ["x"] * 600, "reward": [1.0] * 600}
    parquet.write_table(pyarrow.table(made), tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").stat().st_size < MIB
    done = run("inspect", "a.parquet", "--threads", "1", folder=tmp_path)
    assert done.code == 0, done.err
    # 186 MiB in most runs, 206 in some: pyarrow's threads decide.
    assert done.peak < 240 * MIB, f"{done.peak / MIB:.0f} MiB"


def test_reward_functions_are_weighed_by_name(tmp_path: Path) -> None:
    path = write(tmp_path / "completions_00010.parquet", completions(10)[:2])
    log = karl_fast.read(path, reward={"correct_reward": 0.5, "brief_reward": 2.0})
    assert sorted(log.rewards) == [0.5, 1.5]


def test_moments_and_decimals_are_spelled_out(tmp_path: Path) -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    odd = {"at": moment, "cost": Decimal("0.50"), "raw": b"a", "nested": [{"a": moment}]}
    path = write(tmp_path / "a.parquet", [rows.record(0) | odd])
    log = karl_fast.read(path, reward={"cost": 1.0}, shape="raw")
    assert list(log.rewards) == [0.5]
    line = next(karl_fast.sample(log, None, k=1).lines())
    assert '"at": "2026-01-01T00:00:00+00:00", "cost": 0.50, "raw": "a", ' in line


def test_what_is_no_parquet_is_a_file_error(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    for damage in (b"", b"PAR1", b"{}\n" * 100):
        path.write_bytes(damage)
        with pytest.raises(errors.FileError):
            karl_fast.read(path)


def test_a_folder_is_not_searched_for_tables(tmp_path: Path) -> None:
    """Columns that were written beside a log are no log."""
    lines = rows.write(tmp_path / "log.jsonl", rows.records(8))
    karl_fast.read(lines).to_parquet(tmp_path / "columns.parquet")
    assert len(karl_fast.read(tmp_path)) == 8


def test_a_table_under_another_name_is_told(tmp_path: Path) -> None:
    table = write(tmp_path / "a.parquet", rows.records(4))
    other = table.rename(tmp_path / "a.jsonl")
    with pytest.raises(errors.PackedError, match=r"a\.jsonl: .*a table of Parquet, whose name has to end in") as caught:
        karl_fast.read(other)
    assert caught.value.hint == "give it a name that ends in .parquet"
    rows.write(tmp_path / "b.jsonl", rows.records(4))
    assert karl_fast.sample(tmp_path, None, k=2).manifest["run"]["refused"][0]["path"] == str(other)


def test_a_folder_key_is_a_key_of_rows(tmp_path: Path) -> None:
    records = [{"reward": 1.0, "prompt": "q", "completion": f"a{n}"} for n in range(3)]
    for name in ("task=7", "task=a%20b", "task=__HIVE_DEFAULT_PARTITION__", "reward=5"):
        (tmp_path / "log" / name).mkdir(parents=True)
        write(tmp_path / "log" / name / "part.parquet", records)
    log = karl_fast.read(str(tmp_path / "log" / "*" / "part.parquet"), group="task")
    assert sorted(log.core.names("group")) == ["7", "a b"]
    assert {*log.rewards} == {1.0}
    karl_fast.sample(str(tmp_path / "log" / "task=7" / "part.parquet"), tmp_path / "raw", k=1, shape="raw")
    assert json.loads((tmp_path / "raw" / "train.jsonl").read_text("utf-8"))["task"] == 7


@pytest.mark.parametrize("change", ["rewritten", "replaced", "truncated"])
def test_a_table_changed_while_copied_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    from karl_fast.log import parquet_in as reading

    path = write(tmp_path / "log.parquet", rows.records(30))
    other = write(tmp_path / "other.parquet", rows.records(31))
    batches = reading._batches

    def changed(*how: Any) -> Any:
        if change == "replaced":
            other.replace(path)
        else:
            path.write_bytes(other.read_bytes() if change == "rewritten" else b"")
        return batches(*how)

    monkeypatch.setattr(reading, "_batches", changed)
    with pytest.raises(errors.LogChangedError, match="it changed while it was read"):
        karl_fast.read(path)
