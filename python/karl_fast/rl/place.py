"""The folder of a run: whether it may be written to, what of it is ours, and the files that a run depends on."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from karl_fast.errors import CheckpointError, OutputExistsError
from karl_fast.rl import progress, record
from karl_fast.train import checkpoint, metrics, whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karl_fast.rl.settings import Online

FILES = (checkpoint.ADAPTERS, checkpoint.CONFIG, metrics.FILE, record.FILE)
"""What a run writes beside its two folders."""


def free(out: Path, *, resume: bool, force: bool) -> None:
    """Raise where a run is there already that nobody said to go on from, or to replace.

    Raises:
        OutputForeignError: the place is a file.
        OutputExistsError: there is a run, and neither `resume` nor `force`.
        CheckpointError: there is a run to resume, and no checkpoint of it.
    """
    whole.refuse_file(out)
    if force or not _begun(out):
        return
    if not resume:
        error = OutputExistsError(f"{out} has a run already")
        there = "--resume goes on from its last checkpoint, " if any(_checkpoints(out)) else "it has no checkpoint: "
        error.hint = f"{there}--force begins anew in its place"
        raise error
    if not any(_checkpoints(out)):
        nothing = CheckpointError(f"there is no checkpoint in {out} to go on from")
        nothing.hint = "--force begins anew in the place of what is there"
        raise nothing


def _begun(out: Path) -> bool:
    log = out / record.FILE
    return (out / checkpoint.ADAPTERS).exists() or any(_checkpoints(out)) or (log.is_file() and log.stat().st_size > 0)


def _checkpoints(out: Path) -> Iterator[Path]:
    return (place.parent for place in (out / checkpoint.FOLDER).glob("[0-9]*/state.json"))


def clear(out: Path) -> None:
    """Remove a run, and nothing that is not of one."""
    with whole.refused(out):
        for place in list(_checkpoints(out)):
            shutil.rmtree(place)
        progress.forget(out, set())
        for name in FILES:
            (out / name).unlink(missing_ok=True)
    for name in (checkpoint.FOLDER, progress.FOLDER):
        with contextlib.suppress(OSError):  # something else is in it
            (out / name).rmdir()


def contents(settings: Online) -> dict[str, str]:
    """The SHA-256 of the prompts, and of each file that a function comes from."""
    named = [settings.model, settings.environment or "", *settings.rewards]
    files = [settings.prompts, *(place.rpartition(":")[0] for place in named if ".py:" in place)]
    return {f"file {file}": hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16] for file in files}
