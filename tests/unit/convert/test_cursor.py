"""Cursor: the events of `cursor-agent --output-format stream-json`, and the transcripts of its agents.

The events are those of Cursor's page `cli/reference/output-format`, with what its version 2026.02 prints besides:
thinking, ids of the calls of the model, tokens, and the pieces of `--stream-partial-output`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from karl_fast import errors

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.convert.conftest import Convert

SESSION = "c6b62c6f-7ead-4fd6-9922-e952131177ff"
FIRST, SECOND = "10e11780-df2f-45dc-a1ff-4540af32e9c0-0-abc", "10e11780-df2f-45dc-a1ff-4540af32e9c0-1-def"


def event(kind: str, subtype: str | None = None, **more: Any) -> dict[str, Any]:
    return {"type": kind} | ({"subtype": subtype} if subtype else {}) | more | {"session_id": SESSION}


def said(text: str, role: str = "assistant", **more: Any) -> dict[str, Any]:
    return event(role, message={"role": role, "content": [{"type": "text", "text": text}]}, **more)


def tool(subtype: str, call: str, name: str, inside: dict[str, Any], model_call: str = FIRST) -> dict[str, Any]:
    more = {"model_call_id": model_call, "timestamp_ms": 1767225602000}
    return event("tool_call", subtype, call_id=call, tool_call={name: inside}, **more)


INIT = event("system", "init", apiKeySource="login", cwd="/till", model="Claude 4.5 Sonnet", permissionMode="default")
READ = {"args": {"path": "till.py", "toolCallId": "call_1\nfc_1"}}
ADDED: dict[str, Any] = {
    "simpleCommands": ["pytest"],
    "toolCallId": "call_2",
    "hasInputRedirect": False,
    "parsingResult": {"parsingFailed": False, "executableCommands": [{"name": "pytest", "args": []}]},
    "requestedSandboxPolicy": {"type": "TYPE_INSECURE_NONE"},
    "skipApproval": True,
    "timeoutBehavior": "TIMEOUT_BEHAVIOR_BACKGROUND",
    "hardTimeout": 86400000,
    "requestId": "r",
}
SHELL = {"args": {"command": "pytest", "timeout": 30000} | ADDED}
FAILED = {"success": {"command": "pytest", "exitCode": 1, "stdout": "1 failed", "stderr": "warned"}}
CONTENT = {"success": {"content": "total = 0", "totalLines": 1}}
LINES = [
    INIT,
    said("Fix the till", "user"),
    event("thinking", "delta", text="look ", timestamp_ms=1767225600000),
    event("thinking", "delta", text="first", timestamp_ms=1767225600100),
    event("thinking", "completed", timestamp_ms=1767225600200),
    said("I read it.", model_call_id=FIRST, timestamp_ms=1767225601000),
    tool("started", "call_1\nfc_1", "readToolCall", READ),
    tool("started", "call_2", "shellToolCall", SHELL),
    tool("completed", "call_2", "shellToolCall", SHELL | {"result": FAILED}),
    tool("completed", "call_1\nfc_1", "readToolCall", READ | {"result": CONTENT}),
    said("Fixed."),
    event(
        "result",
        "success",
        duration_ms=5234,
        duration_api_ms=5234,
        is_error=False,
        result="I read it.Fixed.",
        request_id="r",
        usage={"inputTokens": 100, "outputTokens": 20, "cacheReadTokens": 900, "cacheWriteTokens": 5},
    ),
]


def write(path: Path, lines: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


def texts(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["role"], one["content"]) for one in found["messages"]]


def test_a_run_is_a_trajectory(convert: Convert, tmp_path: Path) -> None:
    account, [found] = convert(write(tmp_path / "s.jsonl", LINES))
    assert texts(found) == [
        ("user", "Fix the till"),
        ("assistant", "I read it."),
        ("tool", "1 failed\nwarned"),
        ("tool", "total = 0"),
        ("assistant", "Fixed."),
    ]
    turn = found["messages"][1]
    assert (turn["reasoning_content"], turn["timestamp"]) == ("look first", "2026-01-01T00:00:01.000Z")
    assert [(call["id"], call["function"]) for call in turn["tool_calls"]] == [
        ("call_1\nfc_1", {"name": "read", "arguments": '{"path":"till.py"}'}),
        ("call_2", {"name": "shell", "arguments": '{"command":"pytest","timeout":30000}'}),
    ]
    results = [(one["name"], one["tool_call_id"], one["success"]) for one in found["messages"][2:4]]
    assert results == [("shell", "call_2", False), ("read", "call_1\nfc_1", True)]
    assert (found["id"], found["model"]) == (SESSION, "Claude 4.5 Sonnet")
    assert {key: found["source"][key] for key in ("format", "cwd", "is_error")} == {
        "format": "cursor",
        "cwd": "/till",
        "is_error": False,
    }
    assert account.dropped == {"no_conversation": 1}  # the result, whose text the messages have


@pytest.mark.parametrize(("result", "reward"), [({}, 1.0), ({"is_error": True}, 0.0), ({"subtype": "error"}, 0.0)])
def test_the_result_of_a_run_is_its_reward_if_that_is_asked_for(
    convert: Convert, tmp_path: Path, result: dict[str, Any], reward: float
) -> None:
    path = write(tmp_path / "s.jsonl", [*LINES[:-1], LINES[-1] | result])
    assert convert(path)[1][0]["reward"] is None
    assert convert(path, rate="result")[1][0]["reward"] == reward
    assert convert(write(tmp_path / "cut.jsonl", LINES[:-1]), rate="result")[1][0]["reward"] is None


def test_pieces_of_a_message_are_joined_once(convert: Convert, tmp_path: Path) -> None:
    pieces = [said(piece, timestamp_ms=1767225601000 + n) for n, piece in enumerate(["ha", "ha", ", fixed."])]
    _, [found] = convert(write(tmp_path / "s.jsonl", [*LINES[:2], *pieces, said("haha, fixed.")]))
    assert texts(found) == [("user", "Fix the till"), ("assistant", "haha, fixed.")]
    _, [cut] = convert(write(tmp_path / "s.jsonl", [*LINES[:2], *pieces]))
    assert texts(cut) == [("user", "Fix the till"), ("assistant", "haha, fixed.")]
    _, [before] = convert(write(tmp_path / "s.jsonl", [*LINES[:2], *pieces[:2], *LINES[6:]]))
    assert texts(before)[1] == ("assistant", "haha")
    assert len(before["messages"][1]["tool_calls"]) == 2


@pytest.mark.parametrize(
    ("result", "content", "success"),
    [
        ({"error": {"errorMessage": "no such file"}}, "no such file", False),
        ({"rejected": {"reason": "not allowed"}}, "not allowed", False),
        ({"permissionDenied": {"error": "blocked by permissions"}}, "blocked by permissions", False),
        ({"success": {"linesCreated": 3, "fileSize": 9}}, '{"linesCreated":3,"fileSize":9}', True),
        ({"success": {"exitCode": 0, "stdout": "", "stderr": ""}}, "", True),
    ],
)
def test_results_of_every_form_are_texts(
    convert: Convert, tmp_path: Path, result: Any, content: str, success: bool
) -> None:
    done = tool("completed", "c", "writeToolCall", {"args": {"path": "x"}, "result": result})
    _, [found] = convert(write(tmp_path / "s.jsonl", [*LINES[:2], done, said("Done.")]))
    assert [one["role"] for one in found["messages"]] == ["user", "assistant", "tool", "assistant"]
    answer = found["messages"][2]
    assert (json.loads(answer["content"]) if content.startswith("{") else answer["content"]) == (
        json.loads(content) if content.startswith("{") else content
    )
    assert answer["success"] is success


def test_a_tool_without_a_form_of_its_own_is_a_function(convert: Convert, tmp_path: Path) -> None:
    call = {"name": "Search", "arguments": '{"query": "till"}'}
    lines = [event("tool_call", kind, call_id="c", tool_call={"function": call}) for kind in ("started", "completed")]
    lines[1]["tool_call"]["function"] = call | {"result": {"success": {"content": "2 hits"}}}
    _, [found] = convert(write(tmp_path / "s.jsonl", [*LINES[:2], *lines, said("Done.")]))
    assert found["messages"][1]["tool_calls"][0]["function"] == call
    assert found["messages"][2]["content"] == "2 hits"


TRANSCRIPT = [
    {
        "role": "user",
        "message": {
            "content": [
                {
                    "type": "text",
                    "text": "<timestamp>Monday</timestamp>\n<user_query>\nFix the till\n</user_query>",
                }
            ]
        },
    },
    {
        "role": "assistant",
        "message": {
            "content": [
                {"type": "text", "text": "I read it."},
                {"type": "tool_use", "name": "Read", "input": {"path": "till.py"}},
                {"type": "tool_use", "name": "Shell", "input": {"command": "pytest"}},
            ]
        },
    },
    {"role": "assistant", "message": {"content": [{"type": "text", "text": "Fixed."}]}},
    {"type": "turn_ended", "status": "success"},
]


def test_transcripts_of_agents_are_read_with_their_sub_agents(convert: Convert, tmp_path: Path) -> None:
    folder = tmp_path / "projects" / "till" / "agent-transcripts" / "a1"
    write(folder / "a1.jsonl", TRANSCRIPT)
    write(folder / "subagents" / "b2.jsonl", [*TRANSCRIPT[:1], *TRANSCRIPT[2:]])
    account, found = convert(tmp_path / "projects")
    own, child = sorted(found, key=lambda one: one["id"])
    assert texts(own) == [("user", "Fix the till"), ("assistant", "I read it."), ("assistant", "Fixed.")]
    names = [call["function"]["name"] for call in own["messages"][1]["tool_calls"]]
    assert (own["id"], own["parent"], names) == ("a1", None, ["Read", "Shell"])
    assert len({call["id"] for call in own["messages"][1]["tool_calls"]}) == 2
    assert (child["id"], child["parent"]["id"]) == ("b2", "a1")
    assert account.notes["added_context"] == 2
    assert account.tool_calls == {"unanswered": 2}


@pytest.mark.parametrize(
    ("line", "dropped"),
    [
        (event("connection", "reconnecting", attempt=1), {"no_conversation": 2}),
        (event("tool_call", "started", call_id="c", tool_call={"other": 1}), {"no_conversation": 1, "unknown_call": 1}),
        (said("", "user"), {"no_conversation": 1, "empty": 1}),
    ],
)
def test_what_says_nothing_is_counted(convert: Convert, tmp_path: Path, line: Any, dropped: dict[str, int]) -> None:
    account, [found] = convert(write(tmp_path / "s.jsonl", [*LINES, line]))
    assert (account.dropped, len(found["messages"])) == (dropped, 5)


def test_values_of_wrong_types_are_counted_and_a_torn_run_is_kept(convert: Convert, tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", [*LINES[:6], said("well") | {"timestamp_ms": "now", "model_call_id": 5}])
    path.write_text(path.read_text("utf-8") + '{"type": "assist', "utf-8")
    account, [found] = convert(path)
    assert account.bad == {"torn": 1}
    assert account.notes["wrong_type"] == 2
    assert found["messages"][-1]["content"] == "well"


def test_a_result_alone_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "out.json", [{key: value for key, value in LINES[-1].items() if key != "usage"}])
    with pytest.raises(errors.LogError, match=r"the result of a run of Cursor's agent.*stream-json"):
        karl_fast.convert([path], tmp_path / "t.jsonl")


def test_sample_says_that_it_is_a_transcript(tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", LINES)
    with pytest.raises(errors.KarlError, match="transcript of cursor"):
        karl_fast.sample(path, tmp_path / "data", k=1)
