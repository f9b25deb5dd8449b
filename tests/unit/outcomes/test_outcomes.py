"""Outcomes from made-up sessions, whose fate is known, and what sampling makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import karl_fast
from karl_fast import _core
from karl_fast.errors import AlreadyConvertedError, KarlError, LogError, NothingToSampleError
from tests.unit.convert.made import Session

COMPONENTS = [name for name, *_ in _core.outcome_components()]


def bash(session: Session, command: str, output: str, failed: bool = False) -> None:
    call = f"toolu_{len(session.lines)}"
    session.speak(
        f"m{len(session.lines)}", {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": command}}
    )
    result = {"type": "tool_result", "tool_use_id": call, "content": output, "is_error": failed}
    session.line("user", message={"role": "user", "content": [result]})


def edit(session: Session, path: str, content: str) -> None:
    call = f"toolu_{len(session.lines)}"
    arguments = {"file_path": path, "content": content}
    session.speak(f"m{len(session.lines)}", {"type": "tool_use", "id": call, "name": "Write", "input": arguments})
    result = {"type": "tool_result", "tool_use_id": call, "content": "ok", "is_error": False}
    session.line("user", message={"role": "user", "content": [result]})


def write(folder: Path, *sessions: Session) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for at, session in enumerate(sessions):
        lines = [json.dumps(line) for line in session.lines]
        (folder / f"{at}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    return folder


def found(source: Path, tmp_path: Path, **settings: Any) -> dict[str, dict[str, Any]]:
    """The written trajectories by id, after the account was checked."""
    out = tmp_path / "outcomes.jsonl"
    account = karl_fast.outcomes(source, out, force=True, **settings)
    rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert account.written == len(rows)
    assert account.written_bytes == out.stat().st_size
    for name in COMPONENTS:
        values = [row["outcome"][name] for row in rows if row["outcome"][name] is not None]
        known, mean = account.components[name]
        assert known == len(values)
        assert mean == (pytest.approx(sum(values) / known) if known else None)
        told = [one for row in rows for one in row["evidence"] if one["component"] == name]
        assert all(any(one["value"] == value for one in told) for value in values)
    assert account.known == sum(any(value is not None for value in row["outcome"].values()) for row in rows)
    return {row["id"]: row for row in rows}


def worked(name: str, output: str, start: int = 0) -> Session:
    session = Session(name, start=start)
    session.ask(f"please write the function {name}")
    edit(session, "/home/dev/shop/a.py", "x = 1\n")
    bash(session, "pytest -q 2>&1 | tail -3", output)
    return session


def test_the_last_run_after_the_last_edit_counts(tmp_path: Path) -> None:
    good, bad, stale = (
        worked("good", "2 passed in 0.1s"),
        worked("bad", "1 failed in 0.1s"),
        worked("stale", "2 passed in 1s"),
    )
    edit(stale, "/home/dev/shop/a.py", "x = 2\n")
    rows = found(write(tmp_path / "log", good, bad, stale), tmp_path)
    assert [rows[one.id]["outcome"]["tests"] for one in (good, bad, stale)] == [1.0, 0.0, None]
    [evidence] = [one for one in rows[good.id]["evidence"] if one["component"] == "tests"]
    message = rows[good.id]["messages"][evidence["message"]]
    assert evidence["why"] == "pytest: 2 passed in 0.1s"
    assert [call["id"] for call in message["tool_calls"]] == [evidence["call"]]


def test_session_without_evidence_has_no_outcome(tmp_path: Path) -> None:
    session = Session("talk")
    session.ask("what is a monad, in a few words?")
    session.speak("m", {"type": "text", "text": "A burrito."})
    row = found(write(tmp_path / "log", session), tmp_path)[session.id]
    assert set(row["outcome"]) == set(COMPONENTS)
    known = {name for name, value in row["outcome"].items() if value is not None}
    assert known <= {"interrupted", "asked_again"}
    assert row["attributed"] == []


def test_a_user_who_stops_or_refuses_interrupts(tmp_path: Path) -> None:
    stopped, refused, calm = (
        worked("stopped", "2 passed in 1s"),
        worked("refused", "2 passed in 1s"),
        worked("calm", "2 passed in 1s"),
    )
    stopped.ask("[Request interrupted by user]")
    bash(
        refused,
        "rm -rf /",
        "The user doesn't want to proceed with this tool use. The tool use was rejected",
        failed=True,
    )
    rows = found(write(tmp_path / "log", stopped, refused, calm), tmp_path)
    assert [rows[one.id]["outcome"]["interrupted"] for one in (stopped, refused, calm)] == [1.0, 1.0, 0.0]
    assert rows[stopped.id]["messages"][-1]["interrupted"] is True


def test_same_request_within_day_is_asked_again(tmp_path: Path) -> None:
    first, second, late = Session("first"), Session("second", start=3600), Session("late", start=200_000)
    for session in (first, second, late):
        session.ask("Please fix the login page, it is broken!")
        session.speak("m", {"type": "text", "text": "Done."})
    rows = found(write(tmp_path / "log", first, second, late), tmp_path)
    assert [rows[one.id]["outcome"]["asked_again"] for one in (first, second, late)] == [1.0, 0.0, 0.0]
    assert rows[first.id]["group"] == rows[second.id]["group"] is not None
    assert rows[late.id]["group"] is None


def test_fork_shares_group_and_is_not_repeated(tmp_path: Path) -> None:
    kept, fork = Session("kept"), Session("fork")
    for session in (kept, fork):
        session.ask("Please fix the login page, it is broken!")
        session.speak("m", {"type": "text", "text": f"Done by {session.id}."})
    rows = found(write(tmp_path / "log", kept, fork), tmp_path)
    assert [rows[one.id]["outcome"]["asked_again"] for one in (kept, fork)] == [0.0, 0.0]
    assert rows[kept.id]["group"] == rows[fork.id]["group"] is not None


def test_dotnet_failure_without_tables_is_read(tmp_path: Path) -> None:
    session = Session("net")
    session.ask("please write the class Shop")
    edit(session, "/home/dev/shop/Shop.cs", "class Shop {}\n")
    bash(session, "dotnet test", "Failed!  - Failed:     2, Passed:    10, Skipped:     0, Total:    12, Duration: 1 s")
    rows = found(write(tmp_path / "log", session), tmp_path)
    assert rows[session.id]["outcome"]["tests"] == 0.0


def test_sessions_naming_one_issue_share_a_group(tmp_path: Path) -> None:
    asked = {
        "a": "Please fix https://github.com/acme/shop/issues/12",
        "b": "Try acme/shop#12 once more, with a test",
        "c": "Compare acme/shop#12 with acme/shop#13",
        "d": "Look at #12, it is broken again",
    }
    sessions = [Session(name, start=200_000 * at) for at, name in enumerate(asked)]
    for session, prompt in zip(sessions, asked.values(), strict=True):
        session.ask(prompt)
        session.speak("m", {"type": "text", "text": "Done."})
    rows = found(write(tmp_path / "log", *sessions), tmp_path)
    first = sessions[0].id
    assert [rows[one.id]["group"] for one in sessions] == [first, first, None, None]


def test_request_from_one_commit_shares_a_group(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    starts = {"one": ("2025-01-01", "c0ffee"), "two": ("2025-02-01", "c0ffee"), "other": ("2025-02-09", "beef")}
    asked = [{"role": "user", "content": "Please fix the login page"}, {"role": "assistant", "content": "Done."}]
    lines = [
        {
            "karl_fast_trajectory": 1,
            "id": name,
            "reward": None,
            "parent": None,
            "started_at": f"{day}T00:00:00Z",
            "messages": asked,
        }
        | {"source": {"format": "codex", "cwd": "/shop", "git": {"commit_hash": commit}}}
        for name, (day, commit) in starts.items()
    ]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    out = tmp_path / "out.jsonl"
    karl_fast.outcomes(log, out)
    rows = {row["id"]: row for row in map(json.loads, out.read_text().splitlines())}
    assert rows["one"]["group"] == rows["two"]["group"] == "one"
    assert rows["other"].get("group") is None


def test_sub_agents_with_one_request_share_a_group(tmp_path: Path) -> None:
    parent = worked("parent", "2 passed in 1s")
    agents = [Session("parent", agent=name, start=parent.clock) for name in ("a1", "a2", "a3")]
    for agent, request in zip(
        agents, ("find the bug in b.py", "find the bug in b.py", "write the docs of b.py"), strict=True
    ):
        agent.ask(f"{request}, please")
        agent.speak("m", {"type": "text", "text": "Done."})
    rows = found(write(tmp_path / "log", parent, *agents), tmp_path)
    one, two, other = (row["group"] for row in rows.values() if row["parent"])
    assert one == two is not None
    assert other is None


def test_sub_agent_edit_outdates_session_tests(tmp_path: Path) -> None:
    parent = worked("parent", "2 passed in 1s")
    child = Session("parent", agent="a1", start=parent.clock)
    child.ask("write b.py, please, and be quick")
    edit(child, "/home/dev/shop/b.py", "y = 1\n")
    rows = found(write(tmp_path / "log", parent, child), tmp_path)
    assert len(rows) == 2
    assert rows[parent.id]["outcome"]["tests"] is None


def test_reports_of_graders_verify(tmp_path: Path) -> None:
    one, two = worked("one", "2 passed in 1s"), worked("two", "2 passed in 1s")
    log = write(tmp_path / "log", one, two)
    report = tmp_path / "report.jsonl"
    report.write_text(
        json.dumps({"id": one.id, "verified": True}) + "\n" + json.dumps({"id": two.id, "verified": 0}) + "\n"
    )
    rows = found(log, tmp_path, reports=report)
    assert [rows[session.id]["outcome"]["verified"] for session in (one, two)] == [1.0, 0.0]
    report.write_text("{}")
    with pytest.raises(LogError, match="no verdict"):
        karl_fast.outcomes(log, tmp_path / "other.jsonl", reports=report)


def test_metadata_beside_a_transcript_gives_the_attribution(tmp_path: Path) -> None:
    session = worked("entire", "2 passed in 1s")
    log = write(tmp_path / "log", session)
    facts = {"checkpoint_id": "c1", "session_id": f"2026-01-01-{session.id}", "created_at": "2026-01-01T00:00:00Z"}
    beside = facts | {"initial_attribution": {"agent_percentage": 75}}
    (log / "metadata.json").write_text(json.dumps(beside))
    row = found(log, tmp_path)[session.id]
    assert row["outcome"]["attribution"] == 0.75
    [evidence] = [one for one in row["evidence"] if one["component"] == "attribution"]
    assert Path(evidence["file"]).name == "metadata.json"


def test_outcomes_of_outcomes_are_the_same(tmp_path: Path) -> None:
    log = write(tmp_path / "log", worked("good", "2 passed in 1s"), worked("bad", "1 failed in 1s"))
    first = found(log, tmp_path)
    karl_fast.convert(log, tmp_path / "plain.jsonl")
    for source in (tmp_path / "plain.jsonl", tmp_path / "outcomes.jsonl"):
        again = tmp_path / "again.jsonl"
        karl_fast.outcomes(source, again, force=True, threads=1)
        rows = [json.loads(line) for line in again.read_text("utf-8").splitlines()]
        assert {row["id"]: row for row in rows} == first


def test_bad_rows_counted_and_foreign_outcome_kept(tmp_path: Path) -> None:
    log = write(tmp_path / "log", worked("good", "2 passed in 1s"))
    karl_fast.convert(log, tmp_path / "plain.jsonl")
    [row] = [json.loads(line) for line in (tmp_path / "plain.jsonl").read_text("utf-8").splitlines()]
    lines = [json.dumps(row), json.dumps(row | {"id": "b", "outcome": "good"}), '{"karl_fast_trajectory":1,"id":"c"']
    (tmp_path / "mixed.jsonl").write_text("\n".join(lines) + "\n")
    account = karl_fast.outcomes(tmp_path / "mixed.jsonl", tmp_path / "out.jsonl")
    [file] = account.files
    assert (account.written, account.dropped) == (1, {"outcome_not_an_object": 1})
    assert file["lines_read"] == 3
    assert sum(count for _, count in file["bad"]) == 1


def test_outcome_rewards_have_direction_and_weights(tmp_path: Path) -> None:
    good, bad, stopped = (
        worked("good", "2 passed in 1s"),
        worked("bad", "1 failed in 1s"),
        worked("stopped", "2 passed in 1s"),
    )
    stopped.ask("[Request interrupted by user]")
    talk = Session("talk")
    talk.ask("what is a monad, in a few words?")
    found(write(tmp_path / "log", good, bad, stopped, talk), tmp_path)
    reward = {"outcome.tests": 0.5, "outcome.interrupted": 0.25, "outcome.survived": 0.25}
    with karl_fast.read(tmp_path / "outcomes.jsonl", karl_fast.Settings(reward=reward, id="id")) as log:
        rewards = dict(zip(ids(tmp_path / "outcomes.jsonl", log), log.rewards, strict=True))
    assert rewards[good.id] == pytest.approx(1.0)  # survived is unknown, and its weight shared
    assert rewards[bad.id] == pytest.approx(1 / 3)
    assert rewards[stopped.id] == pytest.approx(2 / 3)
    assert rewards[talk.id] == pytest.approx(1.0)  # nothing but that nobody stopped it


def ids(path: Path, log: karl_fast.Log) -> list[str]:
    """The ids of a log's rows, in its order."""
    text = path.read_bytes()
    places = [_core.place(log.core, row)[1] for row in range(len(log))]
    return [json.loads(text[at : text.index(b"\n", at)])["id"] for at in places]


