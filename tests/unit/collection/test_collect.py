"""Collection from the places of every agent."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
from typing import TYPE_CHECKING

import pytest

import karl_fast
from karl_fast.errors import FileError, OutputForeignError
from tests.unit.collection.made import claude, codex, lines_of_session, stored, text, trajectories

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without the agents of whoever runs the test."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    for name in (
        "CLAUDE_CONFIG_DIR",
        "CODEX_HOME",
        "GEMINI_CLI_HOME",
        "COPILOT_HOME",
        "PI_CODING_AGENT_DIR",
        "PI_CODING_AGENT_SESSION_DIR",
        "XDG_DATA_HOME",
        "OPENCODE_DB",
        "KARL_FAST_ARCHIVE",
    ):
        monkeypatch.delenv(name, raising=False)
    return folder


def test_archive_converts_as_the_originals(home: Path, tmp_path: Path) -> None:
    projects = claude(home, 30)
    codex(home, "root")
    codex(home, "child", parent="root")
    collected = karl_fast.collect()
    archive = home / ".local" / "share" / "karl-fast" / "archive"
    assert collected.archive == str(archive)
    assert collected.agents == {"claude-code": 33, "codex": 2}
    assert (collected.files, collected.grown, collected.failed) == (35, 35, [])
    for agent, source in (("claude-code", projects), ("codex", home / ".codex" / "sessions")):
        made = trajectories(archive / agent, tmp_path / "archived.jsonl")
        assert made == trajectories(source, tmp_path / "original.jsonl")
    children = [one for one in trajectories(archive, tmp_path / "all.jsonl") if one["id"] == "child"]
    assert [one["parent"] for one in children] == [{"id": "root", "tool_call_id": None}]
    again = karl_fast.collect()
    assert (again.grown, again.lines, again.unchanged) == (0, 0, 35)


def test_what_an_agent_deleted_stays(home: Path, tmp_path: Path) -> None:
    projects = claude(home, 4)
    wanted = trajectories(projects, tmp_path / "original.jsonl")
    karl_fast.collect(tmp_path / "archive")
    shutil.rmtree(projects)
    assert karl_fast.collect(tmp_path / "archive").files == 0
    assert trajectories(tmp_path / "archive", tmp_path / "archived.jsonl") == wanted


def test_rewrite_of_same_size_is_collected(tmp_path: Path) -> None:
    file = tmp_path / "sessions" / "a.jsonl"
    file.parent.mkdir()
    lines = [json.dumps({"type": "user", "sessionId": "s", "uuid": f"u{number:04}", "at": 1}) for number in range(400)]
    file.write_text("".join(f"{line}\n" for line in lines))
    archive = tmp_path / "archive"
    assert karl_fast.collect(archive, [file.parent]).lines == 400
    changed = [line.replace("u0200", "u9200") for line in lines]
    file.write_text("".join(f"{line}\n" for line in changed))
    again = karl_fast.collect(archive, [file.parent])
    assert (again.reread, again.lines, again.duplicates) == (1, 1, 399)
    [held] = stored(archive).values()
    assert sorted(held) == sorted({*lines, *changed})
    os.utime(file, (1, 1))  # written again with the same content
    touched = karl_fast.collect(archive, [file.parent])
    assert (touched.lines, touched.duplicates) == (0, 400)
    assert karl_fast.collect(archive, [file.parent]).unchanged == 1


def test_a_session_in_many_frames_is_one(home: Path, tmp_path: Path) -> None:
    path = home / ".claude" / "projects" / "p" / "s.jsonl"
    path.parent.mkdir(parents=True)
    lines = lines_of_session("s", 21)
    for count in range(1, len(lines) + 1):
        path.write_text(text(lines[:count]), "utf-8")
        assert karl_fast.collect(tmp_path / "archive").lines == 1
    made = trajectories(tmp_path / "archive", tmp_path / "archived.jsonl")
    assert made == trajectories(path.parent, tmp_path / "original.jsonl")
    assert len(made[0]["messages"]) == 21
    catalogue = [json.loads(line) for line in (tmp_path / "archive" / "catalogue").read_text().splitlines()]
    assert [entry["offset"] + entry["length"] for entry in catalogue[:-1]] == [one["offset"] for one in catalogue[1:]]


def test_every_command_that_reads_transcripts_reads_the_archive(home: Path, tmp_path: Path) -> None:
    projects = claude(home, 6)
    karl_fast.collect(tmp_path / "archive")
    outcomes = [
        karl_fast.outcomes(source, tmp_path / "o.jsonl", force=True) for source in (projects, tmp_path / "archive")
    ]
    assert outcomes[0].written == outcomes[1].written > 0
    karl_fast.convert(tmp_path / "archive", tmp_path / "t.jsonl")
    assert len(karl_fast.read(tmp_path / "t.jsonl")) == 7


def test_other_agents_are_archived(home: Path, tmp_path: Path) -> None:
    chats = home / ".gemini" / "tmp" / "hash" / "chats"
    chats.mkdir(parents=True)
    document = {"sessionId": "g", "projectHash": "hash", "messages": [{"id": "1", "type": "user", "content": "a"}]}
    (chats / "session-1.json").write_text(json.dumps(document), "utf-8")
    (chats / "session-2.jsonl").write_text('{"sessionId":"h","projectHash":"hash"}\n{"id":"1"}\n', "utf-8")
    copilot = home / ".copilot" / "session-state" / "c1"
    copilot.mkdir(parents=True)
    (copilot / "events.jsonl").write_text(
        '{"type":"session.start","data":{"sessionId":"c1"},"timestamp":"t"}\n', "utf-8"
    )
    collected = karl_fast.collect(tmp_path / "archive")
    assert collected.agents == {"gemini-cli": 2, "copilot-cli": 1}
    files = stored(tmp_path / "archive")
    assert [json.loads(line) for line in files["gemini-cli/hash/chats/session-1.json.jsonl.zst"]] == [
        {"sessionId": "g", "projectHash": "hash"},
        {"id": "1", "type": "user", "content": "a"},
    ]
    assert len(files["gemini-cli/hash/chats/session-2.jsonl.zst"]) == 2
    assert len(files["copilot-cli/c1/events.jsonl.zst"]) == 1


def database(path: Path) -> sqlite3.Connection:
    """Open a database as opencode keeps it, which stays open."""
    path.parent.mkdir(parents=True)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE session (id TEXT PRIMARY KEY, directory TEXT, time_updated INTEGER)")
    connection.execute("CREATE TABLE part (id TEXT PRIMARY KEY, session_id TEXT, data TEXT)")
    connection.execute("CREATE TABLE account (id TEXT PRIMARY KEY, refresh_token TEXT)")
    connection.execute("INSERT INTO account VALUES ('a', 'secret')")
    connection.execute("INSERT INTO session VALUES ('s', '/home/dev', 1)")
    return connection


def test_opencode_is_read_while_it_writes(home: Path, tmp_path: Path) -> None:
    path = home / ".local" / "share" / "opencode" / "opencode.db"
    writer = database(path)
    for number in range(20):
        writer.execute("INSERT INTO part VALUES (?, 's', ?)", (f"p{number}", json.dumps({"text": "x" * number})))
        collected = karl_fast.collect(tmp_path / "archive")
        assert (collected.failed, collected.lines) == ([], 1 if number else 2)
    writer.execute("UPDATE part SET data = '{}' WHERE id = 'p3'")
    assert karl_fast.collect(tmp_path / "archive").lines == 1
    writer.close()
    assert not path.with_name("opencode.db-wal").exists()
    assert karl_fast.collect(tmp_path / "archive").lines == 0
    lines = next(iter(stored(tmp_path / "archive").values()))
    assert len(lines) == len(set(lines)) == 22
    assert not any("secret" in line for line in lines)


def test_a_database_that_is_none_leaves_the_others(home: Path, tmp_path: Path) -> None:
    claude(home, 2)
    path = home / ".local" / "share" / "opencode" / "opencode.db"
    path.parent.mkdir(parents=True)
    path.write_text("no database, though its name says so", "utf-8")
    collected = karl_fast.collect(tmp_path / "archive")
    assert collected.grown == 3
    assert [path for path, _ in collected.failed] == [str(path)]
    assert collected.files == collected.grown + collected.unchanged + len(collected.failed)


def test_places_of_a_user(home: Path, tmp_path: Path) -> None:
    claude(home, 2)
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "s.jsonl").write_text(text(lines_of_session("mine", 4)), "utf-8")
    collected = karl_fast.collect(mine / "archive", [mine])
    assert collected.agents == {"other": 1}
    assert karl_fast.collect(mine / "archive", [mine]).files == 1
    with pytest.raises(FileError, match="no such file"):
        karl_fast.collect(mine / "archive", [tmp_path / "nowhere"])
    with pytest.raises(OutputForeignError, match=r"holds s\.jsonl"):
        karl_fast.collect(mine, [home])


def test_the_repository_is_noted(home: Path, tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    shop.mkdir()

    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgSign=false"]
        done = subprocess.run(["git", *identity, *arguments], cwd=shop, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    git("init", "-q", "-b", "feature")
    (shop / ".gitattributes").write_text("* filter=f\n", "utf-8")
    (shop / "a.py").write_text("a = 1\n", "utf-8")
    git("add", ".")
    git("commit", "-q", "-m", "First")
    git("config", "remote.origin.url", "https://me:word@example.org/shop.git")
    # What the repository's configuration would execute is not.
    marker = tmp_path / "executed"
    git("config", "filter.f.clean", f"touch {marker}; cat")
    git("config", "core.fsmonitor", f"touch {marker}")
    head = git("rev-parse", "HEAD")
    lines = lines_of_session("s", 3)
    path = home / ".claude" / "projects" / "p" / "s.jsonl"
    path.parent.mkdir(parents=True)
    states = []
    for count, change in ((1, None), (2, "a = 2\n"), (3, "a = 3\n")):
        if change:
            (shop / "a.py").write_text(change, "utf-8")
        path.write_text(text([line | {"cwd": str(shop)} for line in lines[:count]]), "utf-8")
        karl_fast.collect(tmp_path / "archive")
        entry = json.loads((tmp_path / "archive" / "catalogue").read_text().splitlines()[-1])
        states.append(entry["dirty"])
        assert entry["commit"] == head
        assert (entry["branch"], entry["remote"]) == ("feature", "https://example.org/shop.git")
        assert entry["directory"] == str(shop)
    assert states[0] == "clean"
    assert len({*states}) == 3
    assert not marker.exists()


def test_non_utf8_name_is_archived(home: Path, tmp_path: Path) -> None:
    projects = claude(home, 2)
    odd = os.fsencode(projects) + b"/-home-caf\xe9"
    os.mkdir(odd)  # noqa: PTH102
    for name in (b"a\xff.jsonl", b"s.jsonl"):
        with open(odd + b"/" + name, "wb") as file:  # noqa: PTH123
            file.write(text(lines_of_session("odd" + name.decode("latin-1"), 4)).encode())
    with open(odd + b"/opencode\xff.db", "wb") as file:  # noqa: PTH123
        file.write(b"no database")
    collected = karl_fast.collect(tmp_path / "archive")
    assert (collected.files, collected.grown, collected.failed) == (5, 5, [])
    assert "claude-code/-home-caf\\xe9/a\\xff.jsonl.zst" in stored(tmp_path / "archive")
    assert len(trajectories(tmp_path / "archive", tmp_path / "t.jsonl")) == 5
    again = karl_fast.collect(tmp_path / "archive")
    assert (again.unchanged, again.lines) == (5, 0)
    mine = karl_fast.collect(tmp_path / "other", [os.fsdecode(odd)])
    assert [path for path, _ in mine.failed] == [f"{projects}/-home-caf\\xe9/opencode\\xff.db"]


def test_folders_behind_links_are_collected_once(home: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "disk" / "project"
    elsewhere.mkdir(parents=True)
    (elsewhere / "linked.jsonl").write_text(text(lines_of_session("linked", 4)), "utf-8")
    projects = claude(home, 2)
    (projects / "-home-linked").symlink_to(elsewhere)
    (projects / "-again").symlink_to(projects / "-home-dev-shop-0")
    (elsewhere / "up").symlink_to(projects)
    (projects / "gone").symlink_to(tmp_path / "nowhere")
    collected = karl_fast.collect(tmp_path / "archive")
    assert (collected.files, collected.grown, collected.failed) == (4, 4, [])
    files = stored(tmp_path / "archive")
    assert "claude-code/-home-linked/linked.jsonl.zst" in files
    assert not any("-again" in name for name in files)


def test_a_folder_that_cannot_be_listed_is_reported(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = claude(home, 2) / "locked"
    locked.mkdir()
    scandir = os.scandir

    def refusing(path: Path) -> object:
        if path == locked:
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    collected = karl_fast.collect(tmp_path / "archive")
    assert collected.grown == 3
    assert collected.failed == [(str(locked), "cannot list the folder: Permission denied")]


def test_rewrite_without_first_line_stays_in_file(home: Path, tmp_path: Path) -> None:
    path = home / ".claude" / "projects" / "p" / "s.jsonl"
    path.parent.mkdir(parents=True)
    summary = {"type": "summary", "summary": "Till", "leafUuid": "s--3", "sessionId": "s"}
    path.write_text(text([summary, *lines_of_session("s", 6)]), "utf-8")
    assert karl_fast.collect(tmp_path / "archive").lines == 7
    path.write_text(text(lines_of_session("s", 8)), "utf-8")
    again = karl_fast.collect(tmp_path / "archive")
    assert (again.lines, again.duplicates) == (2, 6)
    path.write_text(text([summary | {"summary": "Till mended"}, *lines_of_session("s", 9)]), "utf-8")
    assert karl_fast.collect(tmp_path / "archive").lines == 2
    [held] = stored(tmp_path / "archive").values()
    assert len(held) == len(set(held)) == 11
    # Another session under the same name has a file of its own.
    path.write_text(text(lines_of_session("other", 3)), "utf-8")
    assert karl_fast.collect(tmp_path / "archive").lines == 3
    assert sorted(len(lines) for lines in stored(tmp_path / "archive").values()) == [3, 11]


def test_sessions_of_the_second_opencode_are_archived(home: Path, tmp_path: Path) -> None:
    path = home / ".local" / "share" / "opencode" / "opencode.db"
    with contextlib.closing(database(path)) as writer:
        writer.execute("CREATE TABLE session_v2 (id TEXT PRIMARY KEY, parent_id TEXT, directory TEXT)")
        writer.execute("CREATE TABLE session_message (id TEXT PRIMARY KEY, session_id TEXT, seq INTEGER, data TEXT)")
        writer.execute("CREATE TABLE session_pending (id TEXT PRIMARY KEY, session_id TEXT, data TEXT)")
        writer.execute("CREATE TABLE credential (id TEXT PRIMARY KEY, value TEXT)")
        writer.execute("CREATE TABLE session_share (session_id TEXT PRIMARY KEY, secret TEXT)")
        writer.execute("INSERT INTO session_v2 VALUES ('ses_1', NULL, '/home/dev'), ('ses_2', 'ses_1', '/home/dev')")
        writer.execute("INSERT INTO session_message VALUES ('m', 'ses_1', 1, '{}')")
        writer.execute("INSERT INTO session_pending VALUES ('i', 'ses_1', '{}')")
        writer.execute("INSERT INTO credential VALUES ('c', 'secret')")
        writer.execute("INSERT INTO session_share VALUES ('ses_1', 'secret')")
        karl_fast.collect(tmp_path / "archive")
    [lines] = stored(tmp_path / "archive").values()
    tables = [json.loads(line)["opencode_table"] for line in lines]
    assert tables == ["session", "session_v2", "session_v2", "session_message", "session_pending"]
    assert not any("secret" in line for line in lines)
