"""KARL's rewards of canonical trajectories: the calls of tools are its events."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from karl_fast import reward
from tests.unit.convert import made

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.convert.conftest import Convert


def karl(trajectory: dict[str, Any]) -> dict[str, Any]:
    """The same trajectory as KARL's own taps would have recorded it."""
    said = {m["tool_call_id"]: m["success"] for m in trajectory["messages"] if m["role"] == "tool"}
    calls = [call for m in trajectory["messages"] for call in m.get("tool_calls", [])]
    events = []
    for call in calls:
        arguments = json.loads(call["function"]["arguments"])
        params = {key: arguments[key] for key in ("command", "file_path") if isinstance(arguments.get(key), str)}
        events.append({"tool_name": call["function"]["name"], "success": said.get(call["id"]), "key_params": params})
    names = [event["tool_name"] for event in events]
    whole = {
        "tool_counts": {name: names.count(name) for name in names},
        "total_tools": len(events),
        "successes": sum(event["success"] is True for event in events),
        "failures": sum(event["success"] is False for event in events),
        "bash_errors": sum(event["success"] is False and event["tool_name"] == "Bash" for event in events),
        "events": events,
    }
    return {"trajectory": whole, "timing": {"duration_s": trajectory["duration_seconds"]}}


def long(session: str = "long") -> made.Session:
    """Thirty calls: reads, writes, tests that fail and pass, a call that nobody answers."""
    session_ = made.Session(session)
    session_.ask("mend it")
    for at in range(30):
        tool, arguments = [
            ("Read", {"file_path": f"/{at % 4}.py"}),
            ("Edit", {"file_path": f"/{at % 3}.py", "old_string": "a", "new_string": "b"}),
            ("Bash", {"command": "pytest -q"}),
            ("mcp__odd", {"command": ["a list"], "file_path": {"an": "object"}}),
        ][at % 4]
        session_.speak(f"m{at}", made.call(f"c{at}", tool, **arguments))
        if at != 17:
            session_.answer(f"c{at}", "out", {} if at % 5 else "Error: no", None if at % 5 else True)
    session_.speak("end", made.text("done"))
    return session_


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("session", [made.plain(), long()], ids=["plain", "long"])
def test_the_reward_is_that_of_the_same_events(
    convert: Convert, tmp_path: Path, version: Any, session: made.Session
) -> None:
    _, [found] = convert(session.write(tmp_path / "a.jsonl"))
    wanted = reward.compute_reward(karl(found), version=version)
    assert reward.compute_reward(found, version=version) == wanted
    assert reward.compute_reward(json.dumps(found).encode(), version=version) == wanted
    _, [rated] = convert(tmp_path / "a.jsonl", rate=f"karl-{version}")
    assert rated == found | {"reward": wanted["reward_score"]}


def test_an_outcome_that_somebody_adds_counts(convert: Convert, tmp_path: Path) -> None:
    _, [found] = convert(made.plain().write(tmp_path / "a.jsonl"))
    better = reward.compute_reward(found | {"outcome": {"build_success": True}})
    assert better["outcome_score"] == 0.7
    assert better["reward_score"] > reward.compute_reward(found)["reward_score"]


def test_no_calls_reward_equals_no_events(convert: Convert, tmp_path: Path) -> None:
    session = made.Session()
    session.ask("hello")
    session.speak("m", made.text("hello"))
    _, [found] = convert(session.write(tmp_path / "a.jsonl"))
    for version in ("v1", "v2"):
        assert reward.compute_reward(found, version=version) == reward.compute_reward(karl(found), version=version)


def test_rated_trajectories_are_sampled_by_their_rewards(convert: Convert, tmp_path: Path) -> None:
    folder = tmp_path / "all"
    for at in range(12):
        made.plain(f"p{at}").write(folder / f"p{at}.jsonl")
        long(f"l{at}").write(folder / f"l{at}.jsonl")
    convert(folder, rate="karl-v2")
    log = karl_fast.read(tmp_path / "trajectories.jsonl")
    assert len(set(log.rewards)) == 2
    sample = karl_fast.sample(log, None, k=8, inverse_temperature=200.0)
    assert sample.manifest["reward"]["after"]["mean"] == max(log.rewards)
