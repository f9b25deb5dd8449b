"""Deduplication compares what is learned; where nobody knows that, the whole record."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from tests import rows

if TYPE_CHECKING:
    from pathlib import Path

Record = dict[str, Any]


def chat(*said: Record, **more: Any) -> Record:
    return {"messages": [{"role": "user", "content": "q"}, *said], **more}


def called(arguments: object) -> Record:
    return {"role": "assistant", "content": "", "tool_calls": [{"name": "f", "arguments": arguments}]}


ANSWER = {"role": "assistant", "content": "a"}

EQUAL: dict[str, list[Record]] = {
    "another id and label": [chat(ANSWER), chat(ANSWER, label=1)],
    "order of keys": [chat(ANSWER), chat(dict(reversed(ANSWER.items())))],
    "texts and messages": [chat(ANSWER), {"prompt": "q", "completion": "a"}],
    "a prompt of messages": [{"prompt": [{"role": "user", "content": "q"}], "completion": "a"}, chat(ANSWER)],
    "parts of text": [chat(ANSWER), chat(ANSWER | {"content": [{"type": "text", "text": "a"}]})],
    "flat calls": [
        chat(called({"x": 1})),
        chat(
            called({"x": 1}) | {"tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"x": 1}}}]}
        ),
    ],
    "what is trimmed": [chat(ANSWER), chat(ANSWER, {"role": "user", "content": "thanks"})],
    "text": [{"text": "a"}, {"text": "a", "label": 2}],
}
"""Records that teach the same."""

DIFFERENT: dict[str, list[Record]] = {
    "answers in a field that nobody named": [{"prompt": "q", "answer": f"a{n}"} for n in range(4)],
    "a completion that is null": [{"prompt": "q", "completion": None, "answer": n} for n in range(4)],
    "a completion that is empty": [{"prompt": "q", "completion": "", "answer": n} for n in range(4)],
    "messages without an answer": [chat(answer=n) for n in range(4)],
    "messages that are no list": [{"messages": "q", "answer": n} for n in range(4)],
    "messages of another kind": [{"messages": [{"role": "user", "parts": "q"}], "answer": n} for n in range(4)],
    "an answer beside an empty conversation": [
        {"messages": [], "prompt": [], "text": "", "answer": n} for n in range(4)
    ],
    "arguments": [chat(called(arguments)) for arguments in ({"x": 1}, {"x": 2}, {"x": 1.0}, '{"x": 3}', {"y": 1})],
    "results of tools": [chat(called({}), {"role": "tool", "content": str(n)}, ANSWER) for n in range(4)],
    "tools": [chat(ANSWER, tools=[{"name": f"f{n}", "parameters": {}}]) for n in range(4)],
    "numbers beyond f64": [chat(called({"x": 12345678901234567890000 + n})) for n in range(4)],
    "reasoning": [chat(ANSWER | {"reasoning_content": str(n)}) for n in range(4)],
}
"""Records of which none teaches what another does."""


def kept(log: Path, **choices: Any) -> int:
    report = karl_fast.inspect(log, dedup=True, **choices).report
    account = report["accounting"]
    assert report["duplicate_trajectories"] == account["dropped"].get("duplicate", 0)
    return account["rows_kept"]


def numbered(made: list[Record]) -> list[Record]:
    return [{"id": n, "reward": n % 2, **one} for n, one in enumerate(made)]


@pytest.mark.parametrize("name", EQUAL)
def test_of_records_that_teach_the_same_one_stays(tmp_path: Path, name: str) -> None:
    assert kept(rows.write(tmp_path / "log.jsonl", numbered(EQUAL[name]))) == 1


@pytest.mark.parametrize("name", DIFFERENT)
def test_records_that_teach_something_else_stay(tmp_path: Path, name: str) -> None:
    made = DIFFERENT[name]
    assert kept(rows.write(tmp_path / "log.jsonl", numbered(made))) == len(made)
    without_ids = [{key: value for key, value in one.items() if key != "id"} for one in numbered(made)]
    assert kept(rows.write(tmp_path / "more.jsonl", without_ids)) == len(made)


def test_a_conversation_is_compared_where_settings_say(tmp_path: Path) -> None:
    made = [{"x": chat({**ANSWER, "content": f"a{n % 3}"})["messages"], "prompt": "q"} for n in range(6)]
    log = rows.write(tmp_path / "log.jsonl", numbered(made))
    assert kept(log) == 6  # nobody knows what these teach
    assert kept(log, messages="x") == 3


def test_raw_rows_are_records(tmp_path: Path) -> None:
    same, other = chat(ANSWER, label=1, reward=1), chat(ANSWER, label=2, reward=1)
    log = rows.write(tmp_path / "log.jsonl", [same, other, same])
    for shape, count in (("raw", 2), ("chat", 1)):
        drawn = karl_fast.sample(log, None, shape=shape, sampler="all", dedup=True, inverse_temperature=0.0)
        assert len(list(drawn.lines())) == count
    with (
        karl_fast.read(log, dedup=True) as read,
        pytest.raises(karl_fast.errors.UsageError, match="read the log again"),
    ):
        karl_fast.sample(read, None, shape="raw", k=1)


def test_rows_of_a_table_are_compared_as_any(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    made = numbered([{"prompt": "q", "completion": f"a{n % 3}", "label": n} for n in range(6)])
    parquet.write_table(pyarrow.Table.from_pylist(made), tmp_path / "log.parquet")
    assert kept(tmp_path / "log.parquet") == 3
    parquet.write_table(
        pyarrow.Table.from_pylist([{"id": n, "reward": 1.0, "prompt": "q", "answer": f"a{n}"} for n in range(6)]),
        tmp_path / "more.parquet",
    )
    assert kept(tmp_path / "more.parquet") == 6


def test_words_decide_and_not_escapes(tmp_path: Path) -> None:
    plain = json.dumps(chat({**ANSWER, "content": "né"}, reward=1), ensure_ascii=False)
    log = tmp_path / "log.jsonl"
    log.write_text(plain + "\n" + json.dumps(json.loads(plain), indent=None, separators=(" , ", ":")) + "\n", "utf-8")
    assert kept(log) == 1
