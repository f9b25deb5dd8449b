"""Hints for logs of other forms: what they propose is run, and works."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests import rows
from tests.cli.run import karl
from tests.cli.test_exits import refused

if TYPE_CHECKING:
    from pathlib import Path

TALK = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
ONE: dict[str, Any] = {"reward": 1.0, "messages": TALK}
DRAW = ("-k", 1, "--dry-run", "-q")
PAIR = {"prompt": "q", "chosen": "a", "rejected": "b"}


def hint(log: str, *more: object, folder: Path) -> str:
    done = karl("sample", log, *DRAW, *more, folder=folder)
    assert done.returncode == 4, done.stderr
    return done.stderr.split("hint: ")[1].strip()


@pytest.mark.skipif(shutil.which("jq") is None, reason="no jq here")
@pytest.mark.parametrize(
    "form", [{"a": ONE}, {"a": ONE, "b": ONE, "version": 3}, {"a": ONE, "tags": ["x"]}], ids=["one", "scalar", "list"]
)
def test_keyed_object_hint_gives_command(tmp_path: Path, form: Any) -> None:
    (tmp_path / "log.json").write_text(json.dumps(form), "utf-8")
    command = hint("log.json", folder=tmp_path)
    assert command.startswith("jq -c ")
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    made = [json.loads(line) for line in (tmp_path / "records.jsonl").read_text("utf-8").splitlines()]
    assert made == [{"id": key} | value for key, value in form.items() if isinstance(value, dict)]
    assert karl("sample", "records.jsonl", *DRAW, folder=tmp_path).returncode == 0


def test_reward_object_is_not_a_keyed_object(tmp_path: Path) -> None:
    rows.write(tmp_path / "log.jsonl", [{"id": 1, "outcome": {"reward": 1.0}, "messages": TALK}])
    assert hint("log.jsonl", folder=tmp_path) == "did you mean --reward outcome.reward?"


@pytest.mark.skipif(shutil.which("jq") is None, reason="no jq here")
@pytest.mark.parametrize("more", [{}, {"reward": 1.0}])
@pytest.mark.parametrize("chosen", ["a", TALK])
def test_preferences_are_told_what_can_be_learned(tmp_path: Path, more: Any, chosen: Any) -> None:
    rows.write(tmp_path / "log.jsonl", [PAIR | more | {"chosen": chosen}] * 2)
    told = hint("log.jsonl", folder=tmp_path)
    if found := re.search(r"(jq .*)", told):
        subprocess.run(found[1], shell=True, check=True, cwd=tmp_path)
        assert karl("sample", "chosen.jsonl", *DRAW, folder=tmp_path).returncode == 0
    else:
        option = "--completion" if chosen == "a" else "--messages"
        assert told == f"did you mean {option} chosen?"
        assert karl("sample", "log.jsonl", *DRAW, option, "chosen", folder=tmp_path).returncode == 0


BARE = [{"role": "assistant", "content": "a"}]
ASKED = [{"role": "user", "content": "q"}]
HALVES: dict[str, tuple[dict[str, Any], str]] = {
    "preferences": ({"prompt": ASKED, "chosen": BARE, "rejected": BARE}, "--completion chosen"),
    "whole preferences": ({"prompt": "q", "chosen": TALK, "rejected": TALK}, "--messages chosen"),
    "a completion of messages": ({"prompt": ASKED, "output": BARE}, "--completion output"),
    "texts": ({"question": "q", "answer": "a"}, "--prompt question --completion answer"),
    "a message": ({"instruction": "q", "response": BARE[0]}, "--prompt instruction --completion response"),
    "an answer beside messages": ({"messages": ASKED, "response": "a"}, "--prompt messages --completion response"),
    "nothing asked": ({"output": BARE}, ""),
    "a part of what was asked": ({"question": "q", "context": "c", "answer": "a"}, ""),
}


@pytest.mark.parametrize("name", HALVES)
@pytest.mark.parametrize("asked", [(), ("--messages", "conversatoin")])
def test_proposed_fields_have_prompt_and_answer(tmp_path: Path, name: str, asked: tuple[str, ...]) -> None:
    record, wanted = HALVES[name]
    rows.write(tmp_path / "log.jsonl", [record | {"reward": n / 3} for n in range(3)])
    told = hint("log.jsonl", *asked, folder=tmp_path)
    if not wanted:
        assert told == "name its path with --messages, or --prompt and --completion"
        return
    assert told == f"did you mean {wanted}?"
    done = karl("sample", "log.jsonl", "-k", 1, "-o", "-", "-q", *asked, *wanted.split(), folder=tmp_path)
    row = json.loads(done.stdout)
    pair = [one["content"] for one in row["messages"]] if "messages" in row else [row["prompt"], row["completion"]]
    assert pair == ["q", "a"]


def test_an_instruction_has_its_input_and_its_history(tmp_path: Path) -> None:
    record = {"instruction": "translate", "input": "cat", "output": "chat", "reward": 1}
    rows.write(tmp_path / "log.jsonl", [record, record | {"input": ""}])
    done = karl("sample", "log.jsonl", "-k", 2, "-o", "-", "-q", folder=tmp_path)
    assert {json.loads(line)["prompt"] for line in done.stdout.splitlines()} == {"translate\ncat", "translate"}
    rows.write(tmp_path / "log.jsonl", [record | {"history": [["dog", "chien"]]}, record | {"history": [["dog"]]}])
    done = karl("sample", "log.jsonl", "-k", 2, "-o", "-", folder=tmp_path)
    (line,) = done.stdout.splitlines()
    texts = [message["content"] for message in json.loads(line)["messages"]]
    assert texts == ["dog", "chien", "translate\ncat", "chat"]
    assert "bad message 1" in done.stderr


@pytest.mark.parametrize("field", ["chosen", "completion", "output"])
def test_model_only_messages_follow_their_prompt(tmp_path: Path, field: str) -> None:
    rows.write(tmp_path / "log.jsonl", [{"prompt": ASKED, field: BARE, "reward": 1}])
    for options in (("--messages", field), ("--completion", field), ("--prompt", "prompt", "--completion", field)):
        done = karl("sample", "log.jsonl", "-k", 1, "-o", "-", "-q", *options, folder=tmp_path)
        assert json.loads(done.stdout)["messages"] == TALK
    rows.write(tmp_path / "log.jsonl", [{"prompt": "q", field: [*BARE, *ASKED, *BARE], "reward": 1}])
    done = karl("sample", "log.jsonl", "-k", 1, "-o", "-", "-q", "--messages", field, folder=tmp_path)
    assert len(json.loads(done.stdout)["messages"]) == 3  # a greeting first


def test_rewards_by_name_are_proposed_together(tmp_path: Path) -> None:
    for rewards, wanted in (
        ({"a": 1.0, "b": 0.5}, "rewards.a,rewards.b"),
        ({"a": 1.0, "b": 0.5, "total": 1.5}, "rewards.total"),
        ({"a": 1.0}, "rewards.a"),
    ):
        rows.write(tmp_path / "log.jsonl", [{"rewards": rewards, "messages": TALK}] * 2)
        assert hint("log.jsonl", folder=tmp_path) == f"did you mean --reward {wanted}?"
        assert karl("sample", "log.jsonl", *DRAW, "--reward", wanted, folder=tmp_path).returncode == 0


def test_function_without_weight_shows_the_form(tmp_path: Path) -> None:
    rows.write(tmp_path / "log.jsonl", [ONE])
    (tmp_path / "my.py").write_text("def score(**_):\n    return [1.0]\n", "utf-8")
    told = hint("log.jsonl", "--reward", "my.py:score", folder=tmp_path)
    assert told == "a function has a name and a weight: --reward score=1:my.py:score"
    done = karl("sample", "log.jsonl", *DRAW, "--reward", "score=1:my.py:score", folder=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", [["sample", "-k", 1], ["convert"]])
def test_a_packed_table_is_told_how_to_unpack(tmp_path: Path, command: list[Any]) -> None:
    (tmp_path / "x.parquet.gz").write_bytes(gzip.compress(b"PAR1"))
    done = karl(*command, "x.parquet.gz", "-o", "out", folder=tmp_path)
    assert refused(done, 1) == "x.parquet.gz: it is a packed file of Parquet, which is not unpacked here"
    assert "hint: unpack it: gzip -dc x.parquet.gz > x.parquet" in done.stderr


@pytest.mark.parametrize("format", [(), ("--format", "codex"), ("--format", "generic")])
def test_convert_hints_use_its_own_options(tmp_path: Path, format: tuple[str, ...]) -> None:
    (tmp_path / "log.jsonl").write_text("[[1]]\n", "utf-8")
    done = karl("convert", "log.jsonl", "-o", "out.jsonl", *format, folder=tmp_path)
    assert done.returncode == 1
    assert "hint: " in done.stderr
    assert not re.search("--(reward|messages|id)", done.stderr)


PART_OF_PROMPT: dict[str, tuple[str, dict[str, Any]]] = {
    "pairs": ("history", {"history": [["q0", "a0"]], "instruction": "q", "output": "a"}),
    "messages": ("history", {"history": TALK, "question": "why", "answer": "a"}),
    "context": ("context", {"context": TALK, "query": "why", "response": "so"}),
    "choices": ("choices", {"question": "which", "choices": ["red", "blue"], "answer": "red"}),
    "choices by letter": ("options", {"question": "which", "options": {"A": "red", "B": "blue"}, "answer": "A"}),
    "choices and labels": (
        "choices",
        {"question": "which", "choices": {"text": ["red"], "label": ["A"]}, "answer": "A"},
    ),
}


@pytest.mark.parametrize("form", PART_OF_PROMPT)
def test_hint_names_prompt_part_it_would_lose(tmp_path: Path, form: str) -> None:
    name, record = PART_OF_PROMPT[form]
    rows.write(tmp_path / "log.jsonl", [record | {"reward": 1.0}] * 2)
    told = hint("log.jsonl", folder=tmp_path)
    assert told.startswith(f"the texts of {name} belong to the prompt, and no option joins them to it: write")
    assert "--prompt instruction" not in told


WHOLE_PROMPT: dict[str, tuple[dict[str, Any], str]] = {
    "no turns": ({"history": [], "instruction": "q", "output": "a"}, "--prompt instruction --completion output"),
    "choices in the text": (
        {"question": "red or blue", "choices": ["red", "blue"], "answer": "red"},
        "--prompt question --completion answer",
    ),
    "all in the history": ({"history": TALK, "answer": "a"}, "--messages history"),
}


@pytest.mark.parametrize("form", WHOLE_PROMPT)
def test_complete_prompt_gets_a_hint(tmp_path: Path, form: str) -> None:
    record, options = WHOLE_PROMPT[form]
    rows.write(tmp_path / "log.jsonl", [record | {"reward": 1.0}] * 2)
    assert hint("log.jsonl", folder=tmp_path) == f"did you mean {options}?"


BESIDE: dict[str, tuple[str, dict[str, Any]]] = {
    "messages": ("history", {"history": TALK, "prompt": "why", "completion": "so"}),
    "choices": ("choices", {"choices": ["red", "blue"], "prompt": "which", "completion": "red"}),
    "messages that have them": ("", {"history": TALK, "prompt": [*TALK, TALK[0]], "completion": "so"}),
    "answers of an API": ("", {"choices": [{"message": TALK[1], "index": 0}], "prompt": "why", "completion": "so"}),
    "settings": ("", {"options": {"mode": "fast"}, "prompt": "why", "completion": "so"}),
    "rewards": ("", {"reward_history": [0.5], "prompt": "why", "completion": "so"}),
}


@pytest.mark.parametrize("form", BESIDE)
def test_unread_prompt_part_is_warned_of(tmp_path: Path, form: str) -> None:
    name, record = BESIDE[form]
    rows.write(tmp_path / "log.jsonl", [record | {"reward": 1.0}] * 2)
    done = karl("sample", "log.jsonl", "-k", 1, "--dry-run", folder=tmp_path)
    told = " ".join(done.stderr.split())
    assert done.returncode == 0
    assert ("the rows lack the texts of" in told) == bool(name)
    assert not name or f"the rows lack the texts of {name}, which belong to the prompt" in told
