"""`karl-fast` that fails at a given point: `python -m tests.unit.rl.stopped FILE PHASE ENTRY CALL WHAT rl ...`.

A phase is a function of the loop. At its ENTRY-th entry, counted from 1, it happens at the CALL-th call that is made in
it, of Python or of C; where there are fewer, at its end. WHAT is the number of a signal that the process is sent, or
`full` for a disk that takes no more from then on. FILE is given how many calls each entry of each phase made.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType

PHASES = {
    "going on": "_restore_checkpoint",
    "rollouts": "Generation.__call__",
    "record": "FinishedRollouts.add",
    "rewards": "RewardFunctions.__call__",
    "log-probabilities": "Preparer.__call__",
    "step": "PolicyLearner._step",
    "log": "RolloutLog.write",
    "metrics": "JsonLines.log",
    "checkpoint": "OnlineRun.save",
}
"""What each is called in the code."""

NAMES = {code: phase for phase, code in PHASES.items()}


class Stop:
    """A hook for `sys.setprofile`."""

    def __init__(self, phase: str, entry: int, call: int, what: str) -> None:
        self.wanted, self.call, self.what = (phase, entry), call, what
        self.entries: Counter[str] = Counter()
        self.calls: dict[str, list[int]] = {phase: [] for phase in PHASES}
        self.inside: list[tuple[FrameType, str]] = []

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        ours = "karl_fast" in frame.f_code.co_filename
        phase = NAMES.get(frame.f_code.co_qualname) if ours else None
        if event == "call" and phase is not None:
            self.entries[phase] += 1
            self.calls[phase].append(0)
            self.inside.append((frame, phase))
        elif event == "return" and self.inside and self.inside[-1][0] is frame:
            self.stop(self.inside.pop()[1], last=True)
        elif event in ("call", "c_call"):
            for _, phase in self.inside:
                self.calls[phase][-1] += 1
                self.stop(phase)

    def stop(self, phase: str, *, last: bool = False) -> None:
        here = (phase, self.entries[phase]) == self.wanted
        if here and (last or self.calls[phase][-1] == self.call):
            self.wanted = ("none", 0)
            happens(self.what)


def happens(what: str) -> None:
    if what == "full":
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    else:
        os.kill(os.getpid(), int(what))


def main() -> None:
    from karl_fast.cli import main as command

    file, phase, entry, call, what = sys.argv[1:6]
    stop = Stop(phase, int(entry), int(call), what)
    sys.argv = ["karl-fast", *sys.argv[6:]]
    sys.setprofile(stop)
    try:
        command()
    finally:
        sys.setprofile(None)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        Path(file).write_text(json.dumps(stop.calls))


if __name__ == "__main__":
    main()
