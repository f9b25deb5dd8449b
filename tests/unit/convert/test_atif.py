"""ATIF 1.7 and 1.8: sub-agents inside a document, copied steps, steps without a model, rewards by name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.convert.conftest import Convert


def step(source: str, message: str, **more: Any) -> dict[str, Any]:
    return {"step_id": 1, "source": source, "message": message} | more


def document(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    agent = {"name": "claude-code", "version": "2.1", "model_name": "m"}
    return {"schema_version": "ATIF-v1.7", "agent": agent, "steps": list(steps)} | more


def write(folder: Path, found: dict[str, Any], rewards: dict[str, Any] | None = None) -> Path:
    path = folder / "agent" / "trajectory.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(found), "utf-8")
    result = {"task_name": "t1", "verifier_result": {"rewards": rewards}}
    (folder / "result.json").write_text(json.dumps(result), "utf-8")
    return path


def calls(name: str, child: str, answer: str | None = "done", form: type = list) -> dict[str, Any]:
    """Return a step that calls a sub-agent."""
    reference = {"trajectory_id": child}
    result: dict[str, Any] = {"source_call_id": name, "content": answer}
    result["subagent_trajectory_ref"] = [reference] if form is list else reference
    call = {"tool_call_id": name, "function_name": "Task", "arguments": {"prompt": "look"}}
    return step("agent", "I delegate", tool_calls=[call], observation={"results": [result]})


@pytest.mark.parametrize("form", [list, dict])
def test_sub_agents_inside_a_document_are_trajectories(convert: Convert, tmp_path: Path, form: type) -> None:
    inner = document(step("user", "deeper"), step("agent", "deepest"), trajectory_id="leaf")
    child = document(step("user", "look"), calls("d1", "leaf"), trajectory_id="sub1", subagent_trajectories=[inner])
    other = document(step("user", "see"), step("agent", "seen"), trajectory_id="sub2")
    root = document(
        step("user", "fix"),
        calls("c1", "sub1", form=form),
        calls("c2", "sub2", None),
        step("agent", "fixed"),
        trajectory_id="root",
        subagent_trajectories=[child, other],
    )
    account, found = convert(write(tmp_path / "trial", root, {"reward": 1.0}))
    assert [(one["id"], one["parent"]) for one in found] == [
        ("root", None),
        ("root/sub1", {"id": "root", "tool_call_id": "c1"}),
        ("root/sub1/leaf", {"id": "root/sub1", "tool_call_id": "d1"}),
        ("root/sub2", {"id": "root", "tool_call_id": "c2"}),
    ]
    assert [(one["reward"], one["group"]) for one in found] == [(1.0, "t1"), (None, None), (None, None), (None, None)]
    assert [len(one["messages"]) for one in found] == [6, 3, 2, 2]
    assert (account.sub_agents, account.lines_used, account.notes) == (3, 1, {})


def test_steps_without_model_words_are_not_learned(convert: Convert, tmp_path: Path) -> None:
    call = {"tool_call_id": "c", "function_name": "run", "arguments": {}}
    root = document(
        step("user", "old", is_copied_context=True),
        step("agent", "copied", is_copied_context=True, metrics={"cost_usd": 0.5}),
        step("user", "fix"),
        step("agent", "", llm_call_count=0, tool_calls=[call], observation={"results": [{"source_call_id": "c"}]}),
        step("agent", "fixed", llm_call_count=2, is_copied_context=False),
        step("agent", "done", llm_call_count=None),
        session_id="s",
    )
    account, [found] = convert(write(tmp_path / "trial", root))
    weights = [message.get("weight") for message in found["messages"]]
    assert weights == [None, 0, None, 0, None, None, None]
    assert account.mistyped == []
    learned = tmp_path / "learned"
    (tmp_path / "t.jsonl").write_text(json.dumps(found | {"reward": 1.0}) + "\n", "utf-8")
    karl_fast.sample(tmp_path / "t.jsonl", out=learned, k=1, split=(1, 0, 0))
    row = json.loads((learned / "train.jsonl").read_text())
    assert [message.get("weight") for message in row["messages"] if message["role"] == "assistant"] == [
        0,
        0,
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("rewards", "reward", "kept", "notes"),
    [
        ({"reward": 0.5}, 0.5, None, {}),
        ({"reward": 0.5, "style": 1}, 0.5, {"reward": 0.5, "style": 1}, {}),
        ({"correctness": 0.25}, 0.25, {"correctness": 0.25}, {}),
        ({"correctness": 1.0, "style": 0.5}, None, {"correctness": 1.0, "style": 0.5}, {"rewards_by_name": 1}),
        ({"a": None, "b": "x"}, None, {"a": None, "b": "x"}, {"rewards_by_name": 1}),
        ({}, None, None, {}),
        (None, None, None, {}),
    ],
)
def test_rewards_keep_their_names(
    convert: Convert, tmp_path: Path, rewards: Any, reward: float | None, kept: Any, notes: dict[str, int]
) -> None:
    path = write(tmp_path / "trial", document(step("user", "a"), step("agent", "b"), session_id="s"), rewards)
    account, [found] = convert(path)
    assert (found["reward"], found["source"].get("rewards"), account.notes) == (reward, kept, notes)
    if kept and "style" in kept:
        log = karl_fast.read(tmp_path / "trajectories.jsonl", reward={"source.rewards.style": 1.0})
        assert list(log.rewards) == [kept["style"]]


def test_documents_of_one_run_have_own_names(convert: Convert, tmp_path: Path) -> None:
    steps = [step("user", "fix"), step("agent", "fixed")]
    for name, answer in (("a", "1"), ("b", "2")):
        write(tmp_path / "in" / name, document(*steps, step("agent", answer), session_id="s", trajectory_id=name))
    account, found = convert(tmp_path / "in")
    assert ([one["id"] for one in found], account.notes) == (["a", "b"], {})


def test_document_local_name_joins_nothing(convert: Convert, tmp_path: Path) -> None:
    child = document(step("user", "look"), step("agent", "seen"), trajectory_id="sub")
    for name, steps in (("a", 1), ("b", 2), ("c", 2)):
        said = [step("user", "fix"), step("agent", "fixed")][:steps]
        root = document(*said, trajectory_id="root", subagent_trajectories=[child], notes="n" if name == "b" else "")
        write(tmp_path / "in" / name, root)
    account, found = convert(tmp_path / "in")
    assert len(found) == 6
    assert len({one["id"] for one in found}) == 6
    assert {one["parent"]["id"] for one in found if one["parent"]} == {one["id"] for one in found if not one["parent"]}
    assert account.notes == {}


def test_sub_agents_that_nest_without_end_are_counted(convert: Convert, tmp_path: Path) -> None:
    found = document(step("user", "a"), step("agent", "b"), trajectory_id="t")
    for _ in range(40):
        found = document(step("user", "a"), step("agent", "b"), trajectory_id="t", subagent_trajectories=[found])
    account, written = convert(write(tmp_path / "trial", found))
    assert (len(written), account.notes) == (33, {"sub_agents_too_deep": 1})


@pytest.mark.parametrize("way", ["session_id", "trajectory_path"])
def test_sub_agent_documents_have_a_parent(convert: Convert, tmp_path: Path, way: str) -> None:
    root = document(step("user", "fix"), calls("c1", "x"), step("agent", "fixed"), session_id="run")
    reference = {"session_id": "run-summary"} | (
        {"trajectory_path": "logs/sub.json"} if way == "trajectory_path" else {}
    )
    root["steps"][1]["observation"]["results"][0]["subagent_trajectory_ref"] = [reference]
    path = write(tmp_path / "in" / "trial", root, {"reward": 1.0})
    child = document(step("user", "sum up"), step("agent", "summed"), session_id="run-summary")
    (path.parent / "sub.json").write_text(json.dumps(child), "utf-8")
    (path.parent / "other.json").write_text(json.dumps(child | {"session_id": "else"}), "utf-8")
    _, found = convert(tmp_path / "in")
    by_id = {one["id"]: (one["parent"], one["reward"]) for one in found}
    call = {"id": "run", "tool_call_id": "c1"}
    assert by_id == {"run": (None, 1.0), "run-summary": (call, None), "else": (None, 1.0)}


def test_a_compaction_is_no_turn_of_the_user(convert: Convert, tmp_path: Path) -> None:
    compacted = step("system", "Context compaction performed.", observation={"results": [{"content": "so far: x"}]})
    compacted["extra"] = {"context_management": {"type": "compaction", "boundary": "replace"}}
    root = document(step("user", "fix"), step("agent", "look"), compacted, step("agent", "fixed"), session_id="s")
    account, [found] = convert(write(tmp_path / "trial", root))
    assert [message["content"] for message in found["messages"]] == ["fix", "look", "fixed"]
    assert account.notes == {"compact_summary": 1}
