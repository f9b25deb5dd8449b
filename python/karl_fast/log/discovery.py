"""Discovery of log files from the paths a user gives.

```text
names: files, folders, globs, - -> candidates -> each file once -> files of other kinds are refused or skipped
                                                               -> readable_twice: the file, or a temporary copy of it
```

A log is read twice, first for its columns and then for the rows drawn; so pipes and the rows of Parquet are copied.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import shlex
import stat
from errno import EISDIR
from os import strerror
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from karl_fast._safe_text import counted
from karl_fast._suggest import suggest_path
from karl_fast.errors import FileError, PackedError, UsageError
from karl_fast.log.foreign_files import foreign_error, foreign_kind, saved_data_set
from karl_fast.log.inspect_eval import SUFFIX as EVAL
from karl_fast.log.inspect_eval import is_eval, samples
from karl_fast.log.parquet_out import require_pyarrow
from karl_fast.log.spool import download, spool
from karl_fast.stores import is_url, list_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from karl_fast.log.parquet_in import LeftOut, Needed
    from karl_fast.log.trl_rewards import SummedReward

PACKED = (".gz", ".zst", ".zstd")
"""Suffixes of packed files."""

UNSUPPORTED = (".bz2", ".xz", ".lzma", ".lz4", ".zlib")
"""Suffixes of files in a compression that cannot be unpacked."""

ARCHIVES = (".tar", ".tgz", ".zip", ".7z", *(".tar" + packed for packed in (*PACKED, *UNSUPPORTED)))
"""Suffixes of archives."""


def with_packed_suffixes(*suffixes: str) -> tuple[str, ...]:
    """Return each suffix with and without those of packed files."""
    return tuple(suffix + packed for suffix in suffixes for packed in ("", *PACKED))


SUFFIXES = (*with_packed_suffixes(".jsonl", ".json", ".ndjson"), EVAL)
"""Suffixes of files read from a folder."""

PARQUET = ".parquet"
"""Suffix of Parquet files."""

SKIPPED_SUFFIXES = (PARQUET, *ARCHIVES, *UNSUPPORTED)
"""Suffixes of files in a folder that are skipped unopened, and reported."""


class ResolvedLogs(NamedTuple):
    """Files that the names of logs resolve to.

    Attributes:
        files: each path, its name in reports, and True if it may have no records.
        passed: name of each file in a folder that was skipped by its suffix, unless it was also given by name.
        left_out: columns of Parquet files that are not in their records, with the name of each file.
        skipped: names of hidden files, broken links and files of other kinds, each with the reason.
        summed: rewards that are sums of columns of Parquet files, with the name of each file.
    """

    files: list[tuple[str, str, bool]]
    passed: list[str]
    left_out: list[tuple[str, LeftOut]]
    skipped: list[tuple[str, str]]
    summed: list[tuple[str, SummedReward]]


@contextlib.contextmanager
def resolve_logs(
    logs: Iterable[object],
    suffixes: tuple[str, ...] = SUFFIXES,
    needed: Needed | None = None,
    *,
    rewarded: bool = False,
) -> Iterator[ResolvedLogs]:
    """Resolve files, folders, globs and ``-``.

    A file given twice, or by two names, is read once. A folder is searched for names that end in one of ``suffixes``;
    skipped are files without records, those that end in `SKIPPED_SUFFIXES`, hidden ones, broken links, and data sets
    that karl-fast wrote there. Standard input, pipes and the rows of Parquet files are spooled to a
    temporary file, because a log is read twice; it is removed afterwards. ``needed`` gives the columns
    of a Parquet file that have to be kept; all by default; ``rewarded`` says that rewards are not computed of its
    columns.

    Raises:
        LogError: for a file that is not JSON, of a kind that is known by its name or beginning.
        RewardError: for completions of TRL of which it is not known which columns are rewards.
        FileError: for a missing path, and a damaged Parquet file.
        ColumnError: for a column of a Parquet file that has to be kept, and cannot be.
        MissingExtraError: for a Parquet file without pyarrow.
        UsageError: for a folder or a glob without any log in it, and for ``-`` twice.
    """
    with contextlib.ExitStack() as stack:
        names = [path_of(log) for log in logs]
        if names.count("-") > 1:
            raise UsageError("- is given twice, and standard input can be read once")
        candidates = [file for name in names for file in _expand(name, suffixes)]
        if not candidates:
            raise UsageError("no log given")
        for candidate in candidates:
            _refuse_packed_table(candidate.path)
        files = _merge_names((candidate.path, candidate.inside) for candidate in candidates if not candidate.is_skipped)
        skip_reasons = {
            path_text(candidate.path): candidate.why
            for candidate in candidates
            if candidate.is_skipped and _identity(candidate.path) not in files
        }
        passed = [path for path, why in skip_reasons.items() if why is None]
        skipped = [(path, why) for path, why in skip_reasons.items() if why is not None]
        logs_only, foreign = _split_foreign([*files.values()])
        copies = [
            (
                readable_twice(path, stack, table=path.endswith(PARQUET), needed=needed, rewarded=rewarded),
                path_text(path),
                inside,
            )
            for path, inside in logs_only
        ]
        for copy, name, _ in copies:
            if not name.endswith(PARQUET) and (kind := foreign_kind(copy.path, name)):  # of a pipe, known only now
                raise foreign_error(kind, name)
        yield ResolvedLogs(
            files=[(copy.path, name, inside) for copy, name, inside in copies],
            passed=passed,
            left_out=[(name, column) for copy, name, _ in copies for column in copy.left_out],
            skipped=skipped + foreign,
            summed=[(name, copy.summed) for copy, name, _ in copies if copy.summed],
        )


class Candidate(NamedTuple):
    """A file that a name resolves to.

    Attributes:
        path: its path.
        inside: True if it was found in a folder, not named itself.
        why: reason to skip it, if not its suffix.
    """

    path: str
    inside: bool
    why: str | None = None

    @property
    def is_skipped(self) -> bool:
        """True if the file is skipped."""
        return self.inside and (self.why is not None or self.path.endswith(SKIPPED_SUFFIXES))


def _expand(log: str, suffixes: tuple[str, ...]) -> list[Candidate]:
    if is_url(log):
        return [Candidate(entry.url, inside) for entry, inside in list_url(log, suffixes)]
    if log == "-" or _exists(Path(log)):
        return _expand_folder(log, suffixes) if Path(log).is_dir() else [Candidate(log, inside=False)]
    matches = sorted(glob.glob(log, recursive=True))
    if matches:
        return _expand_matches(matches, suffixes)
    if glob.has_magic(log):
        raise UsageError(f"no file matches {log}")
    raise FileError(f"cannot open {log}: no such file or folder", 2, log, hint=suggest_path(log))


def _exists(path: Path) -> bool:
    try:
        path.lstat()
    except OSError:
        return False
    return True


def _expand_matches(matches: list[str], suffixes: tuple[str, ...]) -> list[Candidate]:
    """Resolve the matches of a glob; folders among them may hold no log."""
    candidates: list[Candidate] = []
    for match in matches:
        folder = Path(match).is_dir()
        candidates += _walk(match, suffixes)[0] if folder else [Candidate(match, inside=False)]
    if all(candidate.is_skipped for candidate in candidates):
        return [file for match in matches for file in _expand(match, suffixes)]  # raises the reason of the first
    return candidates


def _expand_folder(folder: str, suffixes: tuple[str, ...]) -> list[Candidate]:
    """Return the logs of a folder, and the files skipped by name."""
    if kind := saved_data_set(folder):
        raise foreign_error(kind, folder)
    candidates, num_data_sets = _walk(folder, suffixes)
    if all(candidate.is_skipped for candidate in candidates):
        raise _no_log_error(folder, suffixes, candidates, num_data_sets)
    return candidates


def _walk(folder: str, suffixes: tuple[str, ...]) -> tuple[list[Candidate], int]:
    """Return the logs of a folder, the files skipped by name, and the number of data sets skipped."""
    candidates, num_data_sets = [], 0
    ends = (*suffixes, *(suffix + packed for suffix in suffixes for packed in UNSUPPORTED), *ARCHIVES, PARQUET)
    for here, folders, names in os.walk(folder, onerror=_refuse_unlisted):
        folders.sort()
        if is_output(here):
            num_data_sets += 1
        else:
            paths = [Path(here, name) for name in sorted(names) if name.endswith(ends)]
            candidates += [
                Candidate(str(path), True, _skip_reason_of_name(path, folder))
                for path in paths
                if not _is_special(path)
            ]
    return candidates, num_data_sets


HIDDEN_REASON = "its name, or that of a folder on the way to it, begins with a dot: it is read where it is named"

BROKEN_LINK = "it is a link to what is not there"
"""Reason to skip a broken link."""


def _skip_reason_of_name(path: Path, folder: str) -> str | None:
    """Return the reason to skip a file that has the name of a log, such as backups of editors."""
    if any(part.startswith(".") for part in path.relative_to(folder).parts):
        return HIDDEN_REASON
    return None if path.exists() else BROKEN_LINK


def _is_special(path: Path) -> bool:
    """Return whether a path is a pipe, a socket or a device, which are skipped in folders."""
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False


def _refuse_unlisted(error: OSError) -> None:
    # Skipped in silence, its logs would be lost.
    raise FileError(f"cannot list {error.filename}: {error.strerror}", error.errno, error.filename) from error


def _no_log_error(folder: str, suffixes: tuple[str, ...], others: list[Candidate], num_data_sets: int) -> UsageError:
    """Return the error for a folder without a log, with its other files and number of data sets."""
    if is_output(folder):
        return UsageError(f"the folder {folder} is a data set of karl-fast, not a log", hint=data_set_hint(folder))
    but = f" but in {counted(num_data_sets, 'data set')} of karl-fast" if num_data_sets else ""
    error = UsageError(f"the folder {folder} holds no file that ends in {', '.join(suffixes)}{but}")
    parquet = [other.path for other in others if other.path.endswith(PARQUET)]
    if parquet:
        error.hint = f"Parquet files are taken by name or glob: {neighbours_glob(parquet[0])}"
    elif others:
        error.hint = f"{others[0].path}: {others[0].why or skip_reason(others[0].path)}"
    return error


def skip_reason(path: str) -> str:
    """Return the reason why a file of a folder was skipped by name."""
    end = max((end for end in SKIPPED_SUFFIXES if path.endswith(end)), key=len)
    packed = f"its name ends in {end}, which is not unpacked here"
    return "Parquet is read where it is named" if end == PARQUET else packed


def neighbours_glob(parquet: str) -> str:
    """Return a glob that matches a Parquet file and those beside it."""
    return f"{glob.escape(str(Path(parquet).parent))}/*{PARQUET}"


def _refuse_packed_table(path: str) -> None:
    """Raise for a file of Parquet that is packed as a whole."""
    end = next((end for end in PACKED if path.endswith(PARQUET + end)), None)
    if end:
        error = PackedError(f"{path}: it is a packed file of Parquet, which is not unpacked here", "Parquet")
        tool = "gzip" if end == ".gz" else "zstd"
        error.hint = f"unpack it: {tool} -dc {shlex.quote(path)} > {shlex.quote(path.removesuffix(end))}"
        raise error


def _merge_names(files: Iterable[tuple[str, bool]]) -> dict[object, tuple[str, bool]]:
    """Map each file once to a path that is not a link if there is one, because tools keep its sidecar files there.

    The flag is True if the file was only found in folders, and so may have no records.
    """
    by_identity: dict[object, tuple[str, bool]] = {}
    for path, inside in files:
        name, was_inside = by_identity.get(identity := _identity(path), (path, True))
        by_identity[identity] = (path if _is_link(name) and not _is_link(path) else name), inside and was_inside
    return by_identity


def _identity(path: str) -> object:
    """Return a key that all names of one file share."""
    try:
        facts = None if path == "-" else Path(path).stat()
    except OSError:
        return path
    return (facts.st_dev, facts.st_ino) if facts and facts.st_ino else path


def _is_link(path: str) -> bool:
    """Return whether a path contains a link."""
    return os.path.realpath(path) != os.path.abspath(path)  # noqa: PTH100  (resolve() would follow it)


def _split_foreign(files: list[tuple[str, bool]]) -> tuple[list[tuple[str, bool]], list[tuple[str, str]]]:
    """Return the files that may hold records, and those of folders that are of another kind, each with the reason.

    Raises:
        LogError: for a file of another kind that was named, and where folders hold no others.
    """
    kinds = [foreign_kind(path, path_text(path)) if Path(path).is_file() else None for path, _ in files]
    of_another = [(path, inside, kind) for (path, inside), kind in zip(files, kinds, strict=True) if kind]
    for path, inside, kind in of_another:
        if not inside or len(of_another) == len(files):
            raise foreign_error(kind, path_text(path))
    rest = [file for file, kind in zip(files, kinds, strict=True) if not kind]
    return rest, [(path_text(path), f"it is {kind.what}") for path, _, kind in of_another]


class ReadableTwice(NamedTuple):
    """A file that can be read twice, line by line.

    Attributes:
        path: the file itself, or a copy of a pipe, of the rows of a table of Parquet, or of the samples in a log of
            Inspect.
        left_out: columns of the table that are not in it.
        summed: reward that is the sum of columns of the table.
    """

    path: str
    left_out: Sequence[LeftOut] = ()
    summed: SummedReward | None = None


def readable_twice(
    path: str, stack: contextlib.ExitStack, *, table: bool, needed: Needed | None, rewarded: bool
) -> ReadableTwice:
    """Return a file that can be read twice, line by line; ``rewarded`` as for `parquet_in.lines`."""
    name = path
    if is_url(path):
        path = stack.enter_context(download(path))
    if _is_stream(path):
        return ReadableTwice(stack.enter_context(spool(path)))
    if table:
        require_pyarrow()
        from karl_fast.log.parquet_in import lines  # only now: it imports pyarrow

        return ReadableTwice(*stack.enter_context(lines(path, needed, rewarded=rewarded)))
    return ReadableTwice(stack.enter_context(samples(path)) if is_eval(path, name) else path)


def _is_stream(name: str) -> bool:
    try:
        mode = 0 if name == "-" else Path(name).stat().st_mode
        if stat.S_ISDIR(mode):  # a file when the logs were resolved
            raise IsADirectoryError(EISDIR, strerror(EISDIR))
        return not stat.S_ISREG(mode)
    except OSError as error:
        why = BROKEN_LINK if Path(name).is_symlink() and not Path(name).exists() else error.strerror
        raise FileError(f"cannot open {name}: {why}", error.errno, name) from error


def as_list(logs: object) -> list[Any]:
    """Return one log or several as a list."""
    is_single = isinstance(logs, str | bytes | os.PathLike) or not hasattr(logs, "__iter__")
    return [logs] if is_single else list(cast("Iterable[Any]", logs))


def path_of(log: object) -> str:
    """Return the path of a log given by a caller.

    Raises:
        UsageError: it is not a path, or empty.
    """
    name = os.fspath(log) if isinstance(log, os.PathLike) else log
    if not isinstance(name, str):
        raise UsageError(f"a log is of type {type(log).__name__}, wanted a path, a folder, a glob or -")
    if not name:
        raise UsageError("a log has an empty name, wanted a path, a folder, a glob or -")
    return name


def path_text(path: str) -> str:
    """Return a path as text, with bytes that are not UTF-8 escaped."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


