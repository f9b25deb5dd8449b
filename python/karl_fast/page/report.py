"""`karl-fast report`: find out what is to be shown, and write its page."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karl_fast import _atomic
from karl_fast._output_path import check_around, refuse_link, refuse_read
from karl_fast._safe_text import counted
from karl_fast.errors import NothingToSampleError, OutputExistsError, OutputForeignError, UsageError
from karl_fast.export.compare import compare
from karl_fast.export.data_set_reader import open_data_set
from karl_fast.log import Log
from karl_fast.log.discovery import as_list, is_output, path_of
from karl_fast.log.field_hints import describe_recordless
from karl_fast.modeling.checkpoint import METRICS_FILE
from karl_fast.page.comparison_page import compare_page, experiment_page, is_experiment, read_record
from karl_fast.page.data_set_page import data_set_page
from karl_fast.page.document import GENERATOR, Page, write_page
from karl_fast.page.judgement_page import cycle_page, evaluation_page, is_cycle, is_evaluation
from karl_fast.page.log_page import log_page, rows_warnings
from karl_fast.page.rows import ROWS, pack_rows
from karl_fast.page.run_page import is_going_on, is_run, read_run, run_page
from karl_fast.pipeline.inspect import inspect, open_with_stamps
from karl_fast.pipeline.sample import merge_settings
from karl_fast.rl import held_out
from karl_fast.rl.rollout import ROLLOUTS_FILE
from karl_fast.settings.sample import Settings
from karl_fast.settings.sample_fields import show_keywords

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Unpack

    from karl_fast.export.write import Progress
    from karl_fast.settings.sample_fields import SampleKeywords


@show_keywords(Settings)
def report(
    source: Log | str | Path | Iterable[str | Path],
    out: str | Path,
    settings: Settings | None = None,
    *,
    rows: int = ROWS,
    force: bool = False,
    index: bool = False,
    progress: Progress | None = None,
    packing: Progress | None = None,
    **choices: Unpack[SampleKeywords],
) -> Page:
    """Write a page that shows a log, a data set, a run or a comparison: one file of HTML that loads nothing.

    Args:
        source: logs, as `inspect` takes them; the folder of a data set, or of two to compare them; the folder of a run
            of `train` or `rl`, of an evaluation by rollouts, of a cycle, or of an experiment of `ablate`.
        out: the file to write.
        settings, choices: where the fields of a record are, and the target, as of `inspect`.
        rows: rows that the page lists and opens; 0 for numbers alone.
        force: replace an earlier page.
        index: as of `karl_fast.read`, for logs; data sets and runs are read without.
        progress: as of `inspect`.
        packing: called likewise with the bytes of the rows of the page, and those of all of them.

    Returns:
        What the page shows.

    Raises:
        OutputExistsError: the file exists, or is one of the logs.
        FileError: it cannot be written.
        NothingToSampleError: no record was read.
        DataSetError: a data set or the metrics of a run are damaged.
        KarlError: as `inspect`.
    """
    target = check_page_path(out, force=force)
    if rows < 0:
        raise UsageError(f"rows is {rows}, wanted 0 or more", "rows")
    folder = _folder_of(source)
    merged = merge_settings(source, settings, choices)
    if (pair := _data_sets_of(source)) is not None:
        page = compare_page(compare(*pair))
    elif (record := folder or _file_of(source)) is not None and is_experiment(record):
        page = experiment_page(read_record(record), str(record))
    elif folder is not None and is_cycle(folder):
        page = cycle_page(folder)
    elif folder is not None and (is_run(folder) or is_evaluation(folder)):
        page = run_page(read_run(folder)) if is_run(folder) else evaluation_page(folder)
        _add_rollouts(page, folder / ROLLOUTS_FILE, target, merged, rows, progress, packing)
    else:
        page = _show_log(source, folder, target, merged, rows, index, progress, packing)
    save_page(page, target)
    return page


def watch(
    folder: str | Path,
    out: str | Path,
    settings: Settings | None = None,
    *,
    rows: int = ROWS,
    force: bool = False,
    on_page: Callable[[Page], object] = lambda page: None,
) -> Page:
    """Write the page of a run, and write it again whenever the run has written metrics, until the run ends.

    Args:
        folder: of a run of `train` or `rl`.
        out, settings, rows, force: as of `report`.
        on_page: called with each page that was written.

    Returns:
        The last page.

    Raises:
        UsageError: it is not the folder of a run.
        KarlError: as `report`.
    """
    place = Path(folder)
    if not is_run(place):
        raise UsageError(
            f"--watch takes the folder of a run, and {place} has no {METRICS_FILE}",
            hint="give the folder that karl-fast train or rl writes to, once its first round or step is there",
        )
    while True:
        seen = _sizes(place)
        page = report(place, out, settings, rows=rows, force=force)
        on_page(page)
        if not page.going_on:
            return page
        force = True
        while _sizes(place) == seen and is_going_on(place):
            time.sleep(WATCH_SECONDS)


WATCH_SECONDS = 2.0
"""Seconds between two looks at the files of a run."""


def _sizes(folder: Path) -> list[int]:
    files = (folder / METRICS_FILE, folder / held_out.FILE)
    return [file.stat().st_size if file.is_file() else 0 for file in files]


def _folder_of(source: Any) -> Path | None:
    """Return the folder that is the whole source; None of any other source."""
    if isinstance(source, Log):
        return None
    paths = [path_of(path) for path in as_list(source)]
    return Path(paths[0]) if len(paths) == 1 and paths[0] != "-" and Path(paths[0]).is_dir() else None


def _file_of(source: Any) -> Path | None:
    """Return the file that is the whole source; None of any other source."""
    paths = [] if isinstance(source, Log) else [path_of(path) for path in as_list(source)]
    return Path(paths[0]) if len(paths) == 1 and Path(paths[0]).is_file() else None


def _data_sets_of(source: Any) -> tuple[Path, Path] | None:
    """Return the folders of two data sets; None of any other source."""
    paths = [] if isinstance(source, Log) else [path_of(path) for path in as_list(source)]
    if len(paths) != 2 or not all(Path(path).is_dir() and is_output(path) for path in paths):
        return None
    return Path(paths[0]), Path(paths[1])


def _add_rollouts(
    page: Page,
    rollouts: Path,
    target: Path,
    settings: Settings,
    rows: int,
    progress: Progress | None,
    packing: Progress | None,
) -> None:
    if rows and rollouts.is_file() and rollouts.stat().st_size:
        refuse_read(target, [str(rollouts)])
        add_rows(page, [rollouts], settings, rows, progress, packing)


def add_rows(
    page: Page, logs: Any, settings: Settings, count: int, progress: Progress | None, packing: Progress | None
) -> None:
    """Add rows of logs to a page that was made without them.

    Args:
        page: the page.
        logs, settings, progress: as of `inspect`.
        count: maximum number of rows.
        packing: as `packed_bytes` of `pack_rows`.
    """
    with open_with_stamps(logs, settings, progress) as log:
        packed = pack_rows(log, count, packing)
        page.rows = packed if len(packed) else None
        page.warnings += rows_warnings(packed)


def _show_log(
    source: Any,
    folder: Path | None,
    target: Path,
    settings: Settings,
    rows: int,
    index: bool,
    progress: Progress | None,
    packing: Progress | None,
) -> Page:
    data_set = open_data_set(folder) if folder is not None and is_output(str(folder)) else None
    with open_with_stamps(source, settings, progress, index=index) as log:
        refuse_read(target, (file["path"] for file in log.inputs))
        if not len(log):
            raise _no_records_error(log)
        inspection = inspect(log)
        if folder is not None and data_set is not None and data_set.manifest is not None:
            return data_set_page(log, inspection, data_set.manifest, folder, rows, progress, packing)
        return log_page(log, inspection, _subject(source), rows, packing)


def _no_records_error(log: Log) -> NothingToSampleError:
    files = describe_recordless(log.inputs)
    read = counted(sum(file["rows_read"] for file in log.inputs), "row")
    return NothingToSampleError((f"{files}: " if files else "") + f"{read} read, and not one is a record")


def _subject(source: Any) -> str:
    paths = [file["path"] for file in source.inputs] if isinstance(source, Log) else list(map(path_of, as_list(source)))
    return ", ".join(paths[:SUBJECTS]) + (f" and {len(paths) - SUBJECTS:,} more" if len(paths) > SUBJECTS else "")


SUBJECTS = 3
"""Paths in the head of a page."""


def check_page_path(out: str | Path, *, force: bool) -> Path:
    """Return the path of a page; refuse one that cannot be written, or holds something else.

    Raises:
        OutputExistsError: it exists and ``force`` is not set, or is not a page of karl-fast.
        FileError: no file can be written there.
        UsageError: the path does not end in a name.
    """
    if not str(out) or not Path(out).name:
        raise UsageError("-o is empty, wanted the name of a file", "out")
    path = Path(out)
    refuse_link(path)
    check_around(path)
    if path.is_dir():
        raise OutputForeignError(f"{path}: it exists and is a folder")
    if path.exists():
        if not force:
            raise OutputExistsError(f"{path}: it exists")
        with path.open("rb") as file:
            if f'content="{GENERATOR}"'.encode() not in file.read(4096):
                raise OutputForeignError(f"{path}: it exists and is not a page of karl-fast report")
    return path


def save_page(page: Page, path: Path) -> None:
    """Write a page, whole or not at all."""
    _atomic.write_file(path, lambda file: file.writelines(write_page(page)))
