"""Checks of this machine, each in a process of its own, and a report that a user can publish.

```text
machine --> MLX --> log --> model --> kernels --> training, by mlx_lm --> rollouts, by mlx_lm --> report
```

A check is a function of a `Job` that returns numbers. MLX ends a process that runs out of memory, and a kernel may
hang: a process for each check leaves the report of the others whole, gives each a peak memory of its own, and can be
ended when the time is up. What a check has measured until then is kept.

Numbers, versions and the name of the chip are the whole report. Tracebacks go through `karl_fast.doctor.private`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from karl_fast._core import VERSION
from karl_fast.doctor.private import PrivateWords

Save = Callable[[dict[str, Any]], None]
"""Keeps what a check has measured so far."""

OK, FAILED, SKIPPED, NOT_INSTALLED = "ok", "failed", "skipped", "not installed"

BUDGET = 600.0
"""Seconds of all checks."""

LEAST_SECONDS = 5.0
"""Seconds below which no check begins: imports alone take some."""

GRACE_SECONDS = 2.0
"""Seconds from the stack that a check prints when its time is up to its end from outside."""

FIRST_LINES, LAST_LINES = 8, 22
"""Lines kept of what a process that was ended wrote to stderr: the message of MLX, and the stack of the main thread."""

TEXTS = ("reason", "traceback", "error", "environment")
"""Keys of an outcome with texts that are not of the doctor itself."""

COMMAND = [sys.executable, "-P", "-m", "karl_fast.doctor.child"]
"""This installation; without the working directory in the path, whose files could have the names of modules."""


@dataclass(frozen=True)
class Sizes:
    """Sizes of the checks.

    Attributes:
        log_bytes: of the log that is read.
        lengths: tokens of a row in each training step.
        rollouts, tokens: number of rollouts, and tokens of each.
        hidden, layers, vocabulary: of the random model.
    """

    log_bytes: int = 200_000_000
    lengths: tuple[int, ...] = (512, 2048, 8192)
    rollouts: int = 64
    tokens: int = 64
    hidden: int = 512
    layers: int = 8
    vocabulary: int = 32_000


QUICK = Sizes(log_bytes=2_000_000, lengths=(64, 128, 256), tokens=8, hidden=64, layers=2, vocabulary=1024)
"""Sizes that show whether everything runs; its speeds mean nothing."""


class SkipCheckError(Exception):
    """A check that has nothing to do here; the message says why."""


@dataclass(frozen=True)
class Job:
    """Work of a check.

    Attributes:
        folder: that all checks of a run share, removed at its end.
        model: that the user named; None for a random one.
        sizes: of the run.
        seconds: after which the process is ended.
    """

    folder: str
    model: str | None
    sizes: Sizes
    seconds: float


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        name: in the report.
        does: what it does, for who waits.
        function: module and name of it.
        share: of the budget that it may take.
        needs: the check that has to be ok before.
    """

    name: str
    does: str
    function: str
    share: float = 0.25
    needs: str | None = None


CHECKS = (
    Check("machine", "versions, chip and memory", "karl_fast.doctor.machine:describe_machine", 0.1),
    Check("mlx", "MLX's device and its limits", "karl_fast.doctor.machine:describe_device", 0.1),
    Check("log", "write a log, read it, draw from it", "karl_fast.doctor.log:check_log"),
    Check("model", "make or load the model", "karl_fast.doctor.model:check_model", 0.5),
    Check("kernels", "operations beside the CPU", "karl_fast.doctor.kernels:check_kernels", 0.15),
    Check("training", "LoRA steps at three lengths", "karl_fast.doctor.training:check_training", needs="model"),
    Check(
        "training by mlx_lm", "the same steps by mlx_lm", "karl_fast.doctor.training:check_mlx_lm", 0.2, needs="model"
    ),
    Check("rollouts", "rollouts of the model", "karl_fast.doctor.rollouts:check_rollouts", 0.2, needs="model"),
    Check(
        "rollouts by mlx_lm",
        "the same rollouts by mlx_lm",
        "karl_fast.doctor.rollouts:check_mlx_lm",
        0.2,
        needs="model",
    ),
)


@dataclass
class Outcome:
    """Outcome of a check.

    Attributes:
        name: of the check.
        status: `ok`, `failed`, `skipped` or `not installed`.
        seconds: that it took.
        result: what it measured; of a check that failed, as far as it came.
        reason: why it failed or was skipped, in a sentence.
        traceback: of a failure, without anything private.
    """

    name: str
    status: str
    seconds: float = 0.0
    result: dict[str, Any] = field(default_factory=dict)
    reason: str | None = None
    traceback: str | None = None


