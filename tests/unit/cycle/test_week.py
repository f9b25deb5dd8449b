"""A week in minutes: sessions arrive, the cycle runs each night, two adapters are refused and one is promoted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.run import karl
from tests.unit.cycle.made import project, session
from tests.unit.cycle.test_cycle import events
from tests.unit.cycle.test_kill import killed_in
from tests.unit.train.conftest import quiet

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.mlx, pytest.mark.slow]

WEEK: dict[str, tuple[int, str, dict[str, Any]]] = {
    "monday": (12, "booking", {"state": "done", "promoted": False}),
    "tuesday": (0, "", {"state": "unchanged", "promoted": False}),
    "wednesday": (4, "booking", {"state": "done", "promoted": False}),
    "thursday": (0, "", {"state": "unchanged", "promoted": False}),
    "friday": (40, "airline", {"state": "done", "promoted": True}),
    "saturday": (0, "", {"state": "unchanged", "promoted": True}),
}
"""Sessions of each day, the word they answer with, and the run of the night."""


def test_two_adapters_are_refused_and_one_is_promoted(
    tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in quiet().items():
        monkeypatch.setenv(name, value)
    file, sessions = project(tmp_path, tiny_model, sessions=0, k=16, iters=30), 0
    current = tmp_path / "cycle" / "adapters" / "current"
    for day, (arrived, word, wanted) in WEEK.items():
        for number in range(sessions, sessions + arrived):
            session(tmp_path, number, word)
        sessions += arrived
        if day == "friday":
            killed_in("train", file, 3.0)
            killed_in("eval", file, 1.0)
        run = events(file)[-1]
        assert {name: run[name] for name in wanted} == wanted, day
        assert run["rows_read"] == sessions
        assert current.is_symlink() == wanted["promoted"], day
    looks = sorted((tmp_path / "cycle" / "adapters" / "promotions").glob("0*"))
    assert len(looks) == 3
    table = karl("cycle", "status", file).stdout.splitlines()
    assert len(table) == 1 + 8
    assert [line.split("at look ")[1][0] for line in table if "done" in line] == ["1", "2", "3"]
    assert sum("killed" in line for line in table) == 2
