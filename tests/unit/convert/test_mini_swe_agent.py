"""mini-swe-agent 2.4.6, `DefaultAgent.serialize` (`trajectory_format` mini-swe-agent-1.1): models of chat completions,
of the Responses interface, and of texts, as in version 1."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.convert.conftest import Convert

CALL = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
START = [{"role": "system", "content": "You help."}, {"role": "user", "content": "Fix the till"}]
SEEN = "<returncode>0</returncode>\n<output>\ntill.py\n</output>"
EXTRA = {"actions": [{"command": "ls", "tool_call_id": "c1"}], "cost": 0.003, "timestamp": 1767225600.5}
RAW = {"raw_output": "till.py\n", "returncode": 0, "timestamp": 1767225601.0, "exception_info": ""}
EXIT = {"role": "exit", "content": "diff", "extra": {"exit_status": "Submitted", "submission": "diff"}}
CHAT = [
    *START,
    {"role": "assistant", "content": "I look.", "tool_calls": [CALL], "function_call": None, "extra": EXTRA},
    {"role": "tool", "tool_call_id": "c1", "content": SEEN, "extra": RAW},
    EXIT,
]
ITEMS = [
    {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "I look."}],
    },
    {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": '{"command": "ls"}'},
]
RESPONSES = [
    *START,
    {"object": "response", "id": "resp_1", "output": ITEMS, "extra": EXTRA},
    {"type": "function_call_output", "call_id": "c1", "output": SEEN, "extra": RAW},
    EXIT,
]
TEXTS = [
    *START,
    {"role": "assistant", "content": "I look.\n\n```mswea_bash_command\nls\n```", "extra": EXTRA},
    {"role": "user", "content": SEEN, "extra": RAW},
    {"role": "assistant", "content": "Done.\n\n```mswea_bash_command\necho COMPLETE\n```"},
    EXIT,
]


def document(messages: list[Any], **more: Any) -> dict[str, Any]:
    config = {"model": {"model_name": "openai/m"}, "agent_type": "minisweagent.agents.default.DefaultAgent"}
    info = {"model_stats": {"instance_cost": 0.05, "api_calls": 1}, "config": config, "mini_version": "2.4.6"}
    info |= {"exit_status": "Submitted", "submission": "diff"}
    return {"info": info, "messages": messages, "trajectory_format": "mini-swe-agent-1.1"} | more


def write(path: Path, document: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2), "utf-8")
    return path


@pytest.mark.parametrize("messages", [CHAT, RESPONSES])
def test_a_run_with_calls_is_a_trajectory(convert: Convert, tmp_path: Path, messages: list[Any]) -> None:
    path = write(tmp_path / "runs" / "till__7" / "till__7.traj.json", document(messages, instance_id="till__7"))
    account, [found] = convert(path)
    assert [(one["role"], one["content"]) for one in found["messages"]] == [
        ("system", "You help."),
        ("user", "Fix the till"),
        ("assistant", "I look."),
        ("tool", SEEN),
    ]
    call = found["messages"][2]["tool_calls"][0]
    assert (call["id"], json.loads(call["function"]["arguments"])) == ("c1", {"command": "ls"})
    assert (found["group"], found["reward"], found["model"]) == ("till__7", None, "openai/m")
    assert found["source"]["format"] == "mini-swe-agent"
    assert found["source"]["exit_status"] == "Submitted"
    assert account.notes["exit_message"] == 1


def test_messages_of_texts_keep_their_order_and_times(convert: Convert, tmp_path: Path) -> None:
    _, [found] = convert(write(tmp_path / "till__7.traj.json", document(TEXTS)))
    assert [one["role"] for one in found["messages"]] == ["system", "user", "assistant", "user", "assistant"]
    assert found["messages"][2]["timestamp"] == "2026-01-01T00:00:00.500Z"
    assert found["group"] == "till__7"


@pytest.mark.parametrize(("verdict", "reward"), [("resolved_ids", 1), ("unresolved_ids", 0), ("error_ids", None)])
def test_the_report_of_swe_bench_is_the_reward(
    convert: Convert, tmp_path: Path, verdict: str, reward: int | None
) -> None:
    path = tmp_path / "runs" / "till__7" / "till__7.traj.json"
    write(path, document(CHAT, instance_id="till__7"))
    write(tmp_path / "runs" / "results.json", {"resolved_ids": []} | {verdict: ["till__7"]})
    _, [found] = convert(path)
    assert found["reward"] == reward


def test_sample_reads_a_run_as_it_is(tmp_path: Path) -> None:
    path = write(tmp_path / "a.traj.json", document(CHAT, reward=1.0, instance_id="till__7"))
    log = karl_fast.read(path)
    assert [file["format"] for file in log.inputs] == ["mini-swe-agent"]
    karl_fast.sample(log, tmp_path / "data", k=1, split=(1, 0, 0))
    row = json.loads((tmp_path / "data" / "train.jsonl").read_text("utf-8"))
    assert [one["role"] for one in row["messages"]] == ["system", "user", "assistant"]


@pytest.mark.parametrize("odd", [{"role": "critic", "content": "x"}, {"role": "user", "content": [{"type": "image"}]}])
def test_a_message_that_is_not_understood_costs_the_run(tmp_path: Path, odd: dict[str, Any]) -> None:
    path = write(tmp_path / "a.traj.json", document([*START, odd, *CHAT[2:]]))
    with pytest.raises(karl_fast.errors.LogError):
        karl_fast.convert(path, tmp_path / "out.jsonl")
