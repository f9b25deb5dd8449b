"""What a report warns of, and how its lines break."""

from __future__ import annotations

import gzip
import json
import os
from typing import TYPE_CHECKING

import pytest

from tests import rows
from tests.cli.run import karl

if TYPE_CHECKING:
    from pathlib import Path


def said(report: str) -> str:
    """A report on one line, as if nothing were broken."""
    return " ".join(report.split())


def test_missing_reward_warning_names_likely_field(tmp_path: Path) -> None:
    records = rows.records(12)
    for change, told in (
        (lambda one: {"score": one.pop("reward")} | one, "no record has a reward; the records hold"),
        (lambda one: one | {"reward": None}, "every record has null or NaN for reward, or lacks it"),
    ):
        rows.write(tmp_path / "log.jsonl", [change(dict(record)) for record in records])
        report = said(karl("inspect", "log.jsonl", folder=tmp_path).stdout)
        assert told in report
        assert ("did you mean --reward score?" in report) == ("score" in report)


def test_ess_below_one_row_warning(tmp_path: Path) -> None:
    rows.write(tmp_path / "log.jsonl", [record | {"reward": at / 7} for at, record in enumerate(rows.records(12))])
    done = karl("sample", "log.jsonl", "-k", 3, "--ess", 0.01, "--dry-run", folder=tmp_path)
    assert "the wanted ESS is 0.12 rows, and no target has less than 1: the nearest is taken" in said(done.stderr)
    assert "share the top score" not in said(done.stderr)


def test_warning_is_one_line_outside_a_terminal(tmp_path: Path) -> None:
    """Who looks through a file of them looks for lines."""
    rows.write(tmp_path / "log.jsonl", [record | {"reward": at / 7} for at, record in enumerate(rows.records(12))])
    done = karl("sample", "-k", 99, "--ess", 0.01, "--dry-run", "log.jsonl", folder=tmp_path)
    report = (done.stdout + done.stderr).splitlines()
    first = next(at for at, line in enumerate(report) if line.startswith("warning: "))
    assert all(line.startswith("warning: ") for line in report[first:])
    assert max(map(len, report[first:])) > 80
    assert max(map(len, report[:first])) <= 80


def test_failed_rows_replaced_or_left_out(tmp_path: Path) -> None:
    bad = rows.record(99, "g", 5.0, messages=[])
    rows.write(tmp_path / "log.jsonl", [*rows.records(12), bad])
    for how, word in {
        "-k 12": "replaced",
        "-k 13": "left out",
        "-k 99": "left out",
        "-k 13 --sampler multinomial": "replaced",
        "--sampler all": "left out",
    }.items():
        weigh = ("--inverse-temperature", 5, "--dry-run")
        done = karl("sample", "log.jsonl", *how.split(), *weigh, folder=tmp_path)
        assert f"\n{word}  no assistant turn 1\n" in done.stderr, how


def test_draw_size_equal_to_ess_is_silent(tmp_path: Path) -> None:
    """The ESS that was solved for is a hair below the one that was wanted."""
    rows.write(tmp_path / "log.jsonl", [record | {"reward": at / 7} for at, record in enumerate(rows.records(60))])
    for k, told in ((30, False), (31, True)):
        done = karl("sample", "log.jsonl", "-k", k, "--dry-run", folder=tmp_path)
        assert ("more rows were drawn than the ESS of 30.0" in said(done.stderr)) == told


def test_bad_messages_warning_names_field(tmp_path: Path) -> None:
    bad = [rows.record(20 + n, messages=[{"speaker": "human", "text": "q"}]) for n in range(3)]
    start = rows.write(tmp_path / "log.jsonl", rows.records(12)).stat().st_size
    rows.write(tmp_path / "log.jsonl", [*rows.records(12), *bad])
    done = karl("sample", "log.jsonl", "-k", 15, "--dry-run", folder=tmp_path)
    told = f"3 rows have a bad message in messages, the first at byte {start:,} of log.jsonl: a message is an object"
    assert f"warning: {told} with a role" in said(done.stderr)
    rows.write(tmp_path / "log.jsonl", rows.records(12))
    assert "bad message" not in karl("sample", "log.jsonl", "-k", 12, "--dry-run", folder=tmp_path).stderr


def test_a_share_of_nothing_stays_nothing(tmp_path: Path) -> None:
    rows.write(tmp_path / "log.jsonl", rows.records(12))
    done = karl("sample", "log.jsonl", "-o", "out", "-k", 3, "--split", "0,0,1", folder=tmp_path)
    assert done.returncode == 0
    assert "warning: t" not in done.stderr, "neither train nor test is warned of"
    assert [
        len((tmp_path / "out" / f"{name}.jsonl").read_text("utf-8").splitlines()) for name in ("train", "test")
    ] == [0, 3]


