"""What the tests of conversions share."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Convert = Callable[..., "tuple[karl_fast.Conversion, list[dict[str, Any]]]"]


@pytest.fixture
def convert(tmp_path: Path) -> Convert:
    """Converts sources; the account, which balances, and the trajectories."""

    def run(*sources: Path, **settings: Any) -> tuple[karl_fast.Conversion, list[dict[str, Any]]]:
        out = tmp_path / "trajectories.jsonl"
        account = karl_fast.convert(sources, out, force=True, **settings)
        text = out.read_text("utf-8")
        assert account.written_bytes == len(text.encode())
        found = [json.loads(line) for line in text.splitlines()]
        balanced(account, found)
        return account, found

    return run


def balanced(account: karl_fast.Conversion, found: list[dict[str, Any]]) -> None:
    """Each line has one fate, and every count is that of what was written."""
    fates = account.lines_used + account.duplicates + sum(account.dropped.values()) + sum(account.bad.values())
    assert account.lines_read == fates
    assert account.trajectories == len(found)
    assert account.sub_agents == sum(one["parent"] is not None for one in found)
    assert account.rewarded == sum(one["reward"] is not None for one in found)
    roles: dict[str, int] = {}
    for one in found:
        for message in one["messages"]:
            roles[message["role"]] = roles.get(message["role"], 0) + 1
    assert account.messages == roles
    assert sum(account.tool_calls.values()) == sum(one["tool_calls"] for one in found)
