"""Spans of calls of models as OTLP JSON (opentelemetry-proto 1.x) and as the console exporters print them: GenAI
(`gen-ai-input-messages.json` of open-telemetry/semantic-conventions, 1.37), OpenInference
(`spec/semantic_conventions.md` of Arize-ai/openinference) and OpenLLMetry's `gen_ai.prompt.N`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.convert.conftest import Convert

TRACE = "5b8efff798038103d269b633813fc60c"
BEGUN = 1_767_703_257_519_000_000


def value(content: Any) -> dict[str, Any]:
    if isinstance(content, bool):
        return {"boolValue": content}
    if isinstance(content, int):
        return {"intValue": str(content)}
    return {"stringValue": content if isinstance(content, str) else json.dumps(content)}


def span(name: str, at: int, attributes: dict[str, Any], parent: str = "", **more: Any) -> dict[str, Any]:
    times = {"startTimeUnixNano": str(BEGUN + at * 10**9), "endTimeUnixNano": str(BEGUN + at * 10**9 + 10**8)}
    facts = {"traceId": TRACE, "spanId": name, "parentSpanId": parent, "name": name, "kind": 3}
    return facts | times | {"attributes": [{"key": key, "value": value(one)} for key, one in attributes.items()]} | more


def request(*spans: dict[str, Any]) -> dict[str, Any]:
    scope = {"scope": {"name": "test"}, "spans": list(spans)}
    return {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [scope]}]}


def write(path: Path, *records: Any) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return path


def said(role: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "parts": list(parts)}


def words(text: str) -> dict[str, str]:
    return {"type": "text", "content": text}


ASK = said("user", words("Fix the till"))
CALL = {"type": "tool_call", "id": "c1", "name": "read", "arguments": {"path": "till.py"}}
LOOK = said("assistant", {"type": "reasoning", "content": "look first"}, words("I look."), CALL) | {
    "finish_reason": "tool_call"
}
SEEN = said("tool", {"type": "tool_call_response", "id": "c1", "response": "total = 0"})
DONE = said("assistant", words("Fixed.")) | {"finish_reason": "stop"}
TOOLS = [{"type": "function", "name": "read", "parameters": {"type": "object"}}]


def chat(name: str, at: int, before: list[Any], after: list[Any], parent: str = "agent", **more: Any) -> dict[str, Any]:
    facts = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.system_instructions": [words("You help.")],
        "gen_ai.input.messages": before,
        "gen_ai.output.messages": after,
        "gen_ai.tool.definitions": TOOLS,
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 3,
    }
    return span(name, at, facts | more, parent)


# The thoughts of a turn are not sent again.
AGAIN = said("assistant", words("I look."), CALL)
SPANS = [
    span("agent", 0, {"gen_ai.operation.name": "invoke_agent", "gen_ai.output.messages": [DONE]}),
    chat("s1", 1, [ASK], [LOOK]),
    span("tool", 2, {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.id": "c1"}, "agent"),
    chat("s2", 3, [ASK, AGAIN, SEEN], [DONE]),
]
WHOLE = [
    ("system", "You help."),
    ("user", "Fix the till"),
    ("assistant", "I look."),
    ("tool", "total = 0"),
    ("assistant", "Fixed."),
]


def told(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["role"], one["content"]) for one in found["messages"]]


def test_calls_that_go_on_are_one_trajectory(convert: Convert, tmp_path: Path) -> None:
    account, [found] = convert(write(tmp_path / "spans.jsonl", request(*SPANS[2:]), request(*SPANS[:2])))
    assert told(found) == WHOLE
    assert found["messages"][2]["reasoning_content"] == "look first"
    call = found["messages"][2]["tool_calls"][0]
    assert (call["id"], json.loads(call["function"]["arguments"])) == ("c1", {"path": "till.py"})
    assert found["messages"][3]["tool_call_id"] == "c1"
    assert [one.get("weight") for one in found["messages"]] == [None] * 5
    assert (found["id"], found["model"], found["tokens"]["input"], found["tokens"]["output"]) == (TRACE, "m", 20, 6)
    assert found["tools"][0]["function"]["name"] == "read"
    assert found["messages"][1]["timestamp"] == "2026-01-06T12:40:58.519Z"
    assert account.types == {"chat": 2, "execute_tool": 1, "invoke_agent": 1}
    assert (account.lines_used, account.dropped) == (2, {})


def test_spans_over_files_and_twice_are_one_trajectory(convert: Convert, tmp_path: Path) -> None:
    one, other = write(tmp_path / "1.jsonl", request(*SPANS[:2])), write(tmp_path / "2.jsonl", request(*SPANS[1:]))
    again = tmp_path / "3.json"
    again.write_text(json.dumps(request(*SPANS), indent=1), "utf-8")
    account, [found] = convert(one, other, again)
    assert told(found) == WHOLE
    assert (account.notes["repeated_span"], account.duplicates) == (5, 1)


def test_what_no_recorded_call_wrote_is_not_learned(convert: Convert, tmp_path: Path) -> None:
    _, [found] = convert(write(tmp_path / "spans.jsonl", request(SPANS[3])))
    assert told(found) == WHOLE
    assert [one.get("weight") for one in found["messages"]] == [None, None, 0, None, None]


def test_a_conversation_inside_a_call_of_a_tool_is_a_sub_agents(convert: Convert, tmp_path: Path) -> None:
    inner = chat("s9", 2, [said("user", words("look"))], [said("assistant", words("seen"))], "tool")
    account, found = convert(write(tmp_path / "spans.jsonl", request(*SPANS, inner)))
    assert [(one["id"], one["parent"], one["session"]) for one in found] == [
        (TRACE, None, TRACE),
        (f"{TRACE}/s9", {"id": TRACE, "tool_call_id": "c1"}, TRACE),
    ]
    assert account.sub_agents == 1


def test_traces_of_one_conversation_go_on(convert: Convert, tmp_path: Path) -> None:
    first = chat("s1", 1, [ASK], [DONE], **{"gen_ai.conversation.id": "conv"})
    more = chat("s2", 9, [ASK, DONE, said("user", words("And the tax"))], [DONE], **{"gen_ai.conversation.id": "conv"})
    _, [found] = convert(write(tmp_path / "spans.jsonl", request(first, more | {"traceId": "f" * 32})))
    assert [one.get("weight") for one in found["messages"]] == [None] * 5
    assert found["session"] == "conv"


def inference() -> dict[str, Any]:
    """Return a span with the attributes of OpenInference."""
    return span(
        "s1",
        1,
        {
            "openinference.span.kind": "LLM",
            "session.id": "conv",
            "llm.model_name": "m",
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.contents.0.message_content.type": "text",
            "llm.input_messages.0.message.contents.0.message_content.text": "Fix the till",
            "llm.input_messages.1.message.role": "assistant",
            "llm.input_messages.1.message.tool_calls.0.tool_call.id": "c1",
            "llm.input_messages.1.message.tool_calls.0.tool_call.function.name": "read",
            "llm.input_messages.1.message.tool_calls.0.tool_call.function.arguments": '{"path": "till.py"}',
            "llm.input_messages.2.message.role": "tool",
            "llm.input_messages.2.message.content": "total = 0",
            "llm.input_messages.2.message.tool_call_id": "c1",
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": "Fixed.",
            "llm.tools.0.tool.json_schema": TOOLS[0],
            "llm.token_count.prompt": 10,
            "llm.token_count.completion": 3,
        },
    )


def traceloop() -> dict[str, Any]:
    """Return a span with the attributes of OpenLLMetry."""
    return span(
        "s1",
        1,
        {
            "gen_ai.request.model": "m",
            "gen_ai.prompt.0.role": "user",
            "gen_ai.prompt.0.content": '[{"type": "text", "text": "Fix the till"}]',
            "gen_ai.prompt.1.role": "assistant",
            "gen_ai.prompt.1.tool_calls.0.id": "c1",
            "gen_ai.prompt.1.tool_calls.0.name": "read",
            "gen_ai.prompt.1.tool_calls.0.arguments": '{"path": "till.py"}',
            "gen_ai.prompt.2.role": "tool",
            "gen_ai.prompt.2.tool_call_id": "c1",
            "gen_ai.prompt.2.content": "total = 0",
            "gen_ai.completion.0.role": "assistant",
            "gen_ai.completion.0.content": "Fixed.",
            "gen_ai.usage.input_tokens": 10,
            "gen_ai.usage.output_tokens": 3,
        },
    )


def events() -> dict[str, Any]:
    """Return a span with the events of the conventions before 1.37."""
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "till.py"}'}}
    messages = [
        ("gen_ai.user.message", {"content": "Fix the till"}),
        ("gen_ai.assistant.message", {"tool_calls": [call]}),
        ("gen_ai.tool.message", {"id": "c1", "content": "total = 0"}),
        ("gen_ai.choice", {"index": 0, "finish_reason": "stop", "message": {"content": "Fixed."}}),
    ]
    listed = [
        {"name": name, "attributes": [{"key": key, "value": value(one)} for key, one in body.items()]}
        for name, body in messages
    ]
    facts = {"gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 3}
    return span("s1", 1, facts, events=listed)


@pytest.mark.parametrize("made", [inference, traceloop, events])
def test_other_conventions_give_the_same_messages(convert: Convert, tmp_path: Path, made: Any) -> None:
    _, [found] = convert(write(tmp_path / "spans.jsonl", request(made())))
    assert told(found) == [("user", "Fix the till"), ("assistant", ""), ("tool", "total = 0"), ("assistant", "Fixed.")]
    assert json.loads(found["messages"][1]["tool_calls"][0]["function"]["arguments"]) == {"path": "till.py"}
    assert (found["model"], found["tokens"]["input"], found["tokens"]["output"]) == ("m", 10, 3)


@pytest.mark.parametrize("as_list", [False, True])
def test_spans_that_a_console_exporter_printed(convert: Convert, tmp_path: Path, as_list: bool) -> None:
    printed = {
        "name": "chat m",
        "context": {"trace_id": f"0x{TRACE}", "span_id": "0x11", "trace_state": "[]"},
        "kind": "SpanKind.CLIENT",
        "parent_id": None,
        "start_time": "2026-01-06T12:40:58.519Z",
        "end_time": "2026-01-06T12:40:59.519Z",
        "attributes": {"gen_ai.input.messages": json.dumps([ASK]), "gen_ai.output.messages": json.dumps([DONE])},
        "events": [],
        "resource": {},
    }
    path = tmp_path / "spans.json"
    path.write_text(json.dumps([printed]) if as_list else json.dumps(printed, indent=4), "utf-8")
    _, [found] = convert(path)
    assert told(found) == [("user", "Fix the till"), ("assistant", "Fixed.")]
    assert found["id"] == TRACE


def test_scores_keep_their_names_and_are_no_reward(convert: Convert, tmp_path: Path) -> None:
    score = {"gen_ai.evaluation.name": "helpful", "gen_ai.evaluation.score.value": 0.5}
    attributes = [
        {"key": key, "value": {"doubleValue": one} if isinstance(one, float) else value(one)}
        for key, one in score.items()
    ]
    judged = span("s1", 1, {}, events=[{"name": "gen_ai.evaluation.result", "attributes": attributes}])
    _, [found] = convert(write(tmp_path / "spans.jsonl", request(*SPANS, judged | {"spanId": "s7"})))
    assert (found["reward"], found["source"]["scores"]) == (None, {"helpful": 0.5})
    log = karl_fast.read(tmp_path / "trajectories.jsonl", reward={"source.scores.helpful": 1.0})
    assert list(log.rewards) == [0.5]


@pytest.mark.parametrize(
    "part", [{"type": "blob", "mime_type": "image/png", "content": "x"}, {"type": "image"}, {"kind": 3}]
)
def test_a_conversation_with_what_is_not_text_is_dropped_by_name(convert: Convert, tmp_path: Path, part: Any) -> None:
    other = chat("s1", 1, [said("user", part)], [DONE])
    account, found = convert(write(tmp_path / "spans.jsonl", request(other | {"traceId": "a" * 32}), request(*SPANS)))
    assert [one["id"] for one in found] == [TRACE]
    assert account.notes["bad_message"] == 1


@pytest.mark.parametrize("spoilt", [None, 3, "x", [], {}, [3], {"type": 3}])
@pytest.mark.parametrize(
    "key", ["gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.definitions", "gen_ai.usage.input_tokens"]
)
def test_values_of_other_types_end_no_conversion(convert: Convert, tmp_path: Path, key: str, spoilt: Any) -> None:
    other = chat("s8", 1, [ASK], [DONE], **{key: spoilt})
    _, found = convert(write(tmp_path / "spans.jsonl", request(*SPANS), request(other | {"traceId": "a" * 32})))
    assert told(found[0]) == WHOLE


def test_spans_without_a_call_of_a_model_are_no_conversation(tmp_path: Path) -> None:
    path = write(tmp_path / "spans.jsonl", request(SPANS[0], SPANS[2]))
    with pytest.raises(karl_fast.errors.LogError, match="no conversation"):
        karl_fast.convert(path, tmp_path / "out.jsonl")
