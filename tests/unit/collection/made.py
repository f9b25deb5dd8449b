"""Sessions of agents, made for tests, and what an archive holds of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast

if TYPE_CHECKING:
    from pathlib import Path


def lines_of_session(session: str, turns: int, agent: str | None = None) -> list[dict[str, Any]]:
    """Lines of a session of Claude Code, or of a sub-agent of it."""
    lines: list[dict[str, Any]] = []
    for turn in range(turns):
        role = "assistant" if turn % 2 else "user"
        name = f"{session}-{agent or ''}-{turn}"
        content: Any = [{"type": "text", "text": f"answer {turn}"}] if turn % 2 else f"request {turn}"
        message = {"role": role, "content": content} | ({"id": f"m-{name}", "model": "m"} if turn % 2 else {})
        lines.append(
            {
                "type": role,
                "uuid": name,
                "parentUuid": lines[-1]["uuid"] if lines else None,
                "sessionId": session,
                "cwd": "/home/dev/shop",
                "timestamp": f"2026-01-01T00:{turn // 60:02}:{turn % 60:02}.000Z",
                "message": message,
                **({"agentId": agent, "isSidechain": True} if agent else {}),
            }
        )
    return lines


def text(lines: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(line) + "\n" for line in lines)


def claude(home: Path, sessions: int, turns: int = 6) -> Path:
    """Write the projects of Claude Code: some sessions have a sub-agent with a file of its own."""
    projects = home / ".claude" / "projects"
    for number in range(sessions):
        folder = projects / f"-home-dev-shop-{number % 7}"
        folder.mkdir(parents=True, exist_ok=True)
        name = f"s{number:04}"
        (folder / f"{name}.jsonl").write_text(text(lines_of_session(name, turns + number % 5)), "utf-8")
        if number % 10 == 0:
            (folder / name / "subagents").mkdir(parents=True)
            agent = folder / name / "subagents" / "agent-a1.jsonl"
            agent.write_text(text(lines_of_session(name, 4, "a1")), "utf-8")
    return projects


def codex(home: Path, name: str, parent: str | None = None) -> Path:
    """Write a rollout of Codex."""
    meta = {"id": name, "cwd": "/home/dev/shop", "cli_version": "1"} | ({"parent_thread_id": parent} if parent else {})
    items = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": f"request of {name}"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]},
    ]
    lines = [{"timestamp": "2026-01-01T00:00:00Z", "type": "session_meta", "payload": meta}]
    lines += [{"timestamp": "2026-01-01T00:00:01Z", "type": "response_item", "payload": item} for item in items]
    folder = home / ".codex" / "sessions" / "2026" / "01" / "01"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"rollout-2026-01-01T00-00-00-{name}.jsonl"
    path.write_text(text(lines), "utf-8")
    return path


def trajectories(source: Path, out: Path) -> list[dict[str, Any]]:
    """Convert a folder; return the trajectories without the names of their files, which an archive changes."""
    karl_fast.convert(source, out, force=True)
    found = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    for one in found:
        one["source"].pop("files", None)
    return sorted(found, key=lambda one: str(one["id"]))


def stored(archive: Path) -> dict[str, list[str]]:
    """Return the lines of every file of an archive."""
    pyarrow = pytest.importorskip("pyarrow")
    files = {}
    for path in sorted(archive.rglob("*.zst")):
        with pyarrow.input_stream(str(path), compression="zstd") as stream:
            files[path.relative_to(archive).as_posix()] = stream.read().decode().splitlines()
    return files
