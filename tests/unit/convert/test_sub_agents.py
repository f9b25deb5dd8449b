"""Sub-agents of Claude Code that the lines of their session tell of: alone, or beside files of their own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.unit.convert import made

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.convert.conftest import Convert


def agent(name: str = "a1b2c3", start: int = 2) -> made.Session:
    """A sub-agent that is asked, calls two tools side by side, and hears of both."""
    one = made.Session(agent=name, start=start)
    one.ask([made.text(f"look there, {name}")])
    one.speak(f"x-{name}", made.call(f"g-{name}", "Grep", pattern="till"), made.call(f"r-{name}", "Read"))
    one.answer(f"g-{name}", "till.py", {"filenames": ["till.py"]})
    one.answer(f"r-{name}", "no such file", "Error: no such file", is_error=True)
    return one


def session(*agents: made.Session) -> made.Session:
    """A session that calls each, tells what it does, and hears its last words."""
    whole = made.Session()
    whole.ask("find it")
    for one in agents:
        whole.speak(f"m-{one.agent}", made.call(f"t-{one.agent}", "Task", prompt="look", description="d"))
        whole.relay(one, f"t-{one.agent}")
        whole.answer(f"t-{one.agent}", [made.text("in till.py")], {"status": "completed", "agentId": one.agent})
    whole.speak("end", made.text("there"))
    return whole


ROLES = ["user", "assistant", "tool", "tool"]


def test_progress_alone_tells_a_sub_agent(convert: Convert, tmp_path: Path) -> None:
    whole = session(agent())
    account, [own, part] = convert(whole.write(tmp_path / "a.jsonl"))
    assert [message["content"] for message in own["messages"]] == ["find it", "", "in till.py", "there"]
    assert part["id"] == f"{whole.id}/a1b2c3"
    assert part["parent"] == {"id": whole.id, "tool_call_id": "t-a1b2c3"}
    assert (part["source"]["relayed"], part["source"]["agent_id"]) == (True, "a1b2c3")
    assert "relayed" not in own["source"]
    assert [message["role"] for message in part["messages"]] == ROLES
    assert [call["function"]["name"] for call in part["messages"][1]["tool_calls"]] == ["Grep", "Read"]
    assert [message["success"] for message in part["messages"][2:]] == [True, False]
    assert (account.sub_agents, account.dropped, account.types["progress"]) == (1, {}, 5)


def test_lines_that_hold_the_session_together_still_do(convert: Convert, tmp_path: Path) -> None:
    """A result's parent is the line of progress before it: the branch goes on behind it."""
    whole = session(agent())
    kinds = {line["uuid"]: line["type"] for line in whole.lines}
    heard = whole.lines[-2]
    assert (heard["type"], kinds[heard["parentUuid"]]) == ("user", "progress")
    _, [own, _] = convert(whole.write(tmp_path / "a.jsonl"))
    assert own["turns"] == 2


@pytest.mark.parametrize("name", ["a.jsonl", "z.jsonl"])
def test_own_file_overrides_session_of_sub_agent(convert: Convert, tmp_path: Path, name: str) -> None:
    one = agent()
    whole = session(one)
    one.speak("last", made.text("in till.py"))
    whole.write(tmp_path / "p" / name)
    one.write(tmp_path / "p" / "m" / "subagents" / "agent-a1b2c3.jsonl")
    account, [_, part] = convert(tmp_path / "p")
    assert [message["role"] for message in part["messages"]] == [*ROLES, "assistant"]
    assert part["messages"][-1]["content"] == "in till.py"
    assert "relayed" not in part["source"]
    assert (account.duplicates, account.sub_agents) == (5, 1)


def test_snapshots_that_tell_it_again_tell_it_once(convert: Convert, tmp_path: Path) -> None:
    whole = session(agent())
    whole.write(tmp_path / "b.jsonl")
    part = made.Session()
    part.lines = whole.lines[:7]
    part.write(tmp_path / "a.jsonl")
    account, found = convert(tmp_path / "a.jsonl", tmp_path / "b.jsonl")
    assert [len(one["messages"]) for one in found] == [4, 4]
    assert account.duplicates == 7


def test_sub_agents_side_by_side_are_told_apart(convert: Convert, tmp_path: Path) -> None:
    one, other = agent("left"), agent("right", start=3)
    whole = session(one, other)
    told = [at for at, line in enumerate(whole.lines) if line["type"] == "progress"]
    # Their lines alternate, as two that work at once have them.
    mixed = [line for pair in zip(told[:5], told[5:], strict=True) for line in pair]
    lines = [whole.lines[at] for at in mixed]
    for at, line in zip(told, lines, strict=True):
        whole.lines[at] = line
    _, [_, left, right] = convert(whole.write(tmp_path / "a.jsonl"))
    for found, name in ((left, "left"), (right, "right")):
        assert found["parent"]["tool_call_id"] == f"t-{name}"
        assert [message["role"] for message in found["messages"]] == ROLES
        assert found["messages"][0]["content"] == f"look there, {name}"


