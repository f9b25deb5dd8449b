"""Removal of triggers: what is not ours stays, byte for byte."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

import pytest

from karl_fast.collection.triggers import TRIGGERS, install, uninstall
from karl_fast.collection.triggers.trigger import collect_command
from karl_fast.errors import UsageError
from tests.unit.collection.test_triggers import home

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["home"]

MINE = {"type": "command", "command": "notify-send done  # karl-fast collect is beside this"}


def settings(home: Path) -> Path:
    path = home / ".claude" / "settings.json"
    path.parent.mkdir(exist_ok=True)
    return path


@pytest.mark.parametrize(
    "text",
    [
        '{"hooks": {}}',
        '{\n  "hooks": {\n  }\n}\n',
        '{"model": "opus", "hooks": {"Stop": []}}',
        '{"hooks": {"Stop": [], "PreCompact": [{"matcher": "auto", "hooks": []}]}}\n',
        '{"hooks": {"Stop": [{"matcher": "", "hooks": [' + json.dumps(MINE) + "]}]}}",
        "{}",
        "",
        '\r\n{\r\n\t"hooks": {\r\n\t\t"SessionEnd": [ ]\r\n\t}\r\n}',
    ],
)
def test_what_was_there_before_is_there_after(text: str, home: Path) -> None:
    path = settings(home)
    path.write_bytes(text.encode())
    install("claude-code")
    install("claude-code")
    assert TRIGGERS["claude-code"].is_installed()
    uninstall("claude-code")
    assert path.read_bytes() == text.encode()


def test_a_file_that_was_made_goes(home: Path) -> None:
    for name in ("claude-code", "codex"):
        install(name)
        install(name)
        uninstall(name)
    assert not (home / ".claude" / "settings.json").exists()
    assert not (home / ".codex" / "config.toml").exists()


@pytest.mark.parametrize("first", [True, False])
def test_user_hook_in_same_matcher_stays(first: bool, home: Path) -> None:
    path = settings(home)
    install("claude-code")
    changed = json.loads(path.read_text())
    group = changed["hooks"]["Stop"][0]
    group["hooks"] = [MINE, *group["hooks"]] if first else [*group["hooks"], MINE]
    changed["hooks"]["SessionEnd"][0] = {"matcher": "clear", **changed["hooks"]["SessionEnd"][0]}
    path.write_text(json.dumps(changed, indent=1))
    uninstall("claude-code")
    left: dict[str, Any] = json.loads(path.read_text())
    assert left == {"hooks": {"SessionEnd": [{"matcher": "clear", "hooks": []}], "Stop": [{"hooks": [MINE]}]}}
    assert not TRIGGERS["claude-code"].is_installed()


def test_hooks_of_earlier_version_are_removed(home: Path) -> None:
    path = settings(home)
    line = f"({shlex.join(collect_command(None))}) & exit 0 # karl-fast collect"
    ours = {"hooks": [{"type": "command", "command": line}]}
    path.write_text(json.dumps({"a": 1, "hooks": {"Stop": [ours], "PreCompact": [ours]}}, indent=2))
    uninstall("claude-code")
    assert json.loads(path.read_text()) == {"a": 1}


def test_lines_that_only_name_the_mark_stay(home: Path) -> None:
    path = home / ".codex" / "config.toml"
    path.parent.mkdir()
    text = '# what follows was added for: # karl-fast collect\nmodel = "m" # karl-fast collect\n'
    path.write_text(text)
    assert not TRIGGERS["codex"].is_installed()
    install("codex")
    uninstall("codex")
    assert path.read_text() == text
    crontab = "# karl-fast collect\n0 1 * * * mine # see karl-fast collect\n"
    crontab += "#*/30 * * * * old -m karl_fast collect --quiet # karl-fast collect\n"
    (home / "crontab").write_text(crontab)
    install("cron")
    uninstall("cron")
    assert (home / "crontab").read_text() == crontab


def test_foreign_unit_of_same_name_is_kept(home: Path) -> None:
    folder = home / ".config" / "systemd" / "user"
    folder.mkdir(parents=True)
    (folder / "karl-fast-collect.service").write_text("[Service]\nExecStart=mine\n")
    with pytest.raises(UsageError, match="karl-fast did not write it"):
        install("systemd")
    uninstall("systemd")
    assert (folder / "karl-fast-collect.service").read_text() == "[Service]\nExecStart=mine\n"
    job = home / "Library" / "LaunchAgents" / "karl-fast.collect.plist"
    job.parent.mkdir(parents=True)
    job.write_text("mine")
    with pytest.raises(UsageError, match="karl-fast did not write it"):
        install("launchd")
    uninstall("launchd")
    assert job.read_text() == "mine"


@pytest.mark.parametrize("name", TRIGGERS)
def test_a_trigger_has_the_places_of_the_environment(name: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KARL_FAST_ARCHIVE", str(home / "my archive"))
    monkeypatch.setenv("COPILOT_HOME", str(home / "other copilot"))
    install(name)
    written = "".join(path.read_text() for path in home.rglob("*") if path.is_file() and "programs" not in path.parts)
    assert "--archive" in written
    assert f"{home}/my archive" in written
    assert f"COPILOT_HOME={home}/other copilot" in written
    monkeypatch.delenv("KARL_FAST_ARCHIVE")
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "data"))
    install(name)
    written = "".join(path.read_text() for path in home.rglob("*") if path.is_file() and "programs" not in path.parts)
    assert f"{home}/data/karl-fast/archive" in written
    assert "my archive" not in written
