"""What a draw would meet is said before it: rows that are not written, prompts without groups, an ESS out of reach."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import karl_fast
from tests import rows
from tests.cli.run import karl

if TYPE_CHECKING:
    from pathlib import Path


def said(number: int, prompt: str, reward: float, **more: Any) -> dict[str, Any]:
    return {"id": str(number), "prompt": prompt, "completion": f"answer {number}", "reward": reward} | more


def test_a_few_conversations_are_tried(tmp_path: Path) -> None:
    records = [rows.record(number, "g", number % 2) for number in range(40)]
    for record in records[:20]:
        record["messages"] = [{"role": "user", "content": "q"}, {"role": "assistant", "content": 7}]
    rows.write(tmp_path / "log.jsonl", records)
    tried = karl_fast.inspect(tmp_path / "log.jsonl").report["conversations"]
    assert tried["tried"] == 32
    assert 0 < tried["written"] < 32
    assert tried["dropped"] == {"bad_message": 32 - tried["written"]}
    done = karl("inspect", tmp_path / "log.jsonl")
    assert f"writable  {tried['written']} of 32 rows that were tried; not: bad message" in done.stdout
    drawn = karl_fast.sample(tmp_path / "log.jsonl", None, sampler="all").manifest["draw"]
    assert drawn["failed"] == {"bad_message": 20}


def test_a_log_that_cannot_be_written_is_said_to_be_one(tmp_path: Path) -> None:
    records = [{"id": str(number), "reward": 1.0, "talk": [{"role": "user"}]} for number in range(5)]
    rows.write(tmp_path / "log.jsonl", records)
    done = karl("inspect", tmp_path / "log.jsonl")
    assert done.returncode == 0
    assert "warning: sample could write none of the 5 rows that were tried: no trajectory 5" in done.stdout


def test_prompts_without_groups_are_told_with_the_option_that_groups_them(tmp_path: Path) -> None:
    rows.write(tmp_path / "log.jsonl", [said(number, f"question {number // 4}", number % 2) for number in range(20)])
    done = karl("inspect", tmp_path / "log.jsonl")
    wanted = "no record has a group, and 5 prompts occur more than once: --group 'hash(prompt)' groups their rows"
    assert wanted in done.stdout
    refused = karl("sample", tmp_path / "log.jsonl", "--dry-run", "-k", "4", "--score", "zscore")
    assert refused.returncode == 2
    assert "hint: 5 prompts occur more than once: --group 'hash(prompt)' groups their rows" in refused.stderr
    done = karl("inspect", tmp_path / "log.jsonl", "--group", "hash(prompt)")
    assert "groups    5, constant 0" in done.stdout
    assert "no record has a group" not in done.stdout


def test_prompts_that_differ_need_no_group(tmp_path: Path) -> None:
    rows.write(tmp_path / "log.jsonl", [said(number, f"question {number}", number % 2) for number in range(20)])
    assert karl_fast.inspect(tmp_path / "log.jsonl").report["repeated_prompts"] is None


def test_prompts_inside_messages_have_no_option(tmp_path: Path) -> None:
    records = [rows.record(number, None, number % 2) for number in range(8)]
    for record in records:
        record["messages"] = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    rows.write(tmp_path / "log.jsonl", records)
    repeated = karl_fast.inspect(tmp_path / "log.jsonl").report["repeated_prompts"]
    assert repeated == {"prompts": 1, "rows": 8, "group": None}


def test_an_ess_out_of_reach_is_told_with_options_that_reach_it(tmp_path: Path) -> None:
    """Three of four rewards are 1: no temperature spreads over less than all of them."""
    records = [said(n, "q", float(n % 8 > n // 8 % 3), group=f"g{n // 8}") for n in range(64)]
    rows.write(tmp_path / "log.jsonl", records)
    for words in (["inspect", "log.jsonl"], ["sample", "log.jsonl", "--dry-run", "-k", "8"]):
        done = karl(*words, folder=tmp_path)
        text = done.stdout + done.stderr
        assert "no temperature reaches the wanted ESS" in text
        assert "with --score zscore it is reached; with --ess 0.77 it is reached" in text
    for choices in ({"score": "zscore"}, {"ess": 0.77}):
        found = karl_fast.sample(tmp_path / "log.jsonl", None, k=8, **choices).manifest  # type: ignore[arg-type]
        assert found["target"]["note"] is None
