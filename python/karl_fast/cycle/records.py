"""Records in the working folder of a cycle.

```text
FOLDER/done/STEP-KEY.json     a finished step: its inputs, result, and the content of its output
       trajectories/KEY.jsonl output of convert; of the last run only
       outcomes/KEY.jsonl     output of outcomes; of the last run only
       data/KEY               output of sample
       adapters/KEY           output of train; current and promotions beside them
       evaluations/KEY        output of eval by rollouts
       runs/000001.json       a run: what became of each step
       metrics.prom           results of the last run
```

KEY is the beginning of a hash of the inputs of a step.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from karl_fast import _atomic
from karl_fast.errors import CheckpointError

if TYPE_CHECKING:
    from pathlib import Path

UNFINISHED = ".*.karl-fast-*"
"""Names of unfinished outputs of convert, outcomes and sample."""

OUTPUTS = ("trajectories", "outcomes", "data")
"""Folders of their outputs."""

LAST_ONLY = ("trajectories", "outcomes")
"""Folders of which only the outputs of the last run stay: they can be made again from the transcripts."""


@dataclass(frozen=True)
class CycleRecords:
    """Finished steps and runs of a working folder."""

    folder: Path

    def read_step(self, name: str, key: str) -> dict[str, Any] | None:
        """Return the record of a finished step; None if there is none."""
        place = self.folder / "done" / f"{name}-{key}.json"
        return _read_record(place) if place.is_file() else None

    def write_step(self, name: str, key: str, record: dict[str, Any]) -> None:
        """Record a finished step."""
        _write_record(self.folder / "done" / f"{name}-{key}.json", record)

    def read_last(self, name: str) -> dict[str, Any] | None:
        """Return the newest record of a step; None if it never finished."""
        places = sorted((self.folder / "done").glob(f"{name}-*.json"), key=lambda place: place.stat().st_mtime_ns)
        return _read_record(places[-1]) if places else None

    def read_runs(self) -> list[dict[str, Any]]:
        """Return all runs, the oldest first; one that was killed has the state `killed`."""
        runs = [_read_record(place) for place in sorted((self.folder / "runs").glob("[0-9]*.json"))]
        is_locked = self.is_locked()
        for run in runs:
            if run["state"] == "running" and not (is_locked and run is runs[-1]):
                run["state"] = "killed"
        return runs

    def write_run(self, run: dict[str, Any]) -> None:
        """Write the state of a run."""
        _write_record(self.folder / "runs" / f"{run['run']:06d}.json", run)

    def next_run(self) -> int:
        """Return the number of a new run."""
        return 1 + max((int(place.stem) for place in (self.folder / "runs").glob("[0-9]*.json")), default=0)

    def is_locked(self) -> bool:
        """Return whether a run holds the lock."""
        try:
            with (self.folder / _atomic.LOCK).open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:  # no lock file, or a disk without locks
            return False
        return False

    def remove_unfinished(self) -> None:
        """Remove the hidden, unfinished outputs of commands that were killed; the lock has to be held."""
        for name in OUTPUTS:
            for place in (self.folder / name).glob(UNFINISHED):
                shutil.rmtree(place) if place.is_dir() else place.unlink()

    def remove_intermediate(self, outputs: list[Path]) -> None:
        """Remove the intermediate outputs of earlier runs; `outputs` are those of this one."""
        for name in LAST_ONLY:
            own = [output for output in outputs if output.parent.name == name]
            for place in (self.folder / name).glob("*.jsonl") if own else ():
                if place not in own:
                    place.unlink()


def _read_record(place: Path) -> dict[str, Any]:
    try:
        record: dict[str, Any] = json.loads(place.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"{place} is damaged: it is not a record of a cycle", hint="remove it: what it records is done again"
        ) from error
    return record


def _write_record(place: Path, record: dict[str, Any]) -> None:
    with _atomic.name_file_errors(place), contextlib.suppress(FileExistsError):
        place.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(record, indent=1, allow_nan=False) + "\n"
    _atomic.write_file(place, lambda file: file.write(text.encode()))