def test_mostly_damaged_file_is_warned_of(tmp_path: Path) -> None:
    lines = [json.dumps(record) for record in rows.records(6)]
    told = {6: "", 7: "no record in 7 of 13 rows of page.md"}
    for prose, warning in told.items():
        (tmp_path / "page.md").write_text("\n".join([*lines, *["# not a record"] * prose]) + "\n", "utf-8")
        for how in (("sample", "-k", 3, "--dry-run"), ("inspect",)):
            done = karl(*how, "page.md", folder=tmp_path)
            assert done.returncode == 0
            assert ("no record in" in said(done.stdout + done.stderr)) == bool(warning)
            assert warning in said(done.stdout + done.stderr)
    (tmp_path / "more.md").write_text((tmp_path / "page.md").read_text("utf-8"), "utf-8")
    done = karl("inspect", "more.md", "page.md", folder=tmp_path)
    assert "no record in 7 of 13 rows of more.md, and in most of 1 other file" in said(done.stdout)


def test_record_without_number_is_not_damage(tmp_path: Path) -> None:
    rows.write(
        tmp_path / "log.jsonl",
        [*rows.records(6), *[record | {"reward": "high"} for record in rows.records(8)]],
    )
    done = karl("inspect", "log.jsonl", folder=tmp_path)
    assert done.returncode == 0
    assert "reward not a number 8" in said(done.stdout)
    assert "no record in" not in said(done.stdout)
    (tmp_path / "page.md").write_text("# not a record\n", "utf-8")
    done = karl("inspect", "page.md", folder=tmp_path)
    assert "not one is a record" in done.stderr
    assert "no record in" not in said(done.stdout + done.stderr)


def test_null_rewards_and_silent_functions_are_warned_of(tmp_path: Path) -> None:
    rows.write(tmp_path / "log.jsonl", [record | {"reward": None} for record in rows.records(12)])
    (tmp_path / "mine.py").write_text("def none(completions, **columns):\n    return [None] * len(completions)\n")
    (tmp_path / "karl.toml").write_text('[reward]\nmine = { weight = 1, fn = "mine.py:none" }\n')
    done = karl("inspect", "log.jsonl", "--reward", "reward", folder=tmp_path)
    assert "warning: no record has a value for the reward reward" in said(done.stdout)
    done = karl("inspect", "log.jsonl", "--config", "karl.toml", folder=tmp_path)
    assert "warning: no record was given a number by the reward mine" in said(done.stdout)


def test_mixed_formats_warning(tmp_path: Path) -> None:
    others = [{"input": f"q{n}", "output": "a", "gts": None, "score": 1.0, "step": 1} for n in range(100)]
    rows.write(tmp_path / "log.jsonl", [*rows.records(150), *others])
    hint = "100 of 250 rows have no reward where the format generic keeps it"
    for how in (("sample", "-k", 3, "--dry-run"), ("inspect",)):
        done = karl(*how, "log.jsonl", folder=tmp_path)
        assert hint in said(done.stdout + done.stderr)
        assert "name another with --format" in said(done.stdout + done.stderr)
        assert "no reward" not in said(karl(*how, "log.jsonl", "--format", "generic", folder=tmp_path).stderr)
    rows.write(tmp_path / "log.jsonl", [*rows.records(150), *others[:20]])
    assert "no reward" not in said(karl("inspect", "log.jsonl", folder=tmp_path).stdout)


def test_lines_break_between_words(tmp_path: Path) -> None:
    names = [f"a-long-name-of-a-domain-{n}" for n in range(12)]
    rows.write(
        tmp_path / "log.jsonl", [record | {"domain": names[n % 12]} for n, record in enumerate(rows.records(48))]
    )
    report = karl("inspect", "log.jsonl", folder=tmp_path).stdout
    assert max(map(len, report.splitlines())) <= 80
    words = report.split()
    assert all(name in words for name in names)


def test_a_share_of_groups_says_of_which(tmp_path: Path) -> None:
    equal = [rows.record(n, f"g{n % 2}", 1.0) for n in range(4)]
    alone = [rows.record(4 + n, f"alone{n}", n / 3) for n in range(3)]
    rows.write(tmp_path / "log.jsonl", [*equal, *alone])
    looked = said(karl("inspect", "log.jsonl", folder=tmp_path).stdout)
    assert "groups 5, constant 2 (100% of the 2 with two rows or more): 2 at the top" in looked
    assert "2 at the top, 0 at the bottom, 0 other; 3 with fewer than two rewards" in looked
    dropped = said(karl("inspect", "log.jsonl", "--drop-constant-groups", folder=tmp_path).stdout)
    assert "rows 7 read, 0 kept; dropped: constant group 4, group of one 3" in dropped
    rows.write(tmp_path / "log.jsonl", equal)
    assert "groups 2, constant 2 (100%): 0 at the top" in said(karl("inspect", "log.jsonl", folder=tmp_path).stdout)


