"""opencode 1.x (`packages/opencode/src/session/message-v2.ts`) and 2.0.3 (`packages/schema/src/session-message.ts`, the
tables as getagentseal/codeburn#1293 lists them) of anomalyco/opencode."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.convert.conftest import Convert

MOMENT = 1_767_703_257_000
TOKENS = {"input": 10, "output": 20, "reasoning": 1, "cache": {"read": 5, "write": 2}}


def session(name: str, **more: Any) -> dict[str, Any]:
    facts = {"id": name, "projectID": "p", "directory": "/home/dev/shop", "title": "Till", "version": "1.1.0"}
    return facts | {"time": {"created": MOMENT, "updated": MOMENT}} | more


def message(name: str, role: str, of: str = "ses_1", **more: Any) -> dict[str, Any]:
    facts = {"id": name, "sessionID": of, "role": role, "time": {"created": MOMENT + int(name[-1])}}
    return facts | ({"modelID": "m", "providerID": "a", "tokens": TOKENS} if role == "assistant" else {}) | more


def part(name: str, of: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "sessionID": "ses_1", "messageID": of, "type": kind} | more


def tool(name: str, of: str, call: str, status: str, **state: Any) -> dict[str, Any]:
    state = {"status": status, "input": {"filePath": "till.py"}, "time": {"start": 1, "end": MOMENT + 5}} | state
    return part(name, of, "tool", callID=call, tool="read", state=state)


MESSAGES = [
    (
        message("msg_1", "user"),
        [
            part("prt_1", "msg_1", "text", text="Fix the till"),
            part("prt_2", "msg_1", "text", text="<file>total = 0</file>", synthetic=True),
            part("prt_3", "msg_1", "file", mime="text/plain", url="file:///till.py"),
            part("prt_4", "msg_1", "file", mime="image/png", url="data:image/png;base64,x"),
        ],
    ),
    (
        message("msg_2", "assistant"),
        [
            part("prt_5", "msg_2", "step-start"),
            part("prt_6", "msg_2", "reasoning", text="look first", time={"start": 1}),
            part("prt_7", "msg_2", "text", text="I look."),
            tool("prt_8", "msg_2", "c1", "completed", output="total = 0", title="t", metadata={"sessionId": "ses_2"}),
            part("prt_9", "msg_2", "step-finish", reason="tool-calls", cost=0, tokens=TOKENS),
            part("prt_a", "msg_2", "step-start"),
            tool("prt_b", "msg_2", "c2", "error", error="no such file"),
            tool("prt_c", "msg_2", "c3", "running"),
        ],
    ),
    (
        message("msg_3", "assistant", error={"name": "MessageAbortedError"}),
        [part("prt_d", "msg_3", "text", text="Fix")],
    ),
]
WHOLE = [
    ("user", "Fix the till"),
    ("user", "<file>total = 0</file>"),
    ("assistant", "I look."),
    ("tool", "total = 0"),
    ("assistant", ""),
    ("tool", "no such file"),
    ("assistant", "Fix"),
]


def storage(folder: Path, *sessions: dict[str, Any]) -> Path:
    for one in sessions:
        put(folder / "session" / "p" / f"{one['id']}.json", one)
    for one, parts in MESSAGES:
        put(folder / "message" / "ses_1" / f"{one['id']}.json", one)
        for piece in parts:
            put(folder / "part" / one["id"] / f"{piece['id']}.json", piece)
    return folder


def put(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2), "utf-8")


def said(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["role"], one["content"]) for one in found["messages"]]


def test_the_files_of_a_storage_make_its_sessions(convert: Convert, tmp_path: Path) -> None:
    account, [found] = convert(storage(tmp_path / "storage", session("ses_1")))
    assert said(found) == WHOLE
    assert found["messages"][2]["reasoning_content"] == "look first"
    assert [one["id"] for turn in found["messages"] for one in turn.get("tool_calls", [])] == ["c1", "c2", "c3"]
    assert [one["success"] for one in found["messages"] if one["role"] == "tool"] == [True, False]
    assert (found["messages"][1]["origin"], found["messages"][-1]["interrupted"]) == ("synthetic", True)
    assert found["messages"][0]["timestamp"] == "2026-01-06T12:40:57.001Z"
    assert (found["id"], found["model"]) == ("ses_1", "m")
    assert found["source"]["cwd"] == "/home/dev/shop"
    assert found["tokens"] == {"input": 20, "cache_creation": 4, "cache_read": 10, "output": 42}
    assert (account.tool_calls, account.blocks) == ({"succeeded": 1, "failed": 1, "unanswered": 1}, {"image/png": 1})
    assert account.dropped == {"no_conversation": 4}


def test_the_document_of_an_export_is_a_session(convert: Convert, tmp_path: Path) -> None:
    document = {"info": session("ses_1"), "messages": [{"info": one, "parts": parts} for one, parts in MESSAGES]}
    put(tmp_path / "export.json", document)
    _, [found] = convert(tmp_path / "export.json")
    assert said(found) == WHOLE


def rows(database: Path, second: bool) -> None:
    """Write the tables of opencode 1.x, and those of 2.x where `second`."""
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE session (id, project_id, parent_id, directory, title, version, time_created)")
        connection.execute("INSERT INTO session VALUES ('ses_1', 'p', NULL, '/home/dev/shop', 'Till', '1.1', 1)")
        connection.execute("CREATE TABLE message (id, session_id, time_created, data)")
        connection.execute("CREATE TABLE part (id, message_id, session_id, time_created, data)")
        for one, parts in MESSAGES:
            data = {key: value for key, value in one.items() if key not in ("id", "sessionID")}
            connection.execute(
                "INSERT INTO message VALUES (?, 'ses_1', ?, ?)", (one["id"], one["time"]["created"], json.dumps(data))
            )
            for piece in parts:
                data = {key: value for key, value in piece.items() if key not in ("id", "sessionID", "messageID")}
                connection.execute(
                    "INSERT INTO part VALUES (?, ?, 'ses_1', 1, ?)", (piece["id"], one["id"], json.dumps(data))
                )
        if second:
            write_second(connection)


CONTENT = [
    {"type": "reasoning", "text": "look first"},
    {"type": "text", "text": "I look."},
    {"type": "tool", "id": "c1", "name": "read", "time": {"created": 1, "completed": MOMENT}}
    | {
        "state": {"status": "completed", "input": {"filePath": "a"}, "content": [{"type": "text", "text": "total = 0"}]}
    },
    {"type": "tool", "id": "c2", "name": "task", "time": {"created": 1}}
    | {
        "state": {
            "status": "error",
            "input": {},
            "error": {"type": "unknown", "message": "no agent"},
            "metadata": {"sessionID": "ses_3"},
        }
    },
]
SECOND = [
    ("user", {"text": "Fix the till", "files": [{"mime": "image/png", "data": "x"}]}),
    ("model-switched", {"model": {"id": "m", "providerID": "a"}}),
    ("synthetic", {"text": "Plan mode is on"}),
    ("assistant", {"agent": "build", "model": {"id": "m2", "providerID": "a"}, "content": CONTENT, "tokens": TOKENS}),
    ("shell", {"command": "pytest", "status": "exited", "exit": 0, "output": {"output": "1 passed"}}),
    ("compaction", {"status": "completed", "summary": "s", "recent": "r", "reason": "auto"}),
    (
        "assistant",
        {"agent": "build", "model": {"id": "m2", "providerID": "a"}, "content": [{"type": "text", "text": "Fixed."}]},
    ),
    ("idle", {"outcome": "succeeded"}),
]


def write_second(connection: sqlite3.Connection) -> None:
    connection.execute(
        "CREATE TABLE session_v2 (id, project_id, parent_id, fork_session_id, directory, title, version, model, "
        "revert, time_created)"
    )
    for name, parent in (("ses_1", None), ("ses_3", "ses_1")):
        model = json.dumps({"id": "m2", "providerID": "a"})
        row = (name, "p", parent, None, "/home/dev/shop", "Till", "2.0.3", model, None, 1)
        connection.execute(f"INSERT INTO session_v2 VALUES ({','.join('?' * 10)})", row)
    connection.execute("CREATE TABLE session_message (id, session_id, type, seq, time_created, data)")
    for seq, (kind, data) in enumerate(SECOND):
        row = (
            f"msg_{seq}",
            "ses_1",
            kind,
            seq,
            MOMENT,
            json.dumps(data | {"time": {"created": MOMENT}}),
        )
        connection.execute("INSERT INTO session_message VALUES (?, ?, ?, ?, ?, ?)", row)
    child = (
        ("msg_x", "user", {"text": "look"}),
        ("msg_y", "assistant", {"model": {"id": "m2"}, "content": [{"type": "text", "text": "seen"}]}),
    )
    for seq, (name, kind, data) in enumerate(child):
        connection.execute(
            "INSERT INTO session_message VALUES (?, 'ses_3', ?, ?, ?, ?)", (name, kind, seq, MOMENT, json.dumps(data))
        )


@pytest.mark.parametrize("second", [False, True])
def test_what_collect_archives_is_read(convert: Convert, tmp_path: Path, second: bool) -> None:
    rows(tmp_path / "opencode.db", second)
    karl_fast.collect(tmp_path / "archive", [tmp_path / "opencode.db"])
    account, found = convert(tmp_path / "archive")
    if not second:
        assert said(found[0]) == WHOLE
        return
    assert [(one["id"], one["parent"], one["session"]) for one in found] == [
        ("ses_1", None, "ses_1"),
        ("ses_3", {"id": "ses_1", "tool_call_id": "c2"}, "ses_1"),
    ]
    assert said(found[0]) == [
        ("user", "Fix the till"),
        ("user", "Plan mode is on"),
        ("assistant", "I look."),
        ("tool", "total = 0"),
        ("tool", "no agent"),
        ("user", "Shell command: pytest\n\n1 passed"),
        ("assistant", "Fixed."),
    ]
    assert found[0]["model"] == "m2"
    # Version 2 has the messages of version 1 too: its own tables alone are read.
    assert account.duplicates == 1 + 3 + sum(len(parts) for _, parts in MESSAGES)
    assert account.dropped == {"no_conversation": 2, "compact_summary": 1}
    assert account.blocks == {"image/png": 1}


def test_messages_that_the_user_took_back_are_another_branch(convert: Convert, tmp_path: Path) -> None:
    folder = storage(tmp_path / "storage", session("ses_1", revert={"messageID": "msg_2"}))
    account, [found] = convert(folder)
    assert said(found) == WHOLE[:2]
    assert account.dropped["other_branch"] == 11


@pytest.mark.parametrize("value", [None, 3, "x", [], {}, [3], {"type": 3}])
@pytest.mark.parametrize("key", ["role", "time", "tokens", "error", "sessionID", "id"])
def test_values_of_other_types_end_no_conversion(convert: Convert, tmp_path: Path, key: str, value: Any) -> None:
    folder = storage(tmp_path / "storage", session("ses_1"))
    put(folder / "message" / "ses_1" / "msg_3.json", MESSAGES[2][0] | {key: value})
    _, found = convert(folder)
    assert said(found[0])[0] == ("user", "Fix the till")
