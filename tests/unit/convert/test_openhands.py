"""OpenHands' software-agent SDK 1.43.1: events as `sdk/event` serializes them, one a file or one a line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from karl_fast import errors

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.convert.conftest import Convert

CONVERSATION = "5c3b9c1e2f7a4b0d8e6f1a2b3c4d5e6f"


def event(name: str, kind: str, source: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "timestamp": "2026-06-16T05:39:48.701247", "source": source, "kind": kind} | more


def text(words: str) -> dict[str, Any]:
    return {"cache_prompt": False, "type": "text", "text": words}


def said(name: str, role: str, *content: Any, **more: Any) -> dict[str, Any]:
    message = {"role": role, "content": list(content), "tool_calls": None, "reasoning_content": None}
    source = "user" if role == "user" else "agent"
    extended = more.pop("extended_content", [])
    return event(name, "MessageEvent", source, llm_message=message, extended_content=extended) | more


def action(name: str, call: str, response: str, thought: str = "", **more: Any) -> dict[str, Any]:
    tool_call = {"id": call, "name": "terminal", "arguments": f'{{"command": "{call}"}}', "origin": "completion"}
    fields = {"thought": [text(thought)] if thought else [], "reasoning_content": None, "thinking_blocks": []}
    fields |= {"tool_name": "terminal", "tool_call_id": call, "tool_call": tool_call, "llm_response_id": response}
    return event(name, "ActionEvent", "agent", **fields) | more


def observation(name: str, call: str, words: str, failed: bool = False, **more: Any) -> dict[str, Any]:
    seen = {"content": [text(words)], "is_error": failed, "kind": "TerminalObservation"}
    fields = {"tool_name": "terminal", "tool_call_id": call, "observation": seen, "action_id": "a1"}
    return event(name, "ObservationEvent", "environment", **fields) | more


USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "cache_read_tokens": 30, "cache_write_tokens": 5}
STATS = {"usage_to_metrics": {"agent": {"model_name": "m", "accumulated_token_usage": USAGE}}}
EVENTS = [
    event("s1", "SystemPromptEvent", "agent", system_prompt=text("You help."), tools=[], dynamic_context=text("In x")),
    said("u1", "user", text("Fix the till"), extended_content=[text("A skill")]),
    action("a1", "c1", "r1", "I look.", reasoning_content="look first"),
    action("a2", "c2", "r1"),
    observation("o1", "c1", "total = 0"),
    observation("o2", "c2", "no such file", failed=True),
    event("k1", "Condensation", "environment", forgotten_event_ids=["u1"], summary="s", llm_response_id="r0"),
    event("t1", "ConversationStateUpdateEvent", "environment", key="stats", value=STATS),
    action("a3", "c3", "r2"),
    event("e1", "AgentErrorEvent", "agent", error="bad arguments", tool_name="terminal", tool_call_id="c3"),
    said("m1", "assistant", text("Fixed.")),
]
WHOLE = [
    ("system", "You help.\nIn x"),
    ("user", "Fix the till\nA skill"),
    ("assistant", "I look."),
    ("tool", "total = 0"),
    ("tool", "no such file"),
    ("assistant", ""),
    ("tool", "bad arguments"),
    ("assistant", "Fixed."),
]


def lines(path: Path, events: list[Any]) -> Path:
    path.write_text("".join(json.dumps(event) + "\n" for event in events), "utf-8")
    return path


def folder(path: Path, events: list[Any]) -> Path:
    """Write a conversation as the SDK does: a state, and a file for each event."""
    (path / CONVERSATION / "events").mkdir(parents=True)
    state = {"id": CONVERSATION, "agent": {"llm": {"model": "m"}}, "workspace": {}, "persistence_dir": str(path)}
    (path / CONVERSATION / "base_state.json").write_text(json.dumps(state), "utf-8")
    for at, one in enumerate(events):
        (path / CONVERSATION / "events" / f"event-{at:05d}-{one['id']}.json").write_text(json.dumps(one), "utf-8")
    return path


@pytest.mark.parametrize("write", [lines, folder])
def test_events_are_a_trajectory(convert: Convert, tmp_path: Path, write: Any) -> None:
    account, [found] = convert(write(tmp_path / "conversations", EVENTS))
    assert [(one["role"], one["content"]) for one in found["messages"]] == WHOLE
    turn = found["messages"][2]
    assert [call["id"] for call in turn["tool_calls"]] == ["c1", "c2"]
    assert turn["reasoning_content"] == "look first"
    assert [found["messages"][at]["success"] for at in (3, 4, 6)] == [True, False, False]
    assert found["tokens"] == {"input": 70, "cache_creation": 5, "cache_read": 30, "output": 20}
    assert (found["model"], found["source"]["format"]) == ("m", "openhands")
    assert account.dropped == {"compact_summary": 1, "no_conversation": 1}
    if write is folder:
        assert found["id"] == CONVERSATION


def test_a_branch_that_was_left_is_counted(convert: Convert, tmp_path: Path) -> None:
    tree = [said("u1", "user", text("Fix the till"), parent_id="__root__"), said("m1", "assistant", text("No."))]
    tree[1]["parent_id"] = "u1"
    tree.append(said("m2", "assistant", text("Yes."), parent_id="u1"))
    account, [found] = convert(lines(tmp_path / "events.jsonl", tree))
    assert [one["content"] for one in found["messages"]] == ["Fix the till", "Yes."]
    assert account.dropped == {"other_branch": 1}


@pytest.mark.parametrize("parent", ["gone", "m1"])
def test_a_parent_that_is_not_before_is_replaced_by_the_order(convert: Convert, tmp_path: Path, parent: str) -> None:
    events = [said("u1", "user", text("Fix the till")), said("m1", "assistant", text("Yes."), parent_id=parent)]
    account, [found] = convert(lines(tmp_path / "events.jsonl", events))
    assert (len(found["messages"]), account.notes["missing_parent"]) == (2, 1)


def test_an_event_that_is_there_twice_counts_once(convert: Convert, tmp_path: Path) -> None:
    account, [found] = convert(lines(tmp_path / "events.jsonl", [*EVENTS, EVENTS[-1]]))
    assert (len(found["messages"]), account.duplicates) == (len(WHOLE), 1)


def test_conversations_in_files_of_one_name_have_ids_of_their_own(convert: Convert, tmp_path: Path) -> None:
    for at, words in enumerate(("One", "Two", "Two")):
        (tmp_path / str(at)).mkdir()
        events = [said("u1", "user", text(words)), said("m1", "assistant", text("Yes."))]
        lines(tmp_path / str(at) / "log.jsonl", events)
    _, found = convert(tmp_path)
    ids = [one["id"] for one in found]
    assert (len(set(ids)), sum(name == "log.jsonl" for name in ids)) == (3, 1)
    assert all(name.partition("/")[0] == "log.jsonl" for name in ids)


@pytest.mark.parametrize("write", [lines, lambda path, events: path.write_text(json.dumps(events), "utf-8") and path])
def test_events_of_other_logs_are_not_taken(convert: Convert, tmp_path: Path, write: Any) -> None:
    other = {"id": 1, "timestamp": "2026-01-01T00:00:00Z", "source": "api", "kind": "request"}
    path = write(tmp_path / "log.jsonl", [other, other | {"id": 2}])
    with pytest.raises(errors.KarlError) as raised:
        karl_fast.convert(path, tmp_path / "out.jsonl")
    assert "openhands" not in str(raised.value).lower()
    _, [found] = convert(write(tmp_path / "events.jsonl", EVENTS))
    assert len(found["messages"]) == len(WHOLE)


def test_images_and_odd_types_are_counted(convert: Convert, tmp_path: Path) -> None:
    image = {"type": "image", "image_urls": ["data:image/png;base64,iVBORw0KGgo="]}
    events = [said("u1", "user", text("Look"), image), action("a1", "c1", "r1", reasoning_content=5), *EVENTS[-1:]]
    account, [found] = convert(lines(tmp_path / "events.jsonl", events))
    assert (account.blocks, account.notes["wrong_type"]) == ({"image": 1}, 1)
    assert found["messages"][0]["content"] == "Look"


def test_events_of_the_older_openhands_are_named(tmp_path: Path) -> None:
    old = {"id": 1, "timestamp": "t", "source": "agent", "message": "m", "action": "run", "args": {"command": "ls"}}
    with pytest.raises(errors.LogError, match="events of OpenHands"):
        karl_fast.convert(lines(tmp_path / "events.jsonl", [old]), tmp_path / "out.jsonl")
