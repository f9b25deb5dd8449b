"""One sample a format, made from the tools' schemas, for the tests that hold of every format."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.unit.convert import made
from tests.unit.convert.test_other_tools import rollout, run, trial

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Record = dict[str, Any]


@dataclass(frozen=True)
class Sample:
    """How a format is written, and what is wrong with a record of it.

    Attributes:
        name: the format.
        records: the records of a sound file: lines, or one document.
        odd: where in which record a value of a wrong type is put: record, keys, value.
        told: what is said of it: field, what came, what was wanted.
        document: whether the file is one document.
    """

    name: str
    records: Callable[[], list[Record]]
    odd: tuple[int, tuple[str | int, ...], Any]
    told: tuple[str, str, str]
    document: bool = False

    def write(self, path: Path, records: list[Record] | None = None) -> Path:
        records = self.records() if records is None else records
        path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
        return path

    def spoilt(self) -> list[Record]:
        """The records with the odd value in its place."""
        records = json.loads(json.dumps(self.records()))
        at, keys, value = self.odd
        holder = records[at]
        for key in keys[:-1]:
            holder = holder[key]
        holder[keys[-1]] = value
        return records  # type: ignore[no-any-return]


def session() -> list[Record]:
    lines = made.plain().lines
    del lines[0]
    return lines


def stream() -> list[Record]:
    """What `--output-format stream-json` prints of the same session."""
    id = made.name("s")
    spoken = [line for line in session() if line["type"] in ("user", "assistant")]
    lines = [
        {"type": line["type"], "message": line["message"], "session_id": id, "uuid": line["uuid"]}
        | {"parent_tool_use_id": None, "tool_use_result": line.get("toolUseResult")}
        for line in spoken
    ]
    start = {"type": "system", "subtype": "init", "session_id": id, "tools": ["Bash", "Read"], "model": "m"}
    end = {"type": "result", "subtype": "success", "is_error": False, "session_id": id, "num_turns": 3}
    end |= {"total_cost_usd": 0.25}
    return [start, *lines, end]


def codex() -> list[Record]:
    return rollout()


def trl() -> list[Record]:
    """Completions as the lines that are made of their Parquet: `trl_reward` is the sum of the two functions."""
    row = {"step": 7, "advantage": 0.5, "correct": 1.0, "brief": 0.25, "trl_reward": 1.25}
    return [row | {"prompt": f"prompt {n // 2}", "completion": f"answer {n}"} for n in range(4)]


def verl() -> list[Record]:
    return [{"input": f"asked {n // 2}", "output": f"said {n}", "gts": "4", "score": 0.5, "step": 3} for n in range(4)]


CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "till"}'}}
TALK: list[Record] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "mend it"}]},
    {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "total = 0"},
    {"role": "assistant", "content": "Mended."},
    {"role": "user", "content": "thanks"},
]


def prime_rl() -> list[Record]:
    """JSON texts inside JSON, calls that are texts again, words in the place of thoughts."""
    call = json.dumps({"name": "look", "arguments": '{"at": "till"}', "id": "c1"})
    said = [TALK[2] | {"tool_calls": [call]}, TALK[3], {"role": "assistant", "content": None, "reasoning_content": "x"}]
    row = {"run_id": "r", "step": 40, "problem_id": 1, "env_name": "e", "reward": 0.5, "advantage": 0.25}
    row |= {"num_input_tokens": 30, "num_output_tokens": 12, "created_at": "2026-05-15T14:26:16+00:00"}
    texts = {"prompt": json.dumps(TALK[:2]), "completion": json.dumps(said)}
    return [row | texts | {"sample_id": n} for n in range(4)]


def verifiers() -> list[Record]:
    row = {"example_id": 1, "prompt": TALK[:2], "completion": TALK[2:], "reward": 1.0, "timing": {}, "metrics": {}}
    row |= {"is_completed": True, "is_truncated": False, "token_usage": {"input_tokens": 30, "output_tokens": 12}}
    return [row | {"answer": str(n)} for n in range(4)]


def generic() -> list[Record]:
    row = {"group": "g", "reward": 0.5, "model": "m", "policy_version": "v3", "messages": TALK}
    return [row | {"id": f"r{n}", "note": n} for n in range(4)]


def atif() -> list[Record]:
    return [trial()]


def swe_agent() -> list[Record]:
    return [run()]


A_TEXT = ("a text", "a text or a list")
LINES = [
    Sample("claude-code", session, (1, ("message", "content"), 5), ("message.content", "a number", A_TEXT[1])),
    Sample("claude-code-stream", stream, (2, ("message",), "hello"), ("message", "a text", "an object")),
    Sample("codex", codex, (4, ("payload", "content"), True), ("payload.content", "true or false", A_TEXT[1])),
    Sample("trl", trl, (1, ("completion",), 7), ("completion", "a number", A_TEXT[1])),
    Sample("verl", verl, (2, ("output",), {}), ("output", "an object", A_TEXT[1])),
    Sample("prime-rl", prime_rl, (3, ("prompt",), 3), ("prompt", "a number", A_TEXT[1])),
    Sample(
        "verifiers", verifiers, (0, ("completion", 2, "content"), 4), ("completion[2].content", "a number", A_TEXT[1])
    ),
    Sample("generic", generic, (1, ("messages",), "hello"), ("messages", "a text", "a list")),
]
DOCUMENTS = [
    Sample("atif", atif, (0, ("steps", 2, "message"), 3), ("steps[2].message", "a number", A_TEXT[1]), True),
    Sample(
        "swe-agent",
        swe_agent,
        (0, ("history", 4, "tool_call_ids"), "c"),
        ("history[4].tool_call_ids", "a text", "a list"),
        True,
    ),
]
ALL = LINES + DOCUMENTS
