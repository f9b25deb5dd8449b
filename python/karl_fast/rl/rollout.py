"""Rollouts: in memory, padded to batches, and in the files of a run.

``rollouts.jsonl`` has the rewarded rollouts, one JSON object a line, as `karl-fast inspect`, `sample` and `train` read
them:

```text
{"id", "group", "reward", "messages", "domain"?,            what every command reads
 "prompt_id", "round", "version", "outcome", "components", "missing", "finish", "learned",
 "states", "turn_rewards", "baseline"?,
 "tokens": {"v": 1, "ids", "logp", "spans",                 base64 of little-endian int32 and float32
            "rewards"?, "labels"?,                          and float64, where the run has functions of tokens
            "width"?}}                                      of a state, where the policy draws in steps
 "parent"?, "prompt_messages"?}                             of a sub-rollout: {"id", "tool_call_id"} of its caller, and
                                                            how many of the messages are its prompt
```

A sub-rollout, which the policy called, is a line before that of the rollout that called it. It has no reward.

``ids`` are all tokens; ``spans`` are start and end of each turn of the policy, and ``logp`` is of those tokens alone.
``learned`` is true where the loss of a step that was made had the rollout in it. A missing reward is null. A line and
its prompt give the rollout back to the bit, without entropy.

``finished.jsonl`` has rollouts that are finished and in no checkpoint yet, so that a resumed run reads them instead of
drawing them again. Its first line is the hash of the run's identity; each other line is a rollout before its rewards,
with the entropies of its tokens. What a run draws depends on its identity alone, so a run that starts anew with the
same settings reads the file, too. A checkpoint empties it.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import math
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast import _atomic
from karl_fast._safe_text import describe_exception
from karl_fast.errors import CheckpointError, FileError, OutputExistsError
from karl_fast.rl.compiled import round_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

ROLLOUTS_FILE = "rollouts.jsonl"

FINISHED_FILE = "finished.jsonl"

INTEGERS, FLOATS, DOUBLES = "<i4", "<f4", "<f8"

ENCODING = ("utf-8", "backslashreplace")
"""Half a surrogate pair, which a custom policy may generate, is written as its JSON escape."""

TEXT = json.JSONEncoder(ensure_ascii=False, default=str)

READ_BLOCK = 1 << 20
"""Bytes that are read at a time from the end of a log."""


@dataclass(frozen=True)
class Prompt:
    """A line of the file of prompts.

    Attributes:
        id: its own, or the number of its line.
        number: of its line, from 0.
        messages: of the conversation before the first turn.
        columns: all other fields of the line, which reward functions get by name.
        unprivileged: messages that a student sees in the place of those above; None where there is no student.
    """

    id: str
    number: int
    messages: tuple[Mapping[str, Any], ...]
    columns: Mapping[str, Any] = field(default_factory=dict)
    unprivileged: tuple[Mapping[str, Any], ...] | None = None

    @property
    def logged(self) -> tuple[Mapping[str, Any], ...]:
        """Messages of the log of rollouts, which others may learn from."""
        return self.messages if self.unprivileged is None else self.unprivileged


@dataclass(frozen=True, eq=False)
class Rollout:
    """One attempt at a prompt: tokens and outcome. n is the number of its tokens, U that of its turns.

    Attributes:
        id: unique in the run.
        prompt: its prompt.
        group: the number of its group; rollouts of a group were drawn together.
        tokens: prompt, turns and the answers to them. int32, [n]
        spans: start and end of each turn of the policy, its own tokens. [U]
        logp: of its own tokens when they were drawn, turn after turn. float32, [length]
        entropy: of the distributions of its own tokens, in nats. float32, [length]
        messages: messages after the prompt.
        states: state of the environment before each turn. [U]
        turn_rewards: reward of the environment for each turn. [U]
        finish: stop (the policy or the environment ended it), length (out of tokens), turns (out of turns), failed (the
            environment failed).
        version: number of steps that the policy had taken.
        reward: reward to learn from; NaN if missing.
        outcome: the reward before shaping, or the component that is the outcome.
        components: each reward by name, unweighted; absent if its function gave none.
        missing: reason why the reward is missing.
        token_rewards: reward of each of its own tokens, NaN for none; None where the run has no such function. [length]
        labels: the token that is right in the place of each of its own, negative for none; likewise. int64, [length]
        baseline: the expected reward of its prompt under the policy that drew it; NaN likewise.
        width: of a policy that draws in steps, tokens of a state; 0 for one that draws tokens. The tokens are then the
            prompt and all states, and a span is the last token of the state after a step.
        parent: id of the rollout that called it; None for a root, which nothing called.
        callees: of a root, all rollouts below it, each before the one that called it.
    """

    id: str
    prompt: Prompt
    group: int
    tokens: NDArray[np.int32]
    spans: tuple[tuple[int, int], ...]
    logp: NDArray[np.float32]
    entropy: NDArray[np.float32]
    messages: tuple[Mapping[str, Any], ...]
    states: tuple[str, ...]
    turn_rewards: tuple[float, ...]
    finish: str
    version: int
    reward: float = float("nan")
    outcome: float = float("nan")
    components: Mapping[str, float] = field(default_factory=dict)
    missing: str | None = None
    token_rewards: NDArray[np.float64] | None = None
    labels: NDArray[np.int64] | None = None
    baseline: float = float("nan")
    width: int = 0
    parent: str | None = None
    callees: tuple[Rollout, ...] = ()

    @property
    def answer(self) -> NDArray[np.int32]:
        """Tokens that the policy has drawn, of all turns; of a policy that draws in steps, those of its last state."""
        return self.tokens[len(self.tokens) - self.width :] if self.width else self.own(self.tokens)

    def own(self, column: NDArray[Any]) -> NDArray[Any]:
        """Select the entries of a column for the policy's own tokens, turn after turn. [n] -> [length]"""
        if len(self.spans) == 1:
            return column[slice(*self.spans[0])]
        return np.concatenate([column[start:end] for start, end in self.spans] or [column[:0]])

    @property
    def length(self) -> int:
        """Number of tokens of the policy."""
        return sum(end - start for start, end in self.spans)

    def but(self, **other: Any) -> Rollout:
        """Return a copy with other fields, as `dataclasses.replace`, without making each field again.

        Raises:
            TypeError: a rollout has no such field.
        """
        if unknown := sorted(other.keys() - FIELDS):
            raise TypeError(f"a rollout has no field {unknown[0]!r}")
        copy = object.__new__(Rollout)
        copy.__dict__.update(self.__dict__, **other)
        return copy

    @property
    def truncated(self) -> bool:
        """True if it was cut before its end."""
        return self.finish in ("length", "turns")


