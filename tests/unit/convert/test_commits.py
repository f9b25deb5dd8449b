"""Synthetic questions from commits: the message asks, the diff answers, and every commit has one fate."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from karl_fast import errors
from tests.cli.run import karl
from tests.unit.convert import made

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
AUTHOR = {f"GIT_{who}_{what}": "dev@shop.example" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def git(folder: Path, *words: str) -> str:
    settings = ("-c", "init.defaultBranch=main", "-c", "commit.gpgsign=false")
    environment = os.environ | AUTHOR | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(["git", *settings, *words], cwd=folder, env=environment, capture_output=True, check=True)
    return done.stdout.decode().strip()


def commit(folder: Path, message: str, **files: str) -> str:
    """Write files, ``__`` standing for a dot in their names, and commit them; return the hash."""
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "--allow-empty-message", "-m", message)
    return git(folder, "rev-parse", "HEAD")


def lines(count: int, word: str = "x") -> str:
    return "".join(f"{word}{at}\n" for at in range(count))


@pytest.fixture
def shop(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A repository with a commit of each fate, and the hashes of those that are written."""
    folder = tmp_path / "shop"
    folder.mkdir()
    git(folder, "init", "-q")
    first = commit(folder, "feat(till): add the till (#1)", till__py=lines(8), Cargo__lock=lines(9))
    commit(folder, "Change the lock only", Cargo__lock=lines(12))
    commit(folder, "", a__py=lines(6))
    commit(folder, "fix: typo", a__py=lines(7))
    commit(folder, "Import a large file", large__py=lines(300))
    commit(folder, "Do nothing at all")
    git(folder, "switch", "-q", "-c", "side")
    side = commit(folder, f"Use the token\n\nIt was {SECRET}.\n\nCo-Authored-By: Bot <b@c.d>", b__py=lines(6, "y"))
    git(folder, "switch", "-q", "main")
    wrong = commit(folder, "Round every total down", till__py=lines(4))
    git(folder, "revert", "--no-edit", wrong)
    git(folder, "merge", "-q", "--no-edit", "side")
    return folder, {"first": first, "side": side}


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_every_commit_is_written_or_dropped_by_name(shop: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    folder, hashes = shop
    account = karl_fast.convert_commits(folder, tmp_path / "out.jsonl")
    assert account.dropped == {
        "empty_message": 1,
        "generated": 1,
        "large_change": 1,
        "merge": 1,
        "no_change": 1,
        "revert": 1,
        "reverted": 1,
        "short_message": 1,
    }
    assert account.lines_read == account.lines_used + sum(account.dropped.values()) == 10
    found = {row["source"]["commit"]: row for row in rows(tmp_path / "out.jsonl")}
    assert found.keys() == set(hashes.values())
    assert (account.trajectories, account.messages) == (2, {"assistant": 2, "user": 2})
    question, answer = found[hashes["first"]]["messages"]
    assert (question["role"], question["content"]) == ("user", "add the till")
    wanted = "".join(f"+x{at}\n" for at in range(8))
    head = "diff --git a/till.py b/till.py\nnew file mode 100644\n--- /dev/null\n+++ b/till.py\n@@ -0,0 +1,8 @@\n"
    assert answer == {"role": "assistant", "content": head + wanted}
    assert account.notes == {"generated_file": 2}
    [asked, _] = found[hashes["side"]]["messages"]
    assert asked["content"] == "Use the token\n\nIt was [REDACTED:github]."
    assert account.secrets == {"github": 1}


def test_commit_rows_need_an_explicit_reward(shop: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    karl_fast.convert_commits(shop[0], tmp_path / "commits.jsonl")
    source = made.plain().write(tmp_path / "a.jsonl")
    karl_fast.convert(source, tmp_path / "sessions.jsonl", rate="karl-v1")
    [session] = rows(tmp_path / "sessions.jsonl")
    assert all(row["synthetic"] == 1 for row in rows(tmp_path / "commits.jsonl"))
    for row in rows(tmp_path / "commits.jsonl"):
        assert [key for key in row if key != "synthetic"] == list(session)
        assert row["reward"] is None
    logs = [tmp_path / "commits.jsonl", tmp_path / "sessions.jsonl"]
    drawn = karl_fast.sample(logs, None, k=3)
    assert (drawn.manifest["draw"]["rows"], drawn.manifest["accounting"]["dropped"]["missing_reward"]) == (1, 2)
    assert karl_fast.sample(logs, None, k=3, reward={"reward|synthetic": 1.0}).manifest["draw"]["rows"] == 3
    assert karl_fast.sample(logs, None, k=3, reward={"synthetic": 1.0}).manifest["draw"]["rows"] == 2


def test_the_command_and_its_errors(shop: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    arguments = ("convert", shop[0], "-o", out, "--format", "git")
    done = karl(*arguments)
    assert done.returncode == 0
    assert "commits   10 read" in done.stderr
    assert "reverted 1" in done.stderr
    none = karl("sample", out, "-o", tmp_path / "data", "-k", "1")
    assert (none.returncode, "hint: they are synthetic: --reward synthetic" in none.stderr) == (4, True)
    assert karl(*arguments).returncode == 5
    assert karl(*arguments, "--force", "--allow-secrets").returncode == 0
    assert SECRET in out.read_text()
    assert karl(*arguments, "--force", "--rate", "karl-v1").returncode == 2
    assert karl(*arguments, "--force", "--to", "karl").returncode == 2
    before = out.read_bytes()
    (tmp_path / "none").mkdir()
    for folder, says in ((tmp_path / "none", "not in a git repository"), (tmp_path / "gone", "cannot be opened")):
        done = karl("convert", folder, "-o", out, "--format", "git", "--force")
        assert (done.returncode, out.read_bytes()) == (1, before)
        assert says in done.stderr


def test_one_commit_of_two_clones_is_written_once(shop: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", str(shop[0]), "clone")
    one = karl_fast.convert_commits(shop[0], tmp_path / "one.jsonl", threads=1)
    two = karl_fast.convert_commits([shop[0], tmp_path / "clone"], tmp_path / "two.jsonl", threads=4)
    assert (two.trajectories, two.duplicates, two.dropped) == (one.trajectories, 10, one.dropped)
    assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "two.jsonl").read_bytes()


def test_a_repository_without_a_usable_commit_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    git(folder, "init", "-q")
    with pytest.raises(errors.LogError, match="no commits"):
        karl_fast.convert_commits(folder, tmp_path / "new" / "out.jsonl")
    commit(folder, "wip", a__py=lines(9))
    with pytest.raises(errors.LogError, match="no commit that can be used; dropped: short message 1"):
        karl_fast.convert_commits(folder, tmp_path / "new" / "out.jsonl")
    assert not (tmp_path / "new").exists()
