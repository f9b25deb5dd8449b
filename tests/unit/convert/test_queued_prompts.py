"""Prompts that were typed while the agent worked: `queued_command`, and the queue of older versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.convert import made

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.convert.conftest import Convert

PROMPT = "No, that is wrong: use euros"


def working() -> made.Session:
    """A session whose agent has called a tool and not heard from it."""
    session = made.Session()
    session.ask("add a price")
    session.speak("m1", made.call("c1", "Bash", command="sed"))
    return session


def end(session: made.Session, path: Path) -> Path:
    session.answer("c1", "ok", {"stdout": "ok"})
    session.speak("m2", made.text("right"))
    return session.write(path)


def contents(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in found["messages"]]


READ = [("user", "add a price"), ("assistant", ""), ("tool", "ok"), ("user", PROMPT), ("assistant", "right")]
NOT_READ = [one for one in READ if one != ("user", PROMPT)]


@pytest.mark.parametrize("removal", ["before", "after", "none"])
@pytest.mark.parametrize("reason", [None, "absorbed_mid_turn"])
def test_attached_prompt_is_one_turn(convert: Convert, tmp_path: Path, removal: str, reason: str | None) -> None:
    session = working()
    session.queue("enqueue", content=PROMPT)
    session.answer("c1", "ok", {"stdout": "ok"})
    why = {"reason": reason} if reason else {}
    if removal == "before":
        session.queue("remove", content=PROMPT, **why)
    session.attach(PROMPT, origin={"kind": "human"})
    if removal == "after":
        session.queue("remove", content=PROMPT, **why)
    session.speak("m2", made.text("right"))
    _, [found] = convert(session.write(tmp_path / "a.jsonl"))
    assert contents(found) == READ
    assert "origin" not in found["messages"][3]


def test_old_removal_is_read_after_pending_results(convert: Convert, tmp_path: Path) -> None:
    """They write the removal, without a text, before the result: at once for two prompts."""
    session = working()
    session.queue("enqueue", content=PROMPT)
    session.queue("enqueue", content="and test it")
    moment = session.queue("remove")["timestamp"]
    session.queue("remove")["timestamp"] = moment
    account, [found] = convert(end(session, tmp_path / "a.jsonl"))
    assert contents(found) == [*READ[:4], ("user", "and test it"), READ[4]]
    assert account.dropped == {"queue_operation": 2}


@pytest.mark.parametrize("how", ["popAll", "dequeue", "still waits"])
def test_withdrawn_prompt_is_not_repeated(convert: Convert, tmp_path: Path, how: str) -> None:
    session = working()
    session.queue("enqueue", content=PROMPT)
    if how != "still waits":
        session.queue(how, content=PROMPT)
    session.answer("c1", "ok", {"stdout": "ok"})
    session.speak("m2", made.text("right"))
    if how == "dequeue":
        session.ask(PROMPT)
    _, [found] = convert(session.write(tmp_path / "a.jsonl"))
    assert contents(found) == NOT_READ + ([("user", PROMPT)] if how == "dequeue" else [])


def test_removal_without_attachment_is_withdrawn_prompt(convert: Convert, tmp_path: Path) -> None:
    session = made.Session()
    session.ask("add a price")
    session.line("attachment", attachment={"type": "task_reminder", "content": []})
    session.speak("m1", made.call("c1", "Bash", command="sed"))
    session.queue("enqueue", content=PROMPT)
    session.queue("remove", content=PROMPT)
    _, [found] = convert(end(session, tmp_path / "a.jsonl"))
    assert contents(found) == NOT_READ


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"mode": "task-notification"}, "notification"),
        ({"mode": "bash"}, "command"),
        ({"mode": "new"}, "unknown_queued_command"),
        ({"prompt": "<task-notification>done</task-notification>", "mode": None}, "notification"),
        ({"origin": {"kind": "auto-continuation"}}, "notification"),
        ({"prompt": []}, "empty"),
    ],
)
def test_untyped_input_is_dropped_by_name(
    convert: Convert, tmp_path: Path, fields: dict[str, Any], reason: str
) -> None:
    session = working()
    session.answer("c1", "ok", {"stdout": "ok"})
    session.attach(**({"prompt": PROMPT} | fields))
    session.speak("m2", made.text("right"))
    account, [found] = convert(session.write(tmp_path / "a.jsonl"))
    assert contents(found) == NOT_READ
    assert account.dropped == {reason: 1}


def test_a_prompt_with_an_image_keeps_its_words(convert: Convert, tmp_path: Path) -> None:
    session = working()
    session.answer("c1", "ok", {"stdout": "ok"})
    session.attach([made.text(PROMPT), {"type": "image", "source": {"type": "base64", "data": "AA"}}])
    session.speak("m2", made.text("right"))
    account, [found] = convert(session.write(tmp_path / "a.jsonl"))
    assert contents(found) == READ
    assert account.blocks == {"image": 1}


def test_prompt_on_abandoned_branch_is_dropped(convert: Convert, tmp_path: Path) -> None:
    session = working()
    root = session.lines[0]["uuid"]
    session.answer("c1", "ok", {"stdout": "ok"})
    session.attach(PROMPT)
    session.queue("enqueue", content="and test it")
    session.queue("remove", content="and test it", reason="absorbed_mid_turn")
    session.speak("m2", made.text("right"))
    session.last = root
    session.ask("so")
    session.speak("m3", made.text("new"))
    _, [found] = convert(session.write(tmp_path / "a.jsonl"))
    assert [content for _, content in contents(found)] == ["add a price", "so", "new"]


def test_attachment_without_ids_follows_previous_line(convert: Convert, tmp_path: Path) -> None:
    session = working()
    session.answer("c1", "ok", {"stdout": "ok"})
    last = session.last
    attached = session.attach(PROMPT)
    for key in ("uuid", "parentUuid", "sessionId"):
        del attached[key]
    session.last = last
    session.speak("m2", made.text("right"))
    _, [found] = convert(session.write(tmp_path / "a.jsonl"))
    assert contents(found) == READ


def test_snapshots_tell_the_queue_once(convert: Convert, tmp_path: Path) -> None:
    session = working()
    session.queue("enqueue", content=PROMPT)
    session.queue("remove")
    end(session, tmp_path / "all" / "b.jsonl")
    part = made.Session()
    part.lines = session.lines[:4]
    part.write(tmp_path / "all" / "a.jsonl")
    account, [found] = convert(tmp_path / "all")
    assert contents(found) == READ
    assert account.duplicates == 4
