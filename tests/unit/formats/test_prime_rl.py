"""Hosted prime-rl: JSON in JSON in JSON, and a group that needs a number from the file beside the log."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import karl_fast
from karl_fast import errors
from tests import rows
from tests.cli.run import karl
from tests.unit.formats import builders
from tests.unit.formats.builders import turn

if TYPE_CHECKING:
    from pathlib import Path

OWN_GROUP = "run_id,step,problem_id,sample_id//8"


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """Problem 0 twice in one step, and a block of which three rows are left."""
    problems = [0] * 16 + [1] * 3
    records = [builders.prime_rl(sample, problem, sample % 4 / 4) for sample, problem in enumerate(problems)]
    rows.write(tmp_path / "results.jsonl", records)
    (tmp_path / "run_manifest.json").write_text(json.dumps({"rollouts_per_example": 8, "seed": 1}), encoding="utf-8")
    return tmp_path


def test_problem_twice_in_a_step_makes_groups(run_folder: Path) -> None:
    log = karl_fast.read(run_folder / "results.jsonl")
    sizes = {name: int(np.sum(log.groups == at)) for at, name in enumerate(log.group_names)}
    assert sizes == {"run/3/0/0": 8, "run/3/0/1": 8, "run/3/1/2": 3}
    fields = dict(log.inputs[0]["fields"])
    assert fields["group"] == OWN_GROUP
    assert log.inputs[0]["beside"] == {
        "path": str(run_folder / "run_manifest.json"),
        "key": "rollouts_per_example",
        "number": 8,
        "problem": None,
    }


def test_the_number_is_in_the_manifest(run_folder: Path) -> None:
    manifest = karl_fast.sample(run_folder / "results.jsonl", None, k=8).manifest
    assert manifest["inputs"][0]["beside"]["number"] == 8
    assert manifest["inputs"][0]["fields"]["group"] == OWN_GROUP


NONSENSE = [
    "",
    "{",
    "[]",
    "8",
    "{}",
    *(f'{{"rollouts_per_example": {bad}}}' for bad in ("0", "-8", '"8"', "8.5", "null")),
]


@pytest.mark.parametrize("beside", [None, *NONSENSE, '{"rollouts_per_example": 8' + " " * (1 << 20) + "}"])
def test_without_the_number_there_are_no_groups(run_folder: Path, beside: str | None) -> None:
    sidecar = run_folder / "run_manifest.json"
    sidecar.unlink()
    if beside is not None:
        sidecar.write_text(beside, encoding="utf-8")
    log = karl_fast.read(run_folder / "results.jsonl")
    assert set(log.groups) == {-1}
    found = log.inputs[0]["beside"]
    assert found is not None
    assert found["number"] is None
    assert found["problem"]
    done = karl("inspect", "results.jsonl", folder=run_folder)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())  # its lines break between words
    assert "warning: no rollouts_per_example, so no groups: run_manifest.json: " in said
    rules: list[dict[str, Any]] = [{"drop_constant_groups": True}, {"max_per_group": 2}, {"per": {"group": "equal"}}]
    for needs_groups in ({"score": "centre"}, {"partition_by": "group"}, *rules):
        with pytest.raises(errors.UsageError, match="no rollouts_per_example, so no groups"):
            karl_fast.sample(run_folder / "results.jsonl", None, k=4, **needs_groups)


def test_a_folder_in_its_place_is_no_sidecar(run_folder: Path) -> None:
    (run_folder / "run_manifest.json").unlink()
    (run_folder / "run_manifest.json").mkdir()
    assert set(karl_fast.read(run_folder / "results.jsonl").groups) == {-1}


def test_the_caller_may_say_the_group_instead(run_folder: Path) -> None:
    told = karl_fast.read(run_folder / "results.jsonl")
    (run_folder / "run_manifest.json").unlink()
    said = karl_fast.read(run_folder / "results.jsonl", group=OWN_GROUP)
    assert said.group_names == told.group_names
    assert said.inputs[0]["beside"] is None


def test_standard_input_has_nothing_beside_it(run_folder: Path) -> None:
    done = karl("inspect", "-", folder=run_folder, input=(run_folder / "results.jsonl").read_text(encoding="utf-8"))
    assert "standard input has no file beside it" in " ".join(done.stdout.split())


def test_non_numeric_sample_id_is_bad_group(run_folder: Path) -> None:
    records = [builders.prime_rl(0, 0, 1.0, sample_id="first"), *(builders.prime_rl(n, 0, 1.0) for n in range(1, 8))]
    account = karl_fast.inspect(rows.write(run_folder / "results.jsonl", records)).report["accounting"]
    assert account["dropped"] == {"bad_group": 1}


def test_messages_are_made_whole(run_folder: Path) -> None:
    out = run_folder / "out"
    karl_fast.sample(run_folder / "results.jsonl", out, k=19)
    row = next(row for row in rows.lines(out) if row["karl_fast"]["id"] == "run/3/5")
    call = {"id": "c5", "type": "function", "function": {"name": "look", "arguments": {"at": "größe 5"}}}
    assert row["messages"] == [
        turn("system", "Be brief."),
        turn("user", "question 0"),
        turn("assistant", "", tool_calls=[call], reasoning_content="I look."),
        turn("tool", "nothing there", tool_call_id="c5"),
        turn("assistant", "answer 5", thinking_blocks=None, tool_calls=None),
    ]
    assert row["karl_fast"]["group"] == "run/3/0/0"


@pytest.mark.parametrize("content", ["", None])
def test_an_empty_content_takes_the_thought(run_folder: Path, content: str | None) -> None:
    thought = turn("assistant", content, reasoning_content="hm")
    records = [builders.prime_rl(n, 0, 1.0, completion=lone(thought)) for n in range(4)]
    out = run_folder / "out"
    karl_fast.sample(rows.write(run_folder / "results.jsonl", records), out, k=4)
    assert [row["messages"][-1] for row in rows.lines(out)] == [turn("assistant", "hm")] * 4


def lone(answer: dict[str, Any]) -> str:
    return json.dumps([answer])


FLAWS = [
    ("unparsable", {"completion": lone(turn("assistant", "a"))[:-3]}),
    ("unparsable", {"prompt": "What is this?"}),
    ("unparsable", {"completion": '[{"role": "assistant", "content": "\\ud800"}]'}),
    ("no_trajectory", {"completion": "null"}),
    ("no_trajectory", {"completion": None}),
    ("bad_message", {"completion": "5"}),
    ("bad_message", {"completion": '["a"]'}),
    ("bad_message", {"completion": 7}),
    ("bad_message", {"completion": lone(turn("assistant", None, tool_calls=["look, please"]))}),
    ("bad_message", {"completion": lone(turn("assistant", None, tool_calls=['["look"]']))}),
    ("bad_message", {"completion": lone(turn("assistant", None, tool_calls=[5]))}),
    ("empty_message", {"completion": lone(turn("assistant", None, reasoning_content=None))}),
    ("bad_message", {"completion": lone(turn("assistant", None, reasoning_content=["a"]))}),
    ("no_assistant_turn", {"completion": "[]"}),
]


@pytest.mark.parametrize(("flaw", "damage"), FLAWS)
def test_damage_in_nested_json_is_named_and_replaced(run_folder: Path, flaw: str, damage: dict[str, Any]) -> None:
    records = [builders.prime_rl(0, 0, 1.0, **damage), *(builders.prime_rl(n, 0, 0.5) for n in range(1, 8))]
    sample = karl_fast.sample(rows.write(run_folder / "results.jsonl", records), None, k=8)
    assert sample.manifest["draw"]["failed"] == {flaw: 1}
    assert sample.manifest["draw"]["rows"] == 7


def test_lists_that_are_no_texts_are_taken_too(run_folder: Path) -> None:
    plain = {key: json.loads(builders.prime_rl(0, 0, 1.0)[key]) for key in ("prompt", "completion")}
    records = [builders.prime_rl(n, 0, 1.0) | (plain if n == 0 else {}) for n in range(8)]
    out = run_folder / "out"
    karl_fast.sample(rows.write(run_folder / "results.jsonl", records), out, k=8)
    assert len(rows.lines(out)) == 8


def test_thoughts_replace_content_only_of_known_tools(tmp_path: Path) -> None:
    thought = turn("assistant", None, reasoning_content="hm")
    records = [rows.record(n, messages=[turn("user", "q"), thought]) for n in range(4)]
    with pytest.raises(errors.KarlError):
        karl_fast.sample(rows.write(tmp_path / "log.jsonl", records), None, k=4)
