"""What is not understood of a conversation costs its row, by name: `convert` and `sample` read messages alike."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from karl_fast import errors
from tests.cli.run import karl

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.convert.conftest import Convert

Message = dict[str, Any]


def user(content: Any = "go", **more: Any) -> Message:
    return {"role": "user", "content": content} | more


def model(content: Any = "done", **more: Any) -> Message:
    return {"role": "assistant", "content": content} | more


def tool(content: Any = "3", **more: Any) -> Message:
    return {"role": "tool", "content": content} | more


CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}
USE = {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}}
RESULT = {"type": "tool_result", "tool_use_id": "c", "content": "3"}

UNREAD: dict[str, tuple[str, list[Any]]] = {
    "an image": ("bad_message", [user([{"type": "image_url", "image_url": {"url": "x"}}]), model()]),
    "parts of OpenTelemetry that are empty": (
        "empty_message",
        [{"role": "user", "parts": [{"type": "text", "content": "go"}]}, {"role": "assistant", "parts": []}],
    ),
    "parts beside an empty content": ("bad_message", [user(), model("", parts=[{"type": "tool-f"}]), model()]),
    "a call alone": ("bad_message", [user(), model("x", tool_call={"name": "f"}), model()]),
    "a call of Gemini": ("bad_message", [user(), model("x", functionCall={"name": "f"}), model()]),
    "a result beside a text": ("bad_message", [user(), model(), user("x", tool_result={"output": "3"}), model()]),
    "invocations of the AI SDK": ("bad_message", [user(), model("x", toolInvocations=[{"toolName": "f"}]), model()]),
    "messages of LangChain": ("bad_message", [{"type": "human", "content": "go"}, {"type": "ai", "content": "done"}]),
    "calls of LangChain in kwargs": (
        "bad_message",
        [user(), model("", additional_kwargs={"tool_calls": [CALL]}), tool(), model()],
    ),
    "a channel of Harmony": ("bad_message", [user(), model("hm", channel="analysis"), model(channel="final")]),
    "a call of Harmony": ("bad_message", [user(), model("{}", recipient="functions.f"), tool(), model()]),
    "thoughts of Mistral": ("bad_message", [user(), model([{"type": "thinking", "thinking": []}]), model()]),
    "a call that is none": ("bad_message", [user(), model(None, tool_calls=[{"custom": {"name": "f"}}]), model()]),
    "a refusal": ("bad_message", [user(), model(None, refusal="no")]),
    "a turn that keeps everything elsewhere": ("empty_message", [user(), model("", steps=[{"call": "f"}]), model()]),
    "a turn of nothing under a key of its own": ("empty_message", [user(), model("", text="x"), model()]),
    "a turn of blanks": ("empty_message", [user(), model(" \n")]),
    "an image under a key of its own": ("bad_message", [user(image_url="http://x/a.png"), model()]),
    "files of images": ("bad_message", [user(files=["a.png"]), model()]),
    "a turn of nothing": ("empty_message", [user(), model(None), model()]),
    "a speaker of smolagents": ("unknown_role", [user(), {"role": "tool-call", "content": "f()"}, model()]),
    "a speaker of nobody's": ("unknown_role", [user(), model(), {"role": "critic", "content": "well"}]),
    "a weight between 0 and 1": ("bad_weight", [user(), model(weight=0.5)]),
    "a weight that is a text": ("bad_weight", [user(), model(weight="0"), model()]),
    "weights of parts of a text": (
        "bad_weight",
        [user(), model(train_detail=[{"begin_offset": 0, "end_offset": 1, "train": False}])],
    ),
    "blocks of thoughts beside a content": ("bad_message", [user(), model(reasoning_content=[THOUGHT])]),
    "thoughts that are an object": ("bad_message", [user(), model(thinking={"steps": ["hm"]})]),
    "thoughts that are a number": ("bad_message", [user(), model(reasoning=7)]),
}


def write(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


READ: dict[str, tuple[list[str], list[Any]]] = {
    "blocks of Anthropic": (
        ["user", "assistant hm f", "tool 3", "assistant"],
        [user(), model([THOUGHT, USE]), user([RESULT]), model()],
    ),
    "a block of a tool beside a text": (
        ["user", "assistant f", "assistant"],
        [user(), model([{"type": "text", "text": "x"}, USE]), model()],
    ),
    "a result alone": (["user", "tool 3", "assistant"], [user(), user([RESULT]), model()]),
    "items of Responses": (
        ["user", "assistant f", "tool 3", "assistant"],
        [
            user(),
            {"type": "function_call", "name": "f", "arguments": '{"a": 1}', "call_id": "c"},
            {"type": "function_call_output", "call_id": "c", "output": "3"},
            model(),
        ],
    ),
    "calls of Gemini": (
        ["user", "assistant f"],
        [user(), {"role": "model", "parts": [{"functionCall": {"name": "f"}}]}],
    ),
    "thoughts of Gemini": (
        ["user", "assistant hm"],
        [user(), {"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": "done"}]}],
    ),
    "blocks of Bedrock": (
        ["user", "assistant f", "tool 3", "assistant"],
        [
            user([{"text": "go"}]),
            model([{"toolUse": {"toolUseId": "c", "name": "f", "input": {}}}]),
            user([{"toolResult": {"toolUseId": "c", "content": [{"text": "3"}]}}]),
            model(),
        ],
    ),
    "parts of the AI SDK": (
        ["user", "assistant f", "tool 3", "assistant"],
        [
            user(),
            model([{"type": "tool-call", "toolCallId": "c", "toolName": "f", "input": {}}]),
            tool(
                [{"type": "tool-result", "toolCallId": "c", "toolName": "f", "output": {"type": "text", "value": "3"}}]
            ),
            model(),
        ],
    ),
    "parts of OpenTelemetry": (
        ["user", "assistant hm f", "tool 3", "assistant"],
        [
            {"role": "user", "parts": [{"type": "text", "content": "go"}]},
            {
                "role": "assistant",
                "parts": [{"type": "reasoning", "content": "hm"}, {"type": "tool_call", "id": "c", "name": "f"}],
            },
            {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c", "response": "3"}]},
            {"role": "assistant", "parts": [{"type": "text", "content": "done"}]},
        ],
    ),
}
"""What each says: speaker, thoughts, calls, result."""


def summary(message: Message) -> str:
    calls = [call["function"]["name"] for call in message.get("tool_calls", [])]
    result = [message["content"]] if message["role"] == "tool" else []
    return " ".join(filter(None, [message["role"], message.get("reasoning_content"), *calls, *result]))


@pytest.mark.parametrize("name", READ)
def test_blocks_of_other_products_are_read_in_both(convert: Convert, tmp_path: Path, name: str) -> None:
    wanted, messages = READ[name]
    for said in both(convert, tmp_path, {"messages": messages}):
        assert [summary(message) for message in said] == wanted


@pytest.mark.parametrize("name", UNREAD)
def test_unknown_content_is_dropped_in_both(convert: Convert, tmp_path: Path, name: str) -> None:
    reason, messages = UNREAD[name]
    sound = {"id": "sound", "messages": [user(), model()], "reward": 1.0}
    log = write(tmp_path / "log.jsonl", {"id": "odd", "messages": messages, "reward": 1.0}, sound)
    account, found = convert(log)
    assert [one["id"] for one in found] == ["sound"]
    assert account.dropped == {reason: 1}
    manifest = karl_fast.sample(log, tmp_path / "set", k=2, split=(1, 0, 0)).manifest
    assert manifest["draw"]["failed"] == {reason: 1}
    assert manifest["export"]["splits"]["train"] == 1
    alone = write(tmp_path / "alone.jsonl", {"messages": messages, "reward": 1.0})
    with pytest.raises(errors.LogError, match=reason.replace("_", " ")):
        karl_fast.convert(alone, tmp_path / "none.jsonl")


def written(tmp_path: Path, row: dict[str, Any], **settings: Any) -> dict[str, Any]:
    """The row of a data set that a record becomes."""
    log = write(tmp_path / "log.jsonl", {"reward": 1.0} | row)
    karl_fast.sample(log, tmp_path / "set", k=1, split=(1, 0, 0), force=True, **settings)
    return json.loads((tmp_path / "set" / "train.jsonl").read_text("utf-8"))  # type: ignore[no-any-return]


def both(convert: Convert, tmp_path: Path, row: dict[str, Any]) -> tuple[list[Message], list[Message]]:
    """The messages that `sample` and `convert` read in a record."""
    said = written(tmp_path, row)["messages"]
    _, [found] = convert(tmp_path / "log.jsonl")
    return said, found["messages"]


def test_legacy_function_call_is_a_call(convert: Convert, tmp_path: Path) -> None:
    older = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": '{"a": 1}'}}
    messages = [user(), older, {"role": "function", "name": "f", "content": "3"}, model()]
    drawn, converted = both(convert, tmp_path, {"messages": messages})
    for said, arguments in ((drawn, {"a": 1}), (converted, '{"a": 1}')):
        assert [message["role"] for message in said] == ["user", "assistant", "tool", "assistant"]
        [call] = said[1]["tool_calls"]
        assert call["function"] == {"name": "f", "arguments": arguments}
        assert (said[2]["content"], said[2]["name"]) == ("3", "f")
    assert converted[2]["tool_call_id"] == converted[1]["tool_calls"][0]["id"]


@pytest.mark.parametrize(
    "call",
    [
        {"name": "f", "args": {"a": 1}, "id": "c", "type": "tool_call"},
        {"id": "c", "function": "f", "arguments": {"a": 1}, "type": "function"},
        {"id": "c", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}},
    ],
    ids=["LangChain", "Inspect", "Ollama"],
)
def test_arguments_of_a_call_are_kept(convert: Convert, tmp_path: Path, call: Any) -> None:
    messages = [user(), model("", tool_calls=[call]), tool(tool_call_id="c"), model()]
    for said in both(convert, tmp_path, {"messages": messages}):
        [made] = said[1]["tool_calls"]
        arguments = made["function"]["arguments"]
        assert made["function"]["name"] == "f"
        assert (json.loads(arguments) if isinstance(arguments, str) else arguments) == {"a": 1}


@pytest.mark.parametrize(
    ("role", "wanted"),
    [("developer", "system"), ("ipython", "tool"), ("observation", "tool"), ("model", "assistant"), ("USER", "user")],
)
def test_known_roles_are_those_of_templates(tmp_path: Path, role: str, wanted: str) -> None:
    row = written(tmp_path, {"messages": [{"role": role, "content": "x"}, user(), model()]})
    assert [message["role"] for message in row["messages"]] == [wanted, "user", "assistant"]


@pytest.mark.parametrize("key", ["system", "system_prompt", "system_message", "system_instruction", "instructions"])
@pytest.mark.parametrize("system", ["Be brief.", [{"type": "text", "text": "Be brief."}]])
def test_the_system_beside_a_conversation_begins_it(convert: Convert, tmp_path: Path, key: str, system: Any) -> None:
    for row in (
        {"messages": [user(), model()]},
        {"prompt": "go", "completion": "done"},
        {"prompt": [user()], "completion": [model()]},
    ):
        for said in both(convert, tmp_path, row | {key: system}):
            told = [(message["role"], message["content"]) for message in said]
            assert told == [("system", "Be brief."), ("user", "go"), ("assistant", "done")]


def test_conversation_keeps_its_own_system(convert: Convert, tmp_path: Path) -> None:
    messages = [{"role": "system", "content": "Mine."}, user(), model()]
    for system in ({}, {"system": "Mine.\n"}, {"system": ""}, {"system": {"os": "linux"}}, {"instructions": "go"}):
        for said in both(convert, tmp_path, {"messages": messages} | system):
            assert [message["content"] for message in said] == ["Mine.", "go", "done"]


OWN = [{"role": "system", "content": "Mine."}, user(), model()]
TWO_SYSTEMS: dict[str, dict[str, Any]] = {
    "system": {"messages": OWN, "system": "Other."},
    "system_prompt": {"messages": OWN, "system_prompt": "Other."},
    "instructions": {"messages": OWN, "instructions": "Other."},
    "of a prompt": {"prompt": OWN[:2], "completion": [model()], "system": "Other."},
    "of ShareGPT": {"conversations": [{"from": "system", "value": "Mine."}, *OWN[1:]], "system": "Other."},
    "two beside a conversation": {"messages": OWN[1:], "system": "One.", "instructions": "Other."},
    "the text of the user": {"messages": OWN, "system": "go"},
}


@pytest.mark.parametrize("name", TWO_SYSTEMS)
def test_conflicting_system_drops_the_row(convert: Convert, tmp_path: Path, name: str) -> None:
    sound = {"messages": OWN, "reward": 1.0}
    log = write(tmp_path / "log.jsonl", TWO_SYSTEMS[name] | {"reward": 1.0}, sound)
    account, found = convert(log)
    assert (len(found), account.dropped) == (1, {"bad_system": 1})
    messages = "conversations|messages" if "conversations" in TWO_SYSTEMS[name] else None
    manifest = karl_fast.sample(log, tmp_path / "set", k=2, messages=messages).manifest
    assert manifest["draw"]["failed"] == {"bad_system": 1}


def test_system_inside_object_with_messages_is_read(tmp_path: Path) -> None:
    row = written(tmp_path, {"request": {"system": "S", "messages": [user(), model()]}}, messages="request.messages")
    assert row["messages"][0] == {"role": "system", "content": "S"}


@pytest.mark.parametrize(
    ("key", "system"),
    [
        ("system", {"os": "linux"}),
        ("system", 5),
        ("system", ["Be brief."]),
        ("system", [{"type": "image"}]),
        ("systemInstruction", {"parts": [{"inlineData": {"data": "x"}}]}),
    ],
)
def test_non_text_system_drops_the_row(convert: Convert, tmp_path: Path, key: str, system: Any) -> None:
    sound = {"messages": [user(), model()], "reward": 1.0}
    log = write(tmp_path / "log.jsonl", sound | {key: system}, sound)
    account, found = convert(log)
    assert (len(found), account.dropped) == (1, {"bad_system": 1})
    manifest = karl_fast.sample(log, tmp_path / "set", k=2).manifest
    assert manifest["draw"]["failed"] == {"bad_system": 1}


def test_turn_with_weight_0_ends_the_row(convert: Convert, tmp_path: Path) -> None:
    messages = [user(), model("a", weight=0), user(), model("b", weight=1), user(), model("c", weight=0)]
    drawn, converted = both(convert, tmp_path, {"messages": messages})
    assert [(m["content"], m.get("weight")) for m in drawn] == [
        ("go", None),
        ("a", 0),
        ("go", None),
        ("b", 1),
    ]
    assert [m.get("weight") for m in converted] == [None, 0, None, None, None, 0]
    again = converted[:4]
    back = written(tmp_path, {"messages": converted})["messages"]
    assert back == again


@pytest.mark.parametrize(("off", "on"), [(False, True), (0, 1), (0.0, 0.5), (False, None)])
@pytest.mark.parametrize("flag", ["train", "training", "trainable", "learnable", "loss", "loss_mask"])
def test_a_flag_of_other_trainers_is_a_weight(
    convert: Convert, tmp_path: Path, flag: str, off: float, on: float | None
) -> None:
    messages = [user(), model("a", **{flag: off}), user(), model("b", **{flag: on})]
    for said in both(convert, tmp_path, {"messages": messages}):
        assert [message.get("weight") for message in said] == [None, 0, None, None]


@pytest.mark.parametrize("completion", ["done", [model()]])
def test_answer_outside_messages_is_last_turn(convert: Convert, tmp_path: Path, completion: Any) -> None:
    for said in both(convert, tmp_path, {"messages": [user()], "completion": completion}):
        assert [message["content"] for message in said] == ["go", "done"]
    for said in both(convert, tmp_path, {"messages": [user(), model("own")], "completion": completion}):
        assert [message["content"] for message in said] == ["go", "own"]


@pytest.mark.parametrize(
    ("key", "answer"),
    [
        ("response", "done"),
        ("response", {"role": "assistant", "content": "done"}),
        ("generation", "done"),
        ("chosen", [model()]),
        ("preferred_output", [model()]),
        ("choices", [{"message": model()}]),
        ("output", "done"),
        ("outputs", ["done", "made"]),
        ("completions", ["done"]),
        ("candidates", [{"content": {"role": "model", "parts": [{"text": "done"}]}}]),
    ],
)
def test_unread_answer_drops_the_row(convert: Convert, tmp_path: Path, key: str, answer: Any) -> None:
    whole: dict[str, Any] = {"messages": [user(), model("own")], "reward": 1.0}
    opened = whole | {"messages": [*whole["messages"], user("more")]}
    log = write(tmp_path / "log.jsonl", opened | {key: answer}, whole | {key: answer}, opened | {key: None})
    account, found = convert(log)
    assert ([len(one["messages"]) for one in found], account.dropped) == ([2, 3], {"bad_message": 1})
    manifest = karl_fast.sample(log, tmp_path / "set", k=3).manifest
    assert manifest["draw"]["failed"] == {"bad_message": 1}


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning", "thinking"])
def test_thoughts_in_parts_of_text_are_joined(convert: Convert, tmp_path: Path, key: str) -> None:
    parts = [{"type": "text", "text": "h"}, {"type": "text", "text": "m"}]
    drawn, converted = both(convert, tmp_path, {"messages": [user(), model(**{key: parts})]})
    assert (drawn[1][key], converted[1]["reasoning_content"]) == ("hm", "hm")


def test_thoughts_that_differ_are_all_kept(convert: Convert, tmp_path: Path) -> None:
    for more, wanted in (
        ({"reasoning": "a", "thinking": "b"}, "a\nb"),
        ({"reasoning": "a", "reasoning_content": "a"}, "a"),
        ({"reasoning_content": "", "thinking": "b"}, "b"),
    ):
        drawn, converted = both(convert, tmp_path, {"messages": [user(), model(**more)]})
        assert drawn[1] == model(**more)
        assert converted[1]["reasoning_content"] == wanted


@pytest.mark.parametrize(
    ("key", "block"),
    [
        ("reasoning_details", {"type": "reasoning.text", "text": "hm"}),
        ("reasoning_details", {"type": "reasoning.summary", "summary": "hm"}),
        ("thinking_blocks", {"type": "thinking", "thinking": "hm", "signature": "x"}),
    ],
)
def test_reasoning_blocks_are_read_or_counted(
    convert: Convert, tmp_path: Path, key: str, block: dict[str, Any]
) -> None:
    log = write(tmp_path / "log.jsonl", {"messages": [user(), model(**{key: [block], "reasoning": "hm"})]})
    _, [found] = convert(log)
    assert found["messages"][1]["reasoning_content"] == "hm"
    encrypted = {"type": "reasoning.encrypted", "data": "gAA="}
    log = write(tmp_path / "log.jsonl", *({"messages": [user(), model(**{key: [one]})]} for one in (block, encrypted)))
    account, [read, unread] = convert(log)
    assert read["messages"][1]["reasoning_content"] == "hm"
    assert "reasoning_content" not in unread["messages"][1]
    assert account.notes["unread_reasoning"] == 1


@pytest.mark.parametrize(
    "more",
    [
        {"reasoning_details": [{"type": "reasoning.text", "text": "hm"}]},
        {"reasoning_details": [{"type": "reasoning.summary", "summary": "hm"}], "reasoning": "hm"},
        {"thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "x"}]},
        {"thought": "hm"},
        {"reasoning_text": "hm"},
    ],
)
@pytest.mark.parametrize("shape", ["chat", "text", "prompt-completion-text"])
def test_reasoning_under_every_key_is_learned(
    convert: Convert, tmp_path: Path, more: dict[str, Any], shape: str
) -> None:
    row = written(tmp_path, {"messages": [user(), model(**more)]}, shape=shape)
    if shape == "chat":
        said = row["messages"][1]
        assert said.get("reasoning") or said["reasoning_content"] == "hm"
    else:
        assert "<think>\nhm\n</think>\ndone" in row.get("text", row.get("completion"))
    _, [found] = convert(tmp_path / "log.jsonl")
    assert found["messages"][1]["reasoning_content"] == "hm"


def test_other_reasoning_is_added_once(convert: Convert, tmp_path: Path) -> None:
    blocks = [{"type": "thinking", "thinking": "a"}, {"type": "thinking", "thinking": "b"}]
    drawn, converted = both(convert, tmp_path, {"messages": [user(), model(thinking="a", thinking_blocks=blocks)]})
    assert (drawn[1]["thinking"], converted[1]["reasoning_content"]) == ("a\nb", "a\nb")
    drawn, converted = both(convert, tmp_path, {"messages": [user(), model("hm, done", thought="hm")]})
    assert "reasoning_content" not in drawn[1]
    assert "reasoning_content" not in converted[1]


FUNCTION = {"name": "f", "parameters": {"type": "object"}}


@pytest.mark.parametrize("key", ["functions", "available_tools", "tool_definitions", "metadata"])
@pytest.mark.parametrize("text", [False, True])
def test_tools_under_other_keys_are_tools(convert: Convert, tmp_path: Path, key: str, text: bool) -> None:
    tools = json.dumps([FUNCTION]) if text else [FUNCTION]
    row = written(tmp_path, {"messages": [user(), model()], key: {"tools": tools} if key == "metadata" else tools})
    _, [found] = convert(tmp_path / "log.jsonl")
    assert row["tools"] == found["tools"] == [{"type": "function", "function": FUNCTION}]


@pytest.mark.parametrize("key", ["functions", "available_tools", "tool_definitions", "metadata"])
def test_unknown_tools_key_drops_the_row(convert: Convert, tmp_path: Path, key: str) -> None:
    broken = {"tools": [FUNCTION, {"parameters": {}}]} if key == "metadata" else "broken["
    sound = {"id": "sound", "messages": [user(), model()], "reward": 1.0}
    log = write(tmp_path / "log.jsonl", sound | {"id": "odd", key: broken}, sound)
    account, [found] = convert(log)
    assert (found["id"], account.dropped) == ("sound", {"bad_tools": 1})
    assert karl_fast.sample(log, None, k=2).manifest["draw"]["failed"] == {"bad_tools": 1}


@pytest.mark.parametrize("tools", [["bash"], {"bash": 3}, [{"name": "bash", "count": 3}], "bash, python", 3])
def test_tool_names_in_metadata_are_not_definitions(tmp_path: Path, tools: Any) -> None:
    assert written(tmp_path, {"messages": [user(), model()], "metadata": {"tools": tools}}).get("tools") is None


def test_media_outside_conversation_are_reported(convert: Convert, tmp_path: Path) -> None:
    sound = {"messages": [user(), model()], "reward": 1.0}
    odd = [{"image_url": "http://x/a"}, {"img": "a.png"}, {"image": "/9j/4AAQSkZJRg=="}, {"audio_path": "a.wav"}]
    log = write(tmp_path / "log.jsonl", sound, *(sound | more for more in odd))
    account, [_] = convert(log)
    assert account.dropped == {"bad_message": 4}
    assert {kind: account.notes[kind] for kind in ("images", "audio")} == {"images": 3, "audio": 1}
    done = karl("sample", "log.jsonl", "-k", 5, "--dry-run", folder=tmp_path)
    assert "warning: 3 rows have images, and only text is learned\n" in done.stderr
    assert "warning: 1 row has audio, and only text" in done.stderr
    assert "a bad message" not in done.stderr
    write(tmp_path / "log.jsonl", *(sound | more for more in odd[:2]))
    done = karl("sample", "log.jsonl", "-k", 5, "--dry-run", folder=tmp_path)
    assert "bad message 2; 2 rows have images, and only text" in done.stderr


def test_older_functions_are_tools(convert: Convert, tmp_path: Path) -> None:
    function = {"name": "f", "parameters": {"type": "object"}}
    row = written(tmp_path, {"messages": [user(), model()], "functions": [function]})
    _, [found] = convert(tmp_path / "log.jsonl")
    assert row["tools"] == found["tools"] == [{"type": "function", "function": function}]


def test_shape_that_cannot_express_it_drops_row(tmp_path: Path) -> None:
    sound = {"messages": [user(), model()], "reward": 1.0}
    masked = {"messages": [user(), model("a", weight=0), user(), model("b")], "reward": 1.0}
    log = write(tmp_path / "log.jsonl", masked, sound)
    manifest = karl_fast.sample(log, tmp_path / "text", k=2, shape="text").manifest
    assert manifest["draw"]["failed"] == {"unlearned_turn": 1}
    # The last turn alone is learned of a prompt and its completion.
    manifest = karl_fast.sample(log, tmp_path / "pairs", k=2, shape="prompt-completion-text").manifest
    assert (manifest["draw"]["failed"], manifest["draw"]["rows"]) == ({}, 2)


def test_row_with_nothing_learned_is_dropped(tmp_path: Path) -> None:
    sound = {"messages": [user(), model()], "reward": 1.0}
    log = write(tmp_path / "log.jsonl", {"messages": [user(), model(weight=0)], "reward": 1.0}, sound)
    manifest = karl_fast.sample(log, tmp_path / "set", k=2).manifest
    assert manifest["draw"]["failed"] == {"no_learned_turn": 1}


def test_conversations_of_share_gpt_are_converted(convert: Convert, tmp_path: Path) -> None:
    turns = [{"from": "human", "value": "go"}, {"from": "gpt", "value": "done"}]
    log = write(tmp_path / "log.jsonl", {"conversations": turns, "system": "S"}, {"conversations": turns[:1] * 2})
    account, found = convert(log)
    assert [(m["role"], m["content"]) for m in found[0]["messages"]] == [
        ("system", "S"),
        ("user", "go"),
        ("assistant", "done"),
    ]
    assert (account.dropped, len(found)) == ({}, 2)


@pytest.mark.parametrize(
    "key", ["rejected", "non_preferred_output", "rejected_response", "rejected_messages", "rejected_completion"]
)
def test_the_rejected_half_of_preferences_is_told(tmp_path: Path, key: str) -> None:
    row = {"messages": [user(), model()], key: [model("no")], "reward": 1.0}
    write(tmp_path / "log.jsonl", *([row] * 4))
    told = karl("sample", "log.jsonl", "-o", "set", "-k", "2", folder=tmp_path)
    assert f"{key} is not used" in told.stderr
    told = karl("convert", "log.jsonl", "-o", "out.jsonl", folder=tmp_path)
    assert (told.returncode, "rejected is not used" in told.stderr) == (0, True)
