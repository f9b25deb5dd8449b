"""A line on stderr that moves while a job runs, at a terminal only."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Watch = Callable[[int, int], None]


@contextlib.contextmanager
def show_progress(quiet: bool) -> Iterator[Callable[[str], Watch | None]]:
    """Yield a function from a label to a callback for (bytes done, bytes in all); to None if no progress is shown."""
    if quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=None)

        def watch(doing: str) -> Watch:
            return lambda done, whole: bar.update(task, description=doing, completed=done, total=whole or None)

        yield watch
