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
    karl_fast.convert(sessions, folder / "a.jsonl", pseudonyms=key, allow_secrets=True)
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
    folder, how = sessions.parent, {"pseudonyms": sessions.parent / "names.key"}
    karl_fast.convert(sessions, folder / "a.jsonl", **how)
    karl_fast.outcomes(folder / "a.jsonl", folder / "b.jsonl", **how)
    before, after = rows(folder / "a.jsonl"), rows(folder / "b.jsonl")
    assert [row["messages"] for row in after] == [row["messages"] for row in before]
    assert "[REDACTED:" in (folder / "a.jsonl").read_text()
    assert SECRET not in (folder / "a.jsonl").read_text()


def test_key_is_made_once_for_owner_alone(sessions: Path) -> None:
    folder = sessions.parent
    key = folder / "new" / "names.key"
    for name in ("a", "b"):
        karl_fast.convert(sessions, folder / f"{name}.jsonl", pseudonyms=key)
    assert (folder / "a.jsonl").read_bytes() == (folder / "b.jsonl").read_bytes()
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert re.match(r"key [0-9a-f]{32}\n", key.read_text())
    assert [one.name for one in key.parent.iterdir()] == ["names.key"]


def test_invalid_key_file_names_its_line(sessions: Path) -> None:
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
    for command in ("convert", "outcomes"):
        out = sessions.parent / f"{command}.jsonl"
        done = karl(command, sessions, "-o", out, folder=sessions.parent)
        assert done.returncode == 0
        assert "secrets   replaced: github 1" in done.stderr
        assert SECRET not in out.read_text()
        assert karl(command, sessions, "-o", out, "--force", "--allow-secrets", folder=sessions.parent).returncode == 0
        assert SECRET in out.read_text()


def test_rewards_by_outcomes_come_without_secrets(sessions: Path) -> None:
    out = sessions.parent / "a.jsonl"
    account = karl_fast.convert(sessions, out, rate="outcomes")
    assert account.secrets == {"github": 1}
    assert SECRET not in out.read_text()


@pytest.mark.parametrize("shape", ["chat", "text", "raw"])
def test_sample_has_no_personal_data(sessions: Path, shape: Any) -> None:
    folder, how = (
        sessions.parent / "home" / "alice",
        {"k": 1, "shape": shape, "pseudonyms": str(sessions.parent / "names.key")},
    )
    karl_fast.convert(sessions, folder / "a.jsonl", rate="karl-v1", allow_secrets=True)
    karl_fast.sample(folder / "a.jsonl", sessions.parent / "set", **how)
    rows_, manifest = ((sessions.parent / "set" / name).read_text() for name in ("train.jsonl", "manifest.json"))
    assert not re.search(r"alice|bob@|carol|thinkpad|ghp_", rows_)
    assert "/home/user-" in rows_
    assert "alice" not in manifest
    assert "/home/user-" in manifest
    [plain] = karl_fast.sample(folder / "a.jsonl", None, **how | {"pseudonyms": None}).lines()
    assert structure(json.loads(rows_)) == structure(json.loads(plain))


def structure(value: Any) -> Any:
    """Return a value with its texts replaced."""
    if isinstance(value, dict):
        return {key: structure(one) for key, one in value.items()}
    if isinstance(value, list):
        return [structure(one) for one in value]
    return "" if isinstance(value, str) else value


def test_what_was_protected_is_drawn_as_it_is(sessions: Path) -> None:
    folder, key = sessions.parent, str(sessions.parent / "names.key")
    karl_fast.convert(sessions, folder / "a.jsonl", rate="karl-v1", pseudonyms=key)
    [row] = karl_fast.sample(folder / "a.jsonl", None, k=1, shape="raw", pseudonyms=key).lines()
    assert row + "\n" == (folder / "a.jsonl").read_text()


@pytest.mark.parametrize("tokens", [{"tokens": {"v": 1, "ids": "AAAA"}}, {"trajectory": [{"prompt_ids": [1, 2]}]}])
def test_raw_row_with_secret_tokens_is_dropped(tmp_path: Path, tokens: dict[str, Any]) -> None:
    log = tmp_path / "log.jsonl"
    said = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "done"}]
    clean = {"id": "clean", "reward": 1, "messages": said, **tokens}
    told = {"id": "told", "reward": 1, "messages": [{"role": "user", "content": SECRET}, *said[1:]], **tokens}
    log.write_text("".join(json.dumps(row) + "\n" for row in (clean, told)))
    found = karl_fast.sample(log, None, k=2, shape="raw")
    assert found.manifest["draw"]["failed"] == {"private_tokens": 1}
    assert [json.loads(line)["id"] for line in found.lines()] == ["clean"]
    assert not karl_fast.sample(log, None, k=2).manifest["draw"]["failed"]  # a conversation has no tokens
    kept = karl_fast.sample(log, None, k=2, shape="raw", allow_secrets=True)
    assert len(list(kept.lines())) == 2
