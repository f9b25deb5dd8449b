"""A call to the system may fail, be cut short or be the last one of the process: no output is ever half written."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.robustness.fault_process import Server, server, unavailable
from tests.robustness.faults import FAULTS, JOBS, LITTER, Place, kind, outcomes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SLOW = bool(os.environ.get("KARL_FAST_SLOW"))
STEP = 1 if SLOW else 10
"""Every so many calls are the one at which a run is killed or gets a signal; each is with KARL_FAST_SLOW."""


@pytest.fixture(scope="module")
def shim() -> Iterator[Server]:
    if reason := unavailable():
        pytest.skip(reason)
    with server() as running:
        yield running


@pytest.fixture(params=JOBS)
def place(request: pytest.FixtureRequest, tmp_path: Path, shim: Server) -> Place:
    return Place(tmp_path, shim, JOBS[request.param])


REMOVING = {"open", "stat", "readdir", "rmdir", "unlink"}
"""What may fail while an old output, a temporary copy, or rows that were no rows are removed: they lie there then."""


def test_a_failed_call_is_one_sentence(place: Place) -> None:
    before = "old" if place.old else "nothing left"
    for function, actions in FAULTS.items():
        # After the rename only the removal of the old and the sync of the folder are left to fail.
        litter = {"error, new, litter", "done, litter"} if function in REMOVING else set()
        fine = {f"error, {before}", "error, new", "done"} | litter
        met = [(kind(place, *fate), at) for at, *fate in outcomes(place, function, actions[0])]
        assert {outcome for outcome, _ in met} <= fine, (function, met)
        assert place.job.exchange or sum(outcome == "error, new" for outcome, _ in met) <= 1, (function, met)


@pytest.mark.parametrize("function", ["read", "write", "open", "fsync"])
def test_interrupted_and_short_transfers_change_no_byte(place: Place, function: str) -> None:
    for action in ["EINTR every other", *(["short"] if function in ("read", "write") else [])]:
        place.reset()
        done = place.job.run(shim=place.shim, folder=place.folder, function=function, at=1, action=action)
        assert (done.code, place.output(), place.litter()) == (0, "new", []), done.err
        assert done.hits > 1


def fates(place: Place, action: str) -> Iterator[tuple[int, str, list[str]]]:
    """Code, output and litter of runs to which something happens at rising calls."""
    for at in range(1, 10_000, STEP):
        place.reset()
        done = place.job.run(place.shim, place.folder, at=at, action=action)
        assert "Traceback" not in done.err
        if not done.hits:
            return
        yield done.code, place.output(), place.litter()


def test_kill_leaves_the_old_or_new_output(place: Place) -> None:
    fine = {"old" if place.old else "nothing", "new"}
    if place.job.exchange is not None:
        fine.add("nothing")  # for a moment, where the file system cannot exchange two names
    met = 0
    for code, output, _ in fates(place, "kill"):
        assert code == -9
        assert output in fine
        done = place.job.run(place.shim, place.folder)
        # What was written whole, just before the end, is in the way of a run without --force.
        assert (done.code, place.output()) == (5 if output == "new" and not place.old else 0, "new"), done.err
        met += 1
    assert met >= 40 // STEP


def test_kill_in_the_exchange_leaves_the_old_output(shim: Server, tmp_path: Path) -> None:
    place = Place(tmp_path, shim, JOBS["replaced"])
    done = shim.run("sample", "log.jsonl", "-o", "data", "-k", 6, "--force", folder=place.folder, exchange=0)
    assert done.code < 0
    place.reset()
    done = shim.run("sample", "log.jsonl", "-o", "data", "-k", 6, "--force", folder=place.folder, exchange=0)
    assert (done.code < 0, place.output()) == (True, "old")
    assert all(name.startswith(LITTER) for name in place.litter())


@pytest.mark.parametrize(("signal", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_at_any_call_leaves_no_litter(place: Place, signal: str, code: int) -> None:
    stopped = 0
    for ended, output, litter in fates(place, signal):
        assert litter == []
        # A signal that comes after the rename cannot undo it.
        assert (ended == code and output in ("old" if place.old else "nothing", "new")) or (ended, output) == (0, "new")
        stopped += ended == code
    assert stopped > 0
