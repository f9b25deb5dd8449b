"""Rows in the forms of trainers and services: what they hold, and whether their own loaders take them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from karl_fast.export.data_set_reader import open_data_set
from karl_fast.settings.schema import Shape
from tests import rows

if TYPE_CHECKING:
    from pathlib import Path

SHAPES: tuple[str, ...] = Shape.__args__  # type: ignore[attr-defined]

TABLES = ("verl", "prime-rl")

TOOLS = [
    {
        "type": "function",
        "function": {"name": "run", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}},
    }
]


def session(number: int, reward: float, *, tools: bool = True) -> dict[str, Any]:
    """A trajectory of an agent with a thought, two calls whose arguments differ in their keys, and their results."""
    arguments = [{"command": "ls"}, {"path": "a.py", "line": 3}]
    calls = [
        {"id": f"c{at}", "type": "function", "function": {"name": "run", "arguments": value}}
        for at, value in enumerate(arguments)
    ]
    turns: list[dict[str, Any]] = [
        {"role": "assistant", "content": "I look.", "reasoning_content": "hm", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c0", "content": "a.py"},
        {"role": "tool", "tool_call_id": "c1", "content": "x = 1"},
    ]
    messages = [
        {"role": "system", "content": "You fix things."},
        {"role": "user", "content": f"Task {number // 4}"},
        *(turns if tools else []),
        {"role": "assistant", "content": f"Answer {number}"},
    ]
    more = {"tools": TOOLS} if tools else {}
    return {"id": f"s{number}", "group": f"t{number // 4}", "reward": reward, "messages": messages} | more


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return rows.write(tmp_path / "log.jsonl", [session(n, n % 4 / 3) for n in range(24)])


def written(log: Path, shape: str, **more: Any) -> tuple[Path, dict[str, Any]]:
    out = log.parent / shape
    choices: dict[str, Any] = {"k": 12, "split": (1.0, 0.0, 0.0), "shape": shape} | more
    return out, karl_fast.sample(log, out, **choices).manifest


def read(folder: Path) -> list[dict[str, Any]]:
    return [row.value for row in open_data_set(folder).rows()]


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape not in ("raw", "alpaca")])
def test_every_row_is_read_back_with_its_id_group_and_reward(log: Path, shape: str) -> None:
    out, manifest = written(log, shape)
    assert (manifest["export"]["shape"], manifest["draw"]["failed"]) == (shape, {}) or shape == "preference"
    facts = karl_fast.compare(out, out)["a"]
    assert facts["rows"] == len(read(out)) == 12
    assert facts["reward"]["count"] == 12
    assert facts["groups"]["count"] > 1


def test_prompt_and_completion_are_messages_and_arguments_objects(log: Path) -> None:
    out, _ = written(log, "prompt-completion")
    for row in read(out):
        assert [message["role"] for message in row["prompt"]] == ["system", "user", "assistant", "tool", "tool"]
        assert [message["role"] for message in row["completion"]] == ["assistant"]
        assert row["prompt"][2]["tool_calls"][1]["function"]["arguments"] == {"path": "a.py", "line": 3}
        assert row["tools"] == TOOLS


def test_the_form_as_text_stays_for_trainers_without_messages(log: Path) -> None:
    out, _ = written(log, "prompt-completion-text")
    assert all(isinstance(row["prompt"], str) and row["completion"].startswith("Answer") for row in read(out))


def test_a_pair_has_an_answer_of_a_lower_reward_of_its_group(log: Path) -> None:
    out, manifest = written(log, "preference", sampler="all", k=None)
    pairs = read(out)
    assert len(pairs) == 18
    assert manifest["draw"]["failed"] == {"no_rejected": 6}, "the worst of each group"
    number = {f"Answer {n}": n for n in range(24)}
    for row in pairs:
        chosen, rejected = (number[row[name][-1]["content"]] for name in ("chosen", "rejected"))
        assert chosen // 4 == rejected // 4
        assert chosen % 4 / 3 == row["karl_fast"]["reward"] > row["karl_fast"]["rejected"]["reward"] == rejected % 4 / 3
        assert [message["role"] for message in row["prompt"]][-2:] == ["tool", "tool"]


def test_which_answer_is_rejected_depends_on_the_seed_and_the_records_alone(log: Path, tmp_path: Path) -> None:
    lines = log.read_text("utf-8").splitlines(keepends=True)
    parts = [tmp_path / "b.jsonl", tmp_path / "a.jsonl"]
    for part, text in zip(parts, (lines[::-2], lines[-2::-2]), strict=True):
        part.write_text("".join(text), "utf-8")
    out, _ = written(log, "preference")
    karl_fast.sample(parts, tmp_path / "again", k=12, split=(1.0, 0.0, 0.0), shape="preference", threads=1)
    karl_fast.sample(log, tmp_path / "other", k=12, split=(1.0, 0.0, 0.0), shape="preference", seed=1)
    assert read(out) == read(tmp_path / "again")
    assert read(out) != read(tmp_path / "other")


def test_a_label_is_true_above_the_middle_of_all_rewards(log: Path) -> None:
    out, manifest = written(log, "kto", sampler="all", k=None)
    assert manifest["export"]["label_above"] == 0.5
    labels = {row["karl_fast"]["id"]: row["label"] for row in read(out)}
    assert labels == {f"s{n}": n % 4 / 3 > 0.5 for n in range(24)}


def test_without_two_rewards_there_is_no_label(tmp_path: Path) -> None:
    log = rows.write(tmp_path / "log.jsonl", [session(n, 1.0) for n in range(4)])
    with pytest.raises(karl_fast.errors.NothingToSampleError, match="no label 4"):
        karl_fast.sample(log, tmp_path / "out", k=4, shape="kto")


def test_alpaca_leaves_out_rows_with_tools_by_name(tmp_path: Path) -> None:
    records = [session(n, n % 4 / 3, tools=n % 2 == 0) for n in range(8)]
    log = rows.write(tmp_path / "log.jsonl", records)
    out, manifest = written(log, "alpaca", k=4)
    assert manifest["draw"]["failed"].keys() <= {"has_tools"}
    for row in read(out):
        assert row["instruction"].startswith("Task")
        assert (row["system"], row["input"], row["history"]) == ("You fix things.", "", [])


def test_services_get_arguments_as_text_and_reasoning_is_counted(log: Path) -> None:
    out, manifest = written(log, "openai")
    assert manifest["export"]["reasoning_left_out"] == 12
    for row in read(out):
        calls = row["messages"][2]["tool_calls"]
        assert [json.loads(call["function"]["arguments"]) for call in calls][1] == {"path": "a.py", "line": 3}
        assert {key for message in row["messages"] for key in message} <= {
            "role",
            "content",
            "tool_calls",
            "tool_call_id",
        }


def test_a_data_set_as_atif_is_read_by_convert_again(log: Path, tmp_path: Path) -> None:
    out, _ = written(log, "atif")
    [first, *_] = read(out)
    document = tmp_path / "trajectory.json"
    document.write_text(json.dumps(first), "utf-8")
    karl_fast.convert(document, tmp_path / "back.jsonl")
    [back] = rows_of(tmp_path / "back.jsonl")
    assert [message["role"] for message in back["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
    ]
    assert back["messages"][2]["reasoning_content"] == "hm"
    assert json.loads(back["messages"][2]["tool_calls"][1]["function"]["arguments"]) == {"path": "a.py", "line": 3}
    assert back["tools"] == TOOLS


def test_the_documents_are_those_of_the_package_atif(log: Path) -> None:
    atif = pytest.importorskip("atif", reason="the package atif is not installed")
    out, _ = written(log, "atif")
    for row in read(out):
        trajectory = atif.Trajectory.model_validate(row)
        assert trajectory.steps[2].observation.results[1].source_call_id == "c1"


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.parametrize(
    "shape", ["chat", "prompt-completion", "openai", "verl", "prime-rl", "sharegpt", "preference", "kto"]
)
def test_what_is_written_is_drawn_again(log: Path, tmp_path: Path, shape: str) -> None:
    """Read as a log, the rows of a data set are the conversations that they were made of."""
    out, _ = written(log, shape)
    file = out / ("train.parquet" if shape in TABLES else "train.jsonl")
    copy = tmp_path / ("rows" + file.suffix)
    copy.write_bytes(file.read_bytes())
    fields: dict[str, Any] = {"id": "karl_fast.id", "group": "karl_fast.group", "reward": {"karl_fast.reward": 1.0}}
    fields["messages"] = {"sharegpt": "conversations", "preference": "prompt"}.get(shape)
    if shape == "preference":
        fields |= {"messages": None, "prompt": "prompt", "completion": "chosen"}
    choices: dict[str, Any] = {"k": 12, "split": (1.0, 0.0, 0.0)} | fields
    karl_fast.sample(copy, tmp_path / "back", **choices)
    plain = {row["karl_fast"]["id"]: row["messages"] for row in read(written(log, "chat", force=True)[0])}
    if shape in ("preference", "kto", "sharegpt"):
        plain = {f"s{n}": session(n, 0.0)["messages"] for n in range(24)}
    for row in read(tmp_path / "back"):
        wanted = plain[row["karl_fast"]["id"]]
        texts = [message["content"] for message in row["messages"]]
        assert texts[-1] == wanted[-1]["content"]
        if shape != "sharegpt":
            assert texts == [message["content"] for message in wanted]
            calls = [call["function"] for message in row["messages"] for call in message.get("tool_calls") or []]
            assert calls == [call["function"] for call in wanted[2]["tool_calls"]]
            assert row["tools"] == TOOLS


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "alpaca"])
def test_datasets_loads_the_folder(log: Path, shape: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets", reason="the package datasets is not installed")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    out, _ = written(log, shape, split=(0.5, 0.5, 0.0), k=16)
    loaded = datasets.load_dataset(str(out), cache_dir=str(tmp_path / "cache"))
    assert {name: len(loaded[name]) for name in loaded} == {"train": 8, "validation": 8}
    columns = set(read(out)[0])
    assert set(loaded["train"].column_names) == columns


def test_pandas_reads_tables_as_verl_does(log: Path) -> None:
    pandas = pytest.importorskip("pandas")
    out, _ = written(log, "verl")
    frame = pandas.read_parquet(out / "train.parquet")
    assert list(frame["tools"][0]) == TOOLS or frame["tools"][0].tolist()[0]["function"]["name"] == "run"
    assert frame["messages"][0][2]["tool_calls"][0]["function"]["arguments"] == '{"command":"ls"}'


def test_tools_that_differ_do_not_get_the_keys_of_others(tmp_path: Path) -> None:
    other = [
        {
            "type": "function",
            "function": {"name": "go", "parameters": {"type": "object", "properties": {"x": {"type": "string"}}}},
        }
    ]
    records = [session(n, n % 4 / 3) | ({"tools": other} if n % 2 else {}) for n in range(8)]
    log = rows.write(tmp_path / "log.jsonl", records)
    with pytest.raises(karl_fast.errors.DataSetError, match=r"different keys|do not fit"):
        karl_fast.sample(log, tmp_path / "out", k=8, shape="verl")
    assert not (tmp_path / "out").exists()
    out, _ = written(log, "prime-rl", k=8)
    names = {json.loads(row["tools"])[0]["function"]["name"] for row in read(out)}
    assert names == {"run", "go"}


def test_an_empty_object_in_a_tool_has_no_column(tmp_path: Path) -> None:
    empty = [{"type": "function", "function": {"name": "go", "parameters": {"type": "object", "properties": {}}}}]
    log = rows.write(tmp_path / "log.jsonl", [session(n, n % 4 / 3) | {"tools": empty} for n in range(8)])
    with pytest.raises(karl_fast.errors.DataSetError, match="an empty object, for which Parquet has no column"):
        karl_fast.sample(log, tmp_path / "out", k=8, shape="verl")


def test_trl_takes_prompts_completions_and_pairs(log: Path) -> None:
    trl = pytest.importorskip("trl", reason="trl is not installed: it needs torch")
    data_utils = pytest.importorskip("trl.data_utils")
    assert trl.__version__
    for shape in ("prompt-completion", "preference", "kto"):
        out, _ = written(log, shape)
        assert all(data_utils.is_conversational(row) for row in read(out))
