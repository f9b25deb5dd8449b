"""Gemini CLI: `chatRecordingTypes.ts` and `chatRecordingService.ts` of google-gemini/gemini-cli (documents until 0.38,
lines since 0.39), and real documents of early 2026."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.unit.convert.conftest import Convert

FACTS = {
    "sessionId": "29eb990e-c773-4302-a4e7-317f0af0001f",
    "projectHash": "41d5",
    "startTime": "2026-05-17T11:07:00.000Z",
    "lastUpdated": "2026-05-17T11:09:00.000Z",
    "kind": "main",
}
TOKENS = {"input": 120, "output": 15, "cached": 30, "thoughts": 5, "tool": 0, "total": 140}


def message(name: str, kind: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"id": name, "timestamp": "2026-05-17T11:07:32.000Z", "type": kind, "content": content} | more


def response(output: Any, key: str = "output") -> list[dict[str, Any]]:
    return [{"functionResponse": {"id": "c1", "name": "read_file", "response": {key: output}}}]


def call(result: Any, status: str = "success", **more: Any) -> dict[str, Any]:
    return {"id": "c1", "name": "read_file", "args": {"file_path": "a.py"}, "result": result, "status": status} | more


MESSAGES = [
    message("m1", "user", [{"text": "Fix the till"}]),
    message(
        "m2",
        "gemini",
        "I look.",
        thoughts=[{"subject": "Look", "description": "The file comes first.", "timestamp": "t"}],
        toolCalls=[call(response("total = 0"))],
        tokens=TOKENS,
        model="gemini-3-pro",
    ),
    message("m3", "info", "Update available"),
    message("m4", "gemini", "Fixed.", tokens=TOKENS, model="gemini-3-pro"),
]


def lines(path: Path, records: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return path


def said(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["role"], one["content"]) for one in found["messages"]]


WHOLE = [("user", "Fix the till"), ("assistant", "I look."), ("tool", "total = 0"), ("assistant", "Fixed.")]


@pytest.mark.parametrize("indent", [None, 2])
def test_a_document_is_a_session(convert: Convert, tmp_path: Path, indent: int | None) -> None:
    path = tmp_path / "session-1.json"
    path.write_text(json.dumps(FACTS | {"messages": MESSAGES}, indent=indent), "utf-8")
    account, [found] = convert(path)
    assert said(found) == WHOLE
    assert found["messages"][1]["reasoning_content"] == "Look\nThe file comes first."
    assert (found["messages"][2]["tool_call_id"], found["messages"][2]["success"]) == ("c1", True)
    assert found["tokens"] == {"input": 180, "cache_creation": None, "cache_read": 60, "output": 40}
    assert (found["id"], found["model"], account.notes) == (FACTS["sessionId"], "gemini-3-pro", {"no_conversation": 1})


def test_lines_are_replayed(convert: Convert, tmp_path: Path) -> None:
    records = [
        FACTS,
        MESSAGES[0],
        MESSAGES[1] | {"toolCalls": [], "tokens": None},
        MESSAGES[1],
        message("x1", "gemini", "Wrong"),
        {"$rewindTo": "x1"},
        {"$set": {"summary": "The till"}},
        *MESSAGES[2:],
    ]
    account, [found] = convert(lines(tmp_path / "session-1.jsonl", records))
    assert said(found) == WHOLE
    assert found["source"]["summary"] == "The till"
    assert account.duplicates == 1
    assert account.dropped == {"no_conversation": 3, "other_branch": 1}


def test_a_checkpoint_replaces_all_messages(convert: Convert, tmp_path: Path) -> None:
    records = [FACTS, message("o", "user", "old"), {"$set": {"messages": MESSAGES}}, message("m5", "user", "Thanks")]
    account, [found] = convert(lines(tmp_path / "session-1.jsonl", records))
    assert said(found) == [*WHOLE, ("user", "Thanks")]
    assert account.duplicates == 1


def test_what_collect_writes_of_a_document_is_the_same_session(convert: Convert, tmp_path: Path) -> None:
    document = tmp_path / "chats" / "session-1.json"
    document.parent.mkdir()
    document.write_text(json.dumps(FACTS | {"messages": MESSAGES}), "utf-8")
    archived = lines(tmp_path / "archive" / "session-1.json.jsonl", [FACTS, *MESSAGES])
    account, [found] = convert(document, archived)
    assert said(found) == WHOLE
    assert account.notes["copied_session"] == 1


def test_a_chat_in_the_folder_of_a_session_is_of_its_sub_agent(convert: Convert, tmp_path: Path) -> None:
    main = lines(tmp_path / "chats" / "session-1.jsonl", [FACTS, *MESSAGES])
    inner = FACTS | {"sessionId": "sub", "kind": "subagent"}
    child = lines(tmp_path / "chats" / str(FACTS["sessionId"]) / "sub.jsonl", [inner, *MESSAGES[:2]])
    account, found = convert(main, child)
    parents = {one["id"]: one["parent"] for one in found}
    assert parents == {FACTS["sessionId"]: None, "sub": {"id": FACTS["sessionId"], "tool_call_id": None}}
    assert {one["session"] for one in found} == {FACTS["sessionId"]}
    assert account.sub_agents == 1


@pytest.mark.parametrize(
    ("result", "status", "text", "success"),
    [
        (response("no such file", "error"), "error", "no such file", False),
        (response({"lines": 2}), "success", '{"output":{"lines":2}}', True),
        ("plain", "success", "plain", True),
        (
            [*response("A"), {"text": "B"}, {"inlineData": {"data": "x", "mimeType": "image/png"}}],
            "success",
            "A\nB",
            True,
        ),
    ],
)
def test_results_of_calls(convert: Convert, tmp_path: Path, result: Any, status: str, text: str, success: bool) -> None:
    turn = message("m2", "gemini", "", toolCalls=[call(result, status)])
    _, [found] = convert(lines(tmp_path / "s.jsonl", [FACTS, MESSAGES[0], turn]))
    assert (found["messages"][2]["content"], found["messages"][2]["success"]) == (text, success)


@pytest.mark.parametrize("value", [None, 3, "x", [], {}, [3], {"type": 3}])
@pytest.mark.parametrize("key", ["content", "thoughts", "toolCalls", "tokens", "type", "timestamp", "id"])
def test_values_of_other_types_end_no_conversion(convert: Convert, tmp_path: Path, key: str, value: Any) -> None:
    spoilt = MESSAGES[1] | {key: value}
    _, found = convert(lines(tmp_path / "s.jsonl", [FACTS, MESSAGES[0], spoilt, MESSAGES[3]]))
    assert said(found[0])[0] == ("user", "Fix the till")


def test_real_chats_are_read(convert: Convert) -> None:
    folder = Path(os.environ.get("KARL_FAST_TEST_DATA", "../shared")) / "data" / "claude-code"
    if not folder.is_dir():
        pytest.skip("real transcripts are not here")
    chats = [path for path in sorted(folder.rglob("full.jsonl")) if b'"projectHash"' in path.read_bytes()[:400]]
    account, found = convert(*chats)
    assert (len(chats), len(found)) == (6, 5)
    wanted = 0
    for path in chats:
        document = json.loads(path.read_text("utf-8"))
        turns = [one for one in document["messages"] if one["type"] == "gemini"]
        wanted += sum(len(one.get("toolCalls") or []) for one in turns)
    assert sum(one["tool_calls"] for one in found) == wanted > 10
    assert sum(account.tool_calls.values()) == wanted
    assert account.blocks == {}
