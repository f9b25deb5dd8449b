"""Folder of a run: whether it may be written, its own files, and the files that a run depends on."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from karl_fast import _atomic, _seen_hashes
from karl_fast.errors import CheckpointError, OutputExistsError, UsageError
from karl_fast.modeling import checkpoint
from karl_fast.modeling.trackers import METRICS_FILE
from karl_fast.rl import held_out
from karl_fast.rl.run_state import ROUNDS_FOLDER, remove_old_progress
from karl_fast.rl.rollout_log import ROLLOUTS_FILE, busy_error, is_written
from karl_fast.rl.finished_rollouts import FINISHED_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karl_fast.rl.settings import Online

RUN_FILES = (checkpoint.ADAPTERS, checkpoint.CONFIG, METRICS_FILE, ROLLOUTS_FILE, held_out.FILE, _seen_hashes.FILE)
"""Files of a run beside its folders."""

BEST_FILES = (checkpoint.ADAPTERS, checkpoint.CONFIG, _seen_hashes.FILE)
"""Files of the best adapter."""

OWN_NAMES = (*RUN_FILES, FINISHED_FILE, checkpoint.FOLDER, ROUNDS_FOLDER, held_out.BEST)


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
    there = "--resume goes on from its last checkpoint, " if going_on else "it has no checkpoint: "
    error.hint = f"{there}--force begins anew in its place"
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
    with _atomic.refused(out):
        for place in list(_checkpoints(out)):
            _atomic.remove(place, checkpoint.FILES)
        for folder in (out, out / checkpoint.FOLDER, out / ROUNDS_FOLDER):
            _atomic.sweep(folder)
        remove_old_progress(out, set())
        if (out / held_out.BEST).is_dir():
            _atomic.sweep(out / held_out.BEST)
            _atomic.remove(out / held_out.BEST, BEST_FILES)
        for name in RUN_FILES:
            (out / name).unlink(missing_ok=True)
    for name in (checkpoint.FOLDER, ROUNDS_FOLDER):
        with contextlib.suppress(OSError):  # something else is in it
            (out / name).rmdir()


def adapter_weights(adapter: str) -> Path:
    """Return the file of weights of an adapter."""
    return Path(adapter, checkpoint.ADAPTERS)


def hash_inputs(settings: Online) -> dict[str, str]:
    """Return the SHA-256 of the prompts, of the adapter to start from, and of each file with a function."""
    named = [settings.model, settings.environment or "", *settings.rewards]
    files = [settings.prompts, *(place.rpartition(":")[0] for place in named if ".py:" in place)]
    files += [str(adapter_weights(settings.adapter))] if settings.adapter else []
    return {f"file {file}": _hash_file(Path(file)) for file in files}


def _hash_file(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()[:16]
