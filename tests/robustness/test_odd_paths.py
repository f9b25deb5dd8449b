"""Places that are no ordinary files or folders, to read from and to write to."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import karl_fast
from karl_fast.entrypoint import STOPS
from karl_fast.errors import FileError
from tests import rows
from tests.cli.run import COMMAND, environment, karl, start
from tests.cli.test_exits import refused
from tests.unit.convert.test_damage import powerless

if TYPE_CHECKING:
    from collections.abc import Callable

HOW = ("-k", 5, "-q")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows.write(tmp_path / "log.jsonl", rows.records(20))
    return tmp_path


def tree(folder: Path) -> list[tuple[str, int]]:
    """Names and kinds of all that lies below a folder."""
    return sorted((str(path), stat.S_IFMT(path.lstat().st_mode)) for path in folder.rglob("*"))


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom", "/dev/full"])
def test_an_endless_device_is_refused(folder: Path, device: str) -> None:
    if not Path(device).exists():
        pytest.skip(f"no {device} here")
    assert refused(karl("inspect", device, folder=folder), 1) == f"{device}: it is a device, not a log"
    with Path(device).open("rb") as stream:
        assert refused(karl("inspect", "-", folder=folder, stdin=stream), 1) == "-: it is a device, not a log"


@pytest.mark.parametrize("logs", [["/dev/null"], ["-"], ["empty.jsonl"]])
def test_what_is_empty_has_no_rows(folder: Path, logs: list[str]) -> None:
    (folder / "empty.jsonl").touch()
    assert "0 read" in karl("inspect", *logs, folder=folder).stdout


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="no /proc here")
def test_a_file_without_a_size_is_read(folder: Path) -> None:
    lines = len([line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.strip()])
    done = karl("inspect", "/proc/cpuinfo", folder=folder)
    assert f"{lines:,} read, 0 kept; dropped: not an object {lines:,}" in done.stdout


def test_a_folder_that_holds_itself_is_searched_once(folder: Path) -> None:
    (folder / "loop").symlink_to(folder)
    (folder / "a").mkdir()
    (folder / "a" / "up").symlink_to("..")
    (folder / "self.jsonl").symlink_to("self.jsonl")
    assert "self.jsonl" in refused(karl("inspect", "self.jsonl", folder=folder), 1)
    found = karl("inspect", ".", folder=folder).stdout
    assert "20 read" in found
    assert "self.jsonl" in found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_unfed_pipe_can_be_interrupted(folder: Path, number: signal.Signals) -> None:
    os.mkfifo(folder / "pipe")
    process = start("inspect", "pipe", folder=folder)
    time.sleep(1)
    process.send_signal(number)
    _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (128 + number, f"{STOPS[number]}; nothing was written\n")


def test_5_where_the_output_is_any_link(folder: Path) -> None:
    """A new output would take the place of the link."""
    for name, leads in (("empty", "there"), ("ours", "data"), ("dead", "nowhere"), ("lines", "log.jsonl")):
        (folder / name).symlink_to(leads)
    (folder / "there").mkdir()
    assert karl("sample", "log.jsonl", "-o", "data", "-k", 5, folder=folder).returncode == 0
    before = rows.files(folder / "data")
    for name in ("empty", "ours", "dead", "lines"):
        for command in (("sample", "-k", 5), ("convert",)):
            done = karl(*command, "log.jsonl", "-o", name, "--force", folder=folder)
            assert refused(done, 5) == f"{name}: it exists and is a symbolic link, which is never replaced"
            assert done.stderr.splitlines()[1] == f"hint: name the place that it leads to: {(folder / name).resolve()}"
        assert (folder / name).is_symlink()
    assert rows.files(folder / "data") == before


@pytest.mark.parametrize("command", ["sample -k 5", "convert"])
def test_1_where_the_output_name_is_too_long(folder: Path, command: str) -> None:
    done = karl(*command.split(), "log.jsonl", "-o", "x" * 300, folder=folder)
    assert refused(done, 1).startswith("cannot ")
    assert refused(done, 1).endswith(os.strerror(errno.ENAMETOOLONG))


def test_odd_manifest_is_foreign_without_hanging(folder: Path) -> None:
    for name, make in MANIFESTS.items():
        home = folder / name
        home.mkdir()
        shutil.copy(folder / "log.jsonl", home)
        make(home / "manifest.json")
        if name != "huge":  # as a log it would be read
            done = karl("inspect", name, folder=folder, timeout=20)
            assert done.returncode == 0, (name, done.stderr)
        before = tree(folder)
        refused(karl("sample", "log.jsonl", "-o", name, "--force", *HOW, folder=folder, timeout=20), 5)
        assert tree(folder) == before


MANIFESTS: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "endless": lambda path: path.symlink_to("/dev/zero"),
    "dangling": lambda path: path.symlink_to("nowhere"),
    "folder": lambda path: path.mkdir(),
    "deep": lambda path: path.write_text("[" * 1_000_000),
    "huge": lambda path: os.truncate(path.write_text("{") and path, 1 << 40),
    "not ours": lambda path: path.write_text('{"schema": 1}'),
}


def _socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the name of a socket is a hundred bytes at most
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(path.name)
    finally:
        os.chdir(here)


TAKEN: dict[str, Callable[[Path], object]] = {
    "fifo": os.mkfifo,
    "socket": _socket,
    "file": lambda path: path.write_text("mine"),
    "link to a folder": lambda path: (path.parent / "home").mkdir() or path.symlink_to("home"),
    "link to a file": lambda path: path.symlink_to("log.jsonl"),
    "dangling link": lambda path: path.symlink_to("nowhere"),
    "link to itself": lambda path: path.symlink_to(path.name),
    "link to null": lambda path: path.symlink_to("/dev/null"),
}


@pytest.mark.parametrize("kind", TAKEN)
def test_what_is_no_folder_is_never_replaced(folder: Path, kind: str) -> None:
    TAKEN[kind](folder / "out")
    before = tree(folder)
    for force in ([], ["--force"]):
        for out in ("out", "out/"):
            done = karl("sample", "log.jsonl", "-o", out, *HOW, *force, folder=folder, timeout=20)
            assert done.returncode in ((5,) if out == "out" else (1, 5)), done.stderr
            refused(done, done.returncode)
            assert tree(folder) == before


@pytest.mark.parametrize("out", ["/dev/null", "/dev/full", "/proc/self/mem", "/proc/out", "/sys/out", "/dev/null/out"])
def test_a_system_path_is_refused(folder: Path, out: str) -> None:
    if not Path(out).parent.exists():
        pytest.skip(f"no {Path(out).parent} here")
    facts = Path(out).stat() if Path(out).exists() else None
    done = karl("sample", "log.jsonl", "-o", out, "--force", *HOW, folder=folder)
    refused(done, 5 if facts else 1)
    assert facts is None or Path(out).stat().st_mode == facts.st_mode


@pytest.mark.parametrize("out", ["..", "a/..", ".", "/"])
def test_a_nameless_path_is_a_usage_error(folder: Path, out: str) -> None:
    assert refused(karl("sample", "log.jsonl", "-o", out, *HOW, folder=folder), 2).endswith("a name of its own")
    assert [path.name for path in folder.iterdir()] == ["log.jsonl"]


@pytest.mark.parametrize("out", ["n" * 255, "é" * 127, "a/" * 100 + "out", ".", "-- -", "~", "a\nb", "%s{}"])
def test_any_valid_file_name_is_an_output(folder: Path, out: str) -> None:
    out = out if out != "." else "./.hidden"
    for force in ([], ["--force"]):
        done = karl("sample", "log.jsonl", f"--out={out}", *HOW, *force, folder=folder)
        assert done.returncode == 0, done.stderr
        assert len(rows.lines(folder / out)) == 5
    assert sum(path.name == "manifest.json" for path in folder.rglob("*")) == 1


@pytest.mark.parametrize("out", ["n" * 256, "n/" * 2500 + "out", "a/" + "n" * 256 + "/out"])
def test_an_invalid_file_name_leaves_nothing(folder: Path, out: str) -> None:
    refused(karl("sample", "log.jsonl", "-o", out, *HOW, folder=folder), 1)
    assert [path.name for path in folder.iterdir()] == ["log.jsonl"]


def test_a_parent_that_is_a_link_is_followed(folder: Path) -> None:
    (folder / "home").mkdir()
    (folder / "link").symlink_to("home")
    for force in ([], ["--force"]):
        done = karl("sample", "log.jsonl", "-o", "link/out", *HOW, *force, folder=folder)
        assert done.returncode == 0, done.stderr
    assert [path.name for path in (folder / "home").iterdir()] == ["out"]
    (folder / "astray").symlink_to("nowhere")
    refused(karl("sample", "log.jsonl", "-o", "astray/out", *HOW, folder=folder), 1)


FOLDER = "hint: give the output a name in a folder that can be written to"


@pytest.mark.parametrize("out", ["home/out", "home/a/b/out"])
def test_an_unwritable_folder_fails_before_reading(folder: Path, out: str) -> None:
    (folder / "home").mkdir(mode=0o500)
    (folder / "log.jsonl").write_text("")
    done = karl("sample", "log.jsonl", "-o", out, *HOW, folder=folder, preexec_fn=powerless)
    assert refused(done, 1) == f"cannot write {out}: the folder home may not be written to"
    assert done.stderr.splitlines()[1] == FOLDER


@pytest.mark.parametrize("out", ["log.jsonl/out", "log.jsonl/a/b/out", "astray/out"])
def test_a_missing_folder_fails_before_reading(folder: Path, out: str) -> None:
    (folder / "astray").symlink_to("nowhere")
    (folder / "log.jsonl").write_text("")
    done = karl("sample", "log.jsonl", "-o", out, *HOW, folder=folder)
    around = out.partition("/")[0]
    why = ": No such file or directory" if around == "astray" else " is not a folder"
    assert refused(done, 1) == f"cannot write {out}: {around}{why}"
    assert done.stderr.splitlines()[1] == FOLDER


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_system_errors_show_no_number_or_hidden_name(folder: Path) -> None:
    done = karl("convert", "log.jsonl", "-o", "/proc/out.jsonl", folder=folder)
    assert refused(done, 1) == "cannot create a file beside /proc/out.jsonl: No such file or directory"
    done = karl("sample", "log.jsonl", "-o", "/proc/out", "-k", 20, folder=folder)
    assert refused(done, 1).endswith("/proc/out: No such file or directory")
    with pytest.raises(FileError) as caught:
        karl_fast.convert(folder / "log.jsonl", "/proc/out.jsonl")
    assert caught.value.errno == errno.ENOENT


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is Linux's")
@pytest.mark.parametrize("command", [["inspect", "log.jsonl"], ["inspect", "log.jsonl", "--json"]])
def test_a_full_standard_output_is_an_error(folder: Path, command: list[str]) -> None:
    for more in (command, ["sample", "log.jsonl", "-o", "-", "-k", "20"]):
        with Path("/dev/full").open("wb") as full:
            done = subprocess.run(
                [*COMMAND, *more],
                cwd=folder,
                env=environment(),
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
        assert done.returncode == 1, (more, done.stderr)
        assert "Traceback" not in done.stderr
        assert done.stderr.startswith("error: ")


@pytest.mark.parametrize("closed", ["stdout", "stderr", "both"])
def test_closed_streams_break_nothing(folder: Path, closed: str) -> None:
    shut = {"stdout": ">&-", "stderr": "2>&-", "both": ">&- 2>&-"}[closed]
    for command in (
        "inspect log.jsonl",
        "sample log.jsonl -o data -k 5",
        "sample log.jsonl -o - -k 5",
        "inspect nowhere",
    ):
        script = f'exec "$@" {command} {shut}'
        done = subprocess.run(
            ["sh", "-c", script, "sh", *COMMAND],
            cwd=folder,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        data = "inspect log" in command or "-o -" in command
        assert done.returncode == (command == "inspect nowhere" or (data and closed != "stderr")), (
            command,
            done.stderr,
        )
        assert "Traceback" not in done.stderr, (command, done.stderr)
        assert not list(folder.glob(".data*"))
        shutil.rmtree(folder / "data", ignore_errors=True)
