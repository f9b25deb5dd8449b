"""Rollouts as a log that `karl-fast inspect`, `sample` and `train` read: one JSON object a line.

```text
{"id", "group", "reward", "messages", "domain"?,            what every command reads
 "prompt_id", "round", "version", "outcome", "components", "missing", "finish", "learned",
 "states", "turn_rewards",
 "tokens": {"v": 1, "ids", "logp", "spans"}}                base64 of little-endian int32 and float32
```

``ids`` are all tokens; ``spans`` say from where to where each turn of the policy goes, and ``logp`` is of those tokens
alone. ``learned`` is true where a step that was made had the rollout in its loss. A missing reward is null. From a line
and its prompt a rollout comes back as it was, to the bit, without entropy.
"""

from __future__ import annotations

import base64
import fcntl
import json
import math
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast import _atomic
from karl_fast.errors import CheckpointError, FileError, OutputExistsError
from karl_fast.rl.rollout import Rollout

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from karl_fast.rl.rollout import Prompt

ROLLOUTS_FILE = "rollouts.jsonl"

INTEGERS, FLOATS = "<i4", "<f4"

ENCODING = ("utf-8", "backslashreplace")
"""Half a surrogate pair, which a policy of one's own may say, is written as the escape that JSON has for it."""

TEXT = json.JSONEncoder(ensure_ascii=False, default=str)


@dataclass(frozen=True)
class RolloutLine:
    """Line of a rollout, without its end, which is completed by the results of the steps of its round.

    Attributes:
        before, between, after: the text before `learned`, between it and the log-probabilities, and after them.
    """

    before: str
    between: str
    after: str

    def __call__(self, logp: NDArray[np.float32], *, learned: bool) -> str:
        """Return the line.

        Args:
            logp: the log-probabilities of the rollout's own tokens. [length]
            learned: True if the loss of at least one step included the rollout.
        """
        return f"{self.before}{'true' if learned else 'false'}{self.between}{_packed(logp, FLOATS)}{self.after}"


def rollout_line(rollout: Rollout, round: int, *, entropy: bool = False) -> RolloutLine:
    """Return the line of a rollout, with the entropies of its tokens if asked for."""
    held = {
        "messages": [*rollout.prompt.messages, *rollout.messages],
        "prompt_id": rollout.prompt.id,
        "components": rollout.components,
        "missing": rollout.missing,
        "states": rollout.states,
        "turn_rewards": rollout.turn_rewards,
    }
    before = (  # own fields need no encoder, which would take most of the time of a short rollout
        f'{{"id": "{rollout.id}", "group": "{rollout.group}", "reward": {_number(rollout.reward)}, '
        f'"round": {round}, "version": {rollout.version}, "outcome": {_number(rollout.outcome)}, '
        f'"finish": "{rollout.finish}", "learned": '
    )
    between = (
        f', {TEXT.encode(held)[1:-1]}, "tokens": {{"v": 1, "ids": "{_packed(rollout.tokens, INTEGERS)}", "logp": "'
    )
    domain = rollout.prompt.columns.get("domain")
    more = f', "domain": {TEXT.encode(domain)}' if isinstance(domain, str) else ""
    also = f', "entropy": "{_packed(rollout.entropy, FLOATS)}"' if entropy else ""
    return RolloutLine(before, between, f'", "spans": {[list(span) for span in rollout.spans]}{also}}}{more}}}')