def test_rows_without_evidence_are_dropped(tmp_path: Path) -> None:
    session = Session("talk")
    session.ask("what is a monad, in a few words?")
    session.speak("m", {"type": "text", "text": "A burrito."})
    found(write(tmp_path / "log", session), tmp_path)
    settings = karl_fast.Settings(reward={"outcome.survived": 1.0}, k=1)
    with pytest.raises(NothingToSampleError, match="reward"):
        karl_fast.sample(tmp_path / "outcomes.jsonl", tmp_path / "data", settings)


def test_convert_rates_by_outcomes(tmp_path: Path) -> None:
    good, bad = worked("good", "2 passed in 1s"), worked("bad", "1 failed in 1s")
    talk = Session("talk")
    talk.ask("what is a monad, in a few words?")
    log = write(tmp_path / "log", good, bad, talk)
    account = karl_fast.convert(log, tmp_path / "rated.jsonl", rate="outcomes")
    rows = {row["id"]: row for row in map(json.loads, (tmp_path / "rated.jsonl").read_text("utf-8").splitlines())}
    assert [rows[one.id]["reward"] for one in (good, bad, talk)] == [1.0, 0.0, None]
    assert (account.trajectories, account.rewarded) == (3, 2)
    assert account.written_bytes == (tmp_path / "rated.jsonl").stat().st_size
    with pytest.raises(AlreadyConvertedError):
        karl_fast.convert(tmp_path / "rated.jsonl", tmp_path / "other.jsonl", rate="outcomes")


