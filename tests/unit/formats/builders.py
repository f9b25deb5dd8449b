"""Made-up records in the form of each known tool."""

from __future__ import annotations

import json
from typing import Any


def turn(role: str, content: str | None, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content} | more


def prime_rl(sample: int, problem: int, reward: float, step: int = 3, **more: Any) -> dict[str, Any]:
    """A hosted rollout: JSON in JSON in JSON, and an answer in the place of a thought."""
    call = json.dumps({"id": f"c{sample}", "name": "look", "arguments": json.dumps({"at": f"größe {sample}"})})
    completion = [
        turn("assistant", "", tool_calls=[call], reasoning_content="I look."),
        turn("tool", "nothing there", tool_call_id=f"c{sample}"),
        turn("assistant", None, reasoning_content=f"answer {sample}", thinking_blocks=None, tool_calls=None),
    ]
    return {
        "advantage": 0.0,
        "answer": "a",
        "completion": json.dumps(completion),
        "created_at": "2026-01-01T00:00:00+00:00",
        "env_name": "made/up",
        "info": "",
        "metrics": "{}",
        "problem_id": problem,
        "prompt": json.dumps([turn("system", "Be brief."), turn("user", f"question {problem}")]),
        "reward": reward,
        "run_id": "run",
        "sample_id": sample,
        "step": step,
        "task": "default",
    } | more


def verl(prompt: str, output: str, score: float | None, step: int = 1, **more: Any) -> dict[str, Any]:
    """A row of `rollout_data_dir`."""
    return {"input": f"user\n{prompt}\nassistant\n", "output": output, "gts": "42", "score": score, "step": step} | more


def verifiers(example: int, number: int, reward: float, **more: Any) -> dict[str, Any]:
    """A row of `vf-eval -s`."""
    call = json.dumps({"id": "c", "name": "add", "arguments": '{"a": 1}'})
    return {
        "example_id": example,
        "prompt": [turn("user", f"question {example}")],
        "completion": [
            turn("assistant", "", tool_calls=[call]),
            turn("tool", "2", tool_call_id="c"),
            turn("assistant", f"answer {number}"),
        ],
        "reward": reward,
        "error": None,
        "timing": {"total_ms": number},
        "is_completed": True,
        "is_truncated": False,
        "stop_condition": "done",
        "metrics": {"correct": reward},
        "tool_defs": [{"name": "add", "description": "adds", "parameters": {"type": "object"}, "strict": None}],
        "correct": reward,
    } | more


def old_verifiers(example: int, number: int, reward: float) -> dict[str, Any]:
    """The same before January 2026."""
    row = verifiers(example, number, reward)
    kept = {key: row[key] for key in ("example_id", "prompt", "completion", "reward")}
    return kept | {"task": "sums", "generation_ms": 1.0, "scoring_ms": 1.0, "total_ms": 2.0}


def karl_tap(number: int, reward: float | None, domain: str | None = "ops", **more: Any) -> dict[str, Any]:
    """What KARL's taps write."""
    events = [
        {"tool_name": "Read", "key_params": {"file_path": f"/src/{number}.py"}, "success": True, "exit_code": None},
        {"tool_name": "Bash", "key_params": {"command": "make", "description": "builds"}, "success": False},
        {"tool_name": "TodoWrite", "key_params": {}, "success": True},
    ]
    return {
        "id": f"traj_{number}",
        "session_id": f"s{number}",
        "channel": "live",
        "recorded_at": "2026-03-10T14:30:00+00:00",
        "skill": {"name": "ops:deploy", "domain": domain},
        "context": {"prompt_text": f"deploy {number}", "cwd": "/src", "git_repo": None},
        "trajectory": {"tool_sequence": ["Read", "Bash"], "total_tools": 3, "events": events},
        "outcome": {"annotation_status": "scored", "reward_score": reward, "advantage": 0.1},
        "timing": {"started_at": "", "ended_at": "", "duration_s": 3.0},
    } | more


def karl_extract(number: int, reward: float | None, response: str = "done", **more: Any) -> dict[str, Any]:
    """What KARL's extractors write."""
    calls = [{"tool": "Bash", "input_preview": "{'command': 'ls'}", "success": True, "duration_ms": 5}]
    return {
        "id": f"x{number}",
        "session_id": "s",
        "skill": "verbose-all",
        "domain": "web",
        "trajectory": {"prompt": f"fix {number}", "response": response, "tool_calls": calls, "tool_count": 1},
        "context": {"source": "verbose-all", "domain": "web"},
        "timing": {"tool_count": 1},
        "outcome": {"has_error": False, "completed": True},
        "reward_score": reward,
    } | more
