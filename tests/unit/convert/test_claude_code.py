"""Claude Code: what lines say together. These are made from the schema; real ones are in test_real_transcripts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.convert import made

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.convert.conftest import Convert


def test_session_has_every_field_of_the_format(convert: Convert, tmp_path: Path) -> None:
    session = made.plain()
    path = session.write(tmp_path / "p" / "a.jsonl")
    account, [found] = convert(path)
    messages = found.pop("messages")
    assert found == {
        "karl_fast_trajectory": 1,
        "id": session.id,
        "group": None,
        "reward": None,
        "model": "claude-opus-4-5",
        "policy_version": None,
        "parent": None,
        "session": session.id,
        "started_at": "2026-01-01T00:00:02.000Z",
        "ended_at": "2026-01-01T00:00:10.000Z",
        "duration_seconds": 8.0,
        "turns": 3,
        "tool_calls": 2,
        "tokens": {"input": 9, "cache_creation": 30, "cache_read": 300, "output": 5},
        "source": {
            "format": "claude-code",
            "session_id": session.id,
            "agent_id": None,
            "files": [str(path)],
            "cwd": "/home/dev/shop",
            "git_branch": "main",
            "version": "2.1.29",
        },
    }
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant", "tool", "assistant"]
    assert messages[1] == {
        "role": "assistant",
        "content": "I look.",
        "reasoning_content": "first look",
        "timestamp": "2026-01-01T00:00:03.000Z",
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "Read", "arguments": '{"file_path": "/till.py"}'},
            }
        ],
    }
    assert [(m["tool_call_id"], m["name"], m["content"], m["success"]) for m in messages if m["role"] == "tool"] == [
        ("c1", "Read", "total = 0", True),
        ("c2", "Bash", "1 failed", False),
    ]
    assert account.tool_calls == {"failed": 1, "succeeded": 1}
    assert account.dropped == {"no_conversation": 2}


def test_calls_side_by_side_keep_all_their_results(convert: Convert, tmp_path: Path) -> None:
    """Each line of such a message has a result of its own for a child, and only one is the parent of the rest."""
    session = made.Session()
    session.ask("both")
    first, second = session.speak("m", made.call("a", "Read"), made.call("b", "Grep"))
    session.last = first["uuid"]
    session.answer("a", "A", {})
    session.last = second["uuid"]
    session.answer("b", "B", {})
    session.speak("n", made.text("done"))
    _, [found] = convert(session.write(tmp_path / "a.jsonl"))
    roles = [message["role"] for message in found["messages"]]
    assert roles == ["user", "assistant", "tool", "tool", "assistant"]
    assert len(found["messages"][1]["tool_calls"]) == 2


def test_what_was_taken_back_is_left_out(convert: Convert, tmp_path: Path) -> None:
    session = made.Session()
    root = session.ask("start")
    session.speak("m1", made.text("old"), made.call("x", "Bash"))
    session.answer("x", "old result", {})
    session.last = root["uuid"]
    session.ask("no, so")
    session.speak("m2", made.text("new"))
    account, [found] = convert(session.write(tmp_path / "a.jsonl"))
    assert [message["content"] for message in found["messages"]] == ["start", "no, so", "new"]
    assert account.dropped == {"other_branch": 3}


def test_a_compaction_joins_what_was_before_it(convert: Convert, tmp_path: Path) -> None:
    session = made.Session()
    session.ask("one")
    last = session.speak("m1", made.text("1"))[-1]
    session.last = None
    session.line("system", subtype="compact_boundary", logicalParentUuid=last["uuid"], content="compacted")
    session.ask("This session is being continued", isCompactSummary=True)
    session.ask("two")
    session.speak("m2", made.text("2"))
    account, [found] = convert(session.write(tmp_path / "a.jsonl"))
    assert [message["content"] for message in found["messages"]] == ["one", "1", "two", "2"]
    assert account.dropped == {"compact_summary": 1, "no_conversation": 1}


def test_lost_parent_is_the_previous_line(convert: Convert, tmp_path: Path) -> None:
    session = made.Session()
    session.ask("one")
    session.speak("m1", made.text("1"))
    session.last = made.name("lost")
    session.ask("two")
    session.speak("m2", made.text("2"))
    _, [found] = convert(session.write(tmp_path / "a.jsonl"))
    assert [message["content"] for message in found["messages"]] == ["one", "1", "two", "2"]


def test_parents_that_go_round_end(convert: Convert, tmp_path: Path) -> None:
    session = made.plain()
    session.lines[1]["parentUuid"] = session.lines[-1]["uuid"]
    _, [found] = convert(session.write(tmp_path / "a.jsonl"))
    assert found["turns"] == 3


def test_system_lines_are_counted_and_dropped(convert: Convert, tmp_path: Path) -> None:
    session = made.plain()
    session.ask("Caveat: the messages below", isMeta=True)
    session.ask("<command-name>/clear</command-name>")
    session.ask("<local-command-stdout>gone</local-command-stdout>")
    session.ask("[Request interrupted by user]")
    session.ask([made.text("[Request interrupted by user for tool use]")])
    session.ask([])
    session.speak("m9", made.text("No response requested."), model="<synthetic>")
    session.answer("nobody", "asked")
    account, [found] = convert(session.write(tmp_path / "a.jsonl"))
    assert len(found["messages"]) == 6
    assert account.dropped == {
        "command": 2,
        "empty": 1,
        "interruption": 2,
        "meta": 1,
        "no_conversation": 2,
        "orphan_result": 1,
        "synthetic": 1,
    }


def test_success_is_what_the_result_says(convert: Convert, tmp_path: Path) -> None:
    cases = [
        (None, {"stdout": ""}, True),
        (None, [{"type": "text"}], True),
        (None, "Error: no", False),
        (None, "fine", None),
        (None, None, None),
        (True, {"stdout": ""}, False),
        (False, "Error: no", False),
        (False, None, True),
    ]
    session = made.Session()
    session.ask("go")
    for at, (is_error, result, _) in enumerate(cases):
        session.speak(f"m{at}", made.call(f"c{at}", "Bash"))
        session.answer(f"c{at}", "out", result, is_error)
    account, [found] = convert(session.write(tmp_path / "a.jsonl"))
    said = [message["success"] for message in found["messages"] if message["role"] == "tool"]
    assert said == [wanted for *_, wanted in cases]
    assert account.tool_calls == {"failed": 3, "succeeded": 3, "unknown": 2}


def test_sub_agents_are_trajectories_of_their_own(convert: Convert, tmp_path: Path) -> None:
    session = made.Session()
    session.ask("find it")
    session.speak("m1", made.call("t1", "Task", prompt="look there", description="d"))
    agent = made.Session(agent="a1b2c3", start=2)
    agent.ask("look there")
    agent.speak("x1", made.text("found"))
    session.answer("t1", [made.text("found")], {"status": "completed", "agentId": "a1b2c3"})
    session.speak("m2", made.text("there"))
    session.write(tmp_path / "p" / f"{session.id}.jsonl")
    agent.write(tmp_path / "p" / session.id / "subagents" / "agent-a1b2c3.jsonl")
    _, [whole, part] = convert(tmp_path / "p")
    assert whole["parent"] is None
    assert part["id"] == f"{session.id}/a1b2c3"
    assert part["parent"] == {"id": session.id, "tool_call_id": "t1"}
    assert part["source"]["agent_id"] == "a1b2c3"
    assert [message["content"] for message in part["messages"]] == ["look there", "found"]
    assert [message["content"] for message in whole["messages"]] == ["find it", "", "found", "there"]


def test_unnamed_sub_agents_between_session_lines(convert: Convert, tmp_path: Path) -> None:
    """As older versions wrote them: two at once, told by the line that each begins with and by what it was asked."""
    session = made.Session()
    session.ask("find both")
    session.speak("m1", made.call("t1", "Task", prompt="look left"), made.call("t2", "Task", prompt="look right"))
    main = session.last
    ends = []
    for side in ("left", "right"):
        session.last = None
        session.ask(f"look {side}", isSidechain=True)
        ends.append(session.speak(f"x-{side}", made.text(side))[-1])
        ends[-1]["isSidechain"] = True
    session.last = main
    session.answer("t1", "left", {})
    session.answer("t2", "right", {})
    _, found = convert(session.write(tmp_path / "a.jsonl"))
    assert [one["parent"] and one["parent"]["tool_call_id"] for one in found] == [None, "t1", "t2"]
    assert [[m["content"] for m in one["messages"]] for one in found[1:]] == [
        ["look left", "left"],
        ["look right", "right"],
    ]
    assert len({one["id"] for one in found}) == 3


def test_snapshots_of_a_growing_session_are_one_trajectory(convert: Convert, tmp_path: Path) -> None:
    session = made.plain()
    for lines in (4, 7, len(session.lines)):
        part = made.Session()
        part.lines = session.lines[:lines]
        part.write(tmp_path / "all" / f"{9 - lines}" / "full.jsonl")
    rest = made.Session()
    rest.lines = session.lines[5:]
    rest.write(tmp_path / "all" / "0" / "full.jsonl")
    account, [found] = convert(tmp_path / "all")
    _, [alone] = convert(session.write(tmp_path / "alone.jsonl"))
    assert found["messages"] == alone["messages"]
    assert account.duplicates == 3 + 6 + len(session.lines) - 5


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_the_output_depends_on_nothing_but_the_transcripts(convert: Convert, tmp_path: Path, threads: int) -> None:
    paths = [made.plain(f"s{n}", f"task {n}", n % 7).write(tmp_path / f"{n:03}.jsonl") for n in range(40)]
    _, wanted = convert(*paths, threads=1)
    _, found = convert(*paths[::-1], threads=threads)
    assert found == wanted
    assert len(found) == 40


def test_metadata_file_gives_group_not_reward(convert: Convert, tmp_path: Path) -> None:
    for name, session, percent in (("a", "one", 25), ("b", "two", None)):
        path = made.plain(session).write(tmp_path / "all" / name / "full.jsonl")
        beside = {
            "checkpoint_id": "c",
            "session_id": made.name(session),
            "branch": "till",
            "created_at": "2026-01-02T00:00:00Z",
        }
        if percent is not None:
            beside["initial_attribution"] = {"agent_percentage": percent, "total_committed": 4}
        (path.parent / "metadata.json").write_text(json.dumps(beside), "utf-8")
    account, found = convert(tmp_path / "all")
    by = {one["id"]: (one["group"], one["reward"]) for one in found}
    assert by == {made.name("one"): ("till", None), made.name("two"): ("till", None)}
    assert account.skipped == []


def test_stream_json_end_is_a_reward(convert: Convert, tmp_path: Path) -> None:
    for name, subtype, is_error in (("a", "success", False), ("b", "error_max_turns", True)):
        session = made.plain(name)
        lines = [line for line in session.lines if line["type"] in ("user", "assistant")]
        lines = [
            {"type": line["type"], "message": line["message"], "session_id": session.id, "uuid": line["uuid"]}
            | {"parent_tool_use_id": None, "tool_use_result": line.get("toolUseResult")}
            for line in lines
        ]
        start = {"type": "system", "subtype": "init", "session_id": session.id, "tools": ["Bash"], "model": "m"}
        end = {"type": "result", "subtype": subtype, "is_error": is_error, "session_id": session.id, "num_turns": 3}
        text = "".join(json.dumps(line) + "\n" for line in [start, *lines, end])
        (tmp_path / f"{name}.jsonl").write_text(text, "utf-8")
    paths = (tmp_path / "a.jsonl", tmp_path / "b.jsonl")
    _, found = convert(*paths)
    assert [one["reward"] for one in found] == [None, None]
    assert {one["source"]["format"] for one in found} == {"claude-code-stream"}
    assert [m["role"] for m in found[0]["messages"]] == ["user", "assistant", "tool", "assistant", "tool", "assistant"]
    _, found = convert(*paths, rate="result")
    assert {one["id"]: one["reward"] for one in found} == {made.name("a"): 1.0, made.name("b"): 0.0}


def texts(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in found["messages"]]


def test_user_command_is_its_expansion(convert: Convert, tmp_path: Path) -> None:
    session = made.Session()
    session.ask("Caveat: The messages below were generated by the user while running local commands.", isMeta=True)
    session.ask("<command-message>fix is running…</command-message>\n<command-name>/fix</command-name>")
    session.progress()
    session.ask([made.text("Fix issue 123.")], isMeta=True)
    session.speak("m1", made.call("c1", "Skill"))
    session.answer("c1", "Launching skill", {"success": True})
    session.ask([made.text("Base directory for this skill: /x")], isMeta=True, sourceToolUseID="c1")
    session.speak("m2", made.text("fixed"))
    session.ask("<command-name>/clear</command-name>")
    session.ask("<local-command-stdout>gone</local-command-stdout>")
    session.ask("Continue from where you left off.", isMeta=True)
    account, [found] = convert(session.write(tmp_path / "a.jsonl"))
    assert texts(found) == [
        ("user", "Fix issue 123."),
        ("assistant", ""),
        ("tool", "Launching skill"),
        ("assistant", "fixed"),
    ]
    assert found["messages"][0]["origin"] == "command"
    assert account.dropped == {"command": 3, "meta": 3, "no_conversation": 1}


@pytest.mark.parametrize("meta", [{}, {"isMeta": True}])
@pytest.mark.parametrize(
    ("kind", "is_turn"),
    [
        ("human", True),
        ("channel", True),
        ("peer", True),
        ("coordinator", True),
        ("task-notification", False),
        ("auto-continuation", False),
        ("observer", False),
        ("observer-activity", False),
    ],
)
def test_message_origin_decides_if_it_is_a_turn(
    convert: Convert, tmp_path: Path, kind: str, is_turn: bool, meta: dict[str, bool]
) -> None:
    session = made.plain()
    session.ask('<channel source="chat">and then?</channel>', origin={"kind": kind}, **meta)
    session.speak("m4", made.text("done"))
    account, [found] = convert(session.write(tmp_path / "a.jsonl"))
    turns = [message for message in found["messages"] if message["role"] == "user"]
    assert len(turns) == 1 + is_turn
    assert account.dropped.get("notification", 0) == (not is_turn)
    if is_turn:
        assert turns[1].get("origin") == (None if kind == "human" else kind)


def test_channel_input_is_recognised_by_text(convert: Convert, tmp_path: Path) -> None:
    session = made.plain()
    session.ask('<channel source="chat" user="ann">and then?</channel>', isMeta=True)
    session.speak("m4", made.text("done"))
    _, [found] = convert(session.write(tmp_path / "a.jsonl"))
    assert found["messages"][-2]["origin"] == "channel"


def test_notification_without_origin_is_recognised(convert: Convert, tmp_path: Path) -> None:
    session = made.plain()
    session.ask("<task-notification>\n<task-id>a</task-id></task-notification>")
    session.speak("m4", made.text("I see."))
    account, [found] = convert(session.write(tmp_path / "a.jsonl"))
    assert [message["role"] for message in found["messages"]].count("user") == 1
    assert account.dropped["notification"] == 1


def test_forks_with_own_ids_share_a_group(convert: Convert, tmp_path: Path) -> None:
    whole = made.plain("first")
    forks = []
    for name, source in (("second", whole), ("third", None)):
        source = source or forks[0]
        fork = made.Session(name)
        for line in source.lines[1:]:
            again = line | {"sessionId": fork.id, "uuid": made.name(f"{name} {line['uuid']}")}
            again["parentUuid"] = line["parentUuid"] and made.name(f"{name} {line['parentUuid']}")
            fork.lines.append(again | {"forkedFrom": {"sessionId": source.id, "messageUuid": line["uuid"]}})
        forks.append(fork)
    whole.ask("go on")
    whole.speak("m4", made.text("here"))
    forks[0].last = forks[0].lines[-1]["uuid"]
    forks[0].ask("other")
    forks[0].speak("m5", made.text("there"))
    for session in (whole, *forks):
        session.write(tmp_path / "p" / f"{session.id}.jsonl")
    account, found = convert(tmp_path / "p")
    assert {one["id"] for one in found} == {whole.id, forks[0].id}
    assert found[0]["group"] == found[1]["group"] == found[0]["id"]
    assert account.notes == {"forked_session": 2, "session_snapshot": 1}


def test_repeated_gateway_id_is_separate_messages(convert: Convert, tmp_path: Path) -> None:
    session = made.Session()
    session.ask("one")
    session.speak("same", made.call("a", "Read"), input_tokens=10)
    session.answer("a", "A", {})
    session.speak("same", made.call("b", "Read"), input_tokens=20)
    session.answer("b", "B", {})
    session.speak("same", made.text("both"), input_tokens=30)
    session.ask("two")
    session.speak("same", made.text("again"), input_tokens=40)
    _, [found] = convert(session.write(tmp_path / "a.jsonl"))
    roles = ["user", "assistant", "tool", "assistant", "tool", "assistant", "user", "assistant"]
    assert [message["role"] for message in found["messages"]] == roles
    assert (found["turns"], found["tokens"]["input"]) == (4, 100)


def test_parallel_calls_stay_one_message(convert: Convert, tmp_path: Path) -> None:
    session = made.Session()
    session.ask("both")
    session.speak("m", made.call("a", "Read"))
    session.answer("a", "A", {})
    session.speak("m", made.call("b", "Grep"))
    session.answer("b", "B", {})
    session.speak("n", made.text("done"))
    _, [found] = convert(session.write(tmp_path / "a.jsonl"))
    assert [message["role"] for message in found["messages"]] == ["user", "assistant", "tool", "tool", "assistant"]


def test_provider_tool_results_precede_the_answer(convert: Convert, tmp_path: Path) -> None:
    hit = {"type": "web_search_result", "title": "Karl", "url": "https://example.org", "encrypted_content": "x"}
    failed = {"type": "web_fetch_tool_result_error", "error_code": "url_not_accessible"}
    session = made.Session()
    session.ask("search")
    session.speak(
        "m",
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "karl"}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [hit]},
        made.text("A name."),
        {"type": "server_tool_use", "id": "s2", "name": "web_fetch", "input": {}},
        {"type": "web_fetch_tool_result", "tool_use_id": "s2", "content": failed},
        made.text("Not there."),
    )
    account, [found] = convert(session.write(tmp_path / "a.jsonl"))
    roles = ["user", "assistant", "tool", "assistant", "tool", "assistant"]
    assert [message["role"] for message in found["messages"]] == roles
    assert [message["content"] for message in found["messages"][3::2]] == ["A name.", "Not there."]
    results = found["messages"][2::2]
    assert json.loads(results[0]["content"]) == {key: hit[key] for key in ("type", "title", "url")}
    assert [(one["tool_call_id"], one["name"], one["success"]) for one in results] == [
        ("s1", "web_search", True),
        ("s2", "web_fetch", False),
    ]
    assert found["tokens"]["input"] == 3
    assert account.blocks == {}


@pytest.mark.parametrize("stop_reason", [None, "end_turn"])
def test_message_cut_by_connection_is_not_learned(convert: Convert, tmp_path: Path, stop_reason: str | None) -> None:
    session = made.Session()
    session.ask("write")
    session.speak("m1", made.text("I will start with the to"))[0]["message"]["stop_reason"] = stop_reason
    session.speak("m2", made.text("API Error: Connection error"), model="<synthetic>")[0]["isApiErrorMessage"] = True
    session.ask("go on")
    session.speak("m3", made.text("Done."))
    _, [found] = convert(session.write(tmp_path / "a.jsonl"))
    _, cut, _, whole = found["messages"]
    assert [cut.get("cut"), cut.get("weight")] == ([True, 0] if stop_reason is None else [None, None])
    assert "cut" not in whole


def test_failed_request_after_hook_cuts_nothing(convert: Convert, tmp_path: Path) -> None:
    session = made.Session()
    session.ask("write")
    session.speak("m1", made.text("Done."))
    session.ask("Stop hook feedback: the tests fail", isMeta=True)
    session.speak("m2", made.text("API Error"), model="<synthetic>")[0]["isApiErrorMessage"] = True
    _, [found] = convert(session.write(tmp_path / "a.jsonl"))
    assert "cut" not in found["messages"][1]
