"""What `convert` and the store of rewards refuse before they touch anything."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import karl_fast
from karl_fast import reward
from karl_fast.errors import BadRewardError, LogError, TranscriptError, UsageError
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
    with pytest.raises(UsageError, match=f"^{name} is {limits[name]}, wanted a whole number from 1 on"):
        karl_fast.convert(session / "s.jsonl", session / "out.jsonl", **limits)  # type: ignore[arg-type]
    said = karl("convert", "s.jsonl", "-o", "out.jsonl", f"--{name.replace('_', '-')}={limits[name]}", folder=session)
    assert said.returncode == 2, said.stderr
    assert not (session / "out.jsonl").exists()


def test_output_is_not_standard_output(session: Path) -> None:
    said = karl("convert", "s.jsonl", "-o", "-", folder=session)
    assert (said.returncode, (session / "-").exists()) == (2, False)
    assert said.stderr.startswith("error: --out is -, wanted the name of a file")


@pytest.mark.parametrize("name", ["out.jsonl.gz", "out.jsonl.ZST", "out.zstd", "out.parquet"])
def test_packed_suffix_of_output_is_refused(session: Path, name: str) -> None:
    said = karl("convert", "s.jsonl", "-o", name, folder=session)
    assert (said.returncode, (session / name).exists()) == (2, False)
    assert said.stderr.startswith(f"error: --out is {name}, wanted the name of a .jsonl: it is plain text\nhint: gzip")
    with pytest.raises(UsageError, match=r"^out is .*, wanted the name of a \.jsonl"):
        karl_fast.convert(session / "s.jsonl", session / name)


def test_parquet_in_folder_is_passed_over(session: Path) -> None:
    (session / "logs").mkdir()
    (session / "s.jsonl").rename(session / "logs" / "s.jsonl")
    (session / "logs" / "x.parquet").touch()
    said = karl("convert", "logs", "-o", "out.jsonl", folder=session)
    assert "passed    1 file of Parquet, which is read where it is named: logs/*.parquet" in said.stdout + said.stderr
    done = karl_fast.convert(session / "logs", session / "more.jsonl")
    assert done.skipped == [(str(session / "logs" / "x.parquet"), "Parquet is read where it is named")]


def test_an_output_without_a_name_is_asked_for(session: Path) -> None:
    said = karl("convert", "s.jsonl", "-o", "", folder=session)
    assert (said.returncode, said.stderr) == (2, "error: say where to write: -o FILE\n")


def test_parent_folders_are_made_and_removed_on_failure(session: Path) -> None:
    (session / "none.jsonl").write_text('{"id": 1}\n')
    said = karl("convert", "none.jsonl", "-o", "new/dir/out.jsonl", folder=session)
    assert (said.returncode, (session / "new").exists()) == (1, False)
    said = karl("convert", "s.jsonl", "-o", "new/dir/out.jsonl", folder=session)
    assert (said.returncode, (session / "new" / "dir" / "out.jsonl").exists()) == (0, True), said.stderr
    said = karl("convert", "none.jsonl", "-o", "new/other/out.jsonl", folder=session)
    assert (said.returncode, [one.name for one in (session / "new").iterdir()]) == (1, ["dir"])
    said = karl("convert", "s.jsonl", "-o", "s.jsonl/new/out.jsonl", folder=session)
    assert said.returncode == 1
    assert said.stderr.startswith("error: cannot write s.jsonl/new/out.jsonl: s.jsonl is not a folder\nhint: ")


@pytest.mark.parametrize("out", [".", "/", ""])
def test_a_place_without_a_name_is_none(session: Path, out: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(session)
    with pytest.raises(UsageError, match="name"):
        karl_fast.convert("s.jsonl", out)


@pytest.mark.parametrize("reward", ['"good"', "[1]", "1e999"])
def test_invalid_reward_is_the_error(session: Path, reward: str) -> None:
    talk = '[{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]'
    (session / "log.jsonl").write_text(f'{{"id": "1", "reward": {reward}, "messages": {talk}}}\n')
    said = karl("convert", "log.jsonl", "-o", "out.jsonl", folder=session)
    assert said.returncode == 1
    assert "; line 1, byte 0: reward " in said.stderr
    assert said.stderr.splitlines()[1].startswith("hint: a reward is a finite number, or null for none")
    with pytest.raises(BadRewardError):
        karl_fast.convert(session / "log.jsonl", session / "out.jsonl")


def test_file_name_with_reward_gets_no_reward_hint(session: Path) -> None:
    (session / "a: reward .jsonl").write_text('{"id": 1}\n')
    with pytest.raises(LogError) as raised:
        karl_fast.convert(session / "a: reward .jsonl", session / "out.jsonl")
    assert "--format" in str(raised.value.hint)


def test_advice_is_about_options_that_convert_has(session: Path) -> None:
    (session / "log.jsonl").write_text('{"id": 1, "reward": 0.5}\n')
    with pytest.raises(LogError) as raised:
        karl_fast.convert(session / "log.jsonl", session / "out.jsonl")
    assert "--format" in str(raised.value.hint)
    assert "--reward" not in str(raised.value.hint)
    (session / "t.json").write_text('{\n"trajectory": [], "history": [], "info": {}}')
    with pytest.raises(TranscriptError) as raised:
        karl_fast.convert(session / "t.json", session / "out.jsonl", format="generic")
    assert "--format" in str(raised.value.hint)


def test_store_behind_link_is_rewritten_in_place(tmp_path: Path) -> None:
    real, link = tmp_path / "real.jsonl", tmp_path / "link.jsonl"
    real.write_text(json.dumps({"id": "a", "outcome": {}, "trajectory": {"events": []}}) + "\n")
    link.symlink_to(real)
    reward.backfill_rewards(path=link)
    assert link.is_symlink()
    assert json.loads(real.read_text())["outcome"]["reward_score"] is not None


@pytest.mark.parametrize("word", ["nan", "inf", "much"])
def test_non_finite_weight_is_refused(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    monkeypatch.setenv("KARL_REWARD_W_OUTCOME", word)
    with pytest.raises(UsageError, match=f"KARL_REWARD_W_OUTCOME is '{word}', and has to be a number"):
        reward.compute_reward({"outcome": {}})