def test_rows_without_a_group_are_of_none(tmp_path: Path) -> None:
    rows.write(tmp_path / "log.jsonl", [rows.record(n, None, n / 8) for n in range(8)])
    done = karl("sample", "log.jsonl", "-k", 4, "--dry-run", folder=tmp_path)
    assert "drawn 4 rows without a group (gumbel, seed 0)" in said(done.stderr)


def test_unknown_place_is_not_shown(tmp_path: Path) -> None:
    """Bytes of the text of a packed log are not those of the file."""
    bad = [rows.record(20 + n, messages=[{"speaker": "human", "text": "q"}]) for n in range(3)]
    log = rows.write(tmp_path / "log.jsonl", [*rows.records(12), *bad])
    (tmp_path / "log.jsonl.gz").write_bytes(gzip.compress(log.read_bytes()))
    done = karl("sample", "log.jsonl.gz", "-k", 15, "--dry-run", folder=tmp_path)
    assert "warning: 3 rows have a bad message in messages: a message is an object" in said(done.stderr)


def test_damage_in_packed_file_is_explained(tmp_path: Path) -> None:
    log = rows.write(tmp_path / "log.jsonl", rows.records(400)).read_bytes()
    packed = bytearray(gzip.compress(log))
    packed[-6] ^= 1  # of the check sum alone: every row is as it was
    (tmp_path / "log.jsonl.gz").write_bytes(packed)
    for command in (["sample", "-k", "3", "--dry-run"], ["inspect"]):
        done = karl(*command, "log.jsonl.gz", folder=tmp_path)
        told = (
            "warning: the packed bytes of log.jsonl.gz are damaged: rows behind the damage are lost, and rows before it"
        )
        assert told in said(done.stdout + done.stderr)
        assert "are damaged" not in said(karl(*command, "log.jsonl", folder=tmp_path).stderr)


def test_reward_means_of_read_kept_and_drawn(tmp_path: Path) -> None:
    rows.write(tmp_path / "log.jsonl", [rows.record(n, reward=n / 4) for n in range(9)])
    how = ("log.jsonl", "-k", 2, "--min-reward", 1, "--inverse-temperature", 1000, "--dry-run")
    done = karl("sample", *how, folder=tmp_path)
    assert "reward mean 1.0000 read, 1.5000 kept, 1.8750 drawn; std 0.645, 0.354, 0.125" in said(done.stderr)
    reward = json.loads(karl("sample", *how, "--json", "-q", folder=tmp_path).stdout)["reward"]
    assert [reward[part]["count"] for part in ("before", "kept", "after")] == [9, 5, 2]


def test_a_draw_of_every_row_selects_nothing(tmp_path: Path) -> None:
    rows.write(tmp_path / "log.jsonl", rows.records(12))
    for k, told in (
        (99, "99 rows were wanted, and all 12 rows that can be drawn were drawn, so the reward selected nothing"),
        (12, "all 12 rows that can be drawn were drawn, so the reward selected nothing"),
        (11, ""),
    ):
        done = karl("sample", "log.jsonl", "-k", k, "--dry-run", folder=tmp_path)
        warnings = [line for line in done.stderr.splitlines() if "rows that can be drawn were drawn" in line]
        assert warnings == ([f"warning: {told}: a smaller -k selects"] if told else [])
        assert "no other can be drawn" not in done.stderr
    done = karl("sample", "log.jsonl", "-k", 12, "--dry-run", "--sampler", "reservoir", folder=tmp_path)
    assert "all 12 rows that can be drawn were drawn: a smaller" in done.stderr
    done = karl("sample", "log.jsonl", "--sampler", "all", "--dry-run", folder=tmp_path)
    assert "were drawn" not in done.stderr


def test_draw_of_mostly_failures_names_min_reward(tmp_path: Path) -> None:
    right = [record | {"reward": float(at % 12 == 0)} for at, record in enumerate(rows.records(240))]
    rows.write(tmp_path / "log.jsonl", right)
    words = ("sample", "log.jsonl", "--dry-run", "-k", 60)
    told = said(karl(*words, folder=tmp_path).stderr)
    assert "drawn rows have a reward below 0.95, and a model imitates them like the others" in told
    assert "--min-reward 0.95 draws from the 20 rows above it" in told
    assert "imitates" not in said(karl(*words, "--min-reward", 0.95, folder=tmp_path).stderr)
    assert "imitates" not in said(karl(*words, "--sampler", "all", folder=tmp_path).stderr)
    graded = [record | {"reward": at / 240} for at, record in enumerate(right)]
    rows.write(tmp_path / "log.jsonl", graded)  # of these only one has the highest reward
    assert "imitates" not in said(karl(*words, "--ess", 0.9, folder=tmp_path).stderr)


