"""Records that hold a whole group: `[]` in a field makes a row of each element, and the hint names such fields."""

from __future__ import annotations

import gzip
import json
import re
import shlex
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from karl_fast import distributed, errors
from tests.cli.run import karl

if TYPE_CHECKING:
    from pathlib import Path

GROUPS: list[dict[str, Any]] = [
    {"id": "a", "prompt": "2+2?", "responses": ["4", "5"], "rewards": [1.0, 0.25], "extra": [1, 2, 3]},
    {"id": "b", "prompt": "3+3?", "responses": ["6", "7", "8"], "rewards": [0.5, 0.0, 0.125], "extra": []},
]
"""In the schema of data sets as `raftrsf/sfr_concise_iter4_k32_with_rewards` on the Hugging Face Hub."""

EACH: dict[str, Any] = {"completion": "responses[]", "reward": {"rewards[]": 1.0}}
NAMED: dict[str, Any] = {"prompt": "prompt", "completion": "responses", "reward": {"rewards": 1.0}}


def write(path: Path, records: list[Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return path


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "train.jsonl").read_text("utf-8").splitlines()]


def test_each_element_is_a_row_of_the_group_of_its_record(tmp_path: Path) -> None:
    log = karl_fast.read(write(tmp_path / "log.jsonl", GROUPS), **EACH)
    assert sorted(log.rewards) == [0.0, 0.125, 0.25, 0.5, 1.0]
    assert sorted(log.group_names) == ["a", "b"]
    [file] = log.inputs
    assert (file["rows_read"], file["dropped"], dict(file["fields"])["reward"]) == (5, [], "rewards[]")
    manifest = karl_fast.sample(log, tmp_path / "data", k=5, split=(1, 0, 0), score="zscore").manifest
    assert manifest["accounting"]["rows_read"] == 5
    drawn = {row["karl_fast"]["id"]: row for row in rows_of(tmp_path / "data")}
    assert sorted(drawn) == ["a/0", "a/1", "b/0", "b/1", "b/2"]
    assert (drawn["b/2"]["prompt"], drawn["b/2"]["completion"]) == ("3+3?", "8")
    assert (drawn["b/2"]["karl_fast"]["group"], drawn["b/2"]["karl_fast"]["reward"]) == ("b", 0.125)


def test_a_file_of_rows_gives_the_same_draw(tmp_path: Path) -> None:
    """The twin: rows made by hand, with the ids that elements have."""
    rows = [
        {"id": f"{group['id']}/{n}", "group": group["id"], "prompt": group["prompt"]}
        | {"completion": group["responses"][n], "reward": group["rewards"][n]}
        for group in GROUPS
        for n in range(len(group["rewards"]))
    ]
    asked: dict[str, Any] = {"k": 3, "split": (1, 0, 0), "score": "centre", "seed": 4}
    karl_fast.sample(write(tmp_path / "rows.jsonl", rows), tmp_path / "twin", **asked)
    (tmp_path / "log.jsonl.gz").write_bytes(gzip.compress("\n".join(map(json.dumps, GROUPS)).encode()))
    (tmp_path / "log.json").write_text(json.dumps(GROUPS, indent=2), "utf-8")
    write(tmp_path / "log.jsonl", GROUPS)
    for name in ("log.jsonl", "log.jsonl.gz", "log.json"):
        karl_fast.sample(tmp_path / name, tmp_path / name[:-1].replace(".", "-"), **asked, **EACH)
        assert rows_of(tmp_path / name[:-1].replace(".", "-")) == rows_of(tmp_path / "twin")


def test_workers_tables_and_pipes_read_groups(tmp_path: Path) -> None:
    path = write(tmp_path / "log.jsonl", GROUPS * 10)
    asked: dict[str, Any] = {"k": 6, "split": (1, 0, 0), "score": "centre"} | EACH
    karl_fast.sample(path, tmp_path / "data", **asked)
    with ThreadPoolExecutor(2) as executor:
        distributed.sample(path, tmp_path / "workers", executor=executor, split_bytes=200, **asked)
    assert rows_of(tmp_path / "workers") == rows_of(tmp_path / "data")
    parquet = pytest.importorskip("pyarrow.parquet")
    arrow = pytest.importorskip("pyarrow")
    parquet.write_table(arrow.Table.from_pylist(GROUPS * 10), tmp_path / "log.parquet")
    karl_fast.sample(tmp_path / "log.parquet", tmp_path / "table", **asked)
    assert rows_of(tmp_path / "table") == rows_of(tmp_path / "data")


