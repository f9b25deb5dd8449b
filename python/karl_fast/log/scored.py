"""Rewards that Python functions give the records of a log."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast import _core
from karl_fast.errors import RewardError, UsageError
from karl_fast.reward.composite import Part, weighed
from karl_fast.reward.functions import Function, scored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karl_fast.settings import Settings

WINDOW = 64 << 20
"""Bytes of records that are read at a time."""

BATCH = 512
"""Rows that a function scores in one call, or fewer at the end of a window."""


@dataclass(frozen=True)
class Scorers:
    """The functions of some settings, loaded.

    Attributes:
        by_name: the function of each component that has one.
        wants: the columns that each names, and whether it takes any other.
        facts: what a manifest says of each: what it was called, and the SHA-256 of its file, if it has one.
    """

    by_name: dict[str, Function]
    wants: dict[str, tuple[set[str], bool]]
    facts: dict[str, dict[str, Any]]


def loaded(settings: Settings) -> Scorers:
    """Load the functions that a reward names, before anything is read.

    Raises:
        RewardError: there is no such function, or its file cannot be run.
    """
    by_name, wants, facts = {}, {}, {}
    for name, fn in settings.functions.items():
        try:
            by_name[name] = Function.of(fn)
            wants[name] = by_name[name].wants()
        except UsageError as error:
            wrong = RewardError(f"reward.{name}: {error}")
            wrong.hint = error.hint
            raise wrong from error
        facts[name] = {"fn": fn, "sha256": _digest(fn)}
    return Scorers(by_name, wants, facts)


def _digest(fn: str) -> str | None:
    path, colon, _ = fn.rpartition(":")
    return hashlib.sha256(Path(path).read_bytes()).hexdigest() if colon else None


def score(core: _core.Log, settings: Settings, scorers: Scorers) -> _core.Log:
    """The same records with the components that functions give, and the reward that all components make.

    Records are read again in the order of rows, 64 MiB at a time, and each function gets up to 512 of them in a call;
    so what it is given depends on the records alone. Of a packed file each reading unpacks all of it.

    Raises:
        RewardError: a function raises, or gives another number of rewards, NaN, an infinity or what is no number.
        LogChangedError, FileError: a file is no longer what it was, or cannot be read.
    """
    own = {name: np.full(len(core), np.nan) for name in scorers.by_name}
    for told in batches(core, settings.threads):
        for name, function in scorers.by_name.items():
            columns = told.columns(*scorers.wants[name])
            own[name][told.rows] = scored(function, told.completions, columns, told.named)
    read = iter(range(core.components))
    components = [own[name] if name in own else core.component(next(read)) for name in settings.reward or ()]
    parts = [
        Part(name, weight, scorers.by_name[name].call if name in own else None)
        for name, weight in zip(settings.reward or (), settings.weights, strict=True)
    ]
    return _core.rewarded(core, components, weighed(list(zip(parts, components, strict=True))))


def batches(core: _core.Log, threads: int) -> Iterator[Told]:
    """The records of a log in the order of rows, without those that are damaged, which have no reward."""
    first = 0
    while first < len(core):
        window = _core.answered(core, first, WINDOW, threads)
        for start in range(0, len(window), BATCH):
            answers = enumerate(window[start : start + BATCH], first + start)
            found = [(row, *json.loads(answer)) for row, answer in answers if answer is not None]
            if found:
                yield Told(core, *(list(column) for column in zip(*found, strict=True)))
        first += len(window)


@dataclass(frozen=True)
class Told:
    """What functions are told of some records.

    Attributes:
        log: where they are.
        rows: the row of each. [N]
        prompts, completions: lists of messages, or texts. [N] each
        records: the whole records. [N]
    """

    log: _core.Log
    rows: list[int]
    prompts: list[Any]
    completions: list[Any]
    records: list[dict[str, Any]]

    def columns(self, names: set[str], others: bool) -> dict[str, list[Any]]:
        """The columns of some names, None where a record does not say it; with others all that any record says."""
        names = names.union({"prompts"}, *self.records) - {"completions"} if others else names
        return {name: self._column(name) for name in sorted(names)}

    def _column(self, name: str) -> list[Any]:
        return self.prompts if name == "prompts" else [record.get(name) for record in self.records]

    def named(self, at: int) -> str:
        """A row, and where its record lies."""
        path, offset = _core.place(self.log, self.rows[at])
        return f"row {self.rows[at]} ({path}, byte {offset})"