def test_incomplete_progress_line_is_counted(convert: Convert, tmp_path: Path) -> None:
    whole = session(agent())
    progress = [line for line in whole.lines if line["type"] == "progress"]
    del progress[0]["data"]["message"]["uuid"]
    for line in progress[1:]:
        del line["data"]["agentId"]
    del progress[4]["parentToolUseID"]
    account, [_, named, called] = convert(whole.write(tmp_path / "a.jsonl"))
    assert [message["role"] for message in named["messages"]] == ["user"]
    assert (named["source"]["agent_id"], called["source"]["agent_id"]) == ("a1b2c3", None)
    assert called["id"] == f"{whole.id}/t-a1b2c3"
    assert [message["role"] for message in called["messages"]] == ["assistant", "tool"]
    assert account.dropped == {"unnamed_agent": 1}
    assert account.notes["without_uuid"] == 1


@pytest.mark.parametrize(
    "data", [{}, {"message": None}, {"message": {"type": "system", "message": {}}}, {"message": 3}]
)
def test_progress_without_a_message_is_progress(convert: Convert, tmp_path: Path, data: made.Line) -> None:
    whole = made.plain()
    whole.line("progress", data={"type": "agent_progress", "agentId": "a"} | data, toolUseID="t", parentToolUseID="c1")
    account, [_] = convert(whole.write(tmp_path / "a.jsonl"))
    assert account.dropped == {"no_conversation": 3}


def asked_alike(*names: str) -> tuple[made.Session, list[made.Session]]:
    """A session whose sub-agents have one prompt, and results that do not name them."""
    whole = made.Session()
    whole.ask("explore")
    whole.speak("m", *(made.call(f"t-{name}", "Agent", prompt="look", description="d") for name in names))
    agents = []
    for at, name in enumerate(names):
        one = made.Session(agent=name, start=9 + at)
        one.ask("look")
        one.speak(f"x-{name}", made.text(f"seen by {name}"))
        whole.answer(f"t-{name}", f"seen by {name}", {"status": "completed"})
        agents.append(one)
    whole.speak("end", made.text("there"))
    return whole, agents


@pytest.mark.parametrize("sidecars", [True, False])
def test_sub_agents_with_one_prompt_have_own_calls(convert: Convert, tmp_path: Path, sidecars: bool) -> None:
    whole, agents = asked_alike("left", "right")
    whole.write(tmp_path / "p" / f"{whole.id}.jsonl")
    for one in agents:
        path = one.write(tmp_path / "p" / whole.id / "subagents" / f"agent-{one.agent}.jsonl")
        if sidecars:
            # Each is the other's call: the sidecar decides, and not the order.
            call = "t-right" if one.agent == "left" else "t-left"
            meta = {"agentType": "Explore", "description": "d", "toolUseId": call, "spawnDepth": 1}
            path.with_name(f"agent-{one.agent}.meta.json").write_text(json.dumps(meta), "utf-8")
    account, [_, left, right] = convert(tmp_path / "p")
    wanted = ["t-right", "t-left"] if sidecars else ["t-left", "t-right"]
    assert [one["parent"]["tool_call_id"] for one in (left, right)] == wanted
    assert account.skipped == []


def test_nested_sub_agent_has_its_parent(convert: Convert, tmp_path: Path) -> None:
    whole, [outer] = asked_alike("outer")
    outer.speak("y", made.call("t-inner", "Agent", prompt="look closer", description="d"))
    inner = made.Session(agent="inner", start=30)
    inner.ask("look closer")
    inner.speak("z", made.text("closer"))
    outer.answer("t-inner", "closer", {"status": "completed", "agentId": "inner"})
    for one, name in ((whole, "a"), (outer, "agent-outer"), (inner, "agent-inner")):
        one.write(tmp_path / "p" / f"{name}.jsonl")
    _, [_, _, found] = convert(tmp_path / "p")
    assert found["parent"] == {"id": f"{whole.id}/outer", "tool_call_id": "t-inner"}


def test_sub_agent_copying_session_messages_loses_nothing(convert: Convert, tmp_path: Path) -> None:
    """A forked sub-agent inherits the lines of its session, under their ids."""
    whole = made.plain()
    agent = made.Session(agent="fork")
    agent.lines = [line | {"isSidechain": True, "agentId": "fork"} for line in whole.lines[1:]]
    agent.last = agent.lines[-1]["uuid"]
    agent.clock = 20
    agent.ask("now the tests")
    agent.speak("own", made.text("tested"))
    whole.write(tmp_path / "p" / "a.jsonl")
    agent.write(tmp_path / "p" / "agent-fork.jsonl")
    _, [own, fork] = convert(tmp_path / "p")
    assert own["turns"] == 3
    assert not [message for message in own["messages"] if "weight" in message]
    learned = [message["content"] for message in fork["messages"] if message["role"] == "assistant"]
    assert len(learned) == 4
    weights = [message.get("weight", 1) for message in fork["messages"] if message["role"] == "assistant"]
    assert weights == [0, 0, 0, 1]
