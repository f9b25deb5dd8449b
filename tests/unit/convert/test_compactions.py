"""Compactions of Claude Code: what was before them stays, and what was taken back stays out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.convert import made

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.convert.conftest import Convert


def contents(found: dict[str, Any]) -> list[str]:
    return [message["content"] for message in found["messages"]]


def exchange(session: made.Session, number: int) -> made.Line:
    """A prompt and an answer; returns the line of the answer."""
    session.ask(f"ask {number}")
    return session.speak(f"m{number}", made.text(f"answer {number}"))[-1]


def exchanges(*numbers: int) -> list[str]:
    return [text for number in numbers for text in (f"ask {number}", f"answer {number}")]


def test_kept_tail_behind_summary_hides_nothing(convert: Convert, tmp_path: Path) -> None:
    """Its parent is the summary, and it is the logical parent of the boundary: a cycle."""
    session = made.Session()
    exchange(session, 1)
    first = session.last
    session.ask("taken back")
    session.speak("x", made.text("too"))
    session.last = first
    session.ask("ask 2")
    tail = made.name("tail")
    boundary = session.compact(tail, preservedSegment={"headUuid": session.last, "tailUuid": tail})
    boundary["compactMetadata"]["preservedSegment"]["anchorUuid"] = session.last
    session.speak("m2", made.text("answer 2"))[0]["uuid"] = tail
    session.last = tail
    exchange(session, 3)
    account, [found] = convert(session.write(tmp_path / "a.jsonl"))
    assert contents(found) == exchanges(1, 2, 3)
    assert account.dropped == {"compact_summary": 1, "no_conversation": 1, "other_branch": 2}


@pytest.mark.parametrize("new_ids", [False, True])
def test_kept_tail_written_twice_counts_once(convert: Convert, tmp_path: Path, new_ids: bool) -> None:
    session = made.Session()
    exchange(session, 1)
    last = exchange(session, 2)
    session.compact(last["uuid"], preservedSegment={"headUuid": last["uuid"], "tailUuid": last["uuid"]})
    again = last | {"parentUuid": session.last} | ({"uuid": made.name("again")} if new_ids else {})
    session.lines.append(again)
    session.last = again["uuid"]
    exchange(session, 3)
    account, [found] = convert(session.write(tmp_path / "a.jsonl"))
    assert contents(found) == exchanges(1, 2, 3)
    assert (account.duplicates, account.dropped.get("copied_message", 0)) == ((0, 1) if new_ids else (1, 0))


def test_missing_logical_parent_is_previous_line(convert: Convert, tmp_path: Path) -> None:
    session = made.Session()
    exchange(session, 1)
    session.compact(made.name("nowhere"))
    exchange(session, 2)
    _, [found] = convert(session.write(tmp_path / "a.jsonl"))
    assert contents(found) == exchanges(1, 2)


def test_a_summary_without_a_boundary_begins_nothing_anew(convert: Convert, tmp_path: Path) -> None:
    session = made.Session()
    exchange(session, 1)
    session.last = None
    session.ask("This session is being continued", isCompactSummary=True)
    exchange(session, 2)
    _, [found] = convert(session.write(tmp_path / "a.jsonl"))
    assert contents(found) == exchanges(1, 2)


@pytest.mark.parametrize("replays", [True, False])
@pytest.mark.parametrize("parent", ["hook", "summary", "before the first"])
def test_second_compaction_loses_nothing(convert: Convert, tmp_path: Path, replays: bool, parent: str) -> None:
    """anthropics/claude-code, issue 92089: it writes the lines before the first one again, and links on to them."""
    session = made.Session()
    exchange(session, 1)
    head = exchange(session, 2)
    before_head = head["parentUuid"]
    session.compact(head["uuid"], preservedSegment={"headUuid": head["uuid"], "tailUuid": head["uuid"]})
    session.last = head["uuid"]
    last = exchange(session, 3)
    if replays:
        session.lines += [dict(line) for line in session.lines[:3]]
    session.last = before_head
    hook = session.line("system", subtype="stop_hook_summary", hookCount=1)
    segment = {"headUuid": last["uuid"], "tailUuid": hook["uuid"]}
    boundary = session.compact(hook["uuid"], preservedSegment=segment)
    session.last = {"hook": hook["uuid"], "summary": session.last, "before the first": before_head}[parent]
    exchange(session, 4)
    account, [found] = convert(session.write(tmp_path / "a.jsonl"))
    assert contents(found) == exchanges(1, 2, 3, 4)
    assert boundary["logicalParentUuid"] == hook["uuid"]
    assert "other_branch" not in account.dropped


def test_sub_agent_compaction_replay_hides_nothing(convert: Convert, tmp_path: Path) -> None:
    """The next prompt is linked to the last of them."""
    session = made.Session()
    exchange(session, 1)
    head = exchange(session, 2)
    session.compact(head["uuid"], preservedSegment={"headUuid": head["uuid"], "tailUuid": head["uuid"]})
    session.last = head["uuid"]
    exchange(session, 3)
    session.lines += [dict(line) for line in session.lines[:3]]
    session.last = head["parentUuid"]
    exchange(session, 4)
    account, [found] = convert(session.write(tmp_path / "a.jsonl"))
    assert contents(found) == exchanges(1, 2, 3, 4)
    assert account.duplicates == 3


def test_withdrawn_after_compaction_stays_out(convert: Convert, tmp_path: Path) -> None:
    session = made.Session()
    last = exchange(session, 1)
    session.compact(last["uuid"])
    kept = exchange(session, 2)
    exchange(session, 9)
    session.last = kept["uuid"]
    exchange(session, 3)
    account, [found] = convert(session.write(tmp_path / "a.jsonl"))
    assert contents(found) == exchanges(1, 2, 3)
    assert account.dropped["other_branch"] == 2
