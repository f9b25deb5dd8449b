"""Session Trace Simple Format (STS) of the Hugging Face Hub, as its page `session-traces-format` defines it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from karl_fast import errors

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.convert.conftest import Convert

HEADER = {"type": "session", "harness": "llama.app", "id": "b1a2c3", "name": "Fix the till"}
CALL = {"id": "c1", "function": {"name": "read", "arguments": '{"path": "till.py"}'}}


def message(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "message", "message": {"role": role, "content": content} | more}


LINES = [
    HEADER,
    message("system", "You help."),
    message("user", "Fix the till", timestamp=1767225600000),
    message("assistant", "", reasoningContent="look first", toolCalls=[CALL], model="m", timestamp=1767225601500),
    message("tool", "total = 0", toolCallId="c1"),
    message("assistant", "Fixed.", model="m"),
]


def write(path: Path, lines: list[Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


def test_a_session_is_a_trajectory(convert: Convert, tmp_path: Path) -> None:
    account, [found] = convert(write(tmp_path / "s.jsonl", LINES))
    assert [(one["role"], one["content"]) for one in found["messages"]] == [
        ("system", "You help."),
        ("user", "Fix the till"),
        ("assistant", ""),
        ("tool", "total = 0"),
        ("assistant", "Fixed."),
    ]
    turn = found["messages"][2]
    assert (turn["reasoning_content"], turn["timestamp"]) == ("look first", "2026-01-01T00:00:01.500Z")
    assert turn["tool_calls"][0]["function"] == {"name": "read", "arguments": '{"path": "till.py"}'}
    assert found["messages"][3]["name"] == "read"
    assert (found["id"], found["model"]) == ("b1a2c3", "m")
    assert (found["source"]["format"], found["source"]["harness"]) == ("sts", "llama.app")
    assert (account.dropped, account.types) == ({}, {"session": 1, "message": 5})


def test_sessions_in_one_file_are_several(convert: Convert, tmp_path: Path) -> None:
    _, found = convert(write(tmp_path / "s.jsonl", [*LINES, HEADER | {"id": "second"}, *LINES[2:]]))
    assert [one["id"] for one in found] == ["b1a2c3", "second"]
    assert [len(one["messages"]) for one in found] == [5, 4]


def session(name: str, *words: str) -> list[Any]:
    """Return a session with a question and an answer to each of some words."""
    turns = [message(role, f"{role} {word}") for word in words for role in ("user", "assistant")]
    return [HEADER | {"id": name}, *turns]


def test_files_that_begin_with_one_session_keep_the_others(convert: Convert, tmp_path: Path) -> None:
    first = write(tmp_path / "a.jsonl", [*session("s1", "x"), *session("s2", "y")])
    for shared in (session("s1", "x"), session("s1", "x", "more")):
        second = write(tmp_path / "b.jsonl", [*shared, *session("s3", "z")])
        account, found = convert(first, second)
        assert {one["messages"][0]["content"] for one in found} == {"user x", "user y", "user z"}
        assert (account.duplicates, len(found), len({one["id"] for one in found})) == (0, 4, 4)
        assert all(one["session"] == one["id"].partition("/")[0] for one in found)


def test_a_copy_and_a_beginning_of_several_sessions_are_counted(convert: Convert, tmp_path: Path) -> None:
    lines = [*session("s1", "x"), *session("s2", "y")]
    whole, part = write(tmp_path / "a.jsonl", lines), write(tmp_path / "b.jsonl", lines[:-1])
    account, found = convert(whole, write(tmp_path / "c.jsonl", lines), part)
    assert [one["id"] for one in found] == ["s1", "s2"]
    assert account.duplicates == 2 * len(lines) - 1
    assert account.notes == {"copied_session": 1, "session_snapshot": 1}


def test_a_mark_is_added_to_whole_ids(convert: Convert, tmp_path: Path) -> None:
    """The id of one session may begin that of another: s1 and s10."""
    first = write(tmp_path / "a.jsonl", session("s1", "x"))
    second = write(tmp_path / "b.jsonl", [*session("s1", "other"), *session("s10", "y")])
    _, found = convert(first, second)
    marked = {one["messages"][0]["content"]: one["id"] for one in found}
    assert marked["user x"] == "s1"
    assert marked["user other"].startswith("s1/")
    assert marked["user y"].startswith("s10/")
    assert [one["session"] for one in found] == ["s1", "s1", "s10"]


@pytest.mark.parametrize(
    ("line", "dropped"),
    [
        (message("critic", "well"), {"unknown_role": 1}),
        ({"type": "compaction", "message": {}}, {"no_conversation": 1}),
        ({"type": "message"}, {"no_conversation": 1}),
        (message("user", ""), {"empty": 1}),
        (message("user", [{"type": "image", "url": "x"}]), {"no_text": 1}),
    ],
)
def test_what_says_nothing_is_counted(convert: Convert, tmp_path: Path, line: Any, dropped: dict[str, int]) -> None:
    account, [found] = convert(write(tmp_path / "s.jsonl", [*LINES, line]))
    assert (account.dropped, len(found["messages"])) == (dropped, 5)


@pytest.mark.parametrize("more", [{"toolCalls": "read"}, {"reasoningContent": 5}, {"timestamp": "now"}])
def test_values_of_wrong_types_are_counted(convert: Convert, tmp_path: Path, more: dict[str, Any]) -> None:
    account, _ = convert(write(tmp_path / "s.jsonl", [*LINES, message("assistant", "Done.", **more)]))
    assert account.notes["wrong_type"] == 1


def test_sample_says_to_convert(tmp_path: Path) -> None:
    with pytest.raises(errors.KarlError, match="transcript of sts"):
        karl_fast.sample(write(tmp_path / "s.jsonl", LINES), tmp_path / "data", k=1)