@pytest.mark.parametrize("named", [False, True])
def test_a_pipe_is_read_once(named: bool, tmp_path: Path) -> None:
    text = json.dumps({group["id"]: group for group in GROUPS}) if named else "\n".join(map(json.dumps, GROUPS))
    (tmp_path / "log.json").write_text(text, "utf-8")
    options = ["--reward", "rewards[]", "--completion", "responses[]", "-k", 3, "--split", "1,0,0"]
    options += ["--sampler", "weighted-reservoir", "--inverse-temperature", 2]
    for source, out in (("log.json", "file"), ("-", "pipe")):
        done = karl("sample", source, *options, "-o", out, folder=tmp_path, input=text)
        assert done.returncode == 0, done.stderr
    assert rows_of(tmp_path / "pipe") == rows_of(tmp_path / "file")


def test_elements_may_be_objects_and_conversations(tmp_path: Path) -> None:
    def talk(answer: str) -> list[dict[str, str]]:
        return [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": answer}]

    samples = {"samples": [{"talk": talk("4"), "score": True}, {"talk": talk("5"), "score": False}]}
    log = karl_fast.read(
        write(tmp_path / "log.jsonl", [samples]), messages="samples[].talk", reward={"samples[].score": 1.0}
    )
    karl_fast.sample(log, tmp_path / "data", k=2, split=(1, 0, 0))
    rows = rows_of(tmp_path / "data")
    assert {row["messages"][1]["content"]: row["karl_fast"]["reward"] for row in rows} == {"4": 1.0, "5": 0.0}
    [group] = {row["karl_fast"]["group"] for row in rows}
    assert {row["karl_fast"]["id"] for row in rows} == {f"{group}/0", f"{group}/1"}
    assert re.fullmatch("[0-9a-f]{32}", group)


def test_raw_rows_say_which_element_they_are(tmp_path: Path) -> None:
    path = write(tmp_path / "log.jsonl", [GROUPS[0] | {"responses": ["4" * 70_000, "5"]}])
    karl_fast.sample(path, tmp_path / "data", k=2, split=(1, 0, 0), shape="raw", **EACH)
    rows = sorted(rows_of(tmp_path / "data"), key=lambda row: row["rewards"])
    assert [row["karl_fast_element"] for row in rows] == [
        {"id": "a/1", "of": "a", "index": 1},
        {"id": "a/0", "of": "a", "index": 0},
    ]
    assert (rows[0]["responses"], rows[0]["rewards"], rows[0]["extra"]) == ("5", 0.25, [1, 2, 3])


def test_ids_and_groups_may_be_named(tmp_path: Path) -> None:
    record = GROUPS[0] | {"uids": ["x", "y"], "task": {"name": "sum"}}
    path = write(tmp_path / "log.jsonl", [record])
    log = karl_fast.read(path, id="uids[]", group="task.name", **EACH)
    assert log.group_names == ["sum"]
    karl_fast.sample(log, tmp_path / "data", k=2, split=(1, 0, 0))
    assert {row["karl_fast"]["id"] for row in rows_of(tmp_path / "data")} == {"x", "y"}


@pytest.mark.parametrize(
    "record",
    [
        GROUPS[0] | {"responses": ["4"]},
        GROUPS[0] | {"responses": "4"},
        GROUPS[0] | {"responses": [], "rewards": []},
        {"prompt": "2+2?", "rewards": [1.0, 0.0]},
    ],
)
def test_records_that_give_no_rows_are_dropped_with_their_place(tmp_path: Path, record: dict[str, Any]) -> None:
    path = write(tmp_path / "log.jsonl", [*GROUPS, record])
    log = karl_fast.read(path, **EACH)
    [file] = log.inputs
    assert (len(log), file["rows_read"], file["dropped"]) == (5, 6, [("bad_list", 1)])
    assert [(bad["reason"], bad["line"]) for bad in file["bad_rows"]] == [("bad_list", 3)]
    with pytest.raises(
        errors.BadRowError, match=r"log\.jsonl, line 3, byte \d+: the row is not a sound record: bad list"
    ):
        karl_fast.read(path, strict=True, **EACH)
    with pytest.raises(errors.NothingToSampleError) as caught:
        karl_fast.sample(write(tmp_path / "bad.jsonl", [record]), tmp_path / "data", k=1, **EACH)
    assert "each field with [] is a list" in str(caught.value.hint)


def test_elements_are_judged_one_by_one_and_damage_keeps_its_place(tmp_path: Path) -> None:
    path = write(tmp_path / "log.jsonl", [GROUPS[0], GROUPS[1] | {"rewards": [0.5, None, "high"]}])
    path.write_text(path.read_text("utf-8") + '{"prompt": "torn', "utf-8")
    log = karl_fast.read(path, **EACH)
    [file] = log.inputs
    assert dict(file["dropped"]) == {"reward_not_a_number": 1, "torn": 1}
    assert [(bad["reason"], bad["line"]) for bad in file["bad_rows"]] == [("reward_not_a_number", 2), ("torn", 3)]
    assert sum(reward == reward for reward in log.rewards) == 3


def test_commands_read_groups(tmp_path: Path) -> None:
    path = write(tmp_path / "log.jsonl", GROUPS)
    fields = ["--reward", "rewards[]", "--completion", "responses[]"]
    for command in (
        ["inspect", path, *fields, "--score", "zscore"],
        ["audit", path, *fields],
        ["show", path, *fields],
        ["report", path, *fields, "-o", tmp_path / "page.html"],
        ["inspect", path, *fields, "--index"],
        ["inspect", path, *fields, "--index"],
    ):
        done = karl(*command, folder=tmp_path)
        assert done.returncode == 0, done.stderr
    done = karl("audit", path, *fields, "--json", folder=tmp_path)
    assert json.loads(done.stdout)["signal"]["groups"] == 2, done.stdout


def hint_of(path: Path, records: list[Any], **wishes: Any) -> str:
    with pytest.raises(errors.NothingToSampleError) as caught:
        karl_fast.sample(write(path, records), path.with_name("data"), k=1, **(NAMED | wishes))
    return str(caught.value.hint)


@pytest.mark.parametrize(
    ("record", "wishes"),
    [
        (GROUPS[0], {}),
        ({"prompt": "2+2?", "samples": [{"text": "4", "score": 1}, {"text": "5", "score": 0}]}, {"reward": None}),
    ],
)
def test_the_hint_makes_a_row_of_each_response(record: dict[str, Any], wishes: dict[str, Any], tmp_path: Path) -> None:
    hint = hint_of(tmp_path / "log.jsonl", [record], **wishes)
    found = re.search(r"(--reward .*) makes a row of each element", hint)
    assert found is not None, hint
    options = ["-k", 2, "-o", "data", "--split", "1,0,0"]
    done = karl("sample", "log.jsonl", *shlex.split(found[1]), *options, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {row["completion"] for row in rows_of(tmp_path / "data")} == {"4", "5"}


@pytest.mark.parametrize(
    "record",
    [
        GROUPS[0] | {"responses": ["4"]},
        {"prompt": "2+2?", "completion": "4", "rewards": [1.0, 0.0]},
        GROUPS[0] | {"rewards": "high"},
    ],
)
def test_other_records_keep_the_hint_of_a_reward(tmp_path: Path, record: dict[str, Any]) -> None:
    assert hint_of(tmp_path / "log.jsonl", [record]).startswith("a reward is a number")


def test_brackets_stand_once_in_a_path_and_elsewhere_are_a_part_of_a_key(tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", [GROUPS[0] | {"a[]": 7, "a[]b": 8}])
    with pytest.raises(errors.UsageError, match=r"\[\] stands once in a path"):
        karl_fast.read(log, completion="a[].b[]")
    for path, reward in (("a[]b", 8.0), ('"a[]"', 7.0)):
        assert karl_fast.read(log, reward={path: 1.0}).rewards.tolist() == [reward]
