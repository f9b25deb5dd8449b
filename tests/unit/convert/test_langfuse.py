"""Langfuse 3 to 5: observations and scores of its public API (`fern/apis/server/definition/commons.yml` of
langfuse/langfuse) and of its export to blob storage, whose keys are those of its tables."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.convert.conftest import Convert

CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "till.py"}'}}
ASK = [{"role": "system", "content": "You help."}, {"role": "user", "content": "Fix the till"}]
LOOK = {"role": "assistant", "content": "I look.", "tool_calls": [CALL]}
SEEN = {"role": "tool", "tool_call_id": "c1", "content": "total = 0"}
DONE = {"role": "assistant", "content": "Fixed."}


def generation(name: str, at: int, before: Any, after: Any, **more: Any) -> dict[str, Any]:
    times = {"startTime": f"2026-05-01T10:00:0{at}.000Z", "endTime": f"2026-05-01T10:00:0{at}.500Z"}
    facts = {"id": name, "traceId": "t1", "type": "GENERATION", "name": "chat", "input": before, "output": after}
    return facts | times | {"model": "m", "usageDetails": {"input": 10, "output": 3, "total": 13}} | more


OBSERVATIONS = [
    {"id": "o0", "traceId": "t1", "type": "SPAN", "name": "agent", "input": {}, "output": {}},
    generation("o1", 1, ASK, LOOK),
    generation("o2", 2, [*ASK, LOOK, SEEN], DONE),
]
SCORES = [
    {"id": "x1", "traceId": "t1", "name": "helpful", "value": 0.75, "dataType": "NUMERIC", "source": "API"},
    {"id": "x2", "traceId": "t1", "name": "label", "value": "good", "dataType": "CATEGORICAL", "source": "API"},
]
WHOLE = [
    ("system", "You help."),
    ("user", "Fix the till"),
    ("assistant", "I look."),
    ("tool", "total = 0"),
    ("assistant", "Fixed."),
]


def snake(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record as the export to blob storage writes it: other keys, and messages as JSON texts."""
    names = {"traceId": "trace_id", "startTime": "start_time", "endTime": "end_time", "model": "provided_model_name"}
    names |= {"usageDetails": "usage_details", "dataType": "data_type"}
    found = {names.get(key, key): one for key, one in record.items()}
    return found | {key: json.dumps(found[key]) for key in ("input", "output") if key in found}


def write(path: Path, records: list[Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return path


def told(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["role"], one["content"]) for one in found["messages"]]


@pytest.mark.parametrize("form", [lambda record: record, snake])
def test_generations_and_scores_in_files_of_their_own(convert: Convert, tmp_path: Path, form: Any) -> None:
    observations = write(tmp_path / "observations.jsonl", [form(one) for one in OBSERVATIONS])
    scores = write(tmp_path / "scores.jsonl", [form(one) for one in SCORES])
    account, [found] = convert(observations, scores)
    assert told(found) == WHOLE
    assert [one.get("weight") for one in found["messages"]] == [None] * 5
    assert (found["id"], found["model"], found["reward"]) == ("t1", "m", None)
    assert found["source"]["scores"] == {"helpful": 0.75}
    assert (found["tokens"]["input"], found["tokens"]["output"]) == (20, 6)
    assert account.dropped == {"no_conversation": 3}


@pytest.mark.parametrize("layout", ["array", "trace"])
def test_an_array_and_a_trace_hold_the_same(convert: Convert, tmp_path: Path, layout: str) -> None:
    path = tmp_path / "export.json"
    trace = {"id": "t1", "name": "agent", "sessionId": "conv", "observations": OBSERVATIONS, "scores": SCORES}
    path.write_text(json.dumps(OBSERVATIONS if layout == "array" else trace, indent=1), "utf-8")
    _, [found] = convert(path)
    assert told(found) == WHOLE
    assert found["session"] == ("t1" if layout == "array" else "conv")


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        ("Fix it", "Fixed.", [("user", "Fix it"), ("assistant", "Fixed.")]),
        ({"messages": ASK, "tools": []}, {"choices": [{"message": DONE}]}, [*WHOLE[:2], WHOLE[4]]),
        (ASK, {"content": "Fixed."}, [*WHOLE[:2], WHOLE[4]]),
        (
            [{"role": "user", "content": [{"type": "text", "text": "Fix"}]}],
            {
                "role": "assistant",
                "content": [{"type": "text", "text": "a"}, {"type": "tool_use", "id": "c", "name": "f", "input": {}}],
            },
            [("user", "Fix"), ("assistant", "a")],
        ),
    ],
)
def test_forms_of_input_and_output(convert: Convert, tmp_path: Path, before: Any, after: Any, wanted: Any) -> None:
    _, [found] = convert(write(tmp_path / "o.jsonl", [generation("o1", 1, before, after)]))
    assert told(found) == wanted


@pytest.mark.parametrize("value", [None, 3, "", [], {}, [3], {"type": 3}])
@pytest.mark.parametrize("key", ["input", "output", "usageDetails", "startTime", "model", "id"])
def test_values_of_other_types_end_no_conversion(convert: Convert, tmp_path: Path, key: str, value: Any) -> None:
    spoilt = generation("o9", 5, ASK, DONE, traceId="t9") | {key: value}
    _, found = convert(write(tmp_path / "o.jsonl", [*OBSERVATIONS, spoilt]))
    assert [told(one) for one in found if one["id"] == "t1"] == [WHOLE]
