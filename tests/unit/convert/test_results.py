"""Results of calls in logs of rollouts: which call they answer, whether it succeeded, and what they say."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.convert.conftest import Convert

Message = dict[str, Any]


def call(name: str, identity: str | None = None) -> Message:
    function = {"type": "function", "function": {"name": name, "arguments": "{}"}}
    return function if identity is None else {"id": identity} | function


def log(folder: Path, calls: list[Message], *results: Message, **more: Any) -> Path:
    """A rollout of one turn with calls, their results, and an answer."""
    asks = {"role": "assistant", "content": "", "tool_calls": calls}
    messages = [{"role": "user", "content": "q"}, asks, *results, {"role": "assistant", "content": "a"}]
    file = folder / "log.jsonl"
    file.write_text(json.dumps({"id": "r", "reward": 1, "messages": messages, **more}) + "\n")
    return file


def result(content: Any = "out", **more: Any) -> Message:
    return {"role": "tool", "content": content} | more


def results(trajectory: Message) -> list[tuple[str | None, str | None, str]]:
    tools = [one for one in trajectory["messages"] if one["role"] == "tool"]
    return [(one.get("tool_call_id"), one.get("name"), one["content"]) for one in tools]


def test_results_without_id_match_by_name(convert: Convert, tmp_path: Path) -> None:
    swapped = [result("G", name="g"), result("F", name="f")]
    account, [one] = convert(log(tmp_path, [call("f"), call("g")], *swapped))
    assert results(one) == [("call_2", "g", "G"), ("call_1", "f", "F")]
    assert not account.notes
    _, [one] = convert(log(tmp_path, [call("f", "x"), call("g", "y")], *swapped))
    assert results(one) == [("y", "g", "G"), ("x", "f", "F")]
    _, [one] = convert(log(tmp_path, [call("f"), call("g")], result("G", tool_name="g"), result("F", tool_name="f")))
    assert results(one) == [("call_2", "g", "G"), ("call_1", "f", "F")]
    _, [one] = convert(log(tmp_path, [call("f"), call("f")], result("1", name="f"), result("2", name="f")))
    assert results(one) == [("call_1", "f", "1"), ("call_2", "f", "2")]
    _, [one] = convert(log(tmp_path, [call("f"), call("g")], result("1"), result("2")))
    assert results(one) == [("call_1", "f", "1"), ("call_2", "g", "2")]


def test_unnamed_result_gets_the_remaining_call(convert: Convert, tmp_path: Path) -> None:
    account, [one] = convert(log(tmp_path, [call("f"), call("g")], result("G"), result("F", name="f")))
    assert results(one) == [("call_2", "g", "G"), ("call_1", "f", "F")]
    assert not account.notes


@pytest.mark.parametrize(
    ("calls", "answers", "wanted"),
    [
        ([call("f"), call("g")], [result("G", name="g"), result("F", name="f")], [(None, "F"), (None, "G")]),
        ([call("f"), call("g")], [result("G"), result("F", name="f")], [(None, "F"), (None, "G")]),
        ([call("f", "x"), call("g", "y")], [result("G", id="y"), result("F", id="x")], [("x", "F"), ("y", "G")]),
        ([call("f", "x"), call("g", "y")], [result("F"), result("G")], [("x", "F"), ("y", "G")]),
        ([call("f", "x")], [result("H", name="h")], [(None, "H")]),
    ],
)
def test_sample_orders_results_by_their_calls(
    tmp_path: Path, calls: list[Message], answers: list[Message], wanted: list[tuple[str | None, str]]
) -> None:
    karl_fast.sample(log(tmp_path, calls, *answers), tmp_path / "set", k=1, split=(1, 0, 0))
    row = json.loads((tmp_path / "set" / "train.jsonl").read_text("utf-8"))
    tools = [one for one in row["messages"] if one["role"] == "tool"]
    assert [(one.get("tool_call_id"), one["content"]) for one in tools] == wanted


def test_a_result_of_another_name_answers_no_call(convert: Convert, tmp_path: Path) -> None:
    account, [one] = convert(log(tmp_path, [call("f")], result("H", name="h")))
    assert results(one) == [(None, "h", "H")]
    assert account.notes == {"orphan_result": 1}
    assert account.tool_calls["unanswered"] == 1


@pytest.mark.parametrize(
    "key", [{"tool_call_id": "y"}, {"call_id": "y"}, {"tool_use_id": "y"}, {"tool_call_ids": ["y"]}, {"id": "y"}]
)
def test_result_names_call_in_many_ways(convert: Convert, tmp_path: Path, key: Message) -> None:
    account, [one] = convert(log(tmp_path, [call("f", "x"), call("g", "y")], result("G", **key), result("F")))
    assert results(one) == [("y", "g", "G"), ("x", "f", "F")]
    assert not account.notes


def test_message_id_is_not_a_call_id(convert: Convert, tmp_path: Path) -> None:
    _, [one] = convert(log(tmp_path, [call("f", "x")], result("F", id="message-3")))
    assert results(one) == [("x", "f", "F")]


@pytest.mark.parametrize(
    ("more", "success"),
    [
        ({"is_error": True}, False),
        ({"is_error": False}, True),
        ({"isError": True}, False),
        ({"error": True}, False),
        ({"error": False}, True),
        ({"error": None}, None),
        ({"error": {"code": 7}}, False),
        ({"error": "refused"}, False),
        ({"status": "error"}, False),
        ({"status": "success"}, True),
        ({"success": True, "error": ""}, True),
        ({}, None),
    ],
)
def test_success_is_what_the_result_says(convert: Convert, tmp_path: Path, more: Message, success: bool | None) -> None:
    _, [one] = convert(log(tmp_path, [call("f", "x")], result("out", tool_call_id="x", **more)))
    assert one["messages"][2]["success"] is success


def test_the_text_of_an_error_stays(convert: Convert, tmp_path: Path) -> None:
    error = {"code": 7, "message": "refused"}
    for content in ("", None):
        _, [one] = convert(log(tmp_path, [call("f", "x")], result(content, tool_call_id="x", error=error)))
        assert json.loads(one["messages"][2]["content"]) == error
    _, [one] = convert(log(tmp_path, [call("f", "x")], result("out", tool_call_id="x", error="refused")))
    assert (one["messages"][2]["content"], one["messages"][2]["error"]) == ("out", "refused")


def test_names_of_speakers_stay(convert: Convert, tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    said = [{"role": "user", "name": "alice", "content": "q"}, {"role": "assistant", "name": "planner", "content": "a"}]
    file.write_text(json.dumps({"id": "r", "messages": said}) + "\n")
    _, [one] = convert(file)
    assert [message["name"] for message in one["messages"]] == ["alice", "planner"]


def test_numbers_that_are_not_finite_stay(convert: Convert, tmp_path: Path) -> None:
    inside = {"x": float("nan"), "y": [float("inf"), -float("inf")]}
    asks = call("f", "x") | {"function": {"name": "f", "arguments": inside}}
    _, [one] = convert(
        log(tmp_path, [asks], result(tool_call_id="x"), metric=float("nan"), more={"loss": float("nan")})
    )
    assert one["messages"][1]["tool_calls"][0]["function"]["arguments"] == '{"x":NaN,"y":[Infinity,-Infinity]}'
    kept = one["source"]["record"]
    assert kept["metric"] != kept["metric"]
    assert kept["more"]["loss"] != kept["more"]["loss"]


def test_unknown_tools_and_media_drop_the_rollout(convert: Convert, tmp_path: Path) -> None:
    good = json.dumps(
        {"id": "g", "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}
    )
    for more, reason in (({"tools": "[{"}, "bad_tools"), ({"images": ["a.png"]}, "bad_message")):
        file = log(tmp_path, [call("f", "x")], result(tool_call_id="x"), **more)
        file.write_text(file.read_text() + good + "\n")
        account, [one] = convert(file)
        assert (one["id"], account.dropped) == ("g", {reason: 1})