def test_repeated_rows_warning_names_dedup(tmp_path: Path) -> None:
    different = [rows.record(n, f"g{n % 4}") for n in range(64)]
    again = [one | {"id": f"again {one['id']}"} for one in different[:36]]
    rows.write(tmp_path / "log.jsonl", [*different, *again])
    done = karl("sample", "log.jsonl", "-k", 100, "--dry-run", folder=tmp_path)
    told = "36 drawn rows of 100 (36%) repeat the text of another of their group: --dedup keeps one of each"
    assert f"warning: {told}\n" in done.stderr
    done = karl("sample", "log.jsonl", "-k", 100, "--dry-run", "--dedup", "--json", folder=tmp_path)
    assert json.loads(done.stdout)["draw"]["duplicate_rows"] == 0
    for n, one in enumerate(again):
        one["messages"] = [message | {"id": f"m{n}", "created": n} for message in one["messages"]]
    rows.write(tmp_path / "log.jsonl", [*different, *again])
    done = karl("sample", "log.jsonl", "-k", 100, "--dry-run", folder=tmp_path)
    assert f"warning: {told}\n" in done.stderr, "ids and times make no other text, as for --dedup"
    rows.write(tmp_path / "log.jsonl", different)
    for more in ([], ["--sampler", "multinomial"]):  # copies are not repeated rows
        done = karl("sample", "log.jsonl", "-k", 50, "--dry-run", *more, folder=tmp_path)
        assert "repeat the text" not in done.stderr


@pytest.mark.parametrize("groups", [2, 5, 20])
@pytest.mark.parametrize("split", ["0.9,0.1,0", "0.8,0.1,0.1"])
def test_small_split_warning_proposes_shares(tmp_path: Path, groups: int, split: str) -> None:
    rows.write(tmp_path / "log.jsonl", [rows.record(n, f"g{n % groups}") for n in range(60)])
    run = ("sample", "log.jsonl", "-k", 20, "-o", "data", "--force")
    done = karl(*run, "--split", split, folder=tmp_path)
    assert "too few for a batch" in done.stderr or "wanted: the rows of a group" in done.stderr
    if "; --split " not in done.stderr:
        assert groups == 2
        assert "draw more rows, or rows of more groups" in done.stderr
        return
    shares = done.stderr.partition("; --split ")[2].split()[0]
    done = karl(*run, "--split", shares, folder=tmp_path)
    held_out = ["valid", "test"][: 2 if split.endswith("0.1") and not split.endswith("0,0.1,0") else 1]
    for name in held_out:
        assert len((tmp_path / "data" / f"{name}.jsonl").read_text("utf-8").splitlines()) >= 4
    assert "too few" not in done.stderr


def test_non_utf8_log_name_survives_manifest(tmp_path: Path) -> None:
    log = tmp_path / os.fsdecode(b"caf\xe9.jsonl")
    rows.write(log, rows.records(12))
    assert karl("sample", log, "-k", 3, "-o", "data", folder=tmp_path).returncode == 0
    done = karl("sample", "--config", "data/manifest.json", "-o", "again", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "data" / "train.jsonl").read_bytes() == (tmp_path / "again" / "train.jsonl").read_bytes()


def test_inspect_reads_a_data_set_by_its_stamps(tmp_path: Path) -> None:
    rows.write(tmp_path / "log.jsonl", rows.records(40))
    assert karl("sample", "log.jsonl", "-k", 20, "-o", "data", folder=tmp_path).returncode == 0
    for path, count in (("data", 20), ("data/train.jsonl", None)):
        done = karl("inspect", path, "--json", folder=tmp_path)
        report = json.loads(done.stdout)
        assert count in (None, report["accounting"]["rows_kept"])
        assert report["accounting"]["dropped"] == {}
        assert report["groups"]["count"] > 0
        assert "warning" not in karl("inspect", path, folder=tmp_path).stdout


def test_inspect_shows_few_and_short_fields(tmp_path: Path) -> None:
    rows.write(
        tmp_path / "log.jsonl", [one | {f"key {n} " + "x" * 3000: n for n in range(9)} for one in rows.records(3)]
    )
    done = karl("inspect", "log.jsonl", folder=tmp_path)
    assert max(map(len, done.stdout.splitlines())) < 200


def test_rollouts_of_rl_have_no_outcomes_of_work(tmp_path: Path) -> None:
    rows.write(tmp_path / "rollouts.jsonl", [one | {"outcome": one["reward"], "round": 1} for one in rows.records(8)])
    done = karl("inspect", "rollouts.jsonl", folder=tmp_path)
    assert "warning" not in done.stdout
    assert "outcomes  " not in done.stdout