FIELDS = frozenset(each.name for each in fields(Rollout))
"""Names of the fields of a rollout."""


@dataclass(frozen=True, eq=False)
class Packed:
    """Rollouts, padded on the right to the longest, or slightly more. Index t of a mask scores token t + 1.

    Attributes:
        tokens: int32, [B, T + 1]
        mask: True for targets of the policy. bool, [B, T]
        turns: the turn of each target, -1 for none. int64, [B, T]
        logp: when the tokens were drawn. float32, [B, T]
    """

    tokens: NDArray[np.int32]
    mask: NDArray[np.bool_]
    turns: NDArray[np.int64]
    logp: NDArray[np.float32]

    def rows(self, rows: Sequence[int]) -> Packed:
        """Return some rows."""
        numbers = np.asarray(rows, dtype=np.int64)
        return Packed(self.tokens[numbers], self.mask[numbers], self.turns[numbers], self.logp[numbers])


def pack(rollouts: Sequence[Rollout]) -> Packed:
    """Pack rollouts as one padded batch. The first token is never the policy's own, since prompts are not empty."""
    width = 1 + round_size(max(len(rollout.tokens) for rollout in rollouts) - 1)
    tokens, logp = np.zeros((len(rollouts), width), np.int32), np.zeros((len(rollouts), width), np.float32)
    turns = np.full(tokens.shape, -1, dtype=np.int64)
    for row, rollout in enumerate(rollouts):
        tokens[row, : len(rollout.tokens)] = rollout.tokens
        first = 0
        for number, (start, end) in enumerate(rollout.spans):
            turns[row, start:end], logp[row, start:end] = number, rollout.logp[first : first + end - start]
            first += end - start
    return Packed(tokens, turns[:, 1:] >= 0, turns[:, 1:], logp[:, 1:])


