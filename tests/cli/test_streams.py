"""Data goes to stdout, talk to stderr; pipes work at both ends."""

from __future__ import annotations

import errno
import json
import os
import shlex
import signal
import subprocess
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from tests import rows
from tests.cli.run import COMMAND, environment, karl


def test_json_prints_one_object_and_no_talk(folder: Path) -> None:
    for command in (["inspect", "tiny.jsonl"], ["sample", "tiny.jsonl", "-k", 3, "-o", "data"]):
        done = karl(*command, "--json", folder=folder)
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout)["accounting"]["rows_read"] > 0


def test_the_printed_manifest_is_the_written_one(folder: Path) -> None:
    done = karl("sample", "tiny.jsonl", "-k", 3, "-o", "data", "--json", folder=folder)
    assert json.loads(done.stdout) == json.loads((folder / "data" / "manifest.json").read_text("utf-8"))


def test_quiet_says_nothing_but_errors(folder: Path) -> None:
    done = karl("sample", "tiny.jsonl", "-k", 999, "-o", "data", "-q", folder=folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = karl("inspect", "tiny.jsonl", "-q", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("read "), "a report is data"
    assert karl("inspect", "nowhere", "-q", folder=folder).stderr.startswith("error: ")


def test_a_dry_run_writes_nothing(folder: Path) -> None:
    done = karl("sample", "tiny.jsonl", "-k", 3, "-o", "data", "--dry-run", folder=folder)
    assert done.returncode == 0
    assert "nothing written" in done.stderr
    assert [path.name for path in folder.iterdir()] == ["tiny.jsonl"]


def test_a_dash_prints_rows_alone(folder: Path) -> None:
    done = karl("sample", "tiny.jsonl", "-k", 4, "-o", "-", folder=folder)
    assert done.returncode == 0
    assert len([json.loads(line)["messages"] for line in done.stdout.splitlines()]) == 4
    assert "4 rows" in done.stderr
    assert [path.name for path in folder.iterdir()] == ["tiny.jsonl"]


def test_printed_rows_are_the_rows_of_one_split(folder: Path) -> None:
    printed = karl("sample", "tiny.jsonl", "-k", 9, "-o", "-", "--seed", 3, folder=folder).stdout
    karl("sample", "tiny.jsonl", "-k", 9, "-o", "data", "--seed", 3, "--split", "1,0,0", folder=folder)
    assert printed == (folder / "data" / "train.jsonl").read_text("utf-8")
    (folder / "karl.toml").write_text('split = "0.5,0.5,0"\nseed = 3', "utf-8")
    for more in (["--config", "karl.toml"], ["--seed", "3", "--split", "1,0,0"]):
        assert karl("sample", "tiny.jsonl", "-k", 9, "-o", "-", *more, folder=folder).stdout == printed


def test_standard_input_is_a_log_like_any_other(folder: Path) -> None:
    text = (folder / "tiny.jsonl").read_text("utf-8")
    how = ("-k", 5, "--seed", 7, "-q")
    assert karl("sample", "-", *how, "-o", "piped", folder=folder, input=text).returncode == 0
    assert karl("sample", "tiny.jsonl", *how, "-o", "plain", folder=folder).returncode == 0
    assert rows.files(folder / "piped") == rows.files(folder / "plain")
    assert rows.manifest(folder / "piped") == rows.manifest(folder / "plain")


def test_closed_reader_is_not_an_error(folder: Path) -> None:
    """`karl-fast sample ... -o - | head -1`, with more rows than a pipe holds."""
    rows.write(folder / "tiny.jsonl", (rows.record(n, padding="x", reward=1.0) for n in range(5000)))
    command = [*COMMAND, "sample", "tiny.jsonl", "-k", "5000", "-o", "-", "-q"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=folder, env=environment(), text=True, **pipes) as process:
        assert json.loads(process.stdout.readline())
        process.stdout.close()
        assert process.stderr.read() == ""
        process.wait(timeout=30)
    assert process.returncode == -signal.SIGPIPE, "141 in a shell: as cat ends, not as if all had been read"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device here that is always full")
def test_1_where_standard_output_is_full(folder: Path) -> None:
    for command in (["inspect", "tiny.jsonl"], ["sample", "tiny.jsonl", "-k", "3", "-o", "-", "-q"], ["--version"]):
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [*COMMAND, *command],
                cwd=folder,
                env=environment(),
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
        assert done.returncode == 1
        assert done.stderr == f"error: cannot write to standard output: {os.strerror(errno.ENOSPC)}\n"


def test_without_a_standard_output_the_talk_still_comes(folder: Path) -> None:
    line = f"exec {shlex.join([*COMMAND, 'sample', 'tiny.jsonl', '-k', '3', '-o', 'data'])} >&-"
    done = subprocess.run(
        ["sh", "-c", line], cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "written " in done.stderr


NASTY = {
    "escape": "\x1b[31mred\x1b[0m",
    "title": "\x1b]0;owned\x07",
    "csi": "\x9b31m",
    "return": "good\rbad",
    "line": "one\ntwo",
    "null": "a\x00b",
    "delete": "a\x7fb",
    "bidi": "\u202egnp.exe",
    "isolate": "\u2066a\u2069",
    "zero width": "a\u200bb",
    "separator": "a\u2028b",
}


def harmless(text: str) -> None:
    for char in text:
        assert char == "\n" or unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}, repr(char)


@pytest.mark.parametrize("name", NASTY)
def test_nothing_from_a_log_steers_a_terminal(folder: Path, name: str) -> None:
    bad = NASTY[name]
    made = [rows.record(n, bad + str(n % 2), n / 7, id=f"{bad}{n}", kind=bad + str(n % 3)) for n in range(8)]
    text = rows.dumps(made)
    (folder / "tiny.jsonl").write_text(text + '{"id": \n', encoding="utf-8")
    fields = ("--domain", "kind")
    partition = ("--partition-by", "kind")
    for command in (
        ("inspect", "tiny.jsonl", *fields),
        ("inspect", "tiny.jsonl", *fields, *partition),
        ("sample", "tiny.jsonl", "-k", 4, "-o", "data", *fields, *partition),
        ("sample", "tiny.jsonl", "-k", 4, "-o", "strict", "--strict"),
    ):
        done = karl(*command, folder=folder)
        assert done.returncode in (0, 3)
        harmless(done.stdout)
        harmless(done.stderr)


@pytest.mark.parametrize("name", [name for name in NASTY if name != "null"])
def test_no_path_steers_a_terminal(folder: Path, name: str) -> None:
    path = folder / f"{NASTY[name]}.jsonl".replace("/", "")
    path.write_bytes((folder / "tiny.jsonl").read_bytes() + b"{]\n")
    out = f"out{NASTY[name]}".replace("/", "")
    for command in (
        ("inspect", path.name),
        ("inspect", path.name, "--strict"),
        ("inspect", path.name + "nowhere"),
        ("inspect", path.name + "*nowhere"),
        ("sample", path.name, "-k", 3, "-o", out),
        ("sample", path.name, "-k", 3, "-o", out),
        ("inspect", path.name, "--id", f"{NASTY[name]}..b"),
        ("inspect", path.name, "--format", NASTY[name]),
        ("sample", path.name, "-k", 3, "-o", "-", "--split", NASTY[name]),
        ("sample", path.name, "-k", 3, "--dry-run", "--reward", f"{NASTY[name]}=x"),
        ("sample", path.name, "-k", 3, "--dry-run", "--score", NASTY[name]),
    ):
        done = karl(*command, folder=folder)
        harmless(done.stderr)
        if "-o" not in command or command[command.index("-o") + 1] != "-":
            harmless(done.stdout)


def test_log_text_is_written_unchanged(folder: Path) -> None:
    """Escaping is for terminals: a data set keeps what the log said."""
    nasty = "".join(NASTY.values())
    turns = [{"role": "user", "content": nasty}, {"role": "assistant", "content": nasty}]
    rows.write(folder / "tiny.jsonl", [rows.record(n, messages=turns) for n in range(4)])
    karl("sample", "tiny.jsonl", "-k", 4, "-o", "data", folder=folder)
    assert all(row["messages"] == turns for row in rows.lines(folder / "data"))
