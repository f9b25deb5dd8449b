"""What the bench of the main job says of its targets."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

BENCHES = Path(__file__).parent.parent / "benches" / "python"


@pytest.fixture
def targets(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHES))
    return importlib.import_module("targets")


@pytest.mark.parametrize(("others", "end"), [(0.0, ")"), (0.05, ")"), (0.83, "), while others used 0.83 cores")])
def test_a_missed_target_says_who_else_worked(targets: Any, others: float, end: str) -> None:
    times = {"karl-fast@2": 1.0, "msgspec": 2.0, "duckdb": 9.0}
    log = {"kind": "big", "packing": "plain", "records": 100, "groups": 10, "record_bytes": 1e4, "k": 1}
    result = targets.Result(**log, ours="karl-fast@2", seconds=times, anonymous_mib=1e6, others_cores=others)
    missed, met, memory = map(str, targets.verdicts(result))
    assert missed == f"MISSED  msgspec / karl-fast@2: 2 (wanted >= 4{end}"
    assert met == "met     duckdb / karl-fast@2: 9 (wanted >= 4)"
    assert memory.startswith("MISSED  anonymous MiB of karl-fast@2: ")
    assert memory.endswith(")")  # it does not depend on who else works