def with_callees(rollouts: Sequence[Rollout]) -> list[Rollout]:
    """Return rollouts with those that they called, each before the one that called it."""
    return [each for rollout in rollouts for each in (*rollout.callees, rollout)]


def set_numbers(rollouts: Sequence[Rollout], candidates: int) -> NDArray[np.int64]:
    """Return the number of the set of each rollout: so many of a group, one after the other, make one. [B]"""
    names = [(rollout.group, int(rollout.id.rpartition("-")[2]) // candidates) for rollout in rollouts]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return np.array([numbers[name] for name in names], dtype=np.int64)


def is_message(value: Any) -> bool:
    """Return whether it is a message: its role a text, its content a text or parts, or calls of tools in its place."""
    if not isinstance(value, dict) or not isinstance(value.get("role"), str):
        return False
    content = value.get("content")
    return isinstance(content, str | list) or (content is None and bool(value.get("tool_calls")))


def no_text(value: Any) -> str | None:
    """Return the reason why a value cannot be logged: no JSON form, or half a surrogate pair; None if it can."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        return describe_exception(error)
    return None


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
        return f"{self.before}{'true' if learned else 'false'}{self.between}{_encode_array(logp, FLOATS)}{self.after}"


def rollout_line(rollout: Rollout, round: int, *, entropy: bool = False) -> RolloutLine:
    """Return the line of a rollout, with the entropies of its tokens if asked for."""
    record: dict[str, Any] = {
        "messages": [*rollout.prompt.logged, *rollout.messages],
        "prompt_id": rollout.prompt.id,
        "components": rollout.components,
        "missing": rollout.missing,
        "states": rollout.states,
        "turn_rewards": rollout.turn_rewards,
    }
    if not math.isnan(rollout.baseline):
        record["baseline"] = rollout.baseline
    before = (  # own fields need no encoder, which would take most of the time of a short rollout
        f'{{"id": "{rollout.id}", "group": "{rollout.group}", "reward": {_number(rollout.reward)}, '
        f'"round": {round}, "version": {rollout.version}, "outcome": {_number(rollout.outcome)}, '
        f'"finish": "{rollout.finish}", "learned": '
    )
    if rollout.parent is not None:
        record["parent"] = {"id": rollout.parent, "tool_call_id": None}
        record["prompt_messages"] = len(rollout.prompt.logged)
    ids = _encode_array(rollout.tokens, INTEGERS)
    between = f', {TEXT.encode(record)[1:-1]}, "tokens": {{"v": 1, "ids": "{ids}", "logp": "'
    domain = rollout.prompt.columns.get("domain")
    domain_field = f', "domain": {TEXT.encode(domain)}' if isinstance(domain, str) else ""
    more = f', "entropy": "{_encode_array(rollout.entropy, FLOATS)}"' if entropy else ""
    if rollout.token_rewards is not None:
        more += f', "rewards": "{_encode_array(rollout.token_rewards, DOUBLES)}"'
    if rollout.labels is not None:
        more += f', "labels": "{_encode_array(rollout.labels, INTEGERS)}"'
    if rollout.width:
        more += f', "width": {rollout.width}'
    return RolloutLine(before, between, f'", "spans": {[list(span) for span in rollout.spans]}{more}}}{domain_field}}}')


def parse_rollout(text: str, prompts: Mapping[str, Prompt]) -> Rollout:
    """Parse a rollout from its line.

    Raises:
        CheckpointError: the line is damaged, or its prompt is not there.
    """
    try:
        line = json.loads(text)
        prompt, parent = prompts[line["prompt_id"]], line.get("parent")
        if parent is not None:
            prompt = replace(prompt, messages=tuple(line["messages"][: line["prompt_messages"]]), unprivileged=None)
        return Rollout(
            id=line["id"],
            prompt=prompt,
            group=int(line["group"]),
            messages=tuple(line["messages"][len(prompt.logged) :]),
            states=tuple(line["states"]),
            turn_rewards=tuple(line["turn_rewards"]),
            finish=line["finish"],
            version=line["version"],
            reward=_number_or_nan(line["reward"]),
            outcome=_number_or_nan(line["outcome"]),
            components=line["components"],
            missing=line["missing"],
            baseline=_number_or_nan(line.get("baseline")),
            parent=None if parent is None else parent["id"],
            **_columns(line["tokens"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"a line of {ROLLOUTS_FILE} is damaged, or of other prompts") from error


def parse_trees(lines: Iterable[str], prompts: Mapping[str, Prompt]) -> Iterator[Rollout]:
    """Parse lines, and yield the rollouts that nothing called, each with those below it, which are in front of it.

    Raises:
        CheckpointError: a line is damaged, or its prompt is not there.
    """
    callees: list[Rollout] = []
    for text in lines:
        rollout = parse_rollout(text, prompts)
        callees.append(rollout)
        if rollout.parent is None:
            yield rollout.but(callees=tuple(callees[:-1]))
            callees = []


def _columns(tokens_field: dict[str, Any]) -> dict[str, Any]:
    tokens, logp = _decode_array(tokens_field["ids"], INTEGERS), _decode_array(tokens_field["logp"], FLOATS)
    spans = _check_spans(tokens_field["spans"], len(tokens))
    if (own := sum(end - start for start, end in spans)) != len(logp):
        raise ValueError(f"{len(logp)} log-probabilities of {own} tokens")
    entropy = _decode_array(tokens_field["entropy"], FLOATS) if "entropy" in tokens_field else np.zeros_like(logp)
    columns: dict[str, Any] = {"tokens": tokens, "spans": spans, "logp": logp, "entropy": entropy}
    columns["width"] = _check_width(tokens_field.get("width", 0), len(tokens))
    for name, key, kind, dtype in (("token_rewards", "rewards", DOUBLES, "f8"), ("labels", "labels", INTEGERS, "i8")):
        if key in tokens_field:
            columns[name] = _decode_array(tokens_field[key], kind).astype(dtype)
            if len(columns[name]) != len(logp):
                raise ValueError(f"{len(columns[name])} {name} of {len(logp)} tokens")
    return columns


def _check_spans(pairs: Any, length: int) -> tuple[tuple[int, int], ...]:
    """Return the spans of turns, after a check: ordered, not empty, and without the first token."""
    spans = tuple((start, end) for start, end in pairs)
    edges = [1, *chain.from_iterable(spans), length]
    if any(type(edge) is not int for edge in edges) or edges != sorted(edges) or any(a == b for a, b in spans):
        raise ValueError(f"the spans are {spans} of {length} tokens")
    return spans


def _check_width(width: Any, length: int) -> int:
    """Return the width of a state, after a check."""
    if type(width) is not int or not 0 <= width < length:
        raise ValueError(f"the width of a state is {width} of {length} tokens")
    return width


def _encode_array(array: NDArray[Any], kind: str) -> str:
    return base64.b64encode(array.astype(kind).tobytes()).decode()


def _decode_array(text: str, kind: str) -> NDArray[Any]:
    return np.frombuffer(base64.b64decode(text, validate=True), dtype=kind).copy()


def _number(value: float) -> str:
    return repr(float(value)) if math.isfinite(value) else "null"


def _number_or_nan(value: float | None) -> float:
    return math.nan if value is None else float(value)


class RolloutLog:
    """The file of rollouts, appended to, and cut back to where a checkpoint left it."""

    def __init__(self, path: Path, size: int) -> None:
        """Open the log, truncated to so many bytes."""
        self.path = path
        with _atomic.name_file_errors(path):
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
        with _atomic.name_file_errors(self.path):
            self._file.write("".join(f"{text}\n" for text in lines).encode(*ENCODING))
            self._file.flush()

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self._file.tell()

    def finish(self) -> None:
        """Close the file."""
        with _atomic.name_file_errors(self.path):
            self._file.close()


def is_written(path: Path) -> bool:
    """Return whether a run is writing to a file; False on a disk without locks."""
    if not path.is_file():
        return False
    with _atomic.name_file_errors(path), path.open("rb") as file:
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


def read_groups(path: Path, groups: Sequence[int], prompts: Mapping[str, Prompt]) -> dict[int, list[Rollout]]:
    """Read the rollouts of some groups from a file."""
    by_group: dict[int, list[Rollout]] = {group: [] for group in groups}
    if not groups:
        return by_group
    with path.open(encoding="utf-8") as file:
        for rollout in parse_trees(file, prompts):
            if rollout.group in by_group:
                by_group[rollout.group].append(rollout)
    return by_group


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


class FinishedRollouts:
    """The finished rollouts of a run since its last checkpoint, by id."""

    def __init__(self, path: Path, identity: Mapping[str, Any], prompts: Mapping[str, Prompt]) -> None:
        """Read the rollouts of a run of this identity; those of another, and a line cut off by a kill, are removed."""
        self.path, self._lock = path, Lock()
        self._head = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest().encode() + b"\n"
        self.rollouts: dict[str, Rollout] = {}
        with _atomic.name_file_errors(path):
            self._file = path.open("a+b")
            self._file.seek(0)
            size = self._read(self._file.read().splitlines(keepends=True), prompts)
            self._file.truncate(size)
            if not size:
                self._append(self._head)

    def _read(self, lines: Sequence[bytes], prompts: Mapping[str, Prompt]) -> int:
        """Take the rollouts of whole lines, each with those that it called, and return the bytes of these."""
        if not lines or lines[0] != self._head:
            return 0
        size = whole = len(self._head)
        callees: list[Rollout] = []
        for line in lines[1:]:
            try:
                rollout = parse_rollout(line.decode(), prompts)
            except (CheckpointError, UnicodeDecodeError):
                break
            whole += len(line)
            callees.append(rollout)
            if rollout.parent is None:
                self.rollouts[rollout.id] = rollout.but(callees=tuple(callees[:-1]))
                size, callees = whole, []
        return size

    def find(self, ids: Sequence[str], version: int, *, whole: bool) -> dict[str, Rollout]:
        """Return the finished ones of some rollouts, drawn after so many steps.

        Args:
            ids: of the rollouts of a draw.
            version: number of steps that the policy has taken.
            whole: True to return all or none.
        """
        rollouts = {id: self.rollouts[id] for id in ids if id in self.rollouts}
        rollouts = {id: rollout for id, rollout in rollouts.items() if rollout.version == version}
        return {} if whole and len(rollouts) < len(ids) else rollouts

    def add(self, rollouts: Sequence[Rollout]) -> None:
        """Append rollouts, from any thread."""
        # The round is in the log of rewarded rollouts; here the id suffices.
        lines = [
            rollout_line(rollout, 0, entropy=True)(rollout.logp, learned=False) for rollout in with_callees(rollouts)
        ]
        with self._lock, _atomic.name_file_errors(self.path):
            self._append("".join(f"{line}\n" for line in lines).encode(*ENCODING))

    def _append(self, content: bytes) -> None:
        self._file.write(content)
        self._file.flush()

    def clear(self) -> None:
        """Forget the rollouts: a checkpoint has what was learned from them."""
        self.rollouts.clear()
        with _atomic.name_file_errors(self.path):
            self._file.truncate(len(self._head))

    def finish(self) -> None:
        """Close the file, and remove it where it has no rollout."""
        with _atomic.name_file_errors(self.path):
            self._file.close()
            if self.path.stat().st_size == len(self._head):
                self.path.unlink(missing_ok=True)
