"""verl's rollouts name neither themselves nor their prompt: the hash of the prompt's text is the group."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import numpy as np

import karl_fast
from tests import rows
from tests.unit.formats import builders

if TYPE_CHECKING:
    from pathlib import Path


def step(number: int, prompts: int = 6, rollouts: int = 4) -> list[dict[str, object]]:
    """The rollouts of a prompt do not lie together."""
    return [
        builders.verl(f"was ist {p}? ü\u2028", f"a{p}.{n}", (p + n) % 3, number, acc=True)
        for n in range(rollouts)
        for p in range(prompts)
    ]


def test_the_group_is_the_step_and_the_prompt(tmp_path: Path) -> None:
    log = karl_fast.read(rows.write(tmp_path / "1.jsonl", step(1) + step(2)))
    assert sorted(np.bincount(log.groups)) == [4] * 12
    assert {name.split("/")[0] for name in log.group_names} == {"1", "2"}
    assert log.inputs[0]["without_id"] == 48


def test_shards_make_the_same_groups_as_one_file(tmp_path: Path) -> None:
    records = step(1) + step(2)
    whole = rows.write(tmp_path / "all.jsonl", records)
    shards = [rows.write(tmp_path / f"{n}.jsonl", records[n::5]) for n in range(5)]
    for name, logs in (("a", [whole]), ("b", shards), ("c", shards[::-1])):
        karl_fast.sample(logs, tmp_path / name, k=20, score="zscore", split=(0.5, 0.5, 0.0))
    assert rows.files(tmp_path / "a") == rows.files(tmp_path / "b") == rows.files(tmp_path / "c")
    assert rows.manifest(tmp_path / "a") == rows.manifest(tmp_path / "b")


def test_the_group_ignores_escapes_of_the_prompt(tmp_path: Path) -> None:
    record = builders.verl("aä€😀", "x", 1.0)
    plain, escaped = json.dumps(record, ensure_ascii=False), json.dumps(record)
    spelled = escaped.replace('"user\\n', '"\\u0075ser\\u000a')
    assert len({plain, escaped, spelled}) == 3
    path = tmp_path / "1.jsonl"
    path.write_text("\n".join([plain, escaped, spelled]) + "\n", encoding="utf-8")
    log = karl_fast.read(path)
    assert len(log) == 3
    assert len(log.group_names) == 1


def test_a_score_that_is_nan_is_missing(tmp_path: Path) -> None:
    records = [*step(1), builders.verl("q", "a", math.nan), builders.verl("q", "b", None)]
    account = karl_fast.inspect(rows.write(tmp_path / "1.jsonl", records)).report["accounting"]
    assert account["dropped"] == {"missing_reward": 2}


def test_a_prompt_without_text_is_hashed_as_is(tmp_path: Path) -> None:
    records = [builders.verl("", "a", 1.0, input=prompt) for prompt in ([1, 2], [1, 2], {"a": 1}, None)]
    log = karl_fast.read(rows.write(tmp_path / "1.jsonl", records), format="verl")
    assert sorted(np.bincount(log.groups[log.groups >= 0])) == [1, 2]
    assert list(log.groups).count(-1) == 1


def test_rows_are_prompt_and_completion(tmp_path: Path) -> None:
    log = rows.write(tmp_path / "1.jsonl", step(1))
    karl_fast.sample(log, tmp_path / "out", k=24, shape="prompt-completion-text")
    written = {(row["prompt"], row["completion"]) for row in rows.lines(tmp_path / "out")}
    assert written == {(str(record["input"]), str(record["output"])) for record in step(1)}
