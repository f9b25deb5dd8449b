"""Records that hold a whole group: the hint has a command that makes a row of each response."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from karl_fast import errors

if TYPE_CHECKING:
    from pathlib import Path

GROUPS = [
    {"id": "a", "prompt": "2+2?", "responses": ["4", "5"], "rewards": [1.0, 0.25]},
    {"id": "b", "prompt": "3+3?", "responses": ["6", "7"], "rewards": [0.5, 0.0]},
]
NAMED: dict[str, Any] = {"prompt": "prompt", "completion": "responses", "reward": {"rewards": 1.0}}


def hint_of(path: Path, records: list[Any], **wishes: Any) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    with pytest.raises(errors.NothingToSampleError) as caught:
        karl_fast.sample(path, path.with_name("data"), k=1, **(NAMED | wishes))
    return str(caught.value.hint)


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
def test_the_hint_makes_a_row_of_each_response(tmp_path: Path) -> None:
    found = re.search(r"(jq -c '.*' .*) makes", hint_of(tmp_path / "groups.jsonl", GROUPS))
    assert found is not None
    subprocess.run(found[1], shell=True, check=True, cwd=tmp_path)
    log = karl_fast.read(tmp_path / "rows.jsonl", group="id", **NAMED)
    assert sorted(log.rewards) == [0.0, 0.25, 0.5, 1.0]
    assert sorted(log.group_names) == ["a", "b"]
    karl_fast.sample(log, tmp_path / "data", k=4, split=(1, 0, 0), shape="prompt-completion")
    rows = [json.loads(line) for line in (tmp_path / "data" / "train.jsonl").read_text("utf-8").splitlines()]
    assert {(row["prompt"][0]["content"], row["completion"][0]["content"]) for row in rows} == {
        ("2+2?", "4"),
        ("2+2?", "5"),
        ("3+3?", "6"),
        ("3+3?", "7"),
    }


@pytest.mark.parametrize(
    "record",
    [
        GROUPS[0] | {"responses": ["4"]},
        {"prompt": "2+2?", "completion": "4", "rewards": [1.0, 0.0]},
        GROUPS[0] | {"rewards": "high"},
    ],
)
def test_other_records_keep_the_hint_of_a_reward(tmp_path: Path, record: dict[str, Any]) -> None:
    assert hint_of(tmp_path / "log.jsonl", [record]).startswith("a reward is a number")