def examine(
    model: str | None = None,
    *,
    sizes: Sizes | None = None,
    budget: float = BUDGET,
    checks: tuple[Check, ...] = CHECKS,
    on_check: Callable[[Check], None] = lambda _: None,
    on_outcome: Callable[[Outcome], None] = lambda _: None,
) -> dict[str, Any]:
    """Run the checks, and return the report.

    Args:
        model: folder, or name on the Hugging Face hub, which is downloaded if need be; None for a random model.
        sizes: how much to do.
        budget: seconds of all checks; one that would begin later is skipped by name.
        checks: to run, in this order.
        on_check, on_outcome: called before and after each.
    """
    sizes, private = sizes or Sizes(), PrivateWords(model)
    start, outcomes = time.monotonic(), list[Outcome]()
    with tempfile.TemporaryDirectory(prefix="karl-fast-doctor-") as folder:
        for check in checks:
            left = budget - (time.monotonic() - start)
            on_check(check)
            job = Job(folder, model, sizes, min(left, budget * check.share))
            states = {outcome.name: outcome.status for outcome in outcomes}
            if (state := states.get(check.needs or "", OK)) == OK:
                outcomes.append(_run_check(check, job, private))
            else:
                outcomes.append(Outcome(check.name, SKIPPED, reason=f"the check of {check.needs}: {state}"))
            on_outcome(outcomes[-1])
    return {
        "schema": 1,
        "karl_fast": VERSION,
        "date": datetime.now(UTC).date().isoformat(),
        "model": private.model,
        "quick": sizes == QUICK,
        "sizes": asdict(sizes),
        "seconds": round(time.monotonic() - start, 1),
        "budget_seconds": budget,
        "failed": [outcome.name for outcome in outcomes if outcome.status == FAILED],
        "checks": [asdict(outcome) for outcome in outcomes],
    }


def _run_check(check: Check, job: Job, private: PrivateWords) -> Outcome:
    """Run a check in a process of its own, until it ends or its time is up."""
    if job.seconds < LEAST_SECONDS:
        return Outcome(check.name, SKIPPED, reason="no time was left")
    start = time.monotonic()
    order, answer = (Path(job.folder, f"{check.name}-{part}.json") for part in ("job", "outcome"))
    order.write_text(json.dumps(asdict(job) | {"function": check.function, "answer": str(answer)}), encoding="utf-8")
    # What the check of the model has downloaded is there for the others.
    offline = job.model is None or Path(job.model).is_dir() or check.needs is not None
    code, stderr = _call(order, job, offline=offline)
    outcome = _read_outcome(check, answer)
    outcome.seconds = round(time.monotonic() - start, 2)
    if code != 0:
        late = code is None or outcome.seconds >= job.seconds - GRACE_SECONDS
        outcome.status, outcome.reason = FAILED, _describe_end(code, job.seconds if late else None)
        outcome.traceback = _shorten(stderr)
    return replace(outcome, **_without_private(private, asdict(outcome)))


def _shorten(stderr: str) -> str:
    # The names of a hundred modules, which Python writes after a stack.
    lines = [line for line in stderr.splitlines() if not line.startswith("Extension modules:")]
    if len(lines) > FIRST_LINES + LAST_LINES:
        lines = [*lines[:FIRST_LINES], "...", *lines[-LAST_LINES:]]
    return "\n".join(lines)


def _without_private(private: PrivateWords, value: Any, key: str = "") -> Any:
    """Return an outcome whose texts by others, which may be anything, have no private words."""
    if isinstance(value, dict):
        return {name: _without_private(private, inner, name) for name, inner in value.items()}
    return private.replace(value) if key in TEXTS and isinstance(value, str) else value


def _call(order: Path, job: Job, *, offline: bool) -> tuple[int | None, str]:
    """Return the exit code of a check, None if it was ended, and what it wrote to stderr."""
    environment = {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_DISABLE_TELEMETRY": "1", "PYTHONUNBUFFERED": "1"}
    if offline:
        environment |= {"HF_HUB_OFFLINE": "1"}
    with tempfile.TemporaryFile() as stderr:
        process = subprocess.Popen(
            [*COMMAND, str(order)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            env=os.environ | environment,
        )
        try:
            code: int | None = process.wait(job.seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        stderr.seek(0)
        return code, stderr.read().decode("utf-8", "replace")


def _read_outcome(check: Check, answer: Path) -> Outcome:
    """Return what a check left, which may be less than all of it."""
    try:
        return replace(Outcome(check.name, OK), **json.loads(answer.read_text("utf-8")))
    except (OSError, ValueError):
        return Outcome(check.name, FAILED)


def _describe_end(code: int | None, seconds: float | None) -> str:
    """Return why a process without an outcome ended; `seconds` if its time was up."""
    if code is None or seconds is not None:
        return f"not done in {seconds:.0f} s"
    return f"the process ended by signal {-code}" if code < 0 else f"the process ended with exit code {code}"
