"""What `convert` and the store of rewards refuse before they touch anything."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import karl_fast
from karl_fast import reward
from karl_fast.errors import LogError, UsageError
from tests.cli.run import karl

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def session(tmp_path: Path) -> Path:
    line = {"type": "user", "uuid": "u", "sessionId": "s", "message": {"role": "user", "content": "hello"}}
    (tmp_path / "s.jsonl").write_text(json.dumps(line) + "\n")
    return tmp_path


@pytest.mark.parametrize("limits", [{"threads": -1}, {"threads": 0}, {"max_line_bytes": 0}])
def test_a_limit_below_one_is_refused_by_name(session: Path, limits: dict[str, int]) -> None:
    (name,) = limits
    with pytest.raises(UsageError, match=f"^{name} is {limits[name]}, wanted 1 or more"):
        karl_fast.convert(session / "s.jsonl", session / "out.jsonl", **limits)  # type: ignore[arg-type]
    said = karl("convert", "s.jsonl", "-o", "out.jsonl", f"--{name.replace('_', '-')}={limits[name]}", folder=session)
    assert said.returncode == 2, said.stderr
    assert not (session / "out.jsonl").exists()


def test_an_output_is_a_file_and_not_the_standard_one(session: Path) -> None:
    said = karl("convert", "s.jsonl", "-o", "-", folder=session)
    assert (said.returncode, (session / "-").exists()) == (2, False)
    assert said.stderr.startswith("error: -o is -, wanted the name of a file")


def test_advice_is_about_options_that_convert_has(session: Path) -> None:
    (session / "log.jsonl").write_text('{"id": 1, "reward": 0.5}\n')
    with pytest.raises(LogError) as raised:
        karl_fast.convert(session / "log.jsonl", session / "out.jsonl")
    assert "--format" in str(raised.value.hint)
    assert "--reward" not in str(raised.value.hint)


def test_a_store_behind_a_link_is_rewritten_where_it_lies(tmp_path: Path) -> None:
    real, link = tmp_path / "real.jsonl", tmp_path / "link.jsonl"
    real.write_text(json.dumps({"id": "a", "outcome": {}, "trajectory": {"events": []}}) + "\n")
    link.symlink_to(real)
    reward.backfill_rewards(path=link)
    assert link.is_symlink()
    assert json.loads(real.read_text())["outcome"]["reward_score"] is not None


@pytest.mark.parametrize("word", ["nan", "inf", "much"])
def test_a_weight_that_is_no_finite_number_is_refused(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    monkeypatch.setenv("KARL_REWARD_W_OUTCOME", word)
    with pytest.raises(UsageError, match=f"KARL_REWARD_W_OUTCOME is '{word}', and has to be a number"):
        reward.compute_reward({"outcome": {}})
