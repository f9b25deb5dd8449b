"""The folder of an online run: its files, whether it may be written, and the state of the run in it.

```text
OUT/adapters.safetensors, adapter_config.json, checkpoints/    as in `karl_fast.modeling.checkpoint`
OUT/metrics.jsonl           a line a round
OUT/rollouts.jsonl          every rollout, locked while the run writes to it
OUT/finished.jsonl          rollouts that are finished and in no checkpoint yet
OUT/held_out.jsonl, best/   the curve of held-out prompts, and the best adapter by it
OUT/rounds/0000010.json     `Progress`: rounds, prompts, replay; and the head of log Z as 0000010.safetensors
```

The files of ``rounds/`` are written before the checkpoint of the same number, so that every complete checkpoint has
them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karl_fast import _atomic, _seen_hashes
from karl_fast._suggest import suggest_path
from karl_fast.errors import CheckpointError, FileError, OutputExistsError, UsageError
from karl_fast.modeling import checkpoint
from karl_fast.modeling.checkpoint import METRICS_FILE
from karl_fast.rl import held_out, student
from karl_fast.rl.rollout import FINISHED_FILE, ROLLOUTS_FILE, busy_error, is_written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karl_fast.rl.log_z import Partition
    from karl_fast.rl.settings import Online

ROUNDS_FOLDER = "rounds"

STUDENT_SUFFIX = ".student.safetensors"
"""End of the name of the file of a round with the student and its optimizer."""

RUN_FILES = (checkpoint.ADAPTERS, checkpoint.CONFIG, METRICS_FILE, ROLLOUTS_FILE, held_out.FILE, _seen_hashes.FILE)
"""Files of a run; its folders are not among them."""

BEST_FILES = (checkpoint.ADAPTERS, checkpoint.CONFIG, _seen_hashes.FILE)
"""Files of the best adapter."""

OWN_NAMES = (*RUN_FILES, FINISHED_FILE, checkpoint.FOLDER, ROUNDS_FOLDER, held_out.BEST, student.FOLDER)


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


def save_progress(
    out: Path, progress: Progress, partition: Partition | None, student_policy: student.Student | None = None
) -> None:
    """Write it whole."""
    folder = out / ROUNDS_FOLDER
    with _atomic.name_file_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    if partition is not None:
        partition.save(folder / f"{progress.round:07d}.safetensors")
    if student_policy is not None:
        student_policy.save(folder / f"{progress.round:07d}{STUDENT_SUFFIX}")
    text = json.dumps(asdict(progress), indent=1, sort_keys=True) + "\n"
    _atomic.write_file(folder / f"{progress.round:07d}.json", lambda file: file.write(text.encode()))


def load_progress(
    out: Path, round: int, partition: Partition | None, student_policy: student.Student | None = None
) -> Progress:
    """Load the state that belongs to the checkpoint of a round.

    Raises:
        CheckpointError: it is missing or damaged.
    """
    place = out / ROUNDS_FOLDER / f"{round:07d}.json"
    try:
        progress = Progress(**json.loads(place.read_text("utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise CheckpointError(f"{place} is damaged or gone") from error
    if partition is not None:
        partition.load(place.with_suffix(".safetensors"))
    if student_policy is not None:
        student_policy.load(place.with_suffix(STUDENT_SUFFIX))
    return progress


def remove_old_progress(out: Path, rounds: set[int]) -> None:
    """Remove files that belong to no checkpoint."""
    for suffix in (".json", ".safetensors", STUDENT_SUFFIX):
        for place in (out / ROUNDS_FOLDER).glob("[0-9]" * 7 + suffix):
            if int(place.name[:7]) not in rounds:
                place.unlink(missing_ok=True)


def check_run_dir(out: Path, *, resume: bool, force: bool, adapter: str = "") -> None:
    """Raise if the folder has a run or other content that may not be resumed or replaced.

    A run that was killed in its first round may always be replaced.

    Raises:
        OutputForeignError: the path is a file, or a folder with other content than a run.
        OutputExistsError: there is a run, and neither `resume` nor `force`.
        CheckpointError: there is a run to resume, and no checkpoint of it.
        UsageError: the adapter to start from is in the folder.
    """
    _atomic.refuse_file(out)
    _refuse_own(out, adapter)
    going_on = any(_checkpoints(out))
    if force or (resume and going_on):
        return
    if going_on or not _is_barely_begun(out):
        raise _existing_run_error(out, resume=resume, going_on=going_on)
    if not resume:
        _atomic.refuse_other(out, OWN_NAMES)


def _refuse_own(out: Path, adapter: str) -> None:
    """Raise if the adapter to start from would be replaced by the run itself."""
    if adapter and Path(adapter).resolve().is_relative_to(out.resolve()):
        raise UsageError(
            f"the adapter {adapter} is in the folder of the run, which writes its own there",
            "adapter",
            hint="--out with another folder keeps both; --resume goes on with a run and needs no --adapter",
        )


def _existing_run_error(out: Path, *, resume: bool, going_on: bool) -> CheckpointError | OutputExistsError:
    """Return the error for an existing run."""
    if resume:
        return CheckpointError(
            f"there is no checkpoint in {out} to go on from", hint="--force begins anew in the place of what is there"
        )
    error = OutputExistsError(f"{out} has a run already")
    resumable = "--resume goes on from its last checkpoint, " if going_on else "it has no checkpoint: "
    error.hint = f"{resumable}--force begins anew in its place"
    return error


def _is_barely_begun(out: Path) -> bool:
    """Return whether a folder has only what a run leaves that ended before its first round did."""
    files = (out / name for name in (checkpoint.ADAPTERS, METRICS_FILE, ROLLOUTS_FILE))
    holds = any(file.is_file() and file.stat().st_size > 0 for file in files)
    return not holds and not is_written(out / ROLLOUTS_FILE)


def _checkpoints(out: Path) -> Iterator[Path]:
    return (place.parent for place in (out / checkpoint.FOLDER).glob("[0-9]*/state.json"))


def remove_run(out: Path) -> None:
    """Remove a run, and nothing that is not of one.

    Raises:
        OutputExistsError: it is still running.
    """
    if is_written(out / ROLLOUTS_FILE):
        raise busy_error(out / ROLLOUTS_FILE)
    with _atomic.name_file_errors(out):
        for place in list(_checkpoints(out)):
            _atomic.remove_files(place, checkpoint.FILES)
        for folder in (out, out / checkpoint.FOLDER, out / ROUNDS_FOLDER):
            _atomic.remove_unfinished(folder)
        remove_old_progress(out, set())
        for folder in (out / held_out.BEST, out / student.FOLDER):
            if folder.is_dir():
                _atomic.remove_unfinished(folder)
                _atomic.remove_files(folder, BEST_FILES)
        for name in RUN_FILES:
            (out / name).unlink(missing_ok=True)
    for name in (checkpoint.FOLDER, ROUNDS_FOLDER):
        with contextlib.suppress(OSError):  # something else is in it
            (out / name).rmdir()


def adapter_weights(adapter: str) -> Path:
    """Return the file of weights of an adapter."""
    return Path(adapter, checkpoint.ADAPTERS)


def hash_inputs(settings: Online) -> dict[str, str]:
    """Return the SHA-256 of the prompts, of the adapters of policy and teacher, and of each file with a function."""
    functions = (settings.token_rewards, settings.labels, settings.baseline)
    names = [
        settings.model,
        settings.teacher,
        settings.student,
        settings.environment or "",
        *settings.rewards,
        settings.prompts,
        *functions,
    ]
    files = [] if ".py:" in settings.prompts else [settings.prompts]
    files += [place.rpartition(":")[0] for place in names if ".py:" in place]
    files += [str(adapter_weights(adapter)) for adapter in (settings.adapter, settings.teacher_adapter) if adapter]
    return {f"file {file}": hash_file(Path(file)) for file in files}


def hash_file(file: Path) -> str:
    """Return the first 16 digits of the SHA-256 of a file.

    Raises:
        FileError: it cannot be read.
    """
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()[:16]
    except OSError as error:
        hint = None if file.exists() else suggest_path(file)
        raise FileError(f"cannot open {file}: {error.strerror}", error.errno, str(file), hint=hint) from error
