"""Rewards of raw log lines, beside json and orjson with plain Python, and KARL itself with ``KARL_CHECKOUT`` set."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
from timing import SMOKE, table

from karl_fast import reward

sys.path.insert(0, str(Path(__file__).parents[3]))
from tests.parity.karl_records import counted, event, outcome, timing
from tests.parity.naive import reward as naive

if TYPE_CHECKING:
    from collections.abc import Callable

RECORDS = 200 if SMOKE else 4_000
EVENTS = 20
TOOLS = ["Read", "Edit", "Bash", "Grep", "Write"]


def whole(random: Random) -> dict[str, Any]:
    """A record with what KARL's tap writes beside what is scored."""
    events = [event(random, TOOLS, 0.1, 0.0) for _ in range(EVENTS)]
    for one in events:
        one["key_params"] = {
            "command": "git diff --stat " + "x" * random.randrange(80),
            "file_path": "/src/module/a.py",
        }
        one["ts"] = "2026-03-10T14:30:05+00:00"
    return {
        "id": f"traj_{random.randrange(10**9)}",
        "context": {"prompt_text": "Make the tests pass. " * 20, "cwd": "/src"},
        "trajectory": {"tool_sequence": [one["tool_name"] for one in events], **counted(events)},
        "outcome": outcome(random, 0.0),
        "timing": timing(random, 0.0),
    }


def main() -> None:
    random = Random(0)
    lines = [json.dumps(whole(random)).encode() for _ in range(RECORDS)]
    text = b"\n".join(lines)
    for version in ("v1", "v2"):
        contenders: dict[str, Callable[[], Any]] = {
            "karl-fast, whole log": lambda version=version: reward.compute_rewards(text, version=version),
            "karl-fast, line by line": lambda version=version: [
                reward.compute_reward(line, version=version) for line in lines
            ],
            "orjson, plain Python": lambda version=version: [
                naive.reward(orjson.loads(line), version)["reward_score"] for line in lines
            ],
            "json, plain Python": lambda version=version: [
                naive.reward(json.loads(line), version)["reward_score"] for line in lines
            ],
        }
        karl = checkout(version)
        if karl:
            contenders["json, KARL"] = lambda karl=karl: [
                karl.compute_reward(json.loads(line))["reward_score"] for line in lines
            ]
        ours = contenders["karl-fast, whole log"]()
        assert all(
            np.array_equal(ours, call()) for name, call in contenders.items() if "Python" in name or "KARL" in name
        )
        table(f"rewards {version}, {RECORDS:,} records of {len(text) // RECORDS:,} bytes", contenders)


def in_columns() -> None:
    """Events that are in columns already, beside KARL's Python over records that are parsed already."""
    random = Random(1)
    records = [whole(random) for _ in range(RECORDS)]
    calls = columns(records)
    contenders: dict[str, Callable[[], Any]] = {
        "karl-fast, columns": lambda: reward.compute_call_rewards(calls),
        "plain Python": lambda: [naive.reward(one, "v1")["reward_score"] for one in records],
    }
    karl = checkout("v1")
    if karl:
        contenders["KARL"] = lambda: [karl.compute_reward(one)["reward_score"] for one in records]
    ours = contenders["karl-fast, columns"]()
    assert all(np.array_equal(ours, call()) for call in contenders.values())
    table(f"rewards v1, {RECORDS:,} records in columns or parsed", contenders)


def columns(records: list[dict[str, Any]]) -> reward.Calls:
    """The calls of records."""
    events = [one["trajectory"]["events"] for one in records]
    calls = [call for some in events for call in some]
    answers = {True: 1, False: 0, None: -1}
    names = ("correction_detected", "redo_detected", "build_success", "session_continued")
    flags = [np.array([answers[one["outcome"].get(name)] for one in records]) for name in names]
    return reward.Calls(
        np.cumsum([0, *map(len, events)]),
        np.array([TOOLS.index(call["tool_name"]) for call in calls]),
        np.array([answers[call["success"]] for call in calls]),
        TOOLS,
        *flags,
        seconds=np.array([one["timing"]["duration_s"] or np.nan for one in records], dtype=np.float64),
    )


def checkout(version: str) -> Any:
    """KARL's own engine, where the checkout is of that version."""
    if "KARL_CHECKOUT" not in os.environ:
        return None
    sys.path.insert(0, os.environ["KARL_CHECKOUT"])
    karl: Any = importlib.import_module("karl.reward_engine")
    return karl if hasattr(karl, "W_MOTION") == (version == "v2") else None


if __name__ == "__main__":
    main()
    in_columns()
