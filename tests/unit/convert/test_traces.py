"""`traces.jsonl` of verifiers 1.0 and prime-rl: `verifiers/v1/trace.py` (trace version 1), `graph.py` and `types.py` of
PrimeIntellect-ai/verifiers, August 2026."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.convert.conftest import Convert


def node(parent: int | None, role: str, content: Any, sampled: bool = False, **more: Any) -> dict[str, Any]:
    message = {"role": role, "content": content} | more
    facts = {"parent": parent, "message": message, "sampled": sampled, "timestamp": 1_767_703_257.5}
    return facts | {"token_ids": [1, 2], "mask": [False, sampled], "logprobs": [-0.5] if sampled else []}


CALL = {"id": "c1", "name": "read", "arguments": '{"path": "till.py"}'}
NODES = [
    node(None, "system", "You help."),
    node(0, "user", "Fix the till"),
    node(1, "assistant", None, True, reasoning_content="look first", tool_calls=[CALL]),
    node(2, "tool", "total = 0", tool_call_id="c1"),
    node(3, "assistant", "Fixed.", True),
    # The harness went another way behind the result.
    node(3, "user", "And the tax"),
    node(5, "assistant", "Done.", True),
]
USAGE = {"prompt_tokens": 10, "completion_tokens": 3, "cached_input_tokens": 2}
TRACE = {
    "version": 1,
    "id": "aa11",
    "verifiers": {"version": "1.0.0"},
    "task": {"type": "TillTask", "data": {"prompt": "Fix"}, "key": "till-7", "hash": "h"},
    "agent": {"config": {}, "name": "solver", "trainable": True},
    "tools": [{"name": "read", "description": "Reads", "parameters": {"type": "object"}}],
    "nodes": NODES,
    "calls": [{"node": 2, "model": "m", "usage": USAGE}, {"node": 4, "model": "m", "usage": USAGE}],
    "rewards": {"passed": {"score": 1.0, "weight": 0.5}, "brief": {"score": 0.2, "weight": 1.0}},
    "metrics": {"turns": 2.0},
    "info": {"prime_rl": {"env_name": "till"}},
    "is_completed": True,
    "ok": True,
    "stop_condition": "done",
    "errors": [],
    "timing": {"start": 0.0},
}


def write(path: Path, *records: Any) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return path


def test_each_path_of_the_graph_is_a_trajectory(convert: Convert, tmp_path: Path) -> None:
    account, [first, second] = convert(write(tmp_path / "traces.jsonl", TRACE))
    assert [(one["role"], one["content"], one.get("weight")) for one in first["messages"]] == [
        ("system", "You help.", None),
        ("user", "Fix the till", None),
        ("assistant", "", None),
        ("tool", "total = 0", None),
        ("assistant", "Fixed.", None),
    ]
    # What both paths have is learned once.
    assert [one["content"] for one in second["messages"][3:]] == ["total = 0", "And the tax", "Done."]
    assert [one.get("weight") for one in second["messages"]] == [None, None, 0, None, None, None]
    assert [(one["id"], one["session"], one["group"]) for one in (first, second)] == [
        ("aa11", "aa11", "till-7"),
        ("aa11/branch-1", "aa11", "till-7"),
    ]
    assert first["reward"] == second["reward"] == 0.7
    assert first["source"]["rewards"]["passed"] == {"score": 1.0, "weight": 0.5}
    assert (first["messages"][2]["reasoning_content"], first["model"]) == ("look first", "m")
    assert first["messages"][2]["tool_calls"][0]["function"]["name"] == "read"
    assert first["tools"][0]["function"]["name"] == "read"
    assert first["tokens"] == {"input": 20, "cache_creation": None, "cache_read": 4, "output": 6}
    assert (account.lines_used, account.trajectories) == (1, 2)


@pytest.mark.parametrize(
    ("changed", "reward"),
    [
        ({"rewards": {"passed": {"score": 1.0, "weight": 1.0}}}, 1.0),
        ({"rewards": {"passed": None}}, None),
        ({"rewards": {}}, None),
        ({"ok": False, "errors": [{"type": "ProviderError", "message": "x"}]}, None),
        ({"errors": [{"type": "ProviderError", "message": "an earlier attempt"}]}, 0.7),
        ({"rewards": {"passed": {"score": "good"}}}, None),
    ],
)
def test_a_run_that_was_not_scored_has_no_reward(
    convert: Convert, tmp_path: Path, changed: dict[str, Any], reward: float | None
) -> None:
    _, found = convert(write(tmp_path / "traces.jsonl", TRACE | changed))
    assert found[0]["reward"] == reward


def test_what_the_policy_did_not_sample_is_not_learned(convert: Convert, tmp_path: Path) -> None:
    fabricated = [*NODES[:4], node(3, "assistant", "Fixed.", False)]
    judge = TRACE | {"id": "b", "agent": {"name": "judge", "trainable": False}, "nodes": NODES[:5]}
    _, [first, second] = convert(write(tmp_path / "traces.jsonl", TRACE | {"nodes": fabricated}, judge))
    assert [one.get("weight") for one in first["messages"] if one["role"] == "assistant"] == [None, 0]
    assert [one.get("weight") for one in second["messages"] if one["role"] == "assistant"] == [0, 0]


def test_a_snapshot_of_a_file_counts_once(convert: Convert, tmp_path: Path) -> None:
    other = TRACE | {"id": "bb22", "nodes": NODES[:5]}
    short, long = write(tmp_path / "1.jsonl", TRACE), write(tmp_path / "2.jsonl", TRACE, other)
    account, found = convert(short, long)
    assert [one["id"] for one in found] == ["aa11", "aa11/branch-1", "bb22"]
    assert account.duplicates == 1


@pytest.mark.parametrize("parent", [4, 9, -1, "x", 2.5])
def test_a_graph_with_a_parent_that_is_not_before_is_dropped(convert: Convert, tmp_path: Path, parent: Any) -> None:
    broken = TRACE | {"nodes": [*NODES[:4], node(parent, "assistant", "x", True)]}
    account, found = convert(write(tmp_path / "traces.jsonl", broken, TRACE))
    assert (len(found), account.dropped) == (2, {"bad_graph": 1})


def test_a_trace_with_an_image_is_dropped_by_name(convert: Convert, tmp_path: Path) -> None:
    image = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,x"}}]
    shown = TRACE | {"nodes": [NODES[0], node(0, "user", image), node(1, "assistant", "A till.", True)]}
    account, _ = convert(write(tmp_path / "traces.jsonl", shown, TRACE))
    assert (account.dropped, account.notes["images"]) == ({"bad_message": 1}, 1)


@pytest.mark.parametrize("value", [None, 3, "x", [], {}, [3], {"type": 3}])
@pytest.mark.parametrize("key", ["nodes", "rewards", "task", "agent", "tools", "calls", "errors", "id"])
def test_values_of_other_types_end_no_conversion(convert: Convert, tmp_path: Path, key: str, value: Any) -> None:
    _, found = convert(write(tmp_path / "traces.jsonl", TRACE, TRACE | {"id": "b", key: value}))
    assert found[0]["id"] == "aa11"
