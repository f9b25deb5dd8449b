"""Parts of all conversions: transcripts opened for reading, a checked place for the output, and hints of errors."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from karl_fast import _core
from karl_fast._output_path import add_disk_hint, check_around, refuse_link, refuse_read
from karl_fast._pseudonyms import read_key
from karl_fast.errors import FULL, ColumnError, FileError, LogError, RewardError, TranscriptError, UsageError
from karl_fast.log.discovery import PACKED, PARQUET, as_list, path_of, resolve_logs, with_packed_suffixes
from karl_fast.log.inspect_eval import SUFFIX as EVAL
from karl_fast.log.spool import DISK_HINT
from karl_fast.settings.sample import Settings
from karl_fast.settings.validation import check_choice, normalize_format

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from karl_fast._pseudonyms import Names
    from karl_fast.log.discovery import ResolvedLogs

    Paths = str | Path | Iterable[str | Path]

SUFFIXES = (*with_packed_suffixes(".jsonl", ".json", ".traj"), EVAL)
"""Suffixes of transcripts in a folder."""


class CommonOptions(TypedDict):
    """Arguments that every conversion of the extension takes."""

    allow_secrets: bool
    pseudonyms: Names | None
    max_line_bytes: int
    threads: int


def common_options(
    *, allow_secrets: bool, pseudonyms: str | Path | None, max_line_bytes: int, threads: int | None
) -> CommonOptions:
    """Check the arguments that all conversions share, and read the key of pseudonyms.

    Raises:
        UsageError: a limit below 1, or a file that is not a key of pseudonyms.
        FileError: that file cannot be read or made.
    """
    key = read_key(pseudonyms)
    usual = Settings()
    limits = usual.replace(max_line_bytes=max_line_bytes, threads=usual.threads if threads is None else threads)
    return {
        "allow_secrets": allow_secrets,
        "pseudonyms": key,
        "max_line_bytes": limits.max_line_bytes,
        "threads": limits.threads,
    }


def check_format(format: object) -> None:
    """Refuse a format that no agent has; None is detected from each file."""
    if format is not None:
        name = normalize_format(format) if isinstance(format, str) else format
        check_choice("format", name, [name for name, _ in _core.transcripts()])


def check_output(out: str | Path, example: str) -> None:
    """Refuse, before anything is read, a place where no file of lines can be written.

    Args:
        out: the place.
        example: a usual name of such a file.

    Raises:
        UsageError: a folder's name, standard output, or the suffix of a packed file.
        OutputForeignError: a symbolic link.
        FileError: no folder can be made for it.
    """
    text = str(out)
    if text.endswith(("/", "/.")):
        raise UsageError(
            f"out is {text}, wanted the name of a file",
            "out",
            hint=f"{Path(text) / example} is one: folders on the way to it are made",
        )
    if text == "-":
        raise UsageError("out is -, wanted the name of a file: it appears whole or not at all", "out")
    if Path(out).suffix.lower() in (*PACKED, PARQUET):
        raise UsageError(
            f"out is {out}, wanted the name of a .jsonl: it is plain text",
            "out",
            hint="gzip or zstd can pack it when it is there: packed logs are read as they are",
        )
    refuse_link(out)
    check_around(out)


@contextlib.contextmanager
def open_output(out: str | Path, place: Callable[..., _core.Target], *, force: bool) -> Iterator[_core.Target]:
    """Make the parent folders of an output, and yield its place; the folders that were made go if the body fails.

    Args:
        out: the file to write.
        place: the kind of the file, a static method of `_core.Target`.
        force: replace a file of this kind.

    Raises:
        FileError: a folder cannot be made.
        OutputExistsError: the output exists.
    """
    folder = Path(out).parent
    missing = [path for path in (folder, *folder.parents) if not os.path.lexists(path)]
    try:
        try:
            if missing:
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(f"cannot make the folder {folder}: {error.strerror}", error.errno, str(folder)) from error
        yield place(Path(out), force=force)
    except BaseException:
        for path in missing:
            with contextlib.suppress(OSError):  # it was never made, or has files of others
                path.rmdir()
        raise


class Opened(NamedTuple):
    """Transcripts that are ready to be read, and the place of what is made of them."""

    logs: ResolvedLogs
    target: _core.Target


@contextlib.contextmanager
def open_transcripts(
    sources: Paths,
    out: str | Path,
    place: Callable[..., _core.Target],
    *,
    format: str | None,
    force: bool,
    rewarded: bool = False,
    evidence: Mapping[str, str | None] | None = None,
) -> Iterator[Opened]:
    """Open an output, and resolve the transcripts that it is made of; errors get hints, also those of the body.

    Args:
        sources: files, folders, globs or ``-``.
        out, place, force: as for `open_output`.
        format: format of the transcripts. With one, what a conversion wrote before is not passed over in a folder.
        rewarded: rewards are not computed of the columns of Parquet files.
        evidence: paths of other inputs, each with the hint for errors about it, if it needs one.

    Raises:
        FileError, LogError, UsageError: as `karl_fast.log.discovery.resolve_logs`.
        OutputExistsError: the output exists, or is read.
    """
    with (
        _add_hints(out, format, evidence or {}),
        open_output(out, place, force=force) as target,
        resolve_logs(expand(sources), SUFFIXES, rewarded=rewarded) as logs,
    ):
        refuse_read(out, (name for _, name, is_optional in logs.files if not is_optional or format))
        yield Opened(logs, target)


def expand(paths: Paths) -> list[str]:
    """Return paths with the home of a user in the place of ``~``; pathlib would raise for an unknown one."""
    return [str(Path(os.path.expanduser(path_of(path)))) for path in as_list(paths)]  # noqa: PTH111


RECORDS = "karl-fast sample reads records of other forms, whose fields are named"

NO_TRANSCRIPT = "it is not a transcript of a known tool"
"""End of the error for a file of no known kind."""


@contextlib.contextmanager
def _add_hints(out: str | Path, format: str | None, evidence: Mapping[str, str | None]) -> Iterator[None]:
    """Replace hints about options of `sample`; `evidence` has those for inputs other than transcripts, by path."""
    try:
        yield
    except FileError as error:
        add_disk_hint(error, out)
        if error.errno in FULL and error.hint is None:
            error.hint = DISK_HINT
        raise
    except RewardError as error:
        error.hint = f"karl-fast sample reads the table as it is; {error.hint}" if error.hint else None
        raise
    except LogError as error:
        # Another hint is about this very file, and stays.
        if type(error) in (LogError, TranscriptError, ColumnError) and error.hint == type(error).hint:
            own = next((path for path in evidence if str(error).startswith(path)), None)
            error.hint = _hint(error, format) if own is None else evidence[own]
        raise


def _hint(error: LogError, format: str | None) -> str:
    others = "name the format (--format), or give a glob that leaves the file out"
    if format is not None:
        others = "leave --format out, so that it is detected, or give a glob that leaves it out"
    if str(error).endswith(NO_TRANSCRIPT):
        return f"{RECORDS}; {others}"
    return "write the file without the column, or cast it to strings" if type(error) is ColumnError else others
