"""Exit codes say the kind of an error; stderr says it in one sentence; stdout stays empty."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import rows
from tests.cli.run import karl

if TYPE_CHECKING:
    import subprocess


def refused(done: subprocess.CompletedProcess[str], code: int) -> str:
    """The sentence of an error, after everything that all errors have in common was checked."""
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    first, *hints = done.stderr.splitlines()
    assert first.startswith("error: ")
    assert not first.endswith(".")
    assert len(hints) <= 1
    assert all(hint.startswith("hint: ") for hint in hints)
    assert "Traceback" not in done.stderr
    return first.removeprefix("error: ")


def untouched(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == ["tiny.jsonl"]


def test_0_where_it_worked(folder: Path) -> None:
    assert karl("sample", "tiny.jsonl", "-o", "data", "-k", 5, folder=folder).returncode == 0
    assert (folder / "data" / "manifest.json").is_file()


def test_1_where_a_file_is_not_there(folder: Path) -> None:
    done = karl("sample", "tiny.jsonl", "nowhere.jsonl", "-o", "data", "-k", 5, folder=folder)
    assert refused(done, 1) == "cannot open nowhere.jsonl: no such file or folder"
    untouched(folder)


USAGE = {
    "-k 0": "-k is 0, wanted a whole number from 1 on",
    "-k -3": "-k is -3, wanted a whole number from 1 on",
    "-k 3 --fraction 0.5": "-k and --fraction cannot be combined",
    "": "say how many rows to draw: -k or --fraction",
    "--fraction 0": "--fraction is 0.0",
    "-k 3 --ess 0": "--ess is 0.0",
    "-k 3 --ess 2": "--ess is 2.0",
    "-k 3 --ess nan": "--ess is nan",
    "-k 3 --inverse-temperature -1": "--inverse-temperature is -1.0",
    "-k 3 --inverse-temperature inf": "--inverse-temperature is inf",
    "-k 3 --ess 0.5 --inverse-temperature 1": "--ess and --inverse-temperature",
    "-k 3 --ddof 300 --score zscore": "--ddof is 300",
    "-k 3 --eps -1 --score zscore": "--eps is -1.0",
    "-k 3 --eps nan --score zscore": "--eps is nan",
    "-k 3 --min-reward nan": "--min-reward is nan",
    "-k 3 --reward reward=inf": "weight of reward is inf",
    "-k 3 --split 0.5,0.4,0.3": "--split is 0.5,0.4,0.3",
    "-k 3 --split nan,1,0": "--split is nan",
    "-k 3 --seed -1": "--seed is -1",
    "-k 3 --seed 18446744073709551616": "--seed is 18446744073709551616",
    "-k 3 --threads 0": "--threads is 0",
    "-k 3 --max-line-bytes 0": "--max-line-bytes is 0",
    "-k 3 --max-per-group 0": "--max-per-group is 0",
    "-k 3 --max-tokens 10": "--max-tokens and --tokenizer",
    "-k 3 --format nope": "--format is 'nope', wanted",
    "-k 3 --id a..b": 'field path "a..b"',
    "-k 3 --group nowhere --score zscore": "score zscore is taken within groups",
    "-k 3 --group nowhere --partition-by group": "--partition-by is group",
    "-k 3 --sampler all": "no use for -k or --fraction",
    "-k 3 --sampler reservoir --ess 0.3 --score centre": "no use for --ess, --score",
    "-k 3 --as raw --max-tokens 9 --tokenizer x": "raw rows",
    "-k 3 --per x=equal": "--per names 'x', wanted domain or group",
    "-k 3 --json -o -": "-o - and --json",
    "-k 3 --split 0.5,0.5,0 -o -": "--split divides rows among files, and -o - prints all of them to standard output",
    **{f"-k 3 --{name}=": f"--{name} is empty, wanted the path" for name in ("id", "group", "messages", "domain")},
    "-k 3 --partition-by=": "--partition-by is empty, wanted global, group, or the path of a field",
    "-k 3 --max-tokens 9 --tokenizer=": "--tokenizer is empty, wanted a folder",
    "-k 3 --out=": "-o is empty, wanted the name of a folder",
    "-k 3 --config=": "--config is empty, wanted a file of settings",
}


@pytest.mark.parametrize("options", USAGE)
def test_2_where_the_question_makes_no_sense(folder: Path, options: str) -> None:
    out = [] if {"-o", "--out="} & {*options.split()} else ["-o", "data"]
    done = karl("sample", "tiny.jsonl", *options.split(), *out, folder=folder)
    assert USAGE[options] in refused(done, 2)
    untouched(folder)


UNREADABLE = {
    "sample tiny.jsonl --dry-run --bogus": ("no such option: --bogus", "karl-fast sample --help all lists"),
    "sample tiny.jsonl --dry-run --scor raw": ("no such option: --scor", "did you mean --score?"),
    "sample tiny.jsonl --dry-run -k x": ("-k is 'x', wanted a whole number", "karl-fast sample --help"),
    "sample tiny.jsonl --dry-run -k": ("-k has no value", "karl-fast sample --help"),
    "sample tiny.jsonl --dry-run --score": ("--score has no value", "karl-fast sample --help"),
    "inspect --config": ("--config has no value", "karl-fast inspect --help"),
    "sample tiny.jsonl --dry-run --reward=": ("--reward is '', wanted a path, or a list", "karl-fast sample --help"),
    "sample tiny.jsonl --dry-run --eps x": ("--eps is 'x', wanted a number", "karl-fast sample --help"),
    "sample tiny.jsonl --dry-run --split 1,0": ("--split is '1,0', wanted three numbers like 0.9,0.1,0", "--help"),
    "sample tiny.jsonl --dry-run --reward a=x": ("--reward is 'a=x', wanted a path, or a list", "--help"),
    "sample tiny.jsonl --dry-run --reward a,a": ("--reward is 'a,a', wanted each component once", "--help"),
    "sample tiny.jsonl --score no": ("--score is 'no', wanted raw, centre, zscore, leave-one-out, advantage", "--help"),
    "sampel tiny.jsonl": ("no such command 'sampel'", "did you mean sample?"),
    "convert tiny.jsonl --reward": ("no such option: --reward", "--reward is an option of sample; karl-fast convert"),
    "ablate --seed 3": ("no such option: --seed", "did you mean --seeds?"),
    "inspect tiny.jsonl -k 3": ("no such option: -k", "-k is an option of sample; karl-fast inspect --help all lists"),
    "compare a": ("B is missing", "karl-fast compare --help"),
    "compare a b c": ("got unexpected extra argument", "karl-fast compare --help"),
    "--bogus": ("no such option: --bogus", "karl-fast --help"),
}


@pytest.mark.parametrize("command", UNREADABLE)
def test_2_option_that_cannot_be_parsed(folder: Path, command: str) -> None:
    done = karl(*command.split(), folder=folder)
    sentence, hint = UNREADABLE[command]
    assert refused(done, 2).startswith(sentence)
    assert hint in done.stderr.splitlines()[1].removeprefix("hint: ")
    untouched(folder)


def test_2_where_no_log_is_given(folder: Path) -> None:
    for command in ("sample", "inspect"):
        assert refused(karl(command, folder=folder), 2).startswith("no log given")


NO_RECORDS = {"binary": bytes(range(256)) * 20, "text": b"hello\nworld\n", "empty": b"", "blank": b"\n\n"}


@pytest.mark.parametrize("name", NO_RECORDS)
def test_4_where_what_is_inspected_has_no_record(folder: Path, name: str) -> None:
    """The report is printed: it says why. One record without a reward is one to look at."""
    (folder / "tiny.jsonl").write_bytes(NO_RECORDS[name])
    done = karl("inspect", "tiny.jsonl", folder=folder)
    assert done.returncode == 4
    assert done.stdout.startswith("read ")
    assert done.stderr.startswith("error: tiny.jsonl: ")
    assert done.stderr.endswith("read, and not one is a record\n")
    done = karl("sample", "tiny.jsonl", "-k", 3, "--dry-run", folder=folder)
    assert refused(done, 4).endswith("; no record in tiny.jsonl")
    (folder / "a.jsonl").write_text("hello\n")
    done = karl("inspect", "a.jsonl", "tiny.jsonl", folder=folder)
    assert done.stderr.startswith("error: a.jsonl and 1 other file: ")
    (folder / "tiny.jsonl").write_text('{"a": 1}\n')
    assert karl("inspect", "tiny.jsonl", folder=folder).returncode == 0


@pytest.mark.parametrize("logs", ["- -", "- tiny.jsonl -"])
def test_2_where_standard_input_is_given_twice(folder: Path, logs: str) -> None:
    for how in (("sample", "-k", 3, "--dry-run"), ("inspect",)):
        done = karl(*how, *logs.split(), folder=folder, input="")
        assert refused(done, 2) == "- is given twice, and standard input can be read once"


def test_2_where_nothing_says_where_to_write(folder: Path) -> None:
    assert "-o DIR" in refused(karl("sample", "tiny.jsonl", "-k", 3, folder=folder), 2)


def test_2_folder_or_pattern_without_log(folder: Path) -> None:
    (folder / "empty").mkdir()
    assert "holds no file" in refused(karl("inspect", "empty", folder=folder), 2)
    assert "no file matches" in refused(karl("inspect", "*.nope", folder=folder), 2)


def test_3_strict_with_damaged_row(folder: Path) -> None:
    log = folder / "tiny.jsonl"
    log.write_text(
        rows.dumps(rows.records(3)) + '{"id": \n' + rows.dumps(rows.records(2)),
        encoding="utf-8",
    )
    done = karl("sample", "tiny.jsonl", "-o", "data", "-k", 3, "--strict", folder=folder)
    assert refused(done, 3).startswith("tiny.jsonl, line 4, byte ")
    assert refused(done, 3).endswith(": the row is not a sound record: malformed")
    assert "hint: without --strict" in done.stderr
    untouched(folder)


def test_4_where_every_reward_is_missing(folder: Path) -> None:
    rows.write(folder / "tiny.jsonl", [rows.record(n, "g", None) for n in range(5)])
    done = karl("sample", "tiny.jsonl", "-o", "data", "-k", 3, folder=folder)
    assert (
        refused(done, 4)
        == "no row is left to draw: 5 read, dropped: missing reward 5; the records hold id, group, reward, messages"
    )
    untouched(folder)


def test_4_where_the_log_is_empty(folder: Path) -> None:
    (folder / "tiny.jsonl").write_text("")
    assert refused(karl("sample", "tiny.jsonl", "-o", "data", "-k", 3, folder=folder), 4)
    untouched(folder)


@pytest.mark.parametrize("out", [["-o", "data"], ["-o", "-"], ["--dry-run"], ["--dry-run", "--json"]])
def test_4_no_drawn_row_can_be_written(folder: Path, out: list[str]) -> None:
    rows.write(folder / "tiny.jsonl", [rows.record(n, messages=[]) for n in range(5)])
    done = karl("sample", "tiny.jsonl", *out, "-k", 3, folder=folder)
    assert refused(done, 4) == "none of the chosen rows can be written: no assistant turn 5"
    untouched(folder)


def test_5_existing_output_needs_force(folder: Path) -> None:
    how = ("sample", "tiny.jsonl", "-o", "data", "-k", 5)
    assert karl(*how, folder=folder).returncode == 0
    before = rows.files(folder / "data")
    done = karl(*how, "--seed", 1, folder=folder)
    assert "data" in refused(done, 5)
    assert done.stderr.splitlines()[1] == "hint: --force replaces it"
    assert rows.files(folder / "data") == before
    assert karl(*how, "--seed", 1, "--force", folder=folder).returncode == 0
    assert rows.files(folder / "data") != before
    assert sorted(path.name for path in folder.iterdir()) == ["data", "tiny.jsonl"]


@pytest.mark.parametrize("force", [[], ["--force"]])
@pytest.mark.parametrize("kind", ["folder", "file", "link", "working directory"])
def test_5_foreign_output_is_never_replaced(folder: Path, kind: str, force: list[str]) -> None:
    home = folder / "home"
    home.mkdir()
    (home / "precious.txt").write_text("mine")
    out = folder / "out"
    if kind == "folder":
        out = home
    elif kind == "file":
        out.write_text("mine")
    elif kind == "link":
        out.symlink_to(home)
    else:
        out = folder
    done = karl("sample", folder / "tiny.jsonl", "-o", out, "-k", 5, *force, folder=folder)
    refused(done, 5)
    hint = "give the output another name: what karl-fast did not write is never replaced"
    if kind == "link":
        hint = f"name the place that it leads to: {home}"
    assert done.stderr.splitlines()[1] == f"hint: {hint}"
    assert (home / "precious.txt").read_text() == "mine"
    assert os.listdir(home) == ["precious.txt"]  # noqa: PTH208


def test_an_empty_folder_may_be_filled(folder: Path) -> None:
    (folder / "data").mkdir()
    assert karl("sample", "tiny.jsonl", "-o", "data", "-k", 5, folder=folder).returncode == 0
    assert (folder / "data" / "train.jsonl").is_file()


def test_1_missing_file_among_many(folder: Path) -> None:
    """Even root cannot read through a dead link."""
    (folder / "gone.jsonl").symlink_to(folder / "nowhere")
    done = karl("sample", "tiny.jsonl", "gone.jsonl", "-o", "data", "-k", 5, folder=folder)
    assert "gone.jsonl" in refused(done, 1)
    assert not (folder / "data").exists()


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="no file here that fails when it is read")
def test_1_file_breaks_while_read(folder: Path) -> None:
    done = karl("sample", "tiny.jsonl", "/proc/self/mem", "-o", "data", "-k", 5, folder=folder)
    assert refused(done, 1).startswith("cannot read /proc/self/mem")
    untouched(folder)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_1_unreadable_file_among_many(folder: Path) -> None:
    rows.write(folder / "secret.jsonl", rows.records(3)).chmod(0)
    done = karl("sample", "tiny.jsonl", "secret.jsonl", "-o", "data", "-k", 5, folder=folder)
    assert "secret.jsonl" in refused(done, 1)
    assert not (folder / "data").exists()


def test_1_parent_of_output_is_a_file(folder: Path) -> None:
    done = karl("sample", "tiny.jsonl", "-o", "tiny.jsonl/data", "-k", 5, folder=folder)
    refused(done, 1)
    untouched(folder)


def test_one_group_and_equal_rewards_are_no_errors(folder: Path) -> None:
    rows.write(folder / "tiny.jsonl", [rows.record(n, "g", 0.5) for n in range(8)])
    for score in ("raw", "centre", "zscore", "leave-one-out"):
        done = karl("sample", "tiny.jsonl", "-k", 4, "--dry-run", "--score", score, "--json", folder=folder)
        assert done.returncode == 0, done.stderr
        target = json.loads(done.stdout)["target"]
        assert (target["note"], target["inverse_temperature"]) == ("equal_scores", 0.0)


def test_single_row_group_is_no_error(folder: Path) -> None:
    rows.write(folder / "tiny.jsonl", [rows.record(0, "g", 0.5)])
    done = karl("sample", "tiny.jsonl", "-k", 1, "--dry-run", "--score", "zscore", folder=folder)
    assert done.returncode == 0, done.stderr


def test_too_many_rows_wanted_is_a_warning(folder: Path) -> None:
    done = karl("sample", "tiny.jsonl", "-o", "data", "-k", 10_000, folder=folder)
    assert done.returncode == 0
    assert "warning: 10,000 rows were wanted, and all 46 rows that can be drawn were drawn" in done.stderr
    draw = json.loads((folder / "data" / "manifest.json").read_text("utf-8"))["draw"]
    assert draw["rows"] < draw["rows_wanted"] == 10_000
