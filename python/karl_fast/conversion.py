"""Transcripts of agents and logs of rollouts to trajectories: what lies spread over lines and files is one line."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karl_fast import _core
from karl_fast._output_path import advise, check_around, refuse_link, refuse_read
from karl_fast.errors import FULL, ColumnError, FileError, LogError, TranscriptError, UsageError
from karl_fast.log.discovery import PACKED, PARQUET, files, listed, packed_too, path_of, why_passed
from karl_fast.log.spool import COPIES
from karl_fast.settings.sample import Settings
from karl_fast.settings.validation import among, spelled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from karl_fast.log.discovery import Found
    from karl_fast.settings.validation import Rate


@dataclass(frozen=True)
class Conversion:
    """The account of a conversion.

    Each line that was read has one fate: ``lines_read`` = ``lines_used`` + ``duplicates`` + all of ``dropped`` + all of
    ``bad``.

    Attributes:
        trajectories: how many were written, those of sub-agents among them.
        sub_agents: how many of them are of sub-agents.
        rewarded: how many of them have a reward.
        messages: messages by role.
        tool_calls: calls by what their results say: ``succeeded``, ``failed``, ``unknown``, ``unanswered``.
        lines_read: lines, blank ones left out; a document counts as one.
        lines_used: lines that became messages or parts of them.
        duplicates: lines that stand in several files of one session, or twice in one.
        dropped: lines that were left out, by reason: ``no_conversation`` (progress, hooks, snapshots and every type
            that is not known), ``meta``, ``compact_summary``, ``command``, ``interruption``, ``synthetic``,
            ``other_branch``, ``orphan_result``, ``unknown_role``, ``empty``, ``no_text``, ``damaged``; of rollouts
            ``no_trajectory``, ``bad_message``, ``empty_message``, ``unknown_role``, ``bad_weight``, ``bad_system``,
            ``unparsable``.
        bad: lines that are no records, by reason, as in :func:`karl_fast.read`.
        types: lines by the type that they name, known or not.
        notes: what was left out or mended inside lines that were used: ``no_text``, ``unknown_block``,
            ``unknown_item``, ``unknown_role``, ``orphan_result``, ``bad_message``, ``mended``, ``wrong_type``; messages
            that say nothing: ``empty_message``; calls that name no tool: ``call_without_name``; and of files that hold
            one session: ``copied_session``, ``session_snapshot``, ``continued_session``, ``forked_session``; records of
            rollouts that another file holds: ``copied_rollout``.
        blocks: blocks of messages that are no text and were left out, and items of sessions that are not read, by
            their kind.
        secrets: secrets that stand in what was written, by family; they are replaced when rows are drawn from it.
        mistyped: the first hundred values of a wrong type, by file and place: ``path``, ``offset`` (the first byte of
            the line or document), ``field``, what ``came``, what was ``wanted``. What stands around them was read.
        files: each transcript with its format, its lines, and the places of its first bad ones.
        refused: files of a tool whose transcripts are not read, or damaged ones, each with the reason.
        skipped: other files of the folders, each with the reason.
        size_bytes: bytes read, unpacked.
        written_bytes: bytes written.
        blank_lines: blank lines.
        welded_lines: lines on which several records had been welded together; all were read.
    """

    trajectories: int
    sub_agents: int
    rewarded: int
    messages: dict[str, int]
    tool_calls: dict[str, int]
    lines_read: int
    lines_used: int
    duplicates: int
    dropped: dict[str, int]
    bad: dict[str, int]
    types: dict[str, int]
    notes: dict[str, int]
    blocks: dict[str, int]
    secrets: dict[str, int]
    mistyped: list[_core.MistypedFacts]
    files: list[_core.FileFacts]
    refused: list[tuple[str, str]]
    skipped: list[tuple[str, str]]
    size_bytes: int
    written_bytes: int
    blank_lines: int
    welded_lines: int


HINT = "say who wrote them (--format), or give a glob that leaves the file out"
OTHER = "leave --format out, so that the file is looked at, or give a glob that leaves it out"
COLUMN = "write the file without the column, or cast it to strings"

HINTS: dict[type[LogError], str] = {LogError: HINT, TranscriptError: HINT, ColumnError: COLUMN}
"""What to do about errors whose own hints name options that a conversion does not have."""

COUNTS = ("messages", "tool_calls", "dropped", "bad", "types", "notes", "blocks", "secrets")
"""What the extension gives as pairs."""


def convert(
    sources: str | Path | Iterable[str | Path],
    out: str | Path,
    *,
    format: str | None = None,
    rate: Rate = "log",
    max_line_bytes: int = Settings.max_line_bytes,
    threads: int | None = None,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Conversion:
    """Convert transcripts of agents, or logs of rollouts, to one file of canonical trajectories, whole or not at all.

    One line a session and one for each of its sub-agents, or one a rollout. The page ``trajectory`` of the manual says
    what is on it; every other function of karl-fast reads the file as it reads any log.

    Args:
        sources: files, folders, globs or ``-``, as :func:`karl_fast.read` takes them: ``~/.claude/projects``, say. A
            file ``.parquet`` needs the extra ``arrow``.
        out: the file to write, ``trajectories.jsonl``; folders on the way to it are made.
        format: who wrote the transcripts, one of ``_core.transcripts()``; found by looking at each file.
        rate: where rewards come from. ``log``: from the log, where it has one. ``result``: from the end of the run
            where the log has it, 1 for success, else 0. ``karl-v1``, ``karl-v2``: KARL's reward of the calls of tools,
            as :func:`karl_fast.reward.compute_reward` gives it.
        max_line_bytes: longer lines are dropped and counted.
        threads: threads to work with; all cores unless given. The output does not depend on it.
        force: replace a file of trajectories that is there; nothing else is ever replaced.
        progress: called with the bytes read so far and the bytes there are, as :func:`karl_fast.read` does.

    Raises:
        FileError: a file cannot be read, or the output not be written.
        LogError: a file that was named is no transcript, or there is no conversation at all: with the first damage.
        BadRewardError: that damage is a reward.
        MissingExtraError: a Parquet file without pyarrow.
        AlreadyConvertedError: a file that was named holds trajectories already.
        PackedError, EncodingError: a file that was named is not unpacked here, or no UTF-8.
        LogChangedError: a file changed while it was read, other than at its end.
        OutputExistsError: the output exists.
        UsageError: a format that nobody knows, no file, a limit below 1, or the name of a packed file to write.
    """
    from karl_fast.reward.engine.records import weights  # NumPy comes with it

    if format is not None:
        named = spelled(format) if isinstance(format, str) else format
        among("format", named, [name for name, _ in _core.transcripts()])
    _refuse_packed(Path(out))
    refuse_link(out)
    check_around(out)
    usual = Settings()
    limits = usual.replace(max_line_bytes=max_line_bytes, threads=usual.threads if threads is None else threads)
    # pathlib's raises for a home that nobody has.
    expanded = [str(Path(os.path.expanduser(path_of(path)))) for path in listed(sources)]  # noqa: PTH111
    with _folders(Path(out).parent):
        with _advised(out, format):
            target = _core.Target.trajectories(Path(out), force=force)
        with files(expanded, SUFFIXES) as found, _advised(out, format):
            # What a conversion wrote is passed over in a folder, unless a format is given.
            refuse_read(out, (name for _, name, optional in found.files if not optional or format))
            facts = _core.convert(
                found.files,
                target,
                format=format,
                rate=rate,
                weights=weights(),
                max_line_bytes=limits.max_line_bytes,
                threads=limits.threads,
                progress=progress,
            )
    return _account(facts, found)


@contextlib.contextmanager
def _advised(out: str | Path, format: str | None) -> Iterator[None]:
    """Say what to do about an error that does not say it itself."""
    try:
        yield
    except FileError as error:
        advise(error, out)
        if error.errno in FULL and error.hint is None:
            error.hint = COPIES
        raise
    except LogError as error:
        if type(error) in HINTS:
            error.hint = HINTS[type(error)] if format is None or type(error) is ColumnError else OTHER
        raise


def _account(facts: Any, found: Found) -> Conversion:
    """The account of a conversion that passed over some files for their names."""
    values = dict(facts)
    values["skipped"] = [*values["skipped"], *found.skipped]
    for path in found.passed:
        kind = "skipped" if path.endswith(PARQUET) else "refused"
        values[kind] = [*values[kind], (path, why_passed(path))]
    return Conversion(**(values | {name: dict(values[name]) for name in COUNTS}))


SUFFIXES = packed_too(".jsonl", ".json", ".traj")
"""What is taken from a folder."""


def _refuse_packed(out: Path) -> None:
    if out.suffix.lower() in (*PACKED, PARQUET):
        error = UsageError(f"out is {out}, wanted the name of a .jsonl: it is plain text", "out")
        error.hint = "gzip or zstd can pack it when it is there: packed logs are read as they are"
        raise error


@contextlib.contextmanager
def _folders(folder: Path) -> Iterator[None]:
    """The folders on the way to an output; those that were made for it go again where it fails."""
    made = [one for one in (folder, *folder.parents) if not os.path.lexists(one)]
    try:
        _make(folder, made)
        yield
    except BaseException:
        for one in made:
            with contextlib.suppress(OSError):  # it was never made, or holds what is somebody else's
                one.rmdir()
        raise


def _make(folder: Path, missing: list[Path]) -> None:
    try:
        if missing:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot make the folder {folder}: {error.strerror}", error.errno, str(folder)) from error