def test_wrong_repository_has_no_transcript_hint(tmp_path: Path) -> None:
    log = write(tmp_path / "log", worked("good", "2 passed in 1s"))
    (tmp_path / "plain").mkdir()
    for wrong in (tmp_path / "plain", tmp_path / "none"):
        with pytest.raises(KarlError, match=str(wrong)) as caught:
            karl_fast.outcomes(log, tmp_path / "out.jsonl", repositories=wrong)
        assert "format" not in str(caught.value.hint)
    assert not (tmp_path / "out.jsonl").exists()


def codex(path: Path, *steps: tuple[str, dict[str, Any], str]) -> Path:
    """Write a session of Codex that edits a file, and then makes calls: name, arguments and output of each."""
    patch = "*** Begin Patch\n*** Update File: till.py\n@@\n-a\n+b\n*** End Patch"
    items: list[dict[str, Any]] = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix the bug in the till"}]},
        {"type": "custom_tool_call", "name": "apply_patch", "call_id": "edit", "input": patch},
        {
            "type": "custom_tool_call_output",
            "call_id": "edit",
            "output": "Success. Updated the following files:\nM till.py",
        },
    ]
    for at, (name, arguments, output) in enumerate(steps):
        call = {"type": "function_call", "name": name, "call_id": f"call_{at}", "arguments": json.dumps(arguments)}
        items += [call, {"type": "function_call_output", "call_id": f"call_{at}", "output": output}]
    lines: list[dict[str, Any]] = [{"type": "session_meta", "payload": {"id": path.stem, "cwd": "/home/dev/shop"}}]
    lines += [{"type": "response_item", "payload": item} for item in items]
    path.parent.mkdir(parents=True, exist_ok=True)
    stamped = [{"timestamp": f"2026-09-01T10:{at:02}:00Z", **line} for at, line in enumerate(lines)]
    path.write_text("".join(json.dumps(line) + "\n" for line in stamped), "utf-8")
    return path


