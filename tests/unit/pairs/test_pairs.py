"""Preference pairs that a user made: rewound sessions, and requests that were made again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from karl_fast.errors import NothingToSampleError, OutputExistsError, OutputForeignError

if TYPE_CHECKING:
    from pathlib import Path

REQUEST = "Please add a test for the parser of dates in the shop"
SECRET = "sk-ant-api03-" + "aB3dE6gH9jK2mN5pQ8sT" * 4 + "AA"


def line(id: str, parent: str | None, role: str, content: Any, at: int, session: str = "s") -> dict[str, Any]:
    """A line of a session of Claude Code."""
    message = {"role": role, "content": content} | ({"id": f"m-{id}", "model": "m"} if role == "assistant" else {})
    return {
        "type": role,
        "uuid": id,
        "parentUuid": parent,
        "sessionId": session,
        "cwd": "/home/dev/shop",
        "timestamp": f"2026-01-01T00:{at // 60:02}:{at % 60:02}.000Z",
        "message": message,
    }


def says(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text}]


def session(name: str, answer: str, start: int, request: str = REQUEST) -> list[dict[str, Any]]:
    asked = line(f"{name}1", None, "user", request, start, name)
    return [asked, line(f"{name}2", f"{name}1", "assistant", says(answer), start + 1, name)]


def write(folder: Path, *sessions: list[dict[str, Any]]) -> Path:
    folder.mkdir(exist_ok=True)
    for lines in sessions:
        text = "".join(json.dumps(one) + "\n" for one in lines)
        (folder / f"{lines[0]['sessionId']}.jsonl").write_text(text, "utf-8")
    return folder


def pairs(source: Path, out: Path, **settings: Any) -> tuple[karl_fast.Pairs, list[dict[str, Any]]]:
    account = karl_fast.pairs(source, out, **settings)
    found = [json.loads(text) for text in out.read_text("utf-8").splitlines()]
    assert sum(account.candidates.values()) == sum(account.pairs.values()) + sum(account.dropped.values())
    assert sum(account.pairs.values()) == len(found)
    assert account.written_bytes == out.stat().st_size
    return account, found


def rewound(*, again: str) -> list[dict[str, Any]]:
    """A session whose second request was answered, taken back and made again."""
    return [
        *session("s", "done", 0),
        line("s3", "s2", "user", "and for times", 2),
        line("s4", "s3", "assistant", [*says("I try"), call("c1")], 3),
        line("s5", "s4", "user", [result("c1", "failed")], 4),
        line("s6", "s5", "assistant", says("I give up"), 5),
        line("s7", "s2", "user", again, 10),
        line("s8", "s7", "assistant", says("times have a test"), 11),
        line("s9", "s8", "user", "thanks", 12),
        line("s10", "s9", "assistant", says("gladly"), 13),
    ]


def call(id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": "Bash", "input": {"command": "pytest"}}


def result(id: str, text: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": text, "is_error": True}


def test_rewound_session_gives_a_pair(tmp_path: Path) -> None:
    source = write(tmp_path / "in", rewound(again="and for times"))
    account, [pair] = pairs(source, tmp_path / "pairs.jsonl")
    assert (account.pairs, account.dropped, account.sessions) == ({"rewound": 1}, {}, 1)
    assert list(pair) == ["prompt", "chosen", "rejected", "reason", "karl_fast"]
    assert [one["content"] for one in pair["prompt"]] == [REQUEST, "done", "and for times"]
    # Up to the user's next turn.
    assert pair["chosen"] == [{"role": "assistant", "content": "times have a test"}]
    assert [one["role"] for one in pair["rejected"]] == ["assistant", "tool", "assistant"]
    assert pair["rejected"][0]["tool_calls"][0]["function"]["name"] == "Bash"
    assert pair["karl_fast"] == {"chosen_id": "s", "rejected_id": "s/abandoned-1"}


def test_other_request_on_kept_branch_is_not_pair(tmp_path: Path) -> None:
    source = write(tmp_path / "in", rewound(again="and for numbers, not times"))
    with pytest.raises(NothingToSampleError, match="1 candidate, dropped: request changed 1"):
        karl_fast.pairs(source, tmp_path / "pairs.jsonl")
    assert not (tmp_path / "pairs.jsonl").exists()


def test_conversion_unchanged_beside_abandoned_branches(tmp_path: Path) -> None:
    """`convert` writes the kept branch alone, and the account of lines is the same for `pairs`."""
    source = write(tmp_path / "in", rewound(again="and for times"))
    converted = karl_fast.convert(source, tmp_path / "trajectories.jsonl")
    account, _ = pairs(source, tmp_path / "pairs.jsonl")
    assert (converted.trajectories, converted.dropped) == (1, {"other_branch": 4})
    assert account.converted.dropped == converted.dropped
    assert account.converted.notes == {"abandoned_branch": 1}


def test_parallel_calls_are_no_branches(tmp_path: Path) -> None:
    lines = [
        *session("s", "done", 0)[:1],
        line("a", "s1", "assistant", [call("c1")], 1)
        | {"message": {"id": "m", "role": "assistant", "content": [call("c1")]}},
        line("b", "a", "assistant", [call("c2")], 1)
        | {"message": {"id": "m", "role": "assistant", "content": [call("c2")]}},
        line("c", "a", "user", [result("c1", "one")], 2),
        line("d", "b", "user", [result("c2", "two")], 2),
        line("e", "d", "assistant", says("done"), 3),
    ]
    with pytest.raises(NothingToSampleError, match="0 candidates"):
        karl_fast.pairs(write(tmp_path / "in", lines), tmp_path / "pairs.jsonl")


def test_repeated_request_prefers_later_answer(tmp_path: Path) -> None:
    source = write(
        tmp_path / "in",
        session("a", "first", 0),
        session("b", "second", 600, REQUEST.upper() + "\n"),
        session("c", "of another request", 700, "Please write the manual of the shop, all of it"),
        session("d", "short", 0, "run the tests"),
        session("e", "short again", 60, "run the tests"),
    )
    account, [pair] = pairs(source, tmp_path / "pairs.jsonl")
    assert account.pairs == {"asked_again": 1}
    assert [pair[key][0]["content"] for key in ("chosen", "rejected")] == ["second", "first"]
    assert pair["prompt"] == [{"role": "user", "content": REQUEST.upper() + "\n"}]


def test_text_shape_is_one_prompt_one_answer(tmp_path: Path) -> None:
    other = "Please write the manual of the shop, all of it"
    retried = [session("a", "first", 0, other), session("b", "second", 60, other)]
    source = write(tmp_path / "in", *retried, rewound(again="and for times"))
    account, [pair] = pairs(source, tmp_path / "pairs.jsonl", shape="text")
    assert account.dropped == {"not_one_answer": 1}
    assert (pair["prompt"], pair["chosen"], pair["rejected"]) == (other, "second", "first")


def test_secrets_are_replaced_unless_they_are_allowed(tmp_path: Path) -> None:
    source = write(tmp_path / "in", session("a", f"the key is {SECRET}", 0), session("b", "second", 60))
    account, [pair] = pairs(source, tmp_path / "pairs.jsonl")
    assert SECRET not in json.dumps(pair)
    assert sum(account.secrets.values()) == 1
    account, [pair] = pairs(source, tmp_path / "kept.jsonl", allow_secrets=True)
    assert SECRET in pair["rejected"][0]["content"]
    assert account.secrets == {}


def test_force_replaces_only_a_file_of_pairs(tmp_path: Path) -> None:
    source, out = write(tmp_path / "in", session("a", "first", 0), session("b", "second", 60)), tmp_path / "pairs.jsonl"
    before = pairs(source, out)[1]
    with pytest.raises(OutputExistsError):
        karl_fast.pairs(source, out)
    assert pairs(source, out, force=True, threads=1)[1] == before
    out.write_text("mine\n", "utf-8")
    with pytest.raises(OutputForeignError):
        karl_fast.pairs(source, out, force=True)
    assert out.read_text("utf-8") == "mine\n"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def api_error(id: str, parent: str, at: int, session: str = "s") -> dict[str, Any]:
    failed = line(id, parent, "assistant", says("API Error: Connection error (ECONNRESET)"), at, session)
    failed["message"]["model"] = "<synthetic>"
    return failed | {"isApiErrorMessage": True}


@pytest.mark.parametrize("again", ["a branch", "a session"])
def test_answer_cut_by_connection_is_not_rejected(tmp_path: Path, again: str) -> None:
    cut = [*session("s", "I will start with the to", 0), api_error("s3", "s2", 2)]
    if again == "a branch":
        whole = [*cut, line("s4", None, "user", REQUEST, 5), line("s5", "s4", "assistant", says("whole"), 6)]
        source = write(tmp_path / "in", whole)
    else:
        source = write(tmp_path / "in", cut, session("t", "whole", 60))
    with pytest.raises(NothingToSampleError, match="1 candidate, dropped: cut answer 1"):
        karl_fast.pairs(source, tmp_path / "pairs.jsonl")


def test_automatic_retry_is_not_a_candidate(tmp_path: Path) -> None:
    lines = [*session("s", "I will st", 0), line("s3", "s1", "assistant", says("the whole answer"), 2)]
    with pytest.raises(NothingToSampleError, match="0 candidates"):
        karl_fast.pairs(write(tmp_path / "in", lines), tmp_path / "pairs.jsonl")


def test_daily_command_is_not_asked_again(tmp_path: Path) -> None:
    sessions = []
    for name, start in (("a", 0), ("b", 600)):
        command = line(f"{name}0", None, "user", "<command-name>/review</command-name>", start, name)
        asked, answered = session(name, f"review {name}", start + 1)
        sessions.append([command, asked | {"parentUuid": f"{name}0", "isMeta": True}, answered])
    with pytest.raises(NothingToSampleError, match="0 candidates"):
        karl_fast.pairs(write(tmp_path / "in", *sessions), tmp_path / "pairs.jsonl")
