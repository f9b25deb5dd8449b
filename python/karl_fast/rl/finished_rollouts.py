"""Rollouts that are finished and in no checkpoint yet, so that a resumed run reads them and does not draw them again.

The first line of the file has the identity of the run. Each other line is a rollout before its rewards, as in
``rollouts.jsonl``, with the entropies of its tokens. What a run draws depends on its identity, so that a run that is
begun anew with the same settings reads the file too. A checkpoint empties it.
"""

from __future__ import annotations

import hashlib
import json
from threading import Lock
from typing import TYPE_CHECKING, Any

from karl_fast import _atomic
from karl_fast.errors import CheckpointError
from karl_fast.rl.rollout_log import ENCODING, parse_rollout, rollout_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from karl_fast.rl.rollout import Prompt, Rollout

FINISHED_FILE = "finished.jsonl"


class FinishedRollouts:
    """The finished rollouts of a run since its last checkpoint, by id."""

    def __init__(self, path: Path, identity: Mapping[str, Any], prompts: Mapping[str, Prompt]) -> None:
        """Read the rollouts of a run of this identity; those of another, and a line cut off by a kill, are removed."""
        self.path, self._lock = path, Lock()
        self._head = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest().encode() + b"\n"
        self.rollouts: dict[str, Rollout] = {}
        with _atomic.refused(path):
            self._file = path.open("a+b")
            self._file.seek(0)
            kept = self._read(self._file.read().splitlines(keepends=True), prompts)
            self._file.truncate(kept)
            if not kept:
                self._append(self._head)

    def _read(self, lines: Sequence[bytes], prompts: Mapping[str, Prompt]) -> int:
        """Take the rollouts of whole lines, and return the bytes of these."""
        if not lines or lines[0] != self._head:
            return 0
        kept = len(self._head)
        for line in lines[1:]:
            try:
                one = parse_rollout(line.decode(), prompts)
            except (CheckpointError, UnicodeDecodeError):
                break
            self.rollouts[one.id] = one
            kept += len(line)
        return kept

    def known(self, ids: Sequence[str], version: int, *, whole: bool) -> dict[str, Rollout]:
        """Return those of some rollouts that are finished, drawn after so many steps.

        Args:
            ids: of the rollouts of a draw.
            version: number of steps that the policy has taken.
            whole: True to return all or none.
        """
        found = {id: self.rollouts[id] for id in ids if id in self.rollouts}
        found = {id: one for id, one in found.items() if one.version == version}
        return {} if whole and len(found) < len(ids) else found

    def add(self, rollouts: Sequence[Rollout]) -> None:
        """Append rollouts, from any thread."""
        # The round is in the log of rewarded rollouts; here the id suffices.
        lines = [rollout_line(one, 0, entropy=True)(one.logp, learned=False) for one in rollouts]
        with self._lock, _atomic.refused(self.path):
            self._append("".join(f"{line}\n" for line in lines).encode(*ENCODING))

    def _append(self, content: bytes) -> None:
        self._file.write(content)
        self._file.flush()

    def clear(self) -> None:
        """Forget the rollouts: a checkpoint has what was learned from them."""
        self.rollouts.clear()
        with _atomic.refused(self.path):
            self._file.truncate(len(self._head))

    def finish(self) -> None:
        """Close the file, and remove it where it has no rollout."""
        with _atomic.refused(self.path):
            self._file.close()
            if self.path.stat().st_size == len(self._head):
                self.path.unlink(missing_ok=True)
