"""The plan of a run: which steps it would skip or execute, with the size of their inputs and their memory."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from karl_fast.cycle.decisions import find_decision
from karl_fast.cycle.checks import check
from karl_fast.cycle.records import CycleRecords
from karl_fast.cycle.run import steps_until
from karl_fast.cycle.tasks import task
from karl_fast.train.config import load

if TYPE_CHECKING:
    from pathlib import Path

    from karl_fast.cycle.config import CycleConfig


def plan_run(config: CycleConfig, last: str | None = None) -> list[dict[str, Any]]:
    """Return an entry for each step of a run, without running any.

    ``state`` is ``unchanged``, ``runs``, or ``waits``: its inputs are known once the steps before it have run, and it
    is skipped if they come out as they did. ``seconds`` and ``peak_bytes`` are those of the last time it ran;
    ``memory_bytes`` is the estimate of training, at most, and ``memory_limit_bytes`` what there is.

    Raises:
        UsageError: no such step.
        FileError: an input cannot be read.
        KarlError: as `checks.check`; or the model cannot be loaded.
    """
    check(config, steps_until(config, last))
    outputs: dict[str, Path] = {}
    entries: list[dict[str, Any]] = []
    records, known = CycleRecords(config.folder), True
    for step in steps_until(config, last):
        entry = _plan_step(config, step, outputs, records) if known else {"step": step, "state": "waits"}
        known = entry["state"] == "unchanged"
        before = records.last(step) or {}
        entry |= {name: before[name] for name in ("seconds", "peak_bytes") if name in before}
        if step == "train" and not known:
            entry |= _plan_training(config)
        entries.append(entry)
    return entries


def _plan_step(config: CycleConfig, step: str, outputs: dict[str, Path], records: CycleRecords) -> dict[str, Any]:
    """Return the entry of a step with known inputs, and keep its output."""
    if step == "eval" and find_decision(config, outputs, records):
        return {"step": step, "state": "unchanged"}
    now = task(config, step, outputs)
    found = records.done(step, now.key)
    unchanged = bool(step != "collect" and found and "result" in found and found["output"] == now.output_digest())
    if now.output is not None:
        outputs[step] = now.output
    files, size = (sum(getattr(one, name) for one in now.inputs.values()) for name in ("files", "size_bytes"))
    state = "unchanged" if unchanged else "runs"
    return {"step": step, "state": state, "files": files, "size_bytes": size, "arguments": now.arguments}


def _plan_training(config: CycleConfig) -> dict[str, int]:
    """Return the memory of the largest batch that the settings allow, and the limit; nothing without MLX."""
    if importlib.util.find_spec("mlx_lm") is None:
        return {}
    from karl_fast.settings.schema import build  # these load MLX, which only a plan with training needs
    from karl_fast.train.memory_bound import estimate_memory
    from karl_fast.train.settings import Training

    file = load(config.file)
    return estimate_memory(config.model, build(Training, file.settings))
