"""Ctrl-C and SIGTERM end a run at any moment with one line that says what there is of its output, and no traceback."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from karl_fast import cli
from karl_fast._signals import Stopped
from karl_fast.entrypoint import STOPS
from tests.cli.run import COMMAND, environment, karl

if TYPE_CHECKING:
    from pathlib import Path

STOPPED = """\
import gc, os, signal, sys, time
from karl_fast.entrypoint import main
seconds, number = float(sys.argv.pop(1)), int(sys.argv.pop(1))
signal.signal(number, signal.SIG_DFL)  # which nohup has the tests ignore
parent = os.getpid()
def heard():
    if os.fork() == 0:
        time.sleep(seconds)
        if os.getppid() == parent:  # or the run has ended
            os.kill(parent, number)
        os._exit(0)
gc.disable = heard
main()
"""
"""The command, which gets a signal so many seconds after it has set its handlers: its next call is `gc.disable`."""


def stopped(*arguments: str, folder: Path, after: float, number: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", STOPPED, str(after), str(number), *arguments]
    pipes = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
    # A file that Python was opening is closed when nobody has it any more, which it would warn of.
    unwarned = environment() | {"PYTHONWARNINGS": "error,ignore::ResourceWarning"}
    return subprocess.run(command, cwd=folder, env=unwarned, check=False, timeout=60, **pipes)


def ends(out: Path, number: int) -> set[tuple[int, str]]:
    """Exit codes and words of the runs that may have left an output so."""
    if not out.exists():
        return {(128 + number, f"{STOPS[number]}; nothing was written\n")}
    return {(0, ""), (128 + number, f"{STOPS[number]}; {out.name} is written\n")}


@pytest.mark.parametrize(
    ("command", "number"),
    [("sample -k 9", signal.SIGINT), ("sample -k9", signal.SIGINT), ("convert", signal.SIGTERM)],
    ids=["a plain line", "a line for the parser", "convert"],
)
def test_signal_ends_or_completes_a_run(folder: Path, command: str, number: int) -> None:
    for after in range(0, 60, 4):
        out = f"out{after}"
        arguments = (*command.split(), "-q", "tiny.jsonl", "-o", out)
        done = stopped(*arguments, folder=folder, after=after / 1000, number=number)
        assert (done.returncode, done.stderr) in ends(folder / out, number), after


@pytest.mark.parametrize("number", STOPS)
def test_long_run_reports_state_of_output(large: Path, tmp_path: Path, number: int) -> None:
    codes = []
    for step in range(8):
        count = ("-k", "15000") if step % 2 else ("-k15000",)  # which the parser reads
        arguments = ("sample", str(large), "-o", f"out{step}", *count, "-q")
        done = stopped(*arguments, folder=tmp_path, after=0.02 + step / 10, number=number)
        assert (done.returncode, done.stderr) in ends(tmp_path / f"out{step}", number)
        codes.append(done.returncode)
    assert 128 + number in codes


def test_printed_rows_may_be_incomplete(large: Path, tmp_path: Path) -> None:
    """The reader waits: the run is stopped in the middle of a row."""
    command = [*COMMAND, "sample", str(large), "-o", "-", "-k", "15000", "-q"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=tmp_path, env=environment(), **pipes) as process:
        process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        assert process.stderr.readline() == b"interrupted; rows may be missing from what was printed\n"
        process.stdout.close()
    assert process.returncode == 130


@pytest.mark.parametrize(
    ("source", "code", "said"),
    [
        ("import signal; signal.raise_signal(signal.SIGINT)", 130, "interrupted; nothing was written"),
        ("import signal; signal.raise_signal(signal.SIGTERM)", 143, "terminated; nothing was written"),
        ("import sys; sys.exit(3)", 1, "error: reward.slow: slow.py does not run: SystemExit: 3"),
    ],
    ids=["Ctrl-C", "SIGTERM", "an end of its own"],
)
def test_signal_during_user_code_is_not_its_fault(folder: Path, source: str, code: int, said: str) -> None:
    (folder / "slow.py").write_text(source)
    (folder / "karl.toml").write_text('[reward]\nslow = { weight = 1, fn = "slow.py:score" }\n')
    done = karl("sample", "tiny.jsonl", "-o", "data", "-k", 3, "--config", "karl.toml", folder=folder)
    assert (done.returncode, done.stderr) == (code, said + "\n")


def test_signal_during_class_creation_keeps_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def import_stopped(_: list[str]) -> None:
        # Python 3.11 raises this from a `__set_name__` in which a handler raised.
        raise RuntimeError("Error calling __set_name__") from Stopped(signal.SIGTERM, lambda word: f"{word}; nothing")

    monkeypatch.setattr(cli, "_run_command", import_stopped)
    assert cli._run() == 143
    assert capsys.readouterr().err == "terminated; nothing\n"


def test_until_the_command_hears_signals_little_is_loaded() -> None:
    code = (
        "import sys; before = {*sys.modules}; import karl_fast.entrypoint\n"
        "print({'typing', 're', 'contextlib', 'pathlib'} & ({*sys.modules} - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "set()\n", done.stderr