MANIFEST_MAX = 1 << 28
"""The largest file that is looked into for a manifest of ours, in bytes."""


def is_output(folder: str) -> bool:
    """Return whether a folder is a data set that karl-fast wrote, and so not a log.

    Raises:
        FileError: its manifest exists and cannot be read.
    """
    return _read_manifest(folder) is not None


def _read_manifest(folder: str) -> dict[str, Any] | None:
    path = Path(folder, "manifest.json")
    try:
        facts = path.stat()
        # A manifest of another program may be a pipe that never ends, or larger than memory.
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > MANIFEST_MAX:
            return None
        manifest = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}", error.errno, str(path)) from error
    ours = isinstance(manifest, dict) and {"schema", "karl_fast"} <= manifest.keys()
    return manifest if ours else None


def data_set_hint(folder: str) -> str:
    """Return a hint for a data set given as a log, with the inputs in its manifest."""
    inputs = (_read_manifest(folder) or {}).get("inputs")
    files = [file for file in inputs if isinstance(file, dict)] if isinstance(inputs, list) else []
    paths = [file["path"] for file in files if isinstance(file.get("path"), str)]
    others = f" and {counted(len(paths) - 1, 'other file')}" if len(paths) > 1 else ""
    return "give what it was drawn from" + (f": {paths[0]}{others}" if paths else "")


def why_no_groups(files: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the reason why a format found no groups in some files; None if it did."""
    without = [file["beside"] for file in files if file["beside"] and file["beside"]["problem"]]
    if not without:
        return None
    first, more = without[0], f" of {len(without)} files" if len(without) > 1 else ""
    why = f"{first['path']}: {first['problem']}"
    return f"no {first['key']}, so no groups{more}: {why}; name them with --group"
