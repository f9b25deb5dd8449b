"""Rows of a log ranked by reward or by any number of their records, and read whole."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast._suggest import ask_whether, nearest
from karl_fast.errors import NothingToSampleError, UsageError
from karl_fast.export.write import draft_rows
from karl_fast.log import Log
from karl_fast.log.discovery import as_list, path_of
from karl_fast.pipeline.inspect import open_with_stamps
from karl_fast.pipeline.sample import lines_of, merge_settings
from karl_fast.settings.sample import Settings
from karl_fast.settings.sample_fields import show_keywords

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Unpack

    from numpy.typing import NDArray

    from karl_fast.export.write import Progress
    from karl_fast.settings.sample_fields import SampleKeywords

ROLLOUTS = "rollouts.jsonl"
"""Log of a run of `rl`, in its folder."""

LENGTH = "length"
"""Name of the bytes of a record, which rows can be ranked by."""

CHUNK = 256
"""Rows that are read at a time where one is sought by its id."""


@dataclass(frozen=True)
class Row:
    """A row of a log.

    Attributes:
        row: its number in the log.
        value: the number that it is ranked by; None where it has none.
        reward: its reward; None where it is missing.
        group: name of its group; None for none.
        record: the record as it is in the log, without secrets.
        messages: its conversation as a data set would have it; None where `sample` could not write it.
        tools: the tools that the model was offered.
    """

    row: int
    value: float | None
    reward: float | None
    group: str | None
    record: dict[str, Any]
    messages: list[dict[str, Any]] | None
    tools: list[dict[str, Any]]

    @property
    def id(self) -> str:
        """Id in the record, or the number of the row."""
        return str(self.record.get("id", self.row))


@dataclass(frozen=True)
class Ranking:
    """Rows in order, and what they are chosen from.

    Attributes:
        rows: the first of the order.
        read: records of the log.
        with_value: those with a number to rank by.
        mean: mean of these numbers; None without any.
        by: what they are ranked by.
        source: fields that the reward is read from.
    """

    rows: list[Row]
    read: int
    with_value: int
    mean: float | None
    by: str
    source: str


@show_keywords(Settings)
def show(
    logs: Log | str | Path | Iterable[str | Path],
    settings: Settings | None = None,
    *,
    count: int = 10,
    by: str = "reward",
    worst: bool = False,
    of_group: str | None = None,
    row_id: str | None = None,
    index: bool = False,
    progress: Progress | None = None,
    **choices: Unpack[SampleKeywords],
) -> Ranking:
    """Rank the rows of a log, and read the first ones.

    Args:
        logs: as `inspect` takes them; the folder of a run of `rl` stands for its rollouts.
        settings, choices: where the fields of a record are.
        count: number of rows.
        by: ``reward``, ``length`` (bytes of a record), or the path of a number in each record: ``outcome.tests``,
            ``turns``, ``duration_seconds``.
        worst: the smallest numbers first.
        of_group: rows of this group alone.
        row_id: the row of this id alone.
        index: as of `karl_fast.read`; another number than the reward is read without.
        progress: as of `inspect`.

    Returns:
        The rows, best first; rows without a number come last.

    Raises:
        UsageError: there is no such group or id.
        NothingToSampleError: no record was read.
        KarlError: as `inspect`.
    """
    merged = merge_settings(logs, settings, choices)
    paths = logs if isinstance(logs, Log) else [rollouts_of(path) for path in as_list(logs)]
    if by not in ("reward", LENGTH) and not isinstance(paths, Log) and "-" in paths:
        raise UsageError("--by reads the log twice, and standard input is there once", hint="name a file in its place")
    with open_with_stamps(paths, merged, progress, index=index) as log:
        if not len(log):
            raise NothingToSampleError("no record was read")
        values = log.rewards if by == "reward" else _numbers(paths, log, by)
        chosen = np.arange(len(log)) if of_group is None else _rows_of(log, of_group)
        if row_id is not None:
            chosen = np.array([_find(log, chosen, row_id)])
        known = ~np.isnan(values[chosen])
        order = np.argsort(np.where(known, values[chosen] if worst else -values[chosen], np.inf), kind="stable")
        rows = [_read(log, row, float(values[row])) for row in chosen[order[:count]].tolist()]
        mean = float(values[chosen][known].mean()) if known.any() else None
        return Ranking(rows, len(chosen), int(known.sum()), mean, by, ", ".join(_reward_paths(log)))


def rollouts_of(path: str | Path) -> str:
    """Return the rollouts of the folder of a run; any other path alone."""
    name = path_of(path)
    rollouts = Path(name, ROLLOUTS)
    return str(rollouts) if name != "-" and rollouts.is_file() else name


def _reward_paths(log: Log) -> list[str]:
    named = list(log.settings.reward or ())
    return named or sorted({dict(file["fields"]).get("reward", "") for file in log.inputs} - {""})


def _numbers(logs: Any, log: Log, path: str) -> NDArray[np.float64]:
    """Return another number of each record: its length, or by reading the log with it as its reward."""
    if path == LENGTH:
        return log.core.record_lengths()
    with open_with_stamps(logs, log.settings.replace(reward={path: 1.0}), None) as other:
        return other.rewards.copy()


def _rows_of(log: Log, group: str) -> NDArray[np.int64]:
    names = log.group_names
    if group not in names:
        raise UsageError(f"there is no group {group!r}", hint=ask_whether(nearest(group, names)))
    return np.flatnonzero(log.groups == names.index(group))


def _find(log: Log, rows: NDArray[np.int64], wanted: str) -> int:
    """Return the row of an id, reading many at a time: the columns have the hashes of ids alone.

    Raises:
        UsageError: no row has it.
    """
    seen: list[str] = []
    for start in range(0, len(rows), CHUNK):
        part = rows[start : start + CHUNK]
        ids = [_id(record) for record in _lines(log, part, "raw")]
        if wanted in ids:  # lines are in the order of a data set, which is not that of the rows
            row: int = next(number for number in part.tolist() if _id(_record(log, number)) == wanted)
            return row
        seen += [name for name in ids if name is not None]
    raise UsageError(f"no row has the id {wanted!r}", hint=ask_whether(nearest(wanted, seen)))


def _id(record: dict[str, Any]) -> str | None:
    return None if record.get("id") is None else str(record["id"])


def _read(log: Log, row: int, value: float) -> Row:
    reward, group = float(log.rewards[row]), int(log.groups[row])
    conversation = next(iter(_lines(log, np.array([row]), "chat")), {})
    return Row(
        row,
        None if np.isnan(value) else value,
        None if np.isnan(reward) else reward,
        log.group_names[group] if group >= 0 else None,
        _record(log, row),
        conversation_messages(conversation),
        conversation.get("tools") or [],
    )


def _record(log: Log, row: int) -> dict[str, Any]:
    """Read a record as it is in the log, its secrets replaced."""
    return next(iter(_lines(log, np.array([row]), "raw")), {})


def _lines(log: Log, rows: NDArray[np.int64], shape: Any) -> list[dict[str, Any]]:
    """Read rows as a data set of this shape has them, and in its order; those that it could not have are left out."""
    return [json.loads(line) for line in lines_of(draft_rows(log, rows, shape))]


def conversation_messages(conversation: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Return the messages of a row of a data set: of a conversation, of a prompt and its completion, or of a text."""
    if isinstance(messages := conversation.get("messages"), list):
        return messages
    answer = conversation.get("completion", conversation.get("text"))
    if answer is None:
        return None
    return [*_half_messages("user", conversation.get("prompt")), *_half_messages("assistant", answer)]


def _half_messages(role: str, half: Any) -> list[dict[str, Any]]:
    """Return the messages of one half, which may be one text."""
    if isinstance(half, str):
        return [{"role": role, "content": half}]
    return [message for message in half if isinstance(message, dict)] if isinstance(half, list) else []
