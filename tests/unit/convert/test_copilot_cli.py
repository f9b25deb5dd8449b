"""Copilot CLI: the types of events in `nodejs/src/generated/session-events.ts` of github/copilot-sdk (August 2026)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from karl_fast import errors

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.convert.conftest import Convert


def event(kind: str, at: int, **data: Any) -> dict[str, Any]:
    moment = f"2026-07-30T01:56:{at:02}.308Z"
    return {"type": kind, "data": data, "id": f"e{at}", "timestamp": moment, "parentId": f"e{at - 1}" if at else None}


CONTEXT = {"cwd": "/home/dev/shop", "branch": "main", "repository": "dev/shop"}
CALL = {"toolCallId": "c1", "name": "view", "arguments": {"path": "till.py"}, "type": "function"}
TASK = {"toolCallId": "t1", "name": "task", "arguments": {"prompt": "look"}, "type": "function"}
USAGE = {"inputTokens": 100, "outputTokens": 9, "cacheReadTokens": 40, "cacheWriteTokens": 10}
EVENTS = [
    event(
        "session.start", 0, sessionId="s1", version=1, producer="copilot-agent", copilotVersion="1.0.2", context=CONTEXT
    ),
    event("session.model_change", 1, newModel="claude-sonnet-4.6"),
    event("system.message", 2, role="system", content="You help."),
    event(
        "user.message",
        3,
        content="Fix the till",
        transformedContent="<now>t</now> Fix the till",
        attachments=[{"type": "file"}],
    ),
    event("assistant.turn_start", 4, turnId="0"),
    event(
        "assistant.message",
        5,
        messageId="a1",
        content="I look.",
        reasoningText="look first",
        toolRequests=[CALL],
        outputTokens=3,
    ),
    event("tool.execution_start", 6, toolCallId="c1", toolName="view", arguments={}),
    event(
        "tool.execution_complete",
        7,
        toolCallId="c1",
        success=True,
        result={"content": "total = 0", "detailedContent": "1"},
    ),
    event("assistant.message", 8, messageId="a2", content="", toolRequests=[TASK], outputTokens=2),
    event("subagent.started", 9, toolCallId="t1", agentName="explore", agentDisplayName="E", agentDescription="d"),
    event("user.message", 10, content="look", parentToolCallId="t1", source="agent"),
    event(
        "assistant.message",
        11,
        messageId="b1",
        content="Nothing there.",
        parentToolCallId="t1",
        toolRequests=[],
        outputTokens=1,
    ),
    event("tool.execution_complete", 12, toolCallId="t1", success=False, error={"message": "it stopped", "code": "x"}),
    event("user.message", 13, content="Go on", source="skill-tidy"),
    event("assistant.message", 14, messageId="a3", content="Fixed.", model="gpt-5", toolRequests=[], outputTokens=3),
    event("session.shutdown", 15, shutdownType="routine", modelMetrics={"m": {"usage": USAGE}}),
]


def write(path: Path, records: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return path


def test_a_session_and_its_sub_agent(convert: Convert, tmp_path: Path) -> None:
    account, [found, child] = convert(write(tmp_path / "s1" / "events.jsonl", EVENTS))
    assert [(one["role"], one["content"]) for one in found["messages"]] == [
        ("system", "You help."),
        ("user", "Fix the till"),
        ("assistant", "I look."),
        ("tool", "total = 0"),
        ("assistant", ""),
        ("tool", "it stopped"),
        ("user", "Go on"),
        ("assistant", "Fixed."),
    ]
    assert [one["success"] for one in found["messages"] if one["role"] == "tool"] == [True, False]
    assert (found["messages"][2]["reasoning_content"], found["model"]) == ("look first", "claude-sonnet-4.6")
    assert (found["messages"][6]["origin"], found["messages"][7]["model"]) == ("skill-tidy", "gpt-5")
    assert found["tokens"] == {"input": 50, "cache_creation": 10, "cache_read": 40, "output": 9}
    assert found["source"] | {"files": []} == {"format": "copilot-cli", "files": [], "version": "1.0.2"} | CONTEXT
    assert (child["id"], child["parent"]) == ("s1/t1", {"id": "s1", "tool_call_id": "t1"})
    assert [one["content"] for one in child["messages"]] == ["look", "Nothing there."]
    assert (child["source"]["agent"], child["session"], child["tokens"]["output"]) == ("explore", "s1", 1)
    assert (account.dropped, account.blocks) == ({"no_conversation": 2}, {"attachment file": 1})


def test_what_the_user_took_back_is_another_branch(convert: Convert, tmp_path: Path) -> None:
    rewind = event("session.snapshot_rewind", 16, upToEventId="e13", eventsRemoved=3)
    account, found = convert(
        write(tmp_path / "s1" / "events.jsonl", [*EVENTS, rewind, event("user.message", 17, content="No")])
    )
    assert [one["content"] for one in found[0]["messages"]][-2:] == ["it stopped", "No"]
    assert account.dropped == {"no_conversation": 3, "other_branch": 3}


@pytest.mark.parametrize("value", [None, 3, "x", [], {}, [3]])
@pytest.mark.parametrize("key", ["content", "toolRequests", "model", "parentToolCallId", "reasoningText"])
def test_values_of_other_types_end_no_conversion(convert: Convert, tmp_path: Path, key: str, value: Any) -> None:
    spoilt = [dict(one) for one in EVENTS]
    spoilt[14]["data"] = spoilt[14]["data"] | {key: value}
    _, found = convert(write(tmp_path / "s1" / "events.jsonl", spoilt))
    assert found[0]["messages"][1]["content"] == "Fix the till"


def test_an_older_session_is_refused_by_name_with_what_to_do(tmp_path: Path) -> None:
    import karl_fast

    path = tmp_path / "session_1.json"
    path.write_text(json.dumps({"sessionId": "s", "startTime": "t", "chatMessages": [], "timeline": []}), "utf-8")
    with pytest.raises(errors.LogError, match=r"Copilot CLI before .* resume it once"):
        karl_fast.convert(path, tmp_path / "out.jsonl")
