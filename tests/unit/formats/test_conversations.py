"""What `sample` writes of conversations in the forms of other producers, and what it drops by name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from tests import rows
from tests.cli.run import karl

if TYPE_CHECKING:
    from pathlib import Path

Record = dict[str, Any]

USER = {"role": "user", "content": "q"}
ANSWER = {"role": "assistant", "content": "a"}


def chat(*messages: Record, **more: Any) -> Record:
    return {"id": "r", "reward": 1.0, "messages": [USER, *messages], **more}


def called(arguments: Any) -> Record:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def sampled(folder: Path, *records: Record | str, **settings: Any) -> tuple[list[str], Record]:
    """The lines that are written of records, and the reasons why others are not."""
    lines = [one if isinstance(one, str) else json.dumps(one) for one in (rows.record(1), *records)]
    log = folder / "log.jsonl"
    log.write_text("".join(line + "\n" for line in lines))
    settings = {"split": (1, 0, 0), "sampler": "all"} | settings
    manifest = karl_fast.sample(log, folder / "out", force=True, **settings).manifest
    written = (folder / "out" / "train.jsonl").read_text().splitlines()
    return [line for line in written if '"r1"' not in line], manifest["draw"]["failed"]


def arguments_of(line: str) -> Any:
    return json.loads(line)["messages"][-1]["tool_calls"][0]["function"]["arguments"]


@pytest.mark.parametrize(
    ("arguments", "written"),
    [
        ('{"city": "Rome", "n": 1e5}', {"city": "Rome", "n": 1e5}),
        ({"city": "Rome"}, {"city": "Rome"}),
        ("", {}),
        (None, {}),
        ("null", {}),
    ],
)
def test_arguments_are_objects_in_every_row(tmp_path: Path, arguments: Any, written: Any) -> None:
    [line], failed = sampled(tmp_path, chat(called(arguments)))
    assert arguments_of(line) == written
    assert not failed


@pytest.mark.parametrize("arguments", ['{"city": "Ro', "look", "[1]", '"{}"', "5"])
def test_arguments_that_are_no_object_cost_their_row(tmp_path: Path, arguments: str) -> None:
    assert sampled(tmp_path, chat(called(arguments))) == ([], {"bad_arguments": 1})


def test_non_finite_numbers_stay_in_raw_rows(tmp_path: Path) -> None:
    inside = '{"x":NaN,"y":[Infinity,-Infinity]}'
    record = json.dumps(chat(called("HERE"), content=None)).replace('"HERE"', inside)
    [line], failed = sampled(tmp_path, record)
    assert f'"arguments":{inside}' in line
    assert not failed
    for other in (
        record.replace('"tool_calls": [{', '"function_call": {').replace("}}]}]}", "}}}]}"),
        '{"id":"r","reward":1,"conversations":[{"from":"human","value":"q"},{"from":"function_call","value":'
        + json.dumps('{"name":"f","arguments":' + inside + "}")
        + "}]}",
        '{"id":"r","reward":1,"prompt":{"text":"q","input":' + inside + '},"completion":"a"}',
    ):
        for shape in ("chat", "text", "prompt-completion-text"):
            sampled(tmp_path, other, messages="messages|conversations", dedup=True, shape=shape)
    text = json.dumps(chat(called(inside)))
    assert f'"arguments":{inside}' in sampled(tmp_path, text)[0][0]
    tools = json.dumps(chat(ANSWER, tools=[{"name": "f", "parameters": {"maximum": "HERE"}}])).replace(
        '"HERE"', "Infinity"
    )
    assert '"maximum":Infinity' in sampled(tmp_path, tools)[0][0]
    missing = json.dumps(chat(called({}) | {"content": "HERE", "name": "HERE"})).replace('"HERE"', "NaN")
    assert sampled(tmp_path, missing)[0] != []
    secret = json.dumps(chat(ANSWER, loss="HERE", key="ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8")).replace(
        '"HERE"', "NaN"
    )
    [line], _ = sampled(tmp_path, secret, shape="raw")
    assert "ghp_" not in line
    assert '"loss":NaN' in line


FUNCTION = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}


@pytest.mark.parametrize(
    "tools",
    [
        [FUNCTION],
        FUNCTION,
        json.dumps([FUNCTION]),
        json.dumps(FUNCTION),
        [json.dumps(FUNCTION)],
        [FUNCTION["function"]],
        [{"name": "f", "description": "d", "input_schema": {"type": "object"}}],
        [{"name": "f", "description": "d", "inputSchema": {"type": "object"}}],
        [{"functionDeclarations": [FUNCTION["function"]]}],
    ],
)
def test_tools_of_other_producers_get_one_form(tmp_path: Path, tools: Any) -> None:
    [line], failed = sampled(tmp_path, chat(ANSWER, tools=tools))
    assert json.loads(line)["tools"] == [FUNCTION]
    assert not failed


@pytest.mark.parametrize(
    "tools",
    [
        '[{"type":"function","function":{"name":"f"',
        "bash and grep",
        '"bash"',
        [{"input_schema": {}}],
        [{"type": "web_search"}],
        [FUNCTION, 5],
        {"f": {"parameters": {}}},
        7,
        True,
    ],
)
@pytest.mark.parametrize("text", [False, True])
def test_tools_that_are_not_understood_cost_their_row(tmp_path: Path, tools: Any, text: bool) -> None:
    record = {"id": "r", "reward": 1, "prompt": "q", "completion": "a"} if text else chat(ANSWER)
    assert sampled(tmp_path, record | {"tools": tools}) == ([], {"bad_tools": 1})


def test_no_tools_are_none(tmp_path: Path) -> None:
    for tools in (None, [], "", "[]", {}, "null", float("nan")):
        [line], failed = sampled(tmp_path, chat(ANSWER, tools=tools))
        assert json.loads(line).get("tools") is None
        assert not failed


@pytest.mark.parametrize(
    "beside",
    [
        {"images": ["a.png"]},
        {"images": [{"bytes": "aGk=", "path": None}]},
        {"image": {"path": "a.png"}},
        {"image": "data:image/png;base64,aGk="},
        {"audio": "a.WAV"},
        {"audios": ["a.wav"]},
        {"videos": [["a.png", "b.png"]]},
        {"multi_modal_data": {"image": ["a.png"]}},
        {"image_url": {"url": "https://x/a"}},
        {"image_path": "a.png"},
        {"image_0": "a.png"},
        {"image_list": ["a.png"]},
        {"image_file": "a.png"},
        {"image": "iVBORw0KGgoAAAANSUhEUg=="},
        {"img": "a.png?w=1"},
        {"files": ["a.png"]},
    ],
)
@pytest.mark.parametrize("text", [False, True])
def test_media_beside_a_conversation_cost_its_row(tmp_path: Path, beside: Record, text: bool) -> None:
    record = {"id": "r", "reward": 1, "prompt": "q", "completion": "a"} if text else chat(ANSWER)
    assert sampled(tmp_path, record | beside) == ([], {"bad_message": 1})


def test_no_media_beside_a_conversation_cost_nothing(tmp_path: Path) -> None:
    none: list[Record] = [
        {"images": []},
        {"images": None},
        {"image": None},
        {"audio": ""},
        {"files": ["a.png", "a.py"]},
    ]
    for beside in (*none, {"image": "python:3.12-slim"}, {"docker_image": "x:1"}, {"image_size": [2, 3]}):
        assert len(sampled(tmp_path, chat(ANSWER, **beside))[0]) == 1


def test_texts_hold_reasoning_tools_and_calls(tmp_path: Path) -> None:
    thought = {"role": "assistant", "content": "", "reasoning_content": "THOUGHT"}
    record = chat(called({"x": 1}) | {"reasoning": "WHY"}, {"role": "tool", "content": "5"}, thought, tools=[FUNCTION])
    [line], _ = sampled(tmp_path, record, shape="text")
    said = json.loads(line)["text"]
    assert said.startswith('tools: [{"type":"function","function":{"name":"f"')
    for part in ("user: q", "<think>\nWHY\n</think>", '[tool_call f {"x":1}]', "tool: 5", "<think>\nTHOUGHT\n</think>"):
        assert part in said
    [line], _ = sampled(tmp_path, record, shape="prompt-completion-text")
    row = json.loads(line)
    assert row["completion"] == "<think>\nTHOUGHT\n</think>"
    assert row["prompt"].startswith("tools: [")
    assert row["prompt"].endswith("\n\nassistant: ")


def test_equal_prompts_of_other_forms_share_a_group(tmp_path: Path) -> None:
    forms = [
        lambda number, text: {"role": "user", "content": text, "id": f"m{number}"},
        lambda number, text: {"role": "user", "content": text, "timestamp": number, "name": None, "tool_calls": []},
        lambda _, text: {"role": "human", "content": [{"type": "text", "text": text}]},
        lambda number, text: {"from": "human", "value": text, "usage": {"tokens": number}},
    ]
    made = [
        {"id": f"r{n}", "reward": n % 7, "prompt": [forms[n % 4](n, f"prompt {n % 20}")], "completion": f"answer {n}"}
        for n in range(80)
    ]
    log = rows.write(tmp_path / "log.jsonl", made)
    karl_fast.sample(log, tmp_path / "out", sampler="all", split=(0.8, 0.2, 0))
    sides = [
        {
            int(json.loads(line)["karl_fast"]["id"][1:]) % 20
            for line in (tmp_path / "out" / name).read_text().splitlines()
        }
        for name in ("train.jsonl", "valid.jsonl")
    ]
    assert all(sides)
    assert not sides[0] & sides[1]
    assert karl_fast.read(log, group="hash(prompt)").core.names("group").__len__() == 20


def test_copies_with_another_reward_are_told(tmp_path: Path) -> None:
    made = [rows.record(n, "g", n / 4, id=f"r{n}") for n in range(8)]
    copies = [one | {"id": f"x{at}", "reward": 0.25} for at, one in enumerate(made)]
    log = rows.write(tmp_path / "log.jsonl", made + copies)
    done = karl("sample", log, "-o", tmp_path / "out", "-k", 4, "--dedup")
    assert "7 of 8 dropped copies had another reward" in " ".join(done.stderr.split())
    notes = json.loads((tmp_path / "out" / "manifest.json").read_text())["accounting"]["notes"]
    assert notes["duplicates_with_other_reward"] == 7


def test_a_key_twice_in_a_message_is_told(tmp_path: Path) -> None:
    record = json.dumps(rows.record(1))
    twice = record.replace('"content": "answer 1"', '"content": "x", "content": "answer 1"')
    call = json.dumps(chat(called('{"a": 1, "a": 2}')))
    (tmp_path / "log.jsonl").write_text(f"{record}\n{twice}\n{call}\n")
    done = karl("sample", tmp_path / "log.jsonl", "-o", tmp_path / "out", "--sampler", "all")
    assert "2 rows have a key twice in one object" in " ".join(done.stderr.split())
