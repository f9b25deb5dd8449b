"""What others do at the place of an output during a run: it stays, and the run says so or is done before."""

from __future__ import annotations

import errno
import os
import shutil
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests import rows
from tests.cli.run import karl, start
from tests.robustness.fault_process import Server, server, unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SLOW = bool(os.environ.get("KARL_FAST_SLOW"))
STEP = 1 if SLOW else 8
"""Every so many calls to the system are the one before which something is done; each is with KARL_FAST_SLOW."""

SAMPLE = ("sample", "log.jsonl", "-o", "out", "-k", 6, "-q", "--as", "chat")
CONVERT = ("convert", "log.jsonl", "-o", "out", "-q")
PLAIN = errno.EINVAL
"""What a file system says that knows no flags of renames."""


class Race(NamedTuple):
    """A command, what is at its target before, and what is done there during the run."""

    command: tuple[object, ...]
    before: str
    change: str
    exchange: int | None = None


MADE = {
    "a folder": "mkdir out && echo precious > out/notes.txt",
    "an empty folder": "mkdir out",
    "a file": "set -C; echo precious > out",
    "a link": "mkdir theirs && echo precious > theirs/notes.txt && ln -sT theirs out",
    "its like": "test ! -e out && cp -r other out",
}
OLD_FOLDER = "cp -r older out"
CHANGED = {
    "a file more": "echo precious > out/notes.txt",
    "a longer file": "echo precious >> out/train.jsonl",
    "another folder": "rm -r out && mkdir out && echo precious > out/notes.txt",
    "a link instead": "mv out theirs && echo precious > theirs/notes.txt && ln -sT theirs out",
    "its like instead": "rm -r out && cp -r other out",
}
OLD_FILE = "cp older.jsonl out"
REWRITTEN = {
    "a line more": "echo precious >> out",
    "another file": "echo precious > new && mv new out",
    "a folder instead": "rm out && mkdir out && echo precious > out/notes.txt",
    "a link instead": "mv out theirs && echo precious >> theirs && ln -sT theirs out",
}
RACES = {
    **{f"sample, {name} where nothing was": Race(SAMPLE, "true", change) for name, change in MADE.items()},
    **{f"sample, {name}, plain renames": Race(SAMPLE, "true", change, PLAIN) for name, change in MADE.items()},
    **{f"convert, {name} where nothing was": Race(CONVERT, "true", change) for name, change in MADE.items()},
    **{f"convert, {name}, plain renames": Race(CONVERT, "true", change, PLAIN) for name, change in MADE.items()},
    "sample, a file in an empty folder": Race(SAMPLE, "mkdir out", "echo precious > out/notes.txt"),
    "sample, a link for an empty folder": Race(SAMPLE, "mkdir out theirs", "rmdir out && ln -sT theirs out"),
    **{f"sample --force, {name}": Race((*SAMPLE, "--force"), OLD_FOLDER, change) for name, change in CHANGED.items()},
    **{
        f"sample --force, {name}, two renames": Race((*SAMPLE, "--force"), OLD_FOLDER, change, PLAIN)
        for name, change in CHANGED.items()
    },
    **{f"convert --force, {name}": Race((*CONVERT, "--force"), OLD_FILE, change) for name, change in REWRITTEN.items()},
}


@pytest.fixture(scope="module")
def shim() -> Iterator[Server]:
    if reason := unavailable():
        pytest.skip(reason)
    with server() as running:
        yield running


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pristine")
    rows.write(folder / "log.jsonl", rows.records(12))
    for out, seed in (("older", 1), ("other", 2)):
        assert karl("sample", "log.jsonl", "-o", out, "-k", 5, "--seed", seed, folder=folder).returncode == 0
    assert karl("convert", "log.jsonl", "-o", "older.jsonl", folder=folder).returncode == 0
    (folder / "tmp").mkdir()
    return folder


def contents(folder: Path) -> dict[str, bytes | str]:
    """Every file below a folder with its bytes, every link with what it leads to, folders with nothing."""
    found: dict[str, bytes | str] = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        found[name] = str(path.readlink()) if path.is_symlink() else "" if path.is_dir() else path.read_bytes()
    return found


def outcomes(
    shim: Server, folder: Path, pristine: Path, race: Race
) -> Iterator[tuple[int, str, dict[str, bytes | str]]]:
    """Code, words, and what lies there, of runs that are stopped at rising calls while others change the target."""
    for at in range(1, 10_000, STEP):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(pristine, folder)
        os.system(f"cd '{folder}' && {race.before}")
        meanwhile = f"({race.change}) 2>/dev/null && touch changed; true"
        how = {"at": at, "action": "stop", "meanwhile": meanwhile, "exchange": race.exchange}
        done = shim.run(*race.command, folder=folder, **how)  # type: ignore[arg-type]
        if not done.hits:
            assert at > 10
            return
        assert "Traceback" not in done.err
        yield done.code, done.err, contents(folder)


@pytest.mark.parametrize("name", RACES)
def test_nothing_that_others_put_there_is_lost(shim: Server, tmp_path: Path, pristine: Path, name: str) -> None:
    race, folder = RACES[name], tmp_path / "folder"
    taken = 0
    for code, err, found in outcomes(shim, folder, pristine, race):
        hidden = {path for path in found if path.startswith(".out.karl-fast-")}
        assert not hidden, (err, hidden)
        if code == 0:
            # The change came too late to be in the way, or there was nothing left to change.
            assert any(path in found for path in ("out/manifest.json", "out")), err
        else:
            assert (code, err.startswith("error: out: ")) == (5, True), err
            taken += "while this run was at work" in err
        if "changed" in found and "precious" in race.change:
            kept = any(b"precious" in text for text in found.values() if isinstance(text, bytes))
            # Before the first look, what is longer is still an output of ours, which --force replaces.
            assert kept or (taken == 0 and ">> out" in race.change), err
        if "changed" in found and "ln -sT" in race.change:
            assert found["out"] == "theirs", err
    assert taken > 0


def test_of_two_concurrent_runs_one_wins(tmp_path: Path) -> None:
    rows.write(tmp_path / "log.jsonl", rows.records(200))
    for number in range(30 if SLOW else 12):
        force = ("--force",) if number % 3 == 2 else ()
        if not force:
            shutil.rmtree(tmp_path / "data", ignore_errors=True)
        how = ("-o", "data", "-k", 100, "-q", *force)
        runs = {seed: start("sample", "log.jsonl", *how, "--seed", seed, folder=tmp_path) for seed in (1, 2)}
        said = {seed: run.communicate(timeout=60)[1] for seed, run in runs.items()}
        codes = {seed: run.returncode for seed, run in runs.items()}
        done = [seed for seed, code in codes.items() if code == 0]
        assert sorted(codes.values()) == [0, 5] or (force and done == [1, 2]), said
        assert all(said[seed].startswith("error: data: ") for seed in runs if seed not in done)
        manifest = rows.manifest(tmp_path / "data")
        assert manifest["seed"] in done
        assert len(rows.lines(tmp_path / "data")) == 100
        assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "log.jsonl"]
