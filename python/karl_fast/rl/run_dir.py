"""Folder of a run: whether it may be written, its own files, and the files that a run depends on."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from karl_fast import _atomic, _seen_hashes
from karl_fast.errors import CheckpointError, OutputExistsError, UsageError
from karl_fast.modeling import checkpoint, trackers
from karl_fast.rl import finished_rollouts, held_out, rollout_log, run_state

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karl_fast.rl.settings import Online

FILES = (checkpoint.ADAPTERS, checkpoint.CONFIG, trackers.FILE, rollout_log.FILE, held_out.FILE, _seen_hashes.FILE)
"""Files of a run beside its folders."""

BEST = (checkpoint.ADAPTERS, checkpoint.CONFIG, _seen_hashes.FILE)
"""Files of the best adapter."""

OWN = (*FILES, finished_rollouts.FILE, checkpoint.FOLDER, run_state.FOLDER, held_out.BEST)


def free(out: Path, *, resume: bool, force: bool, adapter: str = "") -> None:
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
    if going_on or not _barely(out):
        raise _there(out, resume=resume, going_on=going_on)
    if not resume:
        _atomic.refuse_other(out, OWN)


def _refuse_own(out: Path, adapter: str) -> None:
    """Raise if the adapter to start from would be replaced by the run itself."""
    if adapter and Path(adapter).resolve().is_relative_to(out.resolve()):
        raise UsageError(
            f"the adapter {adapter} is in the folder of the run, which writes its own there",
            "adapter",
            hint="--out with another folder keeps both; --resume goes on with a run and needs no --adapter",
        )


def _there(out: Path, *, resume: bool, going_on: bool) -> CheckpointError | OutputExistsError:
    """Return the error for an existing run."""
    if resume:
        return CheckpointError(
            f"there is no checkpoint in {out} to go on from", hint="--force begins anew in the place of what is there"
        )
    error = OutputExistsError(f"{out} has a run already")
    there = "--resume goes on from its last checkpoint, " if going_on else "it has no checkpoint: "
    error.hint = f"{there}--force begins anew in its place"
    return error


def _barely(out: Path) -> bool:
    """Return whether a folder has only what a run leaves that ended before its first round did."""
    files = (out / name for name in (checkpoint.ADAPTERS, trackers.FILE, rollout_log.FILE))
    holds = any(file.is_file() and file.stat().st_size > 0 for file in files)
    return not holds and not rollout_log.is_written(out / rollout_log.FILE)


def _checkpoints(out: Path) -> Iterator[Path]:
    return (place.parent for place in (out / checkpoint.FOLDER).glob("[0-9]*/state.json"))


def clear(out: Path) -> None:
    """Remove a run, and nothing that is not of one.

    Raises:
        OutputExistsError: it is still running.
    """
    if rollout_log.is_written(out / rollout_log.FILE):
        raise rollout_log.busy(out / rollout_log.FILE)
    with _atomic.refused(out):
        for place in list(_checkpoints(out)):
            _atomic.remove(place, checkpoint.FILES)
        for folder in (out, out / checkpoint.FOLDER, out / run_state.FOLDER):
            _atomic.sweep(folder)
        run_state.forget(out, set())
        if (out / held_out.BEST).is_dir():
            _atomic.sweep(out / held_out.BEST)
            _atomic.remove(out / held_out.BEST, BEST)
        for name in FILES:
            (out / name).unlink(missing_ok=True)
    for name in (checkpoint.FOLDER, run_state.FOLDER):
        with contextlib.suppress(OSError):  # something else is in it
            (out / name).rmdir()


def weights(adapter: str) -> Path:
    """Return the file of weights of an adapter."""
    return Path(adapter, checkpoint.ADAPTERS)


def contents(settings: Online) -> dict[str, str]:
    """Return the SHA-256 of the prompts, of the adapter to start from, and of each file with a function."""
    named = [settings.model, settings.environment or "", *settings.rewards]
    files = [settings.prompts, *(place.rpartition(":")[0] for place in named if ".py:" in place)]
    files += [str(weights(settings.adapter))] if settings.adapter else []
    return {f"file {file}": _digest(Path(file)) for file in files}


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()[:16]
