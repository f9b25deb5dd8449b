"""Pi 0.58.3, session format 3: `docs/session.md` and `messages.ts` of the coding agent of badlogic/pi-mono (MIT)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.convert.conftest import Convert

SESSION = "0198c0de-1b7b-4fb1-b512-c9738b1fe617"
HEADER = {
    "type": "session",
    "version": 3,
    "id": SESSION,
    "timestamp": "2026-03-01T10:00:00.000Z",
    "cwd": "/home/dev/shop",
}
USAGE = {"input": 10, "output": 20, "cacheRead": 5, "cacheWrite": 2, "totalTokens": 37, "cost": {"total": 0.01}}


def entry(name: str, parent: str | None, **more: Any) -> dict[str, Any]:
    return {
        "type": "message",
        "id": name,
        "parentId": parent,
        "timestamp": f"2026-03-01T10:00:0{len(name)}.000Z",
    } | more


def user(name: str, parent: str | None, content: Any) -> dict[str, Any]:
    return entry(name, parent, message={"role": "user", "content": content, "timestamp": 1})


def model(name: str, parent: str, *content: dict[str, Any], stop: str = "stop") -> dict[str, Any]:
    message = {"role": "assistant", "content": list(content), "api": "anthropic-messages", "provider": "anthropic"}
    return entry(name, parent, message=message | {"model": "m", "usage": USAGE, "stopReason": stop})


def result(name: str, parent: str, call: str, content: Any, failed: bool = False) -> dict[str, Any]:
    message = {"role": "toolResult", "toolCallId": call, "toolName": "read", "content": content, "isError": failed}
    return entry(name, parent, message=message)


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


CALL = {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "till.py"}}
LINES = [
    HEADER,
    entry("m0", None, type="model_change", provider="anthropic", modelId="m"),
    user("u1", "m0", "Fix the till"),
    model("a1", "u1", {"type": "thinking", "thinking": "look first"}, text("I look."), CALL, stop="toolUse"),
    result("r1", "a1", "c1", [text("total = 0"), {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}]),
    model("a2", "r1", text("A branch that is left")),
    model("a3", "r1", text("Fixed.")),
    entry("b1", "a3", message={"role": "bashExecution", "command": "pytest", "output": "1 failed", "exitCode": 1}),
    entry("x1", "b1", type="custom_message", customType="todo", content="Remember the tax", display=True),
    entry("k1", "x1", type="compaction", summary="The till was fixed", firstKeptEntryId="a3", tokensBefore=9),
    user("u2", "k1", [text("And the tax")]),
    model("a4", "u2", text("Half a"), stop="aborted"),
]


def write(path: Path, lines: list[Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


def test_the_path_to_the_last_entry_is_the_session(convert: Convert, tmp_path: Path) -> None:
    account, [found] = convert(write(tmp_path / f"2026-03-01T10-00-00-000Z_{SESSION}.jsonl", LINES))
    assert [(one["role"], one["content"]) for one in found["messages"]] == [
        ("user", "Fix the till"),
        ("assistant", "I look."),
        ("tool", "total = 0"),
        ("assistant", "Fixed."),
        ("user", "Ran `pytest`\n```\n1 failed\n```\n\nCommand exited with code 1"),
        ("user", "Remember the tax"),
        ("user", "And the tax"),
        ("assistant", "Half a"),
    ]
    call = found["messages"][1]["tool_calls"][0]
    assert (call["id"], json.loads(call["function"]["arguments"])) == ("c1", {"path": "till.py"})
    assert found["messages"][1]["reasoning_content"] == "look first"
    assert (found["messages"][2]["success"], found["messages"][-1]["interrupted"]) == (True, True)
    assert [one.get("origin") for one in found["messages"][4:6]] == ["shell", "extension"]
    assert (found["id"], found["model"], found["source"]["format"]) == (SESSION, "m", "pi")
    assert found["tokens"] == {"input": 40 - 10, "cache_creation": 6, "cache_read": 15, "output": 60}
    assert (account.dropped, account.blocks) == (
        {"other_branch": 1, "no_conversation": 1, "compact_summary": 1},
        {"image": 1},
    )


def test_files_of_version_1_have_no_tree(convert: Convert, tmp_path: Path) -> None:
    old = [
        {key: value for key, value in line.items() if key not in ("id", "parentId", "version")} for line in LINES[1:]
    ]
    account, [found] = convert(write(tmp_path / "s.jsonl", [HEADER, *old]))
    assert len(found["messages"]) == 9
    assert account.dropped == {"no_conversation": 1, "compact_summary": 1}


def test_a_fork_is_of_the_session_it_began_in_and_a_copy_counts_once(convert: Convert, tmp_path: Path) -> None:
    name = f"/x/2026_{SESSION}.jsonl"
    fork = [HEADER | {"id": "fork", "parentSession": name}, *LINES[1:5], model("a9", "r1", text("Another way"))]
    for at, lines in enumerate((LINES, fork, LINES)):
        write(tmp_path / f"{at}.jsonl", lines)
    account, found = convert(*(tmp_path / f"{at}.jsonl" for at in range(3)))
    assert [(one["id"], one["session"], one["group"]) for one in found] == [
        (SESSION, SESSION, SESSION),
        ("fork", SESSION, SESSION),
    ]
    assert account.notes["copied_session"] == 1


@pytest.mark.parametrize("parent", ["gone", "a4", 7])
def test_a_parent_that_is_not_before_is_replaced_by_the_order(convert: Convert, tmp_path: Path, parent: Any) -> None:
    lines = [dict(line) for line in LINES]
    lines[3]["parentId"] = parent
    account, [found] = convert(write(tmp_path / "s.jsonl", lines))
    if parent == 7:
        assert [one["role"] for one in found["messages"]][:1] == ["assistant"]
        assert account.mistyped[0]["field"] == "parentId"
    else:
        assert (len(found["messages"]), account.notes["missing_parent"]) == (8, 1)


def test_damaged_lines_and_values_cost_only_themselves(convert: Convert, tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", LINES[:5])
    with path.open("a") as file:
        file.write('{"type": "message", "id": "z1", "parentId": "r1", "mess\n')
        file.write(json.dumps(user("z2", "r1", 5)) + "\n" + json.dumps(user("z3", "r1", "On")) + "\n")
    account, [found] = convert(path)
    assert [one["content"] for one in found["messages"]] == ["Fix the till", "I look.", "total = 0", "On"]
    assert sum(account.bad.values()) == 1


def test_sample_says_what_it_is(tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", LINES)
    with pytest.raises(karl_fast.errors.NothingToSampleError, match="is a transcript of pi"):
        karl_fast.sample(path, tmp_path / "data", k=1)
