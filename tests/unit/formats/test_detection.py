"""Each tool is told by its records, and nothing else is taken for it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from karl_fast import errors
from tests import rows
from tests.unit.formats import builders

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MADE: dict[str, list[Callable[[int], dict[str, Any]]]] = {
    "prime-rl": [lambda n: builders.prime_rl(n, n // 8, n % 3)],
    "verl": [lambda n: builders.verl(f"q{n // 4}", f"a{n}", n % 3)],
    "verifiers": [lambda n: builders.verifiers(n // 4, n, n % 3), lambda n: builders.old_verifiers(n // 4, n, n % 3)],
    "karl": [lambda n: builders.karl_tap(n, n / 40), lambda n: builders.karl_extract(n, n / 40)],
}
EVERY = [(name, form) for name, forms in MADE.items() for form in forms]


def told(path: Path) -> str:
    return str(karl_fast.inspect(path).report["inputs"][0]["format"])


@pytest.mark.parametrize(("name", "form"), EVERY)
def test_the_tool_is_told_by_its_records(tmp_path: Path, name: str, form: Callable[[int], dict[str, Any]]) -> None:
    records = [form(n) for n in range(24)]
    assert told(rows.write(tmp_path / "log.jsonl", records)) == name
    (tmp_path / "log.json").write_text(json.dumps(records, indent=1), encoding="utf-8")
    assert told(tmp_path / "log.json") == name


@pytest.mark.parametrize(("name", "form"), EVERY)
def test_a_record_lacking_a_key_is_generic(tmp_path: Path, name: str, form: Callable[[int], dict[str, Any]]) -> None:
    signatures = {
        "prime-rl": ("advantage", "env_name", "sample_id"),
        "verl": ("gts", "step"),
        "verifiers": ("example_id", "timing", "total_ms"),
        "karl": ("session_id", "outcome", "trajectory"),
    }[name]
    for missing in signatures:
        records = [{key: value for key, value in form(n).items() if key != missing} for n in range(24)]
        if missing in form(0):
            path = rows.write(tmp_path / "log.jsonl", [record | {"reward": 1.0} for record in records])
            assert told(path) in ("generic", "openrlhf"), missing


@pytest.mark.parametrize(
    "keys",
    [
        "step,prompt,completion,advantage",
        "input,score",
        "input,output,score",
        "prompt,completion,reward",
        "id,skill,domain",
    ],
)
def test_a_plain_log_stays_one(tmp_path: Path, keys: str) -> None:
    record = rows.record(1) | dict.fromkeys(keys.split(","), "x") | {"reward": 1.0}
    assert told(rows.write(tmp_path / "log.jsonl", [record] * 12)) in ("generic", "openrlhf")


def test_a_folder_may_mix_logs_of_tools(tmp_path: Path) -> None:
    for at, (_, form) in enumerate(EVERY):
        rows.write(tmp_path / f"{at}.jsonl", [form(n) for n in range(24)])
    rows.write(tmp_path / "own.jsonl", rows.records(24))
    out = tmp_path / "out"
    manifest = karl_fast.sample(tmp_path, out, k=120).manifest
    assert [file["format"] for file in manifest["inputs"]] == [*(name for name, _ in EVERY), "generic"]
    assert manifest["accounting"]["rows_kept"] == 24 * 7
    assert all(row["messages"][-1]["role"] == "assistant" for row in rows.lines(out))


@pytest.mark.parametrize(("name", "form"), EVERY)
def test_the_caller_knows_better(tmp_path: Path, name: str, form: Callable[[int], dict[str, Any]]) -> None:
    records = [form(n) | {"own": {"group": n % 5, "reward": n, "id": f"own{n}"}} for n in range(20)]
    path = rows.write(tmp_path / "log.jsonl", records)
    log = karl_fast.read(path, id="own.id", group="own.group", reward={"own.reward": 1.0}, domain="own.id")
    assert sorted(log.group_names) == ["0", "1", "2", "3", "4"]
    assert sorted(log.rewards) == list(range(20))
    assert sorted(log.domain_names) == sorted(f"own{n}" for n in range(20))
    assert log.inputs[0]["format"] == name
    assert log.inputs[0]["without_id"] == 0


def test_groups_may_be_compound_hashed_or_divided(tmp_path: Path) -> None:
    records = [{"a": n % 2, "b": {"c": n}, "q": "same", "reward": 1, "text": f"t{n}"} for n in range(8)]
    path = rows.write(tmp_path / "log.jsonl", records)
    assert sorted(karl_fast.read(path, group="a,b.c//4").group_names) == ["0/0", "0/1", "1/0", "1/1"]
    assert len(karl_fast.read(path, group="hash(q)").group_names) == 1
    assert len(karl_fast.read(path, group="absent|a").group_names) == 2
    assert karl_fast.read(path, group="a,absent").group_names == []
    assert karl_fast.read(path, domain="hash(q)").domain_names == karl_fast.read(path, group="hash(q)").group_names


def test_joined_names_of_different_parts_are_different(tmp_path: Path) -> None:
    parts = [("x/y", "z"), ("x", "y/z"), ("x\\", "y"), ("x", "\\y"), ("x/", "/y"), ("x", "//y")]
    records = [{"a": a, "b": b, "reward": 1, "text": f"t{n}"} for n, (a, b) in enumerate(parts)]
    path = rows.write(tmp_path / "log.jsonl", records)
    log = karl_fast.read(path, group="a,b", id="a,b")
    assert len(log.group_names) == len(parts)
    assert {"x\\/y/z", "x/y\\/z", "x/\\y"} <= set(log.group_names)
    drawn = karl_fast.sample(path, tmp_path / "out", k=6, group="a,b", id="a,b")
    assert drawn.manifest["accounting"]["notes"]["repeated_ids"] == 0
    stamps = [row["karl_fast"] for row in rows.lines(tmp_path / "out")]
    assert sorted(stamp["id"] for stamp in stamps) == sorted(log.group_names)
    assert sorted(karl_fast.read(path, group="a").group_names) == ["x", "x/", "x/y", "x\\"], "one part is as it is"


@pytest.mark.parametrize("wish", [{"group": "hash(a"}, {"group": "a//0"}, {"id": "hash(a)"}, {"messages": "a//8"}])
def test_a_field_that_means_nothing_is_refused(tmp_path: Path, wish: dict[str, str]) -> None:
    path = rows.write(tmp_path / "log.jsonl", rows.records(8))
    with pytest.raises(errors.UsageError, match="field path"):
        karl_fast.read(path, **wish)


def test_every_format_is_listed() -> None:
    others = {"tau-bench", "trajectory", "trl", "generic"}
    presets = {"nemo-gym", "tau2", "swe-smith", "lm-eval", "inspect", "slime", "kto", "alpaca"}
    presets |= {"skyrl", "openrlhf", "tinker", "mini-swe-agent"}
    assert {name for name, _ in karl_fast.formats()} == {*MADE} | others | presets
