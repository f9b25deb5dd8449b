"""State of a run beyond the checkpoint of the offline trainer: round, prompts, replay, head of log Z.

It is beside the checkpoints, in ``rounds/``, and is written before them: every complete checkpoint has it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from karl_fast import _atomic
from karl_fast.errors import CheckpointError

if TYPE_CHECKING:
    from pathlib import Path

    from karl_fast.rl.log_z_trainer import Partition

ROUNDS_FOLDER = "rounds"


@dataclass
class Progress:
    """Progress of an online run.

    Attributes:
        round: number of rounds done.
        step: number of updates made.
        group: the number of the next group.
        flat, skipped, idle: of the alarms.
        outcomes: the lowest and the highest until now.
        rollouts: number of rollouts until now.
        missing: number of missing rewards until now, by why.
        idle_rounds: number of rounds without a step until now.
        dropped: number of rollouts that each filter of the recipe dropped in those rounds.
        metrics_bytes, rollouts_bytes: how long the two files were.
        curriculum: its state.
        replay: the groups that may come back.
        replay_errors: the accuracy error of each.
        held_out: the curve of the held-out prompts.
    """

    round: int = 0
    step: int = 0
    group: int = 0
    flat: int = 0
    skipped: int = 0
    idle: int = 0
    outcomes: list[float] = field(default_factory=list)
    rollouts: int = 0
    missing: dict[str, int] = field(default_factory=dict)
    idle_rounds: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    metrics_bytes: int = 0
    rollouts_bytes: int = 0
    curriculum: dict[str, Any] = field(default_factory=dict)
    replay: list[int] = field(default_factory=list)
    replay_errors: list[float] = field(default_factory=list)
    held_out: dict[str, Any] = field(default_factory=dict)


def save_progress(out: Path, progress: Progress, partition: Partition | None) -> None:
    """Write it whole."""
    folder = out / ROUNDS_FOLDER
    with _atomic.refused(folder):
        folder.mkdir(parents=True, exist_ok=True)
    if partition is not None:
        partition.save(folder / f"{progress.round:07d}.safetensors")
    text = json.dumps(asdict(progress), indent=1, sort_keys=True) + "\n"
    _atomic.write(folder / f"{progress.round:07d}.json", lambda file: file.write(text.encode()))


def load_progress(out: Path, round: int, partition: Partition | None) -> Progress:
    """Load the state beside the checkpoint of a round.

    Raises:
        CheckpointError: it is missing or damaged.
    """
    place = out / ROUNDS_FOLDER / f"{round:07d}.json"
    try:
        found = Progress(**json.loads(place.read_text("utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise CheckpointError(f"{place} is damaged or gone") from error
    if partition is not None:
        partition.load(place.with_suffix(".safetensors"))
    return found


def remove_old_progress(out: Path, kept: set[int]) -> None:
    """Remove files that belong to no checkpoint."""
    for suffix in (".json", ".safetensors"):
        for place in (out / ROUNDS_FOLDER).glob("[0-9]" * 7 + suffix):
            if int(place.stem) not in kept:
                place.unlink(missing_ok=True)
