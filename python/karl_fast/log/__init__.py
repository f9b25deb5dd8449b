"""Reading: files of records to columns of numbers."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karl_fast import _core
from karl_fast.errors import BadRowError
from karl_fast.log.inputs import files
from karl_fast.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy as np
    from numpy.typing import NDArray


class Log:
    """Every record of some files as columns, in an order that depends on the records alone.

    Rows stand in the order of (hash of the id, hash of the record); nothing depends on how the records lay in files.
    B is the number of records.
    """

    def __init__(self, core: _core.Log, settings: Settings, spool: contextlib.ExitStack) -> None:
        self.core = core
        self.settings = settings
        # Standard input was copied into a temporary file, which the second pass still needs.
        self._spool = spool

    def __len__(self) -> int:
        return len(self.core)

    def __repr__(self) -> str:
        return f"Log({len(self)} records from {len(self.inputs)} files)"

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back temporary files; the columns stay, ``export`` does not work any more where input was a pipe."""
        self._spool.close()

    @property
    def rewards(self) -> NDArray[np.float64]:
        """The reward: the weighted sum of its components; NaN where one is missing. [B]"""
        components = [self.core.component(index) for index in range(self.core.components)]
        return _core.composite(components, self.settings.weights)

    @property
    def components(self) -> dict[str, NDArray[np.float64]]:
        """The reward's components by path. [B] each"""
        names = self.settings.reward or {"reward": 1.0}
        return {name: self.core.component(index) for index, name in enumerate(names)}

    @property
    def groups(self) -> NDArray[np.int64]:
        """The number of each record's group; -1 where it has none. [B]"""
        return self.core.codes("group")

    @property
    def group_names(self) -> list[str]:
        """The name of each group, by number."""
        return self.core.names("group")

    @property
    def domains(self) -> NDArray[np.int64]:
        """The number of each record's domain; -1 where it has none. [B]"""
        return self.core.codes("domain")

    @property
    def domain_names(self) -> list[str]:
        """The name of each domain, by number."""
        return self.core.names("domain")

    @property
    def keys(self) -> NDArray[np.uint64]:
        """What each record's randomness is keyed by: low and high half of its 128-bit id, and its ordinal. [B, 3]"""
        return self.core.keys()

    @property
    def inputs(self) -> list[_core.InputFacts]:
        """What was found in each file, with the places of the first bad rows."""
        return self.core.inputs()


def read(
    logs: str | Path | Iterable[str | Path],
    settings: Settings | None = None,
    *,
    fingerprint: bool = False,
    progress: Callable[[int, int], None] | None = None,
    **choices: Any,
) -> Log:
    """Read logs into columns.

    Args:
        logs: a file, a folder, a glob, ``-`` for standard input, or several of these. JSON Lines, plain or packed by
            gzip or zstd; or one JSON array, or an object that holds one.
        settings: what to take from each record; ``choices`` change single ones (``reward={"outcome": 1.0}``).
        fingerprint: hash each trajectory, so that identical ones can be counted; ``dedup`` does it too.
        progress: called about fifty times a second with the bytes read so far and the bytes there are (unpacked; 0
            where that is not known).

    Raises:
        FileError: a file cannot be read.
        LogError: a file holds no records.
        BadRowError: with ``strict``, for the first row that is no record.
        UsageError: a field path or setting that means nothing.
    """
    settings = (settings or Settings()).replace(**choices)
    spool = contextlib.ExitStack()
    with contextlib.ExitStack() as undo:
        undo.push(spool)
        paths = [logs] if isinstance(logs, str | Path) else list(logs)
        core = _core.read(
            spool.enter_context(files(paths)),
            format=settings.format,
            id=settings.id,
            group=settings.group,
            reward=None if settings.reward is None else list(settings.reward),
            messages=settings.messages,
            domain=settings.domain,
            partition=settings.partition_field,
            max_line_bytes=settings.max_line_bytes,
            fingerprint=settings.dedup or fingerprint,
            strict=settings.strict,
            threads=settings.threads,
            progress=progress,
        )
        if settings.strict:
            _refuse_bad_rows(core)
        undo.pop_all()
    return Log(core, settings, spool)


def _refuse_bad_rows(core: _core.Log) -> None:
    for file in core.inputs():
        damage = [reason for reason, _ in file["dropped"] if reason not in SOUND]
        if damage:
            # Of many bad rows the first places are kept: it may not be among them.
            bad = next((bad for bad in file["bad_rows"] if bad["reason"] in damage), None)
            place = f", line {bad['line']}, byte {bad['offset']}" if bad else ""
            reason = bad["reason"] if bad else damage[0]
            raise BadRowError(f"{file['path']}{place}: the row is {reason.replace('_', ' ')}")


SOUND = ("failed_rollout",)
"""Why a row may be no record without being damaged."""
