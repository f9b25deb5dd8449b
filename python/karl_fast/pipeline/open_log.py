"""The log and the settings of a call of `sample` or `inspect`."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from karl_fast.log import Log, read
from karl_fast.log.discovery import as_list
from karl_fast.settings.sample import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from karl_fast.export.write import Progress
    from karl_fast.settings.keywords import SampleKeywords


def merge_settings(logs: object, settings: Settings | None, choices: SampleKeywords) -> Settings:
    """Return the settings of a call: those given, or of the log, or the defaults, with single choices changed."""
    default = logs.settings if isinstance(logs, Log) else Settings()
    return (settings or default).replace(**choices)


@contextlib.contextmanager
def open_log(
    logs: Log | str | Path | Iterable[str | Path],
    settings: Settings,
    progress: Progress | None,
    *,
    fingerprint: bool = False,
) -> Iterator[Log]:
    """Yield a given log, which stays open; or one that is read here and closed afterwards."""
    if isinstance(logs, Log):
        yield logs.under(settings)
    else:
        with _read_log(logs, settings, progress, fingerprint=fingerprint) as log:
            yield log


def _read_log(
    logs: str | Path | Iterable[str | Path],
    settings: Settings,
    progress: Progress | None,
    *,
    fingerprint: bool,
) -> Log:
    """Read files, or a pipe in one pass if that suffices for the draw."""
    if settings.streams and not fingerprint:
        from karl_fast.log.stream import alone, stream  # most runs have no stream

        logs = as_list(logs)
        if (pipe := alone(logs)) is not None:
            return stream(pipe, settings, progress)
    return read(logs, settings, fingerprint=fingerprint, progress=progress)
