"""Codex: turns that were taken back, history in other files, sub-agents' copies, texts that the tool wrote."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from tests.unit.convert.test_other_tools import event, item, said

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.convert.conftest import Convert

Lines = list[dict[str, Any]]

ROOT, CHILD, LATER = (f"019fa149-{number:04x}-7000-8000-000000000001" for number in (0, 1, 2))
SPAWNED = {"source": {"subagent": {"thread_spawn": {"parent_thread_id": ROOT, "agent_path": "/root/child"}}}}


def head(id: str, **more: Any) -> dict[str, Any]:
    return {"type": "session_meta", "payload": {"id": id, "cwd": "/shop"} | more}


def turn(asked: str, answered: str) -> Lines:
    return [
        event("task_started"),
        said("user", asked),
        event("user_message", message=asked),
        said("assistant", answered),
    ]


def timed(lines: Lines, start: int = 0, first: int | None = 0) -> Lines:
    """Return lines with times, and with numbers as newer versions write them."""
    return [
        {"timestamp": f"2026-09-01T{(start + at) // 60:02}:{(start + at) % 60:02}:00.000Z"}
        | ({} if first is None else {"ordinal": first + at})
        | line
        for at, line in enumerate(lines)
    ]


def write(folder: Path, id: str, lines: Lines) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"rollout-2026-09-01T10-00-00-{id}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


def words(one: dict[str, Any]) -> list[str]:
    return [message["content"] for message in one["messages"]]


BACK = [
    head(ROOT),
    *turn("Add a cache", "Added."),
    *turn("Now delete the tests", "Deleted."),
    event("thread_rolled_back", num_turns=1),
    *turn("Now run the tests", "They pass."),
]


def test_turns_that_were_taken_back_are_left_out(convert: Convert, tmp_path: Path) -> None:
    account, [found] = convert(write(tmp_path, ROOT, timed(BACK)))
    assert words(found) == ["Add a cache", "Added.", "Now run the tests", "They pass."]
    assert account.dropped["other_branch"] == 2


@pytest.mark.parametrize(
    ("turns", "kept"), [(0, 3), (1, 2), (2, 1), (3, 0), (99, 0), (None, 3)], ids=["0", "1", "2", "3", "99", "none"]
)
def test_as_many_turns_go_as_the_event_says(convert: Convert, tmp_path: Path, turns: int | None, kept: int) -> None:
    lines = [head(ROOT), said("developer", "Be brief.")]
    for number in range(3):
        call = item("function_call", name="shell", arguments="{}", call_id=f"c{number}")
        lines += [said("user", "<environment_context>\n</environment_context>"), said("user", f"ask {number}"), call]
        lines += [item("function_call_output", call_id=f"c{number}", output="Exit code: 0\nOutput:\nok")]
        lines += [
            said("user", f"<user_shell_command>ls {number}</user_shell_command>"),
            said("assistant", f"did {number}"),
        ]
    lines += [event("thread_rolled_back", **({} if turns is None else {"num_turns": turns}))]
    account, [found] = convert(write(tmp_path, ROOT, timed([*lines, *turn("last", "done")])))
    asked = [message["content"] for message in found["messages"] if message["role"] == "user"]
    assert asked == [*(f"ask {number}" for number in range(kept)), "last"]
    assert account.tool_calls == ({"succeeded": kept} if kept else {})


def test_turns_are_taken_back_several_times(convert: Convert, tmp_path: Path) -> None:
    back = event("thread_rolled_back", num_turns=1)
    lines = [head(ROOT), *turn("a", "1"), *turn("b", "2"), back, *turn("c", "3"), back, back, *turn("d", "4")]
    _, [found] = convert(write(tmp_path, ROOT, timed(lines)))
    assert words(found) == ["d", "4"]


def test_retried_answer_is_a_pair(tmp_path: Path) -> None:
    lines = [
        head(ROOT),
        *turn("Add a cache", "Added."),
        *turn("Run it", "I cannot."),
        event("thread_rolled_back", num_turns=1),
    ]
    source = write(tmp_path, ROOT, timed([*lines, *turn("Run it", "It runs.")]))
    account = karl_fast.pairs(source, tmp_path / "pairs.jsonl")
    [pair] = [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text().splitlines()]
    assert (account.pairs, account.sessions) == ({"rewound": 1}, 1)
    assert [pair[key][-1]["content"] for key in ("prompt", "chosen", "rejected")] == ["Run it", "It runs.", "I cannot."]
    assert pair["karl_fast"] == {"chosen_id": ROOT, "rejected_id": f"{ROOT}/abandoned-1"}
    converted = karl_fast.convert(source, tmp_path / "t.jsonl")
    assert (converted.trajectories, converted.dropped) == (1, account.converted.dropped)


@pytest.mark.parametrize("has_ordinals", [True, False])
def test_fork_begins_with_its_history(convert: Convert, tmp_path: Path, has_ordinals: bool) -> None:
    root = timed([head(ROOT), *turn("one", "1"), *turn("two", "2")], first=0 if has_ordinals else None)
    offset = sum(len(json.dumps(line)) + 1 for line in root[:5])
    base = {"thread_id": ROOT, "end_ordinal_exclusive": 5, "end_byte_offset": offset}
    fork = timed([head(LATER, forked_from_id=ROOT, history_base=base), *turn("three", "3")], 30, 5)
    folder = tmp_path / "in"
    write(folder, ROOT, root)
    path = write(folder, LATER, fork)
    account, found = convert(folder)
    assert [words(one) for one in found] == [["one", "1", "two", "2"], ["one", "1", "three", "3"]]
    assert [one["group"] for one in found] == [ROOT, ROOT]
    assert account.notes == {"forked_session": 2}
    account, [alone] = convert(path)
    assert (words(alone), account.notes) == (["three", "3"], {"missing_history": 1})
    (folder / f"rollout-2026-09-01T10-00-00-{ROOT}.jsonl").unlink()
    write(folder, CHILD, timed([head(CHILD), *turn("else", "e")]))
    account, _ = convert(folder)
    assert account.notes == {"missing_history": 1}


def test_fork_of_fork_and_fork_at_end(convert: Convert, tmp_path: Path) -> None:
    write(tmp_path / "in", ROOT, timed([head(ROOT), *turn("one", "1")]))
    base = {"thread_id": ROOT, "end_ordinal_exclusive": 5, "end_byte_offset": 0}
    write(tmp_path / "in", CHILD, timed([head(CHILD, history_base=base), *turn("two", "2"), *turn("gone", "g")], 30, 5))
    base = {"thread_id": CHILD, "end_ordinal_exclusive": 10, "end_byte_offset": 0}
    write(tmp_path / "in", LATER, timed([head(LATER, history_base=base), *turn("three", "3")], 60, 10))
    account, found = convert(tmp_path / "in")
    assert {one["id"]: words(one) for one in found} == {
        CHILD: ["one", "1", "two", "2", "gone", "g"],
        LATER: ["one", "1", "two", "2", "three", "3"],
    }
    assert account.notes == {"session_snapshot": 1, "forked_session": 2}


def test_a_cycle_of_histories_ends(convert: Convert, tmp_path: Path) -> None:
    for id, other in ((ROOT, CHILD), (CHILD, ROOT)):
        base = {"thread_id": other, "end_ordinal_exclusive": 3, "end_byte_offset": 0}
        write(tmp_path / "in", id, timed([head(id, history_base=base), *turn(f"ask {id}", "1")]))
    _, found = convert(tmp_path / "in")
    assert len(found) == 2


def test_thread_rolled_back_to_new_file_is_one(convert: Convert, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    write(folder, ROOT, timed([head(ROOT), *turn("one", "1"), *turn("two", "no")]))
    base = {"thread_id": ROOT, "end_ordinal_exclusive": 5, "end_byte_offset": 0}
    write(folder, f"{ROOT}_{CHILD}", timed([head(ROOT, history_base=base), *turn("two", "2")], 30, 5))
    account, [found] = convert(folder)
    assert (found["id"], words(found)) == (ROOT, ["one", "1", "two", "2"])
    assert account.dropped["other_branch"] == 2
    write(folder, f"{ROOT}_{LATER}", timed([head(ROOT, history_base=base), *turn("two", "3")], 90, 5))
    account, [found] = convert(folder)
    assert (words(found), account.dropped["other_branch"]) == (["one", "1", "two", "3"], 5)
    karl_fast.pairs(folder, tmp_path / "pairs.jsonl")
    pairs = [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text().splitlines()]
    assert sorted(pair["rejected"][0]["content"] for pair in pairs) == ["2", "no"]


@pytest.mark.parametrize("way", ["ordinals", "turn_ids", "comparison"])
def test_sub_agent_copying_its_session_is_separate(convert: Convert, tmp_path: Path, way: str) -> None:
    call = item("function_call", name="spawn_agent", arguments="{}", call_id="call-of-the-session")
    copied = [head(ROOT), *turn("one", "1"), said("user", "two"), call]
    copied += [item("function_call_output", call_id="call-of-the-session", output="started")]
    old, new = (f"019fa149-{number}-7000-8000-00000000000f" for number in ("0000", "0009"))
    if way == "turn_ids":
        copied.insert(1, {"type": "turn_context", "payload": {"model": "m", "turn_id": old}})
    more = {"subagent_history_start_ordinal": len(copied) + 1} if way == "ordinals" else {}
    own = [*turn("look", "found"), said("user", "more"), said("assistant", "nothing")]
    if way == "turn_ids":
        own.insert(0, {"type": "turn_context", "payload": {"model": "m", "turn_id": new}})
    first = 0 if way == "ordinals" else None
    folder = tmp_path / "in"
    path = write(folder, CHILD, timed([head(CHILD, forked_from_id=ROOT, **SPAWNED, **more), *copied, *own], 60, first))
    write(folder, ROOT, timed(copied, 0, first))
    account, found = convert(folder)
    by_id = {one["id"]: one for one in found}
    assert words(by_id[ROOT]) == ["one", "1", "two", "", "started"]
    assert (by_id[CHILD]["parent"], by_id[ROOT]["parent"]) == ({"id": ROOT, "tool_call_id": None}, None)
    learned = [m["content"] for m in by_id[CHILD]["messages"] if m["role"] == "assistant" and m.get("weight") != 0]
    assert learned == ["found", "nothing"]
    assert account.notes == {}
    if way != "comparison":
        _, [alone] = convert(path)
        assert alone["messages"] == by_id[CHILD]["messages"]


def test_equal_turns_of_a_copied_history_stay(convert: Convert, tmp_path: Path) -> None:
    copied = [head(ROOT), *turn("go on", "Done."), *turn("go on", "Done.")]
    lines = [{"timestamp": "2026-09-01T10:00:00.001Z"} | line for line in [head(LATER, forked_from_id=ROOT), *copied]]
    _, [found] = convert(write(tmp_path, LATER, [*lines, *timed(turn("last", "end"), first=None)]))
    assert words(found) == ["go on", "Done.", "go on", "Done.", "last", "end"]


def test_agent_message_asks_sub_agents_only(convert: Convert, tmp_path: Path) -> None:
    def message(recipient: str, text: str) -> dict[str, Any]:
        parts = [{"type": "input_text", "text": text}, {"type": "encrypted_content", "encrypted_content": "gAAA"}]
        return item("agent_message", author="/root", recipient=recipient, content=parts)

    lines = [head(CHILD, **SPAWNED), message("/root/child", "look"), said("assistant", "found"), message("/root", "no")]
    _, [found] = convert(write(tmp_path, CHILD, timed(lines)))
    assert [(one["role"], one["content"]) for one in found["messages"]] == [("user", "look"), ("assistant", "found")]
    lines = [head(ROOT), said("user", "ask"), message("/root", "FINAL_ANSWER"), said("assistant", "done")]
    account, [found] = convert(write(tmp_path, ROOT, timed(lines)))
    assert (words(found), account.dropped["meta"]) == (["ask", "done"], 1)


INJECTED = [
    "<environment_context>\n<cwd>/shop</cwd>\n</environment_context>",
    "<user_instructions>\nbe brief\n</user_instructions>",
    "# AGENTS.md instructions for /shop\n\n<INSTRUCTIONS>\nbe brief\n</INSTRUCTIONS>",
    "# AGENTS.md instructions\n\n<INSTRUCTIONS>\nbe brief\n</INSTRUCTIONS>",
    "<skill>\n<name>demo</name>\nbody\n</skill>",
    "<recommended_plugins>\n- Drive\n</recommended_plugins>",
    "<plugins_instructions>use them</plugins_instructions>",
    "<SUBAGENT_NOTIFICATION>{}</subagent_notification>",
    "<user_shell_command>\n<command>ls</command>\n<result>a</result>\n</user_shell_command>",
    '<hook_prompt hook_run_id="stop:0:/shop/.codex/config.toml">Run the tests first.</hook_prompt>',
    "<hook_context>today is Monday</hook_context>",
    '<codex_internal_context source="goal">\ngo on\n</codex_internal_context>',
    "<goal_context>\ngo on\n</goal_context>",
    '<external_context source="browser_info" kind="untrusted">\ntab\n</external_context>',
    "<external_browser_info>tab</external_browser_info>",
    "Warning: The maximum number of unified exec processes you can keep open is 64.",
]


@pytest.mark.parametrize("text", INJECTED)
def test_what_the_tool_writes_is_not_the_users(convert: Convert, tmp_path: Path, text: str) -> None:
    lines = [head(ROOT), said("user", text), said("user", "ask"), said("assistant", "answer"), said("user", text)]
    account, [found] = convert(write(tmp_path, ROOT, timed([*lines, said("assistant", "more")])))
    assert words(found) == ["ask", "answer\nmore"]
    assert account.dropped == {"meta": 2}


@pytest.mark.parametrize(
    "text",
    [
        "<environment_context>\n</environment_context>\nWhy is this in my log?",
        "<project_context>\nbody\n</project_context>",
        "<in-app-browser-context>tab</in-app-browser-context>\n\n## My request for Codex:\nmend it",
        "# Context from my IDE setup:\n## My request for Codex:\nmend it",
        "Warning: The maximum number of unified exec processes you can keep open is 64.\nWhat is that?",
        "<div>mend this</div>",
        "I see <skill>a</skill>",
    ],
)
def test_what_the_user_quotes_is_the_users(convert: Convert, tmp_path: Path, text: str) -> None:
    _, [found] = convert(write(tmp_path, ROOT, timed([head(ROOT), *turn(text, "answer")])))
    assert words(found) == [text, "answer"]


def test_parts_of_a_message_are_told_apart(convert: Convert, tmp_path: Path) -> None:
    parts = [{"type": "input_text", "text": text} for text in (INJECTED[2], INJECTED[0], "mend it")]
    message = item("message", role="user", content=parts)
    settings = [
        {"type": "input_text", "text": text}
        for text in ("<permissions instructions>\na</permissions instructions>", "Be brief.")
    ]
    lines = [head(ROOT), item("message", role="developer", content=settings), message, said("assistant", "done")]
    _, [found] = convert(write(tmp_path, ROOT, timed(lines)))
    assert [(one["role"], one["content"]) for one in found["messages"]] == [
        ("system", "Be brief."),
        ("user", "mend it"),
        ("assistant", "done"),
    ]


def test_kinds_of_parts_decide_where_they_are_written(convert: Convert, tmp_path: Path) -> None:
    def message(role: str, *parts: tuple[str, str]) -> dict[str, Any]:
        kinds = {"turn_id": "t", "content_item_kinds": [kind for kind, _ in parts]}
        content = [{"type": "input_text", "text": text} for _, text in parts]
        return item("message", role=role, content=content, internal_chat_message_metadata_passthrough=kinds)

    lines = [
        head(ROOT),
        message("developer", ("model.base_instructions", "You mend."), ("hooks.additional_context", "a hook's")),
        message("user", ("agents_md.instructions", "be brief"), ("user.text", INJECTED[0])),
        said("assistant", "answer"),
        message("developer", ("hooks.additional_context", "after the call")),
        said("assistant", "more"),
    ]
    account, [found] = convert(write(tmp_path, ROOT, timed(lines)))
    assert words(found) == ["You mend.", INJECTED[0], "answer\nmore"]
    assert (account.dropped, account.notes) == ({"meta": 1}, {"injected_text": 2})


def test_hook_texts_between_turns_are_not_system(convert: Convert, tmp_path: Path) -> None:
    lines = [
        head(ROOT),
        said("developer", "Be brief."),
        said("user", INJECTED[0]),
        said("developer", "SessionStart: x"),
    ]
    lines += [*turn("ask", "answer"), said("system", "PostToolUse: formatted"), *turn("more", "done")]
    account, [found] = convert(write(tmp_path, ROOT, timed(lines)))
    assert [one["role"] for one in found["messages"]] == ["system", "user", "assistant", "user", "assistant"]
    assert account.dropped["meta"] == 3
