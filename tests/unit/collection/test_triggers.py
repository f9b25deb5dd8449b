"""Hooks and timers that start a collection."""

from __future__ import annotations

import json
import os
import subprocess
import time
import tomllib
from typing import TYPE_CHECKING

import pytest

from karl_fast.collection.triggers import TRIGGERS, install, uninstall
from karl_fast.collection.triggers.trigger import shell_line
from karl_fast.errors import UsageError
from tests.unit.collection.made import claude

if TYPE_CHECKING:
    from pathlib import Path

CRONTAB = """\
#!/bin/sh
if [ "$1" = -l ]; then cat "$HOME/crontab" 2>/dev/null || { echo "no crontab for me" >&2; exit 1; }
else cat > "$HOME/crontab"; fi
"""

SETTINGS = '{\n    "model": "opus",\n    "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "mine"}]}]}\n}\n'


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a crontab of its own, and without service managers."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "crontab").write_text(CRONTAB)
    (programs / "crontab").chmod(0o755)
    for name in ("sh", "cat"):
        (programs / name).symlink_to(f"/bin/{name}")
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.mark.parametrize("name", TRIGGERS)
def test_install_and_uninstall_leave_no_trace(name: str, home: Path) -> None:
    before = files(home)
    assert not TRIGGERS[name].is_installed()
    install(name)
    once = files(home)
    assert install(name).is_installed()
    assert files(home) == once != before
    assert not uninstall(name).is_installed()
    left = {path: text for path, text in files(home).items() if text.strip() not in ("", "{}")}
    assert left == before
    uninstall(name)


def files(home: Path) -> dict[str, str]:
    paths = (path for path in home.rglob("*") if path.is_file() and "programs" not in path.parts)
    return {path.relative_to(home).as_posix(): path.read_text("utf-8") for path in paths}


@pytest.mark.parametrize("text", [SETTINGS, SETTINGS.replace("\n", "\r\n"), '{"a": "é"}', "{}"])
def test_settings_keep_every_other_byte(text: str, home: Path) -> None:
    path = home / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_bytes(text.encode())
    path.chmod(0o600)
    install("claude-code", "~/my archive")
    settings = json.loads(path.read_bytes())
    for event in ("SessionEnd", "Stop", "SubagentStop", "PreCompact"):
        (hook,) = settings["hooks"][event][-1]["hooks"]
        assert (hook["type"], hook["async"]) == ("command", True)
        assert f"'{home}/my archive'" in hook["command"]
    assert path.stat().st_mode & 0o777 == 0o600
    uninstall("claude-code")
    assert path.read_bytes() == text.encode()


def test_settings_that_are_no_settings_are_refused(home: Path) -> None:
    path = home / ".claude" / "settings.json"
    path.parent.mkdir()
    for text in ("{", "[]", '{"hooks": []}', '{"hooks": {"Stop": {}}}'):
        path.write_text(text)
        with pytest.raises(UsageError, match=r"settings\.json"):
            install("claude-code")
        assert path.read_text() == text


def test_codex_notifies_one_program(home: Path) -> None:
    path = home / ".codex" / "config.toml"
    path.parent.mkdir()
    text = 'model = "m"\n[projects]\n"/a" = 1\n'
    path.write_text(text)
    install("codex")
    settings = tomllib.loads(path.read_text())
    assert settings["notify"][:2] == ["sh", "-c"]
    assert settings["projects"] == {"/a": 1}
    uninstall("codex")
    assert path.read_text() == text
    path.write_text('notify = ["mine"]\n')
    with pytest.raises(UsageError, match="one program only"):
        install("codex")


def test_other_lines_of_the_crontab_stay(home: Path) -> None:
    (home / "crontab").write_text("0 1 * * * mine")
    install("cron", "/with % sign")
    assert r"'/with \% sign'" in (home / "crontab").read_text()
    uninstall("cron")
    assert (home / "crontab").read_text() == "0 1 * * * mine\n"


def test_an_unknown_trigger_is_refused(home: Path) -> None:
    with pytest.raises(UsageError, match="trigger"):
        install("windows")


def test_hook_is_silent_and_collection_continues(tmp_path: Path) -> None:
    claude(tmp_path, 3)
    archive = tmp_path / "archive"
    # The agent ends the group of its hooks, and closes their pipes.
    hook = subprocess.Popen(
        ["sh", "-c", shell_line(str(archive)), "karl-fast", '{"type": "agent-turn-complete"}'],
        env=os.environ | {"HOME": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert hook.communicate(b"{}", timeout=10) == (b"", b"")
    assert hook.returncode == 0
    catalogue, until = archive / "catalogue", time.monotonic() + 60
    while not (catalogue.exists() and catalogue.read_text().count("\n") == 4):
        assert time.monotonic() < until
        time.sleep(0.05)
