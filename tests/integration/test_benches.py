"""What the bench of the main job says of its targets, and of a peer that it leaves out."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHES = Path(__file__).parents[2] / "benches" / "pipeline"


@pytest.fixture
def targets(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHES))
    return importlib.import_module("targets")


def test_peer_that_does_not_compile_is_skipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(BENCHES))
    contenders, compiled = (importlib.import_module(name) for name in ("contenders", "compiled"))
    says = "import sys; sys.exit('In file included from x.cpp:\\nx.cpp:1:2: error: no such member\\nerror: more')"
    monkeypatch.setattr(compiled, "COMPILE", (sys.executable, "-c", says))
    monkeypatch.setattr(compiled, "FOLDER", tmp_path)
    monkeypatch.setattr(compiled, "header", lambda _: "0.1")
    members, absent = contenders.chosen("log.jsonl", [2], ["simdjson", "cat"], every=False)
    assert [one.name for one in members] == ["karl-fast@2", "cat"]
    why = "(needs to be compiled: x.cpp:1:2: error: no such member)"
    assert absent == [f"simdjson@2 {why}", f"simdjson@1 {why}"]


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


def test_threads_are_timed_with_and_without_startup(targets: Any) -> None:
    times = {"karl-fast@2": 1.0, "karl-fast@1": 1.6}
    log = {"kind": "small", "packing": "plain", "records": 100, "groups": 10, "record_bytes": 300.0, "k": 1}
    result = targets.Result(
        **log, ours="karl-fast@2", seconds=times, anonymous_mib=None, start_seconds=0.15, tenth_seconds=None
    )
    start, whole, apart = map(str, targets.verdicts(result))
    assert start.startswith("met     seconds for a log of 100 records")
    assert whole == "MISSED  karl-fast@1 / karl-fast@2, start and all: 1.6 (wanted >= 1.7)"
    assert apart == "met     karl-fast@1 / karl-fast@2 without start: 1.71 (wanted >= 1.7)"