def ran(state: str, output: str) -> str:
    return f"Chunk ID: a1b2c3\nWall time: 1.0 seconds\n{state}\nOriginal token count: 20\nOutput:\n{output}"


GOES_ON = "Process running with session ID 4711"
POLL = {"session_id": 4711, "chars": ""}


@pytest.mark.parametrize(
    ("name", "steps", "wanted"),
    [
        ("exec", [("pytest -q", "Process exited with code 0", "8 passed in 12.10s\n")], 1.0),
        ("poll", [("pytest -q", GOES_ON, ""), (None, "Process exited with code 0", "8 passed in 12.10s\n")], 1.0),
        (
            "partial",
            [
                ("pytest -q", GOES_ON, "4 passed in 0.1s\n"),
                (None, "Process exited with code 1", "1 failed, 7 passed in 9s\n"),
            ],
            0.0,
        ),
        ("endless", [("pytest -q", GOES_ON, "4 passed in 0.1s\n")], None),
        (
            "status",
            [("npm test", GOES_ON, ""), (None, GOES_ON, "..."), (None, "Process exited with code 1", "npm error\n")],
            0.0,
        ),
        (
            "main",
            [
                ("pytest -q", "Process exited with code 0", "8 passed in 1.2s\n"),
                ("git checkout main && git pull origin main", "Process exited with code 0", ""),
            ],
            1.0,
        ),
        (
            "file",
            [
                ("pytest -q", "Process exited with code 0", "8 passed in 1.2s\n"),
                ("git checkout HEAD~1 -- till.py", "Process exited with code 0", ""),
            ],
            None,
        ),
    ],
)
def test_runs_of_codex_end_where_their_process_ends(
    tmp_path: Path, name: str, steps: list[tuple[str | None, str, str]], wanted: float | None
) -> None:
    calls = [
        ("exec_command", {"cmd": command}, ran(state, output)) if command else ("write_stdin", POLL, ran(state, output))
        for command, state, output in steps
    ]
    rows = found(codex(tmp_path / "log" / f"{name}.jsonl", *calls), tmp_path)
    assert rows[name]["outcome"]["tests"] == wanted


