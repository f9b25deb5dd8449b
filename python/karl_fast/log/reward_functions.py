"""Rewards that Python functions give the records of a log.

```text
functions of --reward -> load_functions, before anything is read
records, 64 MiB at a time in the order of rows -> up to 512 a call -> a column a function -> rewards of all components
```

What a function is given depends on the records alone: not on threads or on the split into files.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast import _core
from karl_fast._safe_text import counted
from karl_fast._user_code import return_to, working_folder
from karl_fast.errors import RewardError, UsageError
from karl_fast.reward.composite import weigh_components
from karl_fast.reward.functions import Function, try_scoring
from karl_fast.reward.signals import GROUPWISE
from karl_fast.reward.validate import DEFECTS, LENGTH, RAISED, NoReward
from karl_fast.settings.schema import Stored

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from karl_fast.reward.validate import Reward
    from karl_fast.settings.sample import Settings

WINDOW = 64 << 20
"""Bytes of records that are read at a time."""

BATCH = 512
"""Rows that a function scores in one call, or fewer at the end of a window."""


@dataclass(frozen=True)
class Scorers:
    """The functions of some settings, loaded.

    Attributes:
        by_name: the function of each component that has one.
        wants: the columns that each names, and True if it takes any other.
        facts: what a manifest says of each: what it was called, and the SHA-256 of its file, if it has one.
    """

    by_name: dict[str, Function]
    wants: dict[str, tuple[set[str], bool]]
    facts: dict[str, dict[str, Any]]


def load_functions(settings: Settings) -> Scorers:
    """Load the functions that a reward names, before anything is read.

    Raises:
        RewardError: there is no such function, or its file cannot be run.
    """
    by_name, wants, facts, began = {}, {}, {}, working_folder()
    _refuse_stored(settings)
    _refuse_groupwise(settings)
    for name, fn in settings.functions.items():
        try:
            with return_to(began):
                by_name[name] = Function.of(fn)
            wants[name] = by_name[name].wants()
        except UsageError as error:
            raise RewardError(f"reward.{name}: {error}", hint=error.hint) from error
        facts[name] = {"fn": fn, "sha256": _digest(fn, began)}
    return Scorers(by_name, wants, facts)


def _refuse_stored(settings: Settings) -> None:
    """Raise if a function is named only by a manifest: a manifest brings no code."""
    stored = [name for name, fn in settings.functions.items() if isinstance(fn, Stored)]
    if stored:
        name, fn = stored[0], settings.functions[stored[0]]
        error = UsageError(f"reward.{name} is {fn} in the manifest, and a manifest brings no code: name it again")
        parts = zip(settings.reward or {}, settings.weights, strict=True)
        again = ",".join(f"{name}={weight!r}{_function_suffix(settings, name)}" for name, weight in parts)
        error.hint = f"--reward {shlex.quote(again)} names it"
        raise error


def _refuse_groupwise(settings: Settings) -> None:
    """Raise if a signal compares the rollouts of a group: a call gets rows of many."""
    for name, fn in settings.functions.items():
        if fn in GROUPWISE:
            raise UsageError(
                f"reward.{name} is the signal {fn}, which compares the rollouts of a group: only rl has it",
                hint="a function of your own, my.py:score, gets the fields of each record by name",
            )


def _function_suffix(settings: Settings, name: str) -> str:
    """Return the text after the weight of a component in `--reward`."""
    return f":{settings.functions[name]}" if name in settings.functions else ""


def _digest(fn: str, folder: Path) -> str | None:
    path, colon, _ = fn.rpartition(":")
    return hashlib.sha256(Path(folder, path).read_bytes()).hexdigest() if colon else None


@dataclass
class FunctionRewards:
    """Rewards from a function for the rows of a log.

    Attributes:
        function: the function.
        column: the rewards; NaN where it does not apply, and where the reward is missing. [B]
        missing: True for rows with a reward that is missing because of it. [B]
        first: for each kind of missing reward its first row, and the value or error.
        counts: number of rows of each kind.
    """

    function: Function
    column: NDArray[np.float64]
    missing: NDArray[np.bool_]
    first: dict[str, tuple[int, str]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, function: Function, rows: int) -> FunctionRewards:
        """Return one without any."""
        return cls(function, np.full(rows, np.nan), np.zeros(rows, dtype=np.bool_))

    def add(self, rows: Sequence[int], rewards: Sequence[Reward]) -> None:
        """Take the rewards of some rows."""
        for row, reward in zip(rows, rewards, strict=True):
            if isinstance(reward, NoReward):
                self.missing[row] = True
                self.first.setdefault(reward.kind, (row, reward.said))
                self.counts[reward.kind] = self.counts.get(reward.kind, 0) + 1
            elif reward is not None:
                self.column[row] = reward

    def sentences(self, core: _core.Log) -> list[str]:
        """Return a sentence for each kind: how many rows, and where the first lies."""
        return [self._sentence(kind, core) for kind in sorted(self.counts)]

    def _sentence(self, kind: str, core: _core.Log) -> str:
        row, first_value = self.first[kind]
        path, offset = _core.place(core, row)
        rows = f"{counted(self.counts[kind], 'row')} without a reward, the first is row {row} ({path}, byte {offset})"
        description = {RAISED: f"raised {first_value}", LENGTH: f"gave {first_value}"}.get(
            kind
        ) or f"gave {DEFECTS[kind]}: {first_value}"
        return f"{self.function.place} leaves {rows}: it {description}"


def score(core: _core.Log, settings: Settings, scorers: Scorers) -> tuple[_core.Log, list[str]]:
    """Score the records of a log, and say which rewards functions left missing, and why.

    Records are read again in the order of rows, 64 MiB at a time, and each function gets up to 512 of them in a call;
    so what it is given depends on the records alone. Of a packed file each reading unpacks all of it.

    Returns:
        The same records with the components that functions give, and the reward that all components make; and a
        sentence for each kind of missing reward of each function.

    Raises:
        LogChangedError, FileError: a file is no longer what it was, or cannot be read.
    """
    by_name = {name: FunctionRewards.of(function, len(core)) for name, function in scorers.by_name.items()}
    for batch in batches(core, settings.threads):
        for name, scored in by_name.items():
            arguments = RewardColumns.of(batch.values())  # anew for each, for a function may change what it is given
            scored.add(
                list(batch),
                try_scoring(scored.function, arguments.completions, arguments.columns(*scorers.wants[name])),
            )
    columns_read = iter(range(core.components))
    components = [
        by_name[name].column if name in by_name else core.component(next(columns_read))
        for name in settings.reward or ()
    ]
    optional = {*by_name, *(f"outcome.{name}" for name, *_ in _core.outcome_components())}
    required = {place for place, name in enumerate(settings.reward or ()) if name not in optional}
    rewards = weigh_components(list(zip(settings.weights, components, strict=True)), required)
    for name, scored in by_name.items():
        rewards[scored.missing] = np.nan
        if scored.counts:
            scorers.facts[name]["missing"] = dict(sorted(scored.counts.items()))
    return _core.rewarded(core, components, rewards), [
        sentence for scored in by_name.values() for sentence in scored.sentences(core)
    ]


def batches(core: _core.Log, threads: int) -> Iterator[dict[int, str]]:
    """Yield the records of a log by row, in order, without those that are damaged, which have no reward."""
    first = 0
    while first < len(core):
        window = _core.answered(core, first, WINDOW, threads)
        for start in range(0, len(window), BATCH):
            answers = enumerate(window[start : start + BATCH], first + start)
            if records := {row: answer for row, answer in answers if answer is not None}:
                yield records
        first += len(window)


@dataclass(frozen=True)
class RewardColumns:
    """Arguments of reward functions for some records.

    Attributes:
        prompts, completions: lists of messages, or text. [N] each
        records: the whole records. [N]
    """

    prompts: list[Any]
    completions: list[Any]
    records: list[dict[str, Any]]

    @classmethod
    def of(cls, answers: Iterable[str]) -> RewardColumns:
        """Parse texts of the form `[prompt, completion, record]`."""
        return cls(*(list(column) for column in zip(*map(json.loads, answers), strict=True)))

    def columns(self, names: set[str], others: bool) -> dict[str, list[Any]]:
        """Return columns by name, None where a record lacks one; with ``others``, all that any record has."""
        names = names.union({"prompts"}, *self.records) - {"completions"} if others else names
        return {name: self._column(name) for name in sorted(names)}

    def _column(self, name: str) -> list[Any]:
        return self.prompts if name == "prompts" else [record.get(name) for record in self.records]
