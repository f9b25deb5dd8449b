"""A log that changes under the reader: at its end it may grow, anything else is an error, and nothing is written."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from tests import rows
from tests.cli.run import karl
from tests.robustness.fault_process import Server, server, unavailable
from tests.slow import nightly

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CHANGES = {
    "grows": "cat more.jsonl >> log.jsonl",
    "grows inside a record": "printf '{\"id\": ' >> log.jsonl",
    "shrinks": "truncate -s 200 log.jsonl",
    "is emptied": ": > log.jsonl",
    "is replaced by its like": "cp log.jsonl new && mv new log.jsonl",
    "is replaced by another": "mv other.jsonl log.jsonl",
    "is rewritten": "tac log.jsonl > new && cat new > log.jsonl",
    "is packed": "gzip -c log.jsonl > new && mv new log.jsonl",
    "is deleted": "rm log.jsonl",
    "becomes a folder": "rm log.jsonl && mkdir log.jsonl",
}
GONE = ("cannot open log.jsonl", "cannot read log.jsonl", "it is not a regular file")
HARMLESS = {"grows", "grows inside a record", "is replaced by its like"}


@pytest.fixture(scope="module")
def shim() -> Iterator[Server]:
    if reason := unavailable():
        pytest.skip(reason)
    with server() as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows.write(tmp_path / "log.jsonl", rows.records(30))
    rows.write(tmp_path / "more.jsonl", [rows.record(n, "late", 9.0) for n in range(100, 105)])
    rows.write(tmp_path / "other.jsonl", rows.records(31, seed=8))
    (tmp_path / "tmp").mkdir()
    return tmp_path


def once(shim: Server, folder: Path, at: int, change: str) -> tuple[int, str, int]:
    """Run with a change just before the `at`-th read of anything: code, errors, and whether it came to that."""
    how = ("-k", 10, "--seed", 2, "-q")
    done = shim.run(
        "sample",
        "log.jsonl",
        "-o",
        "data",
        *how,
        folder=folder,
        function="read",
        at=at,
        action="stop",
        meanwhile=change,
    )
    return done.code, done.err, done.hits


@pytest.mark.parametrize("name", CHANGES)
def test_a_log_changed_during_reads_is_an_error(shim: Server, tmp_path: Path, folder: Path, name: str) -> None:
    texts = {file.name: file.read_bytes() for file in folder.glob("*.jsonl")}
    changed = 0
    for at in range(1, 1000):
        for file in folder.iterdir():
            shutil.rmtree(file) if file.is_dir() else file.unlink()
        (folder / "tmp").mkdir()
        for file, text in texts.items():
            (folder / file).write_bytes(text)
        code, err, hits = once(shim, folder, at, CHANGES[name])
        if not hits:
            break
        assert "Traceback" not in err
        assert not list(folder.glob(".data*"))
        if code == 0:
            # Whatever was drawn is a row of the file before or after.
            assert 1 <= len(rows.lines(folder / "data")) <= 10
            continue
        changed += code == 1
        assert code in (1, 4), err
        assert err.startswith("error: ")
        assert not (folder / "data").exists()
        told = ("changed since it was scanned", *GONE)
        assert code == 4 or any(words in err for words in told), err
    assert at > 5
    assert (changed > 0) == (name not in HARMLESS), (name, changed)


def test_appended_rows_change_nothing(shim: Server, folder: Path) -> None:
    last = 0
    for at in range(1, 100):
        code, err, hits = once(shim, folder, at, "true")
        assert code in (0, 5), err
        last = at if hits else last
        if not hits:
            break
        shutil.rmtree(folder / "data")
    assert once(shim, folder, 10_000, "true")[0] == 5
    before = rows.files(folder / "data")
    shutil.rmtree(folder / "data")
    # The last reads are those of the chosen rows, and of the hash.
    code, err, hits = once(shim, folder, last - 4, CHANGES["grows"])
    assert (code, hits) == (0, 1), err
    assert rows.files(folder / "data") == before


def claude(number: int) -> dict[str, object]:
    more = {"sessionId": f"s{number % 3}", "uuid": f"u{number}", "timestamp": f"2026-01-01T00:00:{number:02}Z"}
    return more | {"type": "user", "message": {"role": "user", "content": f"say {number}"}}


def codex(number: int) -> dict[str, object]:
    content = [{"type": "input_text", "text": f"say {number}"}]
    payload = {"type": "message", "role": "user", "content": content}
    return {"timestamp": f"2026-01-01T00:00:{number:02}Z", "type": "response_item", "payload": payload}


def atif(number: int) -> dict[str, object]:
    steps = [{"step_id": at, "source": "user", "message": f"say {at + number}"} for at in range(1, 60)]
    return {"schema_version": "ATIF-v1.4", "session_id": f"s{number}", "agent": {"name": "a"}, "steps": steps}


STEP = 1 if os.environ.get("KARL_FAST_SLOW") else 9

LINES = {
    "rollouts": [rows.record(number) for number in range(60)],
    "claude-code": [claude(number) for number in range(60)],
    "codex": [codex(number) for number in range(60)],
}
TOLD = ("it changed while it was read", "changed since it was scanned", "Is a directory", *GONE)
"""What an error says of a file that changed during a conversion, or is gone."""

REWRITTEN = [name for name in CHANGES if name not in (*HARMLESS, "is packed")] + ["is replaced by its like"]


def written(folder: Path, kind: str) -> None:
    """A log of a kind, and another of it."""
    if kind == "atif":
        (folder / "log.jsonl").write_text(json.dumps(atif(0)))
        (folder / "other.jsonl").write_text(json.dumps(atif(100)))
        return
    lines = [json.dumps(line) + "\n" for line in LINES[kind.removesuffix(" packed")]]
    texts = {"log.jsonl": "".join(lines), "other.jsonl": "".join(lines[::2]), "more.jsonl": lines[-1]}
    for name, text in texts.items():
        (folder / name).write_bytes(gzip.compress(text.encode()) if "packed" in kind else text.encode())


def converted(shim: Server, folder: Path, at: int, change: str) -> tuple[int, str, int]:
    how = {"function": "any", "at": at, "action": "stop", "meanwhile": change}
    done = shim.run("convert", "log.jsonl", "-o", "made.jsonl", "-q", folder=folder, **how)  # type: ignore[arg-type]
    return done.code, done.err, done.hits


@pytest.mark.parametrize(
    "kind", nightly(["claude-code", "rollouts", "codex", "atif", "rollouts packed", "claude-code packed"])
)
@pytest.mark.parametrize("name", [*REWRITTEN, "grows"])
def test_a_conversion_sees_one_state(shim: Server, tmp_path: Path, kind: str, name: str) -> None:
    if name == "grows" and kind == "atif":
        pytest.skip("a document does not grow")
    states, refusals = [], []
    for change in ("true", CHANGES[name]):
        written(tmp_path, kind)
        os.system(f"cd '{tmp_path}' && {change}")
        done = karl("convert", "log.jsonl", "-o", "made.jsonl", "--force", folder=tmp_path)
        if done.returncode == 0:
            states.append((tmp_path / "made.jsonl").read_bytes())
        else:
            refusals.append(done.stderr)
    errors = 0
    for at in range(1, 1000, STEP):
        shutil.rmtree(tmp_path)
        (tmp_path / "tmp").mkdir(parents=True)
        written(tmp_path, kind)
        code, err, hits = converted(shim, tmp_path, at, CHANGES[name])
        if not hits:
            break
        assert "Traceback" not in err
        assert (tmp_path / "made.jsonl").exists() == (code == 0)
        if code == 0:
            made = (tmp_path / "made.jsonl").read_bytes()
            assert made in states or name == "grows", (at, err)
        if code != 0:
            told = any(words in err for words in TOLD)
            # Of a change before the first read the error is that of the file as it is then. A file that is emptied
            # while its kind is detected is of no kind.
            kindless = name == "is emptied" and "it is not a transcript of a known tool" in err
            assert code == 1 or err in refusals, err
            assert told or kindless or err in refusals, (at, err)
            errors += told
    assert at > 10
    assert (errors > 0) == (name != "grows"), errors