def test_claude_background_shell_ends_by_last_output(tmp_path: Path) -> None:
    session = Session("shell")
    session.ask("please write the function")
    edit(session, "/home/dev/shop/a.py", "x = 1\n")
    bash(session, "pytest -q", "Command running in background with ID: b1. Output is being written to: /t/b1.output")
    for status, code, output in (("running", "", "4 passed in 1s"), ("failed", "1", "1 failed, 7 passed in 3s")):
        call = f"toolu_{len(session.lines)}"
        arguments = {"task_id": "b1", "block": True}
        session.speak(
            f"m{len(session.lines)}", {"type": "tool_use", "id": call, "name": "TaskOutput", "input": arguments}
        )
        code = f"<exit_code>{code}</exit_code>\n\n" if code else ""
        text = f"<task_id>b1</task_id>\n\n<status>{status}</status>\n\n{code}<output>\n{output}\n</output>"
        result = [{"type": "tool_result", "tool_use_id": call, "content": text}]
        session.line("user", message={"role": "user", "content": result})
    rows = found(write(tmp_path / "log", session), tmp_path)
    assert rows[session.id]["outcome"]["tests"] == 0.0


def test_attribution_is_not_a_reward(tmp_path: Path) -> None:
    good, bad = worked("good", "2 passed in 0.1s"), worked("bad", "1 failed in 0.1s")
    log = write(tmp_path / "log", good, bad)
    beside = {"checkpoint_id": "c", "session_id": good.id, "created_at": "2026-01-02T00:00:00Z"}
    beside["initial_attribution"] = {"agent_percentage": 25}  # type: ignore[assignment]
    (log / "metadata.json").write_text(json.dumps(beside), "utf-8")
    rows = found(log, tmp_path)
    assert rows[good.id]["outcome"]["attribution"] == 0.25
    assert [row["reward"] for row in rows.values()] == [None, None]
    with pytest.raises(NothingToSampleError) as caught:
        karl_fast.sample(tmp_path / "outcomes.jsonl", tmp_path / "drawn", k=1)
    assert "--reward outcome.tests=1" in str(caught.value.hint)
    settings = karl_fast.Settings(reward={"outcome.tests": 1.0}, k=1, split=(1.0, 0.0, 0.0))
    drawn = karl_fast.sample(tmp_path / "outcomes.jsonl", tmp_path / "drawn", settings)
    assert list(drawn.manifest["reward"]["components"]) == ["outcome.tests"]
