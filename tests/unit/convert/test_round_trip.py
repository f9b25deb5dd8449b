"""What a format's table lists survives in the trajectory: of real data where there is some, else of what is made from
the schema. Plain Python reads each real sample again, and every field is held against what was converted.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import karl_fast
from tests.properties.naive import transcripts as naive
from tests.unit.convert import samples
from tests.unit.convert.conftest import balanced

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.convert.conftest import Convert

NO_TOKENS = dict.fromkeys(("input", "cache_creation", "cache_read", "output"))


def converted(sources: Any, folder: Path) -> list[dict[str, Any]]:
    out = folder / "trajectories.jsonl"
    account = karl_fast.convert(sources, out)
    found = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    balanced(account, found)
    assert (account.mistyped, account.bad) == ([], {})
    return found


def calls(message: dict[str, Any]) -> list[tuple[str, str, Any]]:
    every = message.get("tool_calls") or []
    return [(call["id"], call["function"]["name"], json.loads(call["function"]["arguments"])) for call in every]


def answers(found: dict[str, Any]) -> list[tuple[str, str, str, bool | None]]:
    """Each result of a tool: call, name, content, success."""
    keys = ("tool_call_id", "name", "content", "success")
    return [tuple(message.get(key) for key in keys) for message in found["messages"] if message["role"] == "tool"]  # type: ignore[misc]


def test_claude_code_keeps_moments_models_tokens_and_success(shared_data: Path, tmp_path: Path) -> None:
    rows = converted(shared_data / "claude-code", tmp_path)
    found = {one["id"]: one for one in rows if one["source"]["format"] == "claude-code"}  # Gemini's are between them
    paths = sorted((shared_data / "claude-code").rglob("full.jsonl"))
    wanted = naive.trajectories([path for path in paths if not path.read_text("utf-8").startswith("{\n")])
    assert wanted.keys() == found.keys()
    for id, messages in wanted.items():
        one = found[id]
        turns = [message for message in messages if message["role"] == "assistant"]
        assert [m["timestamp"] for m in one["messages"]] == [m["timestamp"] for m in messages]
        mine = [m.get("model", one["model"]) for m in one["messages"] if m["role"] == "assistant"]
        assert mine == [turn["model"] for turn in turns]
        for what, count in one["tokens"].items():
            assert (count or 0) == sum(turn["tokens"].get(what, 0) for turn in turns), (id, what)
        assert [a[3] for a in answers(one)] == [m["success"] for m in messages if m["role"] == "tool"]
        assert (one["turns"], one["tool_calls"]) == (len(turns), sum(len(turn["calls"]) for turn in turns))
        moments = [datetime.fromisoformat(m["timestamp"]) for m in messages]
        assert (one["started_at"], one["ended_at"]) == (messages[0]["timestamp"], messages[-1]["timestamp"])
        assert one["duration_seconds"] == pytest.approx((moments[-1] - moments[0]).total_seconds(), abs=1e-3)
        assert one["policy_version"] is None


def test_swe_agent_keeps_every_field_of_its_table(shared_data: Path, tmp_path: Path) -> None:
    folder = shared_data / "swe-agent-demos"
    found = {one["source"]["files"][0]: one for one in converted(folder, tmp_path)}
    models = set()
    for path in sorted(folder.rglob("*.traj")):
        one, document = found[str(path)], json.loads(path.read_text("utf-8"))
        history = [message for message in document["history"] if not message.get("is_demo")]
        info = document.get("info", {})
        stats = info.get("model_stats", {})
        assert one["group"] == path.stem
        assert one["tokens"] == NO_TOKENS | {"input": stats.get("tokens_sent"), "output": stats.get("tokens_received")}
        assert one["turns"] == sum(message["role"] == "assistant" for message in history)
        mine = [calls(m) for m in one["messages"] if m["role"] == "assistant"]
        assert mine == [calls(m) for m in history if m["role"] == "assistant"]
        wanted = [(m["tool_call_ids"][0], m["content"], None) for m in history if m["role"] == "tool"]
        assert [(id, content, success) for id, _, content, success in answers(one)] == wanted
        for key in ("exit_status", "submission"):
            assert one["source"].get(key) == info.get(key)
        assert one["model"] == document.get("replay_config", {}).get("agent", {}).get("model", {}).get("name")
        models.add(one["model"])
    assert models == {None, "gpt-4o", "replay"}


def test_prime_rl_keeps_rewards_groups_and_steps(shared_data: Path, tmp_path: Path) -> None:
    paths = sorted((shared_data / "prime-rl-security-verifiers").glob("*/*/results.jsonl"))
    found = {one["id"]: one for one in converted(paths, tmp_path)}
    rows = [json.loads(line) for path in paths for line in path.read_text("utf-8").splitlines()]
    assert len(found) == len(rows) == 123
    for row in rows:
        one = found[f"{row['run_id']}/{row['step']}/{row['sample_id']}"]
        assert (one["reward"], one["policy_version"]) == (row["reward"], row["step"])
        said = json.loads(row["prompt"]) + json.loads(row["completion"])
        assert [m["role"] for m in one["messages"]] == [m["role"] for m in said]
        for mine, theirs in zip(one["messages"], said, strict=True):
            words, thought = theirs.get("content") or "", theirs.get("reasoning_content") or ""
            every = [json.loads(call) for call in theirs.get("tool_calls") or []]
            if not (words or every):
                words, thought = thought, ""
            assert (mine["content"], mine.get("reasoning_content", "")) == (words, thought)
            assert calls(mine) == [(call["id"], call["name"], json.loads(call["arguments"])) for call in every]
            assert mine.get("tool_call_id") == theirs.get("tool_call_id")
        kept = one["source"]["record"]
        assert all(kept[key] == row[key] for key in ("advantage", "created_at", "timing", "metrics", "answer"))
    direct, back = karl_fast.read(paths), karl_fast.read(tmp_path / "trajectories.jsonl")
    assert sorted(direct.rewards) == sorted(back.rewards)
    assert sorted(np.bincount(direct.groups)) == sorted(np.bincount(back.groups))


def test_tau_bench_keeps_every_message(tau_bench: Path, tmp_path: Path) -> None:
    found = {one["id"]: one for one in converted(tau_bench, tmp_path)}
    rows = json.loads(tau_bench.read_text("utf-8"))
    assert len(found) == len(rows) == 200
    for row in rows:
        one = found[f"{row['task_id']}/{row['trial']}"]
        assert (one["reward"], one["group"], one["policy_version"]) == (row["reward"], str(row["task_id"]), None)
        assert [(m["role"], m["content"]) for m in one["messages"]] == [
            (m["role"], m["content"] or "") for m in row["traj"]
        ]
        assert [calls(m) for m in one["messages"]] == [calls(m) for m in row["traj"]]
        assert one["source"]["record"]["info"] == row["info"]


def test_converted_log_draws_the_same(shared_data: Path, tau_bench: Path, tmp_path: Path) -> None:
    """The canonical trajectory is a log like any other: rewards, groups and rows that can be written are the same."""
    for name, path in (("tau", tau_bench), ("prime", shared_data / "prime-rl-security-verifiers")):
        paths = [path] if path.is_file() else sorted(path.glob("*/*/results.jsonl"))
        out = tmp_path / f"{name}.jsonl"
        karl_fast.convert(paths, out)
        accounts = [karl_fast.sample(log, None, k=20, score="centre").manifest for log in (paths, out)]
        for what in ("reward", "groups", "accounting"):
            mine, theirs = (dict(account[what]) for account in accounts)
            assert mine == theirs, (name, what)


MADE = {sample.name: sample for sample in samples.ALL}
"""Made from the schemas, as their module says."""


@pytest.mark.parametrize(
    ("name", "version", "model", "tokens", "reward", "success"),
    [
        ("claude-code", None, "claude-opus-4-5", (9, 30, 300, 5), None, [True, False]),
        ("claude-code-stream", None, "claude-opus-4-5", (9, 30, 300, 5), None, [True, False]),
        ("codex", None, "gpt-5-codex", (300, None, 600, 80), None, [True, False, None, True]),
        ("atif", None, "m-1", (160, None, 60, 15), None, [None]),
        ("swe-agent", None, None, (9, None, None, 4), None, [None]),
        ("trl", 7, None, (None, None, None, None), 1.25, []),
        ("verl", 3, None, (None, None, None, None), 0.5, []),
        ("prime-rl", 40, None, (30, None, None, 12), 0.5, [None]),
        ("verifiers", None, None, (30, None, None, 12), 1.0, [None]),
        ("generic", "v3", "m", (None, None, None, None), 0.5, [None]),
    ],
)
def test_each_made_sample_keeps_what_its_format_says(
    convert: Convert,
    tmp_path: Path,
    name: str,
    version: Any,
    model: str | None,
    tokens: tuple[int | None, ...],
    reward: float | None,
    success: list[bool | None],
) -> None:
    _, found = convert(MADE[name].write(tmp_path / "a.jsonl"))
    one = found[0]
    assert (one["policy_version"], one["model"], one["reward"]) == (version, model, reward)
    assert tuple(one["tokens"].values()) == tokens
    assert [a[3] for a in answers(one)] == success
    assert one["turns"] == sum(message["role"] == "assistant" for message in one["messages"])
    moments = [message["timestamp"] for message in one["messages"] if "timestamp" in message]
    assert (one["started_at"], one["ended_at"]) == ((moments[0], moments[-1]) if moments else (None, None))


@pytest.mark.parametrize("name", ["verifiers", "generic", "prime-rl"])
def test_rollouts_keep_thoughts_calls_and_tail(convert: Convert, tmp_path: Path, name: str) -> None:
    _, found = convert(MADE[name].write(tmp_path / "a.jsonl"))
    messages = found[0]["messages"]
    whole = ["system", "user", "assistant", "tool", "assistant"]
    assert [message["role"] for message in messages] == (whole if name == "prime-rl" else [*whole, "user"])
    assert messages[1]["content"] == "mend it"
    assert (messages[2]["content"], messages[2]["reasoning_content"]) == ("", "hm")
    assert calls(messages[2]) == [("c1", "look", {"at": "till"})]
    assert answers(found[0]) == [("c1", "look", "total = 0", None)]


def test_calls_without_id_are_answered_in_order(convert: Convert, tmp_path: Path) -> None:
    bare = [{"name": "look", "arguments": {"at": at}} for at in ("till", "door")]
    talk = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "", "tool_calls": bare},
        {"role": "tool", "content": "0"},
        {"role": "tool", "content": "shut"},
        {"role": "tool", "content": "nobody asked"},
    ]
    account, [found] = convert(MADE["generic"].write(tmp_path / "a.jsonl", [{"messages": talk, "reward": 1.0}]))
    named = [("call_1", "look", "0", None), ("call_2", "look", "shut", None)]
    assert answers(found) == [*named, (None, None, "nobody asked", None)]
    assert account.notes == {"orphan_result": 1}
    assert account.tool_calls == {"unknown": 2}


def nameless(*talk: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"messages": [{"role": "user", "content": "go"}, *talk], "reward": 1.0}]


def calling(*ids: str | None) -> dict[str, Any]:
    """A message of the model with calls of tools, of which some have no id."""
    every = [{"name": f"tool{at}", "arguments": {}} | ({} if id is None else {"id": id}) for at, id in enumerate(ids)]
    return {"role": "assistant", "content": "", "tool_calls": every}


@pytest.mark.parametrize(
    ("ids", "wanted"),
    [
        (("call_2", None), ["call_2", "call_3"]),
        ((None, "call_1"), ["call_2", "call_1"]),
        ((None, "call_1", None, "call_2"), ["call_3", "call_1", "call_5", "call_2"]),
    ],
)
def test_generated_call_id_is_unique(
    convert: Convert, tmp_path: Path, ids: tuple[str | None, ...], wanted: list[str]
) -> None:
    results = [{"role": "tool", "content": "named", "tool_call_id": id} for id in ids if id]
    bare = [{"role": "tool", "content": "bare"} for id in ids if not id]
    path = MADE["generic"].write(tmp_path / "a.jsonl", nameless(calling(*ids), *results, *bare))
    account, [found] = convert(path)
    assert [id for id, _, _ in calls(found["messages"][1])] == wanted
    assert {id: content for id, _, content, _ in answers(found)} == {
        made: "named" if id else "bare" for made, id in zip(wanted, ids, strict=True)
    }
    assert account.notes == {}


def test_result_does_not_go_to_earlier_turn(convert: Convert, tmp_path: Path) -> None:
    user, tool = {"role": "user", "content": "wait"}, {"role": "tool", "content": "0"}
    path = MADE["generic"].write(tmp_path / "a.jsonl", nameless(calling(None), user, calling(None), tool, tool))
    account, [found] = convert(path)
    assert answers(found) == [("call_2", "tool0", "0", None), (None, None, "0", None)]
    assert account.notes == {"orphan_result": 1}
    assert account.tool_calls == {"unanswered": 1, "unknown": 1}


@pytest.mark.parametrize("key", ["model", "policy_version"])
def test_unmapped_fields_stay_in_record(convert: Convert, tmp_path: Path, key: str) -> None:
    odd = {"name": "x"}
    records = [record | {key: odd} for record in MADE["generic"].records()]
    account, found = convert(MADE["generic"].write(tmp_path / "a.jsonl", records))
    for one in found:
        assert one[key] is None
        assert one["source"]["record"] == {"note": one["source"]["record"]["note"], key: odd}
    assert {odd["field"] for odd in account.mistyped} == {key}
    assert account.notes == {"wrong_type": len(records)}


def test_atif_keeps_tokens_logprobs_costs_and_tools(convert: Convert, tmp_path: Path) -> None:
    [document] = MADE["atif"].records()
    per = {"prompt_token_ids": [1, 2], "completion_token_ids": [3, 4], "logprobs": [-0.5, -1.25], "cost_usd": 0.01}
    document["steps"][2]["metrics"] |= per
    document["steps"][3]["metrics"]["cost_usd"] = 0.02
    document["final_metrics"] = {"total_cost_usd": 0.03}
    tool = {"type": "function", "function": {"name": "run", "parameters": {"type": "object"}}}
    document["agent"]["tool_definitions"] = [tool]
    account, [found] = convert(MADE["atif"].write(tmp_path / "a.jsonl", [document]))
    said = found["messages"]
    assert found["source"]["metrics"] == [{"message": 2} | per, {"message": 4, "cost_usd": 0.02}]
    assert [said[one["message"]]["content"] for one in found["source"]["metrics"]] == ["I list.", "Done."]
    assert (found["source"]["total_cost_usd"], found["tools"]) == (0.03, [tool])
    assert account.mistyped == []
    document["steps"][2]["metrics"]["logprobs"] = "none"
    account, _ = convert(MADE["atif"].write(tmp_path / "a.jsonl", [document]))
    assert [(odd["field"], odd["wanted"]) for odd in account.mistyped] == [("steps[2].metrics.logprobs", "a list")]


@pytest.mark.parametrize("named", [False, True])
def test_stream_json_keeps_tools_and_costs(convert: Convert, tmp_path: Path, named: bool) -> None:
    records = MADE["claude-code-stream"].records()
    for at in (0, -1):
        records[at] |= {"uuid": f"u{at}"} if named else {}
    account, [found] = convert(MADE["claude-code-stream"].write(tmp_path / "a.jsonl", records))
    assert found["tools"] == [{"type": "function", "function": {"name": name}} for name in ("Bash", "Read")]
    assert found["source"]["total_cost_usd"] == 0.25
    assert account.dropped == {"no_conversation": 1}
    records[0]["tools"], records[-1]["total_cost_usd"] = "Bash", "much"
    account, [found] = convert(MADE["claude-code-stream"].write(tmp_path / "a.jsonl", records))
    assert [(odd["field"], odd["wanted"]) for odd in account.mistyped] == [
        ("tools", "a list"),
        ("total_cost_usd", "a number"),
    ]
    assert "tools" not in found
    assert "total_cost_usd" not in found["source"]
