"""The run of checks: each outcome, partial results, the budget, and what the report has of it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from karl_fast import doctor
from karl_fast.doctor import FAILED, NOT_INSTALLED, OK, QUICK, SKIPPED, Check, examine
from karl_fast.doctor.report import describe_report

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A user with a home, in an environment where the processes of checks find this module."""
    home = tmp_path / "homes" / "janedoe"
    home.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USER", "janedoe")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "python")]))
    return "janedoe"


def bad(name: str, **how: Any) -> Check:
    return Check(name, "", f"tests.unit.doctor.bad_checks:{name}", **({"share": 1.0} | how))


def run(*checks: Check, budget: float = 60) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    report = examine(sizes=QUICK, budget=budget, checks=checks)
    return report, {check["name"]: check for check in report["checks"]}


def test_a_failing_check_is_reported_with_its_traceback_and_the_others_go_on(user: str) -> None:
    report, checks = run(bad("raising"), bad("fine"))
    failed = checks["raising"]
    assert report["failed"] == ["raising"]
    assert (failed["status"], failed["result"]) == (FAILED, {"so_far": 1})
    assert failed["reason"] == "ValueError: no file ~/secret/log.jsonl of <user>"
    assert failed["traceback"].endswith(failed["reason"])
    assert "in raising" in failed["traceback"]
    assert (checks["fine"]["status"], checks["fine"]["result"]) == (OK, {"answer": 42})
    for text in (json.dumps(report), describe_report(report)):
        assert user not in text
        assert str(Path.home()) not in text
    assert "## raising failed after" in describe_report(report)
    assert "ValueError: no file ~/secret/log.jsonl of <user>" in describe_report(report)


def test_a_process_that_ends_itself_leaves_what_it_measured_and_its_stack() -> None:
    _, checks = run(bad("aborting"))
    failed = checks["aborting"]
    assert (failed["status"], failed["result"]) == (FAILED, {"so_far": 2})
    assert failed["reason"] == "the process ended by signal 6"
    assert "in aborting" in failed["traceback"]


def test_a_process_that_exits_is_a_failure_by_its_own_reason() -> None:
    _, checks = run(bad("exiting"), bad("ending"))
    assert checks["exiting"]["reason"] == "SystemExit: needs ai2-olmo"
    assert checks["ending"]["reason"] == "the process ended with exit code 1"


def test_errors_inside_a_result_have_no_private_words() -> None:
    _, checks = run(bad("raising_inside"), bad("of_the_environment"))
    assert checks["of_the_environment"]["result"] == {"environment": "MLX_METAL_PATH=~/mlx"}
    assert checks["raising_inside"]["result"] == {"operations": {"rope": {"error": "in ~", "traceback": "by <user>"}}}


def test_a_long_stack_keeps_its_message_and_its_end() -> None:
    text = "\n".join(["libc++abi: terminating", *map(str, range(100)), "Extension modules: numpy"])
    lines = doctor._shorten(text).splitlines()
    assert (lines[0], lines[-1]) == ("libc++abi: terminating", "99")
    assert "..." in lines
    assert len(lines) == 31


def test_a_check_that_hangs_is_ended_with_its_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "LEAST_SECONDS", 1.0)
    _, checks = run(bad("hanging", share=0.05))
    assert checks["hanging"]["status"] == FAILED
    assert checks["hanging"]["reason"] == "not done in 3 s"
    assert "in hanging" in checks["hanging"]["traceback"]


def test_checks_beyond_the_budget_are_skipped_by_name() -> None:
    report, checks = run(bad("raising"), bad("fine"), budget=1)
    assert {name: check["status"] for name, check in checks.items()} == {"raising": SKIPPED, "fine": SKIPPED}
    assert report["failed"] == []
    assert "**raising** skipped: no time was left." in describe_report(report)


def test_what_is_not_installed_or_needs_another_check_is_no_failure() -> None:
    report, checks = run(bad("missing"), bad("fine", needs="missing"), bad("skipping"))
    assert report["failed"] == []
    assert checks["missing"]["status"] == NOT_INSTALLED
    assert (checks["fine"]["status"], checks["fine"]["reason"]) == (SKIPPED, "the check of missing: not installed")
    assert (checks["skipping"]["status"], checks["skipping"]["reason"]) == (SKIPPED, "nothing to do")
    page = describe_report(report)
    assert "**missing** not installed: training needs mlx and mlx-lm" in page


def test_every_check_names_a_function() -> None:
    from importlib import import_module

    pytest.importorskip("mlx.core")
    for check in doctor.CHECKS:
        module, name = check.function.split(":")
        assert callable(getattr(import_module(module), name)), check


def test_shares_of_the_budget_leave_room_for_the_checks_that_most_need_it() -> None:
    assert all(0 < check.share <= 0.5 for check in doctor.CHECKS)
    assert doctor.BUDGET == 600