def parse_rollout(text: str, prompts: Mapping[str, Prompt]) -> Rollout:
    """Parse a rollout from its line.

    Raises:
        CheckpointError: the line is damaged, or its prompt is not there.
    """
    try:
        held = json.loads(text)
        prompt = prompts[held["prompt_id"]]
        return Rollout(
            id=held["id"],
            prompt=prompt,
            group=int(held["group"]),
            messages=tuple(held["messages"][len(prompt.messages) :]),
            states=tuple(held["states"]),
            turn_rewards=tuple(held["turn_rewards"]),
            finish=held["finish"],
            version=held["version"],
            reward=_back(held["reward"]),
            outcome=_back(held["outcome"]),
            components=held["components"],
            missing=held["missing"],
            **_columns(held["tokens"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"a line of {ROLLOUTS_FILE} is damaged, or of other prompts") from error


def is_written(path: Path) -> bool:
    """Return whether a run is writing to a file; False on a disk without locks."""
    if not path.is_file():
        return False
    with _atomic.refused(path), path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
    return False


def busy_error(path: Path) -> OutputExistsError:
    """Return the error for a file that another run writes to."""
    return OutputExistsError(
        f"another run writes to {path} at this moment", hint="wait for it, end it, or give another folder"
    )


class RolloutLog:
    """The file of rollouts, appended to, and cut back to where a checkpoint left it."""

    def __init__(self, path: Path, size: int) -> None:
        """Open the log, truncated to so many bytes."""
        self.path = path
        with _atomic.refused(path):
            self._file = path.open("ab")
            self._lock()
            if self._file.tell() < size:
                self._file.close()
                raise CheckpointError(f"{path} is shorter than when the checkpoint was made")
            self._file.truncate(size)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise busy_error(self.path) from None
        except OSError:
            pass  # a disk without locks

    def write(self, lines: Iterable[str]) -> None:
        """Append and flush."""
        with _atomic.refused(self.path):
            self._file.write("".join(f"{text}\n" for text in lines).encode(*ENCODING))
            self._file.flush()

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self._file.tell()

    def finish(self) -> None:
        """Close the file."""
        with _atomic.refused(self.path):
            self._file.close()


def read_groups(path: Path, wanted: Sequence[int], prompts: Mapping[str, Prompt]) -> dict[int, list[Rollout]]:
    """Read the rollouts of some groups from a file."""
    found: dict[int, list[Rollout]] = {group: [] for group in wanted}
    if not wanted:
        return found
    with path.open(encoding="utf-8") as file:
        for text in file:
            one = parse_rollout(text, prompts)
            if one.group in found:
                found[one.group].append(one)
    return found


READ_BLOCK = 1 << 20
"""Bytes that are read at a time from the end of a log."""


def read_last_lines(path: Path, count: int) -> list[str]:
    """Read the last whole lines of a log, which a run may be writing to: a line without its end is left out.

    Raises:
        FileError: the file cannot be read.
    """
    tail = b""
    try:
        with path.open("rb") as file:
            place = file.seek(0, 2)
            while place and tail.count(b"\n") <= count:
                size = min(READ_BLOCK, place)
                place -= size
                file.seek(place)
                tail = file.read(size) + tail
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}", error.errno, str(path)) from error
    return [line.decode("utf-8", "backslashreplace") for line in tail.split(b"\n")[-count - 1 : -1]]


def _columns(held: dict[str, Any]) -> dict[str, Any]:
    tokens, logp = _unpacked(held["ids"], INTEGERS), _unpacked(held["logp"], FLOATS)
    spans = _spans(held["spans"], len(tokens))
    if (own := sum(end - start for start, end in spans)) != len(logp):
        raise ValueError(f"{len(logp)} log-probabilities of {own} tokens")
    entropy = _unpacked(held["entropy"], FLOATS) if "entropy" in held else np.zeros_like(logp)
    return {"tokens": tokens, "spans": spans, "logp": logp, "entropy": entropy}


def _spans(held: Any, length: int) -> tuple[tuple[int, int], ...]:
    """Return the spans of turns, after a check: ordered, not empty, and without the first token."""
    spans = tuple((start, end) for start, end in held)
    edges = [1, *chain.from_iterable(spans), length]
    if any(type(edge) is not int for edge in edges) or edges != sorted(edges) or any(a == b for a, b in spans):
        raise ValueError(f"the spans are {spans} of {length} tokens")
    return spans


def _packed(array: NDArray[Any], kind: str) -> str:
    return base64.b64encode(array.astype(kind).tobytes()).decode()


def _unpacked(text: str, kind: str) -> NDArray[Any]:
    return np.frombuffer(base64.b64decode(text, validate=True), dtype=kind).copy()


def _number(value: float) -> str:
    return repr(float(value)) if math.isfinite(value) else "null"


def _back(value: float | None) -> float:
    return math.nan if value is None else float(value)
