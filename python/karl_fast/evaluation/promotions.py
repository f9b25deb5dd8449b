"""Records of promotions, and the link to the adapter in use.

```text
current -> second                   the adapter in use, a symbolic link, beside the runs
promotions/000001/record.json       a look at held-out data: what was compared, the result, what became of the link
                  seen-hashes.txt   hashes of the held-out prompts and groups
                  rollouts.jsonl    attempts, if the look made some
```

A record passes through states; the link moves between two of them, so that the next command can finish what a killed
one began:

    begun -> refused | superseded
    begun -> promoting -> (link) -> promoted -> rolling-back -> (link) -> rolled-back
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import socket
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from karl_fast import _atomic, _seen_hashes
from karl_fast.errors import (
    CheckpointError,
    OutputForeignError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass(frozen=True)
class PromotionRecords:
    """Promotions that move one link.

    Attributes:
        link: path of the link.
    """

    link: Path

    @property
    def folder(self) -> Path:
        """Folder of the records."""
        return self.link.parent / PROMOTIONS_FOLDER

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Wait for other promotions, finish one that was killed, and keep others out."""
        with _atomic.name_file_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            file = (self.folder / PROMOTION_LOCK).open("ab")
        with file:
            with contextlib.suppress(OSError):  # a disk without locks
                fcntl.flock(file, fcntl.LOCK_EX)
            self._finish()
            yield

    def looks(self) -> list[tuple[Path, dict[str, Any]]]:
        """Return the folder and the record of each look, the oldest first."""
        return [(place.parent, _read_record(place)) for place in sorted(self.folder.glob(f"[0-9]*/{PROMOTION_RECORD}"))]

    def looks_at(self, held_out: _seen_hashes.Seen) -> int:
        """Return the number of looks at held-out data that shares a prompt or a group with this."""
        return sum(
            bool((_seen_hashes.read_seen(place) or _seen_hashes.Seen()) & held_out)
            for place, record in self.looks()
            if not _is_lost(place, record)
        )

    def begin(self, record: dict[str, Any], held_out: _seen_hashes.Seen) -> Path:
        """Write the record of a new look, and return its folder; the lock has to be held."""
        number = 1 + max((int(place.name) for place, _ in self.looks()), default=0)
        process = {"host": socket.gethostname(), "process": os.getpid()}
        start = {"state": "begun", "time": datetime.now(UTC).isoformat(timespec="seconds")}
        with _atomic.write_folder(self.folder / f"{number:06d}") as draft:
            _seen_hashes.write_seen(draft, held_out)
            _write_record(draft, record | process | start)
        return self.folder / f"{number:06d}"

    def update(self, place: Path, **values: Any) -> dict[str, Any]:
        """Write values into a record, and return it; the lock has to be held."""
        record = _read_record(place / PROMOTION_RECORD) | values
        _write_record(place, record)
        return record

    def forget(self, place: Path) -> None:
        """Remove a look that saw nothing."""
        with _atomic.name_file_errors(place):
            shutil.rmtree(place, ignore_errors=True)

    def target(self) -> str | None:
        """Return the real path of the adapter that the link leads to; None if there is no link.

        Raises:
            OutputForeignError: something else than a link is in its place.
        """
        if not os.path.lexists(self.link):
            return None
        if not self.link.is_symlink():
            raise OutputForeignError(f"{self.link} exists and is not a symbolic link: it is left as it is")
        return os.path.realpath(self.link)

    def move(self, target: str | None) -> None:
        """Make the link lead to an adapter in one step, or remove it; readers find the old one or the new one."""
        self.target()
        with _atomic.name_file_errors(self.link):
            if target is None:
                self.link.unlink(missing_ok=True)
                return
            draft = self.link.with_name(_atomic.UNFINISHED + self.link.name)
            draft.unlink(missing_ok=True)
            draft.symlink_to(os.path.relpath(target, os.path.realpath(self.link.parent)))
            draft.replace(self.link)

    def promote(self, place: Path, **values: Any) -> dict[str, Any]:
        """Move the link to the new adapter of a look, and record it; the lock has to be held."""
        record = self.update(place, state="promoting", **values)
        self.move(record["new"]["path"])
        return self.update(place, state="promoted")

    def rollback(self) -> dict[str, Any]:
        """Move the link back to the adapter before the last promotion; the lock has to be held.

        Raises:
            CheckpointError: there is none, or the link leads elsewhere since.
        """
        promoted = [(place, record) for place, record in self.looks() if record["state"] == "promoted"]
        if not promoted:
            raise CheckpointError(f"{self.folder} has no promotion to roll back")
        place, record = promoted[-1]
        if self.target() != record["new"]["path"]:
            raise CheckpointError(
                f"{self.link} leads to {self.target()}, and the last promotion to {record['new']['path']}",
                hint="it was moved by hand since: move it by hand again",
            )
        self.update(place, state="rolling-back")
        self.move(record["previous"])
        return self.update(place, state="rolled-back")

    def _finish(self) -> None:
        """Finish moves of the link that a killed command began."""
        for place, record in self.looks():
            if record["state"] == "promoting":
                self._finish_move(place, record["previous_link"], record["new"]["path"], "promoted")
            elif record["state"] == "rolling-back":
                self._finish_move(place, record["new"]["path"], record["previous"], "rolled-back")

    def _finish_move(self, place: Path, source: str | None, target: str | None, state: str) -> None:
        """Move the link from one adapter to another unless that was done; it may lead elsewhere since."""
        current = self.target()
        if current == source != target:
            self.move(target)
        self.update(place, state=state if current in (source, target) else "superseded")


PROMOTIONS_FOLDER, PROMOTION_RECORD, PROMOTION_LOCK = "promotions", "record.json", ".lock"


def is_seen(place: Path) -> bool:
    """Return whether attempts of a look can be read in its folder."""
    return any(file.stat().st_size for file in place.glob("*.jsonl"))


def _is_lost(place: Path, record: dict[str, Any]) -> bool:
    """Return whether the process of a look was killed before anything of the look could be read."""
    if record["state"] != "begun" or is_seen(place) or record.get("host") != socket.gethostname():
        return False
    try:
        os.kill(int(record["process"]), 0)  # signal 0 only asks whether the process exists
    except ProcessLookupError:
        return True
    except (OSError, KeyError, ValueError):
        return False
    return False


def _read_record(file: Path) -> dict[str, Any]:
    try:
        record = json.loads(file.read_text("utf-8"))
        # A record without a state raises here, and not where its state is looked up.
        return record | {"state": record["state"]}  # type: ignore[no-any-return]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{file} is damaged: it is not a record of a promotion") from error


def _write_record(place: Path, record: dict[str, Any]) -> None:
    text = json.dumps(record, indent=1, allow_nan=False) + "\n"
    _atomic.write_file(place / PROMOTION_RECORD, lambda file: file.write(text.encode()))
