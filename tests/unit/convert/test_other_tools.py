"""Codex and ATIF, made from their schemas, for no real sample is at hand; SWE-agent made, and as it was published."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from karl_fast import errors, reward
from tests.unit.convert.conftest import balanced

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.convert.conftest import Convert


def item(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "response_item", "payload": {"type": kind} | fields}


def said(role: str, words: str) -> dict[str, Any]:
    return item(
        "message", role=role, content=[{"type": "output_text" if role == "assistant" else "input_text", "text": words}]
    )


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "event_msg", "payload": {"type": kind} | fields}


def rollout() -> list[dict[str, Any]]:
    """A session of Codex: three calls side by side and one after them, each with another form of output."""
    usage = {"input_tokens": 900, "cached_input_tokens": 600, "output_tokens": 80, "total_tokens": 980}
    packed = json.dumps({"output": "a.py\n", "metadata": {"exit_code": 0, "duration_seconds": 0.1}})
    lines = [
        {
            "type": "session_meta",
            "payload": {"id": "c0dex", "cwd": "/shop", "cli_version": "0.50", "git": {"branch": "x"}},
        },
        {"type": "turn_context", "payload": {"model": "gpt-5-codex", "cwd": "/shop"}},
        said("developer", "Be brief."),
        said("user", "<environment_context>\n<cwd>/shop</cwd>"),
        said("user", "mend it"),
        event("user_message", message="mend it"),
        item("reasoning", summary=[{"type": "summary_text", "text": "think"}], content=None, encrypted_content="gA=="),
        said("assistant", "I look."),
        event("agent_message", message="I look."),
        item("function_call", name="shell", arguments='{"command":["ls"]}', call_id="a"),
        item("function_call", name="shell", arguments='{"command":["no"]}', call_id="b"),
        item("custom_tool_call", name="apply_patch", input="*** Begin Patch", call_id="c"),
        item("function_call_output", call_id="a", output=packed),
        item(
            "function_call_output", call_id="b", output="Exit code: 127\nWall time: 0.1 seconds\nOutput:\nExit code: 0"
        ),
        item("custom_tool_call_output", call_id="c", output="patched"),
        event("token_count", info=None),
        event("token_count", info={"total_token_usage": usage}),
        {"type": "compacted", "payload": {"message": "m", "replacement_history": []}},
        item("local_shell_call", call_id="d", action={"type": "exec", "command": ["true"]}, status="completed"),
        item("function_call_output", call_id="d", output={"content": "ok", "success": True}),
        item("function_call_output", call_id="gone", output="?"),
        item("ghost_snapshot"),
        said("user", "<turn_aborted>\nstopped"),
        said("assistant", "Mended."),
    ]
    return [{"timestamp": f"2026-01-01T00:00:{at:02}.000Z"} | line for at, line in enumerate(lines)]


def test_a_rollout_of_codex_is_a_trajectory(convert: Convert, tmp_path: Path) -> None:
    path = tmp_path / "rollout-1.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in rollout()) + '{"timestamp": "2026', "utf-8")
    account, [found] = convert(path)
    messages = found.pop("messages")
    assert found["id"] == "c0dex"
    assert found["model"] == "gpt-5-codex"
    assert found["tokens"] == {"input": 300, "cache_creation": None, "cache_read": 600, "output": 80}
    assert found["source"] == {
        "format": "codex",
        "files": [str(path)],
        "cwd": "/shop",
        "cli_version": "0.50",
        "git": {"branch": "x"},
    }
    roles = ["system", "user", "assistant", "tool", "tool", "tool", "assistant", "tool", "assistant"]
    assert [message["role"] for message in messages] == roles
    assert (messages[2]["content"], messages[2]["reasoning_content"]) == ("I look.", "think")
    calls = [(call["id"], call["function"]["name"]) for call in messages[2]["tool_calls"]]
    assert calls == [("a", "shell"), ("b", "shell"), ("c", "apply_patch")]
    assert json.loads(messages[2]["tool_calls"][2]["function"]["arguments"]) == {"input": "*** Begin Patch"}
    outputs = [(m["tool_call_id"], m["content"], m["success"]) for m in messages if m["role"] == "tool"]
    assert outputs[0] == ("a", "a.py\n", True)
    assert [success for *_, success in outputs] == [True, False, None, True]
    assert account.dropped == {
        "compact_summary": 1,
        "interruption": 1,
        "meta": 1,
        "no_conversation": 3,
        "orphan_result": 1,
    }
    assert account.bad == {"torn": 1}


def trial(**more: Any) -> dict[str, Any]:
    """A document in ATIF."""
    call = {"tool_call_id": "t", "function_name": "run", "arguments": {"command": "ls -a"}}
    steps = [
        {"step_id": 1, "source": "system", "message": "Be brief."},
        {"step_id": 2, "source": "user", "message": [{"type": "text", "text": "list"}, {"type": "image"}]},
        {
            "step_id": 3,
            "timestamp": "2026-01-01T00:00:03Z",
            "source": "agent",
            "message": "I list.",
            "reasoning_content": "ls",
            "tool_calls": [call],
            "observation": {"results": [{"source_call_id": "t", "content": ".\n.."}]},
            "metrics": {"prompt_tokens": 100, "completion_tokens": 10, "cached_tokens": 60},
        },
        {
            "step_id": 4,
            "timestamp": "2026-01-01T00:00:05Z",
            "source": "agent",
            "model_name": "other",
            "message": "Done.",
            "observation": {"results": [{"content": "$"}]},
            "metrics": {"prompt_tokens": 120, "completion_tokens": 5},
        },
    ]
    agent = {"name": "terminus", "version": "2", "model_name": "m-1"}
    return {"schema_version": "ATIF-v1.4", "session_id": "trial-1", "agent": agent, "steps": steps} | more


def test_atif_trial_has_reward_of_verifier(convert: Convert, tmp_path: Path) -> None:
    path = tmp_path / "job" / "task-a__1" / "agent" / "trajectory.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(trial(), indent=1), "utf-8")
    result = {"task_name": "task-a", "verifier_result": {"rewards": {"reward": 0.5}}}
    (path.parent.parent / "result.json").write_text(json.dumps(result), "utf-8")
    account, [found] = convert(tmp_path / "job")
    messages = found["messages"]
    assert (found["id"], found["group"], found["reward"], found["model"]) == ("trial-1", "task-a", 0.5, "m-1")
    assert found["tokens"] == {"input": 160, "cache_creation": None, "cache_read": 60, "output": 15}
    assert found["duration_seconds"] == 2.0
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert (messages[1]["content"], account.blocks) == ("list", {"image": 1})
    assert json.loads(messages[2]["tool_calls"][0]["function"]["arguments"]) == {"command": "ls -a"}
    assert (messages[3]["content"], messages[3]["success"], messages[4]["model"]) == (".\n..", None, "other")
    assert account.skipped == account.refused == []
    whole = {"total_prompt_tokens": 7, "total_completion_tokens": 3, "total_cached_tokens": 0}
    path.write_text(json.dumps(trial(final_metrics=whole)), "utf-8")
    _, [found] = convert(path)
    assert found["tokens"] == {"input": 7, "cache_creation": None, "cache_read": 0, "output": 3}


def run() -> dict[str, Any]:
    """A document of SWE-agent."""
    call = {"id": "c", "type": "function", "function": {"name": "open", "arguments": '{"path": "a.py"}'}}
    history = [
        {"role": "system", "content": "You mend.", "agent": "main", "message_type": "system_prompt"},
        {"role": "user", "content": "Here is a demonstration", "agent": "main", "is_demo": True},
        {"role": "user", "content": "mend it", "agent": "main", "message_type": "observation"},
        {
            "role": "assistant",
            "content": "I open it.",
            "thought": "I open it.",
            "action": "open a.py",
            "tool_calls": [call],
        },
        {"role": "tool", "content": "1: x", "agent": "main", "tool_call_ids": ["c"]},
        {"role": "assistant", "content": "submit", "thought": "", "action": "submit"},
    ]
    info = {"exit_status": "submitted", "submission": "diff", "model_stats": {"tokens_sent": 9, "tokens_received": 4}}
    return {"environment": "main", "trajectory": [], "history": history, "info": info}


def test_swe_agent_run_is_trajectory_of_task(convert: Convert, tmp_path: Path) -> None:
    for name in ("one", "two"):
        path = tmp_path / "runs" / name / "shop__till-7.traj"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(run() | {"replay_config": name}, indent=2), "utf-8")
    account, found = convert(tmp_path / "runs")
    assert {one["group"] for one in found} == {"shop__till-7"}
    assert len({one["id"] for one in found}) == 2
    messages = found[0]["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert (messages[3]["tool_call_id"], messages[3]["name"], messages[3]["success"]) == ("c", "open", None)
    assert found[0]["tokens"]["input"] == 9
    assert found[0]["source"]["exit_status"] == "submitted"
    assert account.notes == {"demonstration": 2}
    assert account.types == {"document": 2}


@pytest.mark.parametrize(
    ("name", "reward"), [("till-1", 1), ("till-2", 0), ("till-3", 0), ("till-4", None), ("x", None)]
)
@pytest.mark.parametrize("place", [".", ".."])
def test_swe_bench_report_says_if_solved(
    convert: Convert, tmp_path: Path, name: str, reward: float | None, place: str
) -> None:
    """Keys of the report as the harness of SWE-bench names them; a run that failed by error is not judged."""
    report = {
        "total_instances": 4,
        "submitted_ids": ["till-1", "till-2", "till-3", "till-4"],
        "resolved_ids": ["till-1"],
        "unresolved_ids": ["till-2"],
        "empty_patch_ids": ["till-3"],
        "error_ids": ["till-4"],
        "schema_version": 2,
    }
    path = tmp_path / "batch" / name / f"{name}.traj"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(run()), "utf-8")
    (path.parent / place / "results.json").write_text(json.dumps(report), "utf-8")
    account, [found] = convert(tmp_path / "batch")
    assert found["reward"] == reward
    assert account.skipped == []


@pytest.mark.parametrize("report", ["{", "[1]x", " " * ((1 << 20) + 1)], ids=["torn", "welded", "long"])
def test_a_report_that_cannot_be_read_is_noted(convert: Convert, tmp_path: Path, report: str) -> None:
    path = tmp_path / "batch" / "task" / "task.traj"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(run()), "utf-8")
    (tmp_path / "batch" / "results.json").write_text(report, "utf-8")
    account, [found] = convert(tmp_path / "batch")
    assert found["reward"] is None
    assert account.notes["report_unread"] == 1


def test_one_report_judges_all_runs_of_its_folder(convert: Convert, tmp_path: Path) -> None:
    names = [f"till-{n}" for n in range(40)]
    for name in names:
        path = tmp_path / "batch" / name / f"{name}.traj"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(run()), "utf-8")
    (tmp_path / "batch" / "results.json").write_text(json.dumps({"resolved_ids": names[::2]}), "utf-8")
    account, found = convert(tmp_path / "batch", threads=4)
    assert {one["group"]: one["reward"] for one in found} == {
        name: 1.0 if n % 2 == 0 else None for n, name in enumerate(names)
    }
    assert account.notes == {"demonstration": 40}


def test_run_with_settings_names_its_model(convert: Convert, tmp_path: Path) -> None:
    settings = {"agent": {"model": {"name": "m-1"}}}
    for form in (settings, json.dumps(settings), "{", None, {"agent": []}):
        (tmp_path / "task.traj").write_text(json.dumps(run() | {"replay_config": form}), "utf-8")
        _, [found] = convert(tmp_path / "task.traj")
        assert found["model"] == ("m-1" if form in (settings, json.dumps(settings)) else None)


def test_published_runs_of_swe_agent_keep_every_message(shared_data: Path, tmp_path: Path) -> None:
    out = tmp_path / "trajectories.jsonl"
    account = karl_fast.convert(shared_data / "swe-agent-demos", out, allow_secrets=True)
    found = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    balanced(account, found)
    assert len(found) == 22
    by = {one["source"]["files"][0]: one for one in found}
    for path in sorted((shared_data / "swe-agent-demos").rglob("*.traj")):
        document = json.loads(path.read_text("utf-8"))
        wanted = [message for message in document["history"] if not message.get("is_demo")]
        mine = by[str(path)]["messages"]
        assert [(m["role"], m["content"]) for m in mine] == [(m["role"], m["content"]) for m in wanted]
        calls = [len(m.get("tool_calls") or []) for m in wanted]
        assert [len(m.get("tool_calls", [])) for m in mine] == calls
    for version in ("v1", "v2"):
        assert len(set(reward.compute_rewards(out.read_bytes(), version=version))) > 1  # type: ignore[arg-type]


@pytest.mark.parametrize("document", [trial, run], ids=["atif", "swe-agent"])
def test_a_torn_document_is_refused_by_name(tmp_path: Path, document: Any) -> None:
    path = tmp_path / "a.json"
    text = json.dumps(document(), indent=1)
    for cut in (2, len(text) // 2, len(text) - 1):
        path.write_text(text[:cut], "utf-8")
        with pytest.raises(errors.LogError, match=r"a\.json: it ends inside the document"):
            karl_fast.convert(path, tmp_path / "b.jsonl")
    path.write_text(text[:-1] + "x}", "utf-8")
    with pytest.raises(errors.LogError):
        karl_fast.convert(path, tmp_path / "b.jsonl")
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]


def test_mixed_tools_in_one_folder(convert: Convert, tmp_path: Path) -> None:
    folder = tmp_path / "all"
    folder.mkdir()
    (folder / "rollout.jsonl").write_text("".join(json.dumps(line) + "\n" for line in rollout()), "utf-8")
    (folder / "trajectory.json").write_text(json.dumps(trial()), "utf-8")
    (folder / "task.traj").write_text(json.dumps(run()), "utf-8")
    account, found = convert(folder)
    assert [one["source"]["format"] for one in found] == ["codex", "swe-agent", "atif"]
    assert sorted(file["format"] for file in account.files) == ["atif", "codex", "swe-agent"]
    log = karl_fast.read(tmp_path / "trajectories.jsonl")
    assert sorted(log.domain_names) == ["atif", "codex", "swe-agent"]
