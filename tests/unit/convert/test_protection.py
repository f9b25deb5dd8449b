"""Secrets and personal data in what convert, outcomes and pairs write."""

from __future__ import annotations

import json
import re
import stat
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from karl_fast.errors import UsageError
from tests.cli.run import karl
from tests.unit.convert import made

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
KEY = "key 000102030405060708090a0b0c0d0e0f\nuser carol\nhost thinkpad\n"
ASKED = f"mail bob@shop.org about /home/alice/till.py on thinkpad, token {SECRET}, carol\nalice"


@pytest.fixture
def sessions(tmp_path: Path) -> Path:
    """A session with the name of its user in a path, an address, a host and a secret."""
    session = made.Session()
    session.ask(ASKED)
    session.speak("m1", {"type": "text", "text": "done by alice"})
    session.write(tmp_path / "sessions" / "a.jsonl")
    (tmp_path / "names.key").write_text(KEY)
    return tmp_path / "sessions"


def rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_personal_data_is_replaced_alike_under_one_key(sessions: Path) -> None:
    folder, key = sessions.parent, sessions.parent / "names.key"
    karl_fast.convert(sessions, folder / "a.jsonl", pseudonyms=key)
    text = (folder / "a.jsonl").read_text()
    assert not re.search(r"alice|bob|carol|thinkpad|shop\.org", text)
    assert SECRET in text
    [row] = rows(folder / "a.jsonl")
    [asked] = [one["content"] for one in row["messages"] if one["role"] == "user"]
    user, *more = sorted(set(re.findall(r"user-[0-9a-f]{8}", asked)))
    assert len(more) == 1
    assert re.search(r"mail person-[0-9a-f]{8}@pseudonym\.invalid about /home/user-", asked)
    assert re.search(r"on host-[0-9a-f]{8}, token", asked)
    karl_fast.outcomes(sessions, folder / "b.jsonl", pseudonyms=key)
    assert user in (folder / "b.jsonl").read_text()
    (folder / "other.key").write_text(KEY.replace("key 0001", "key ffff"))
    karl_fast.convert(sessions, folder / "c.jsonl", pseudonyms=folder / "other.key")
    assert user not in (folder / "c.jsonl").read_text()


def test_replacing_twice_is_as_replacing_once(sessions: Path) -> None:
    folder, how = sessions.parent, {"pseudonyms": sessions.parent / "names.key", "redact": True}
    karl_fast.convert(sessions, folder / "a.jsonl", **how)
    karl_fast.outcomes(folder / "a.jsonl", folder / "b.jsonl", **how)
    before, after = rows(folder / "a.jsonl"), rows(folder / "b.jsonl")
    assert [row["messages"] for row in after] == [row["messages"] for row in before]
    assert "[REDACTED:" in (folder / "a.jsonl").read_text()
    assert SECRET not in (folder / "a.jsonl").read_text()


def test_a_key_is_made_once_for_its_owner_alone(sessions: Path) -> None:
    folder = sessions.parent
    key = folder / "new" / "names.key"
    for name in ("a", "b"):
        karl_fast.convert(sessions, folder / f"{name}.jsonl", pseudonyms=key)
    assert (folder / "a.jsonl").read_bytes() == (folder / "b.jsonl").read_bytes()
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert re.match(r"key [0-9a-f]{32}\n", key.read_text())
    assert [one.name for one in key.parent.iterdir()] == ["names.key"]


def test_a_file_that_is_no_key_is_refused_with_its_line(sessions: Path) -> None:
    key = sessions.parent / "bad.key"
    for text, says in (
        ("key 12\n", "line 1: wanted `key`"),
        ("user a\n", "has no key of pseudonyms"),
        ("", "has no key"),
    ):
        key.write_text(text)
        with pytest.raises(UsageError, match=says):
            karl_fast.convert(sessions, sessions.parent / "a.jsonl", pseudonyms=key)
    assert not (sessions.parent / "a.jsonl").exists()


def test_the_command_reports_replaced_secrets(sessions: Path) -> None:
    done = karl("convert", sessions, "-o", sessions.parent / "a.jsonl", "--redact", folder=sessions.parent)
    assert done.returncode == 0
    assert "secrets   replaced: " in done.stderr
