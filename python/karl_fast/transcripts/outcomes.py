"""Outcomes of sessions, from evidence in transcripts and beside them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karl_fast import _core
from karl_fast.errors import UsageError
from karl_fast.settings.sample import Settings
from karl_fast.transcripts.conversion import AFTER_DAYS, Conversion, account_of
from karl_fast.transcripts.sources import (
    check_format,
    check_output,
    common_options,
    expand,
    open_transcripts,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from karl_fast.log.discovery import ResolvedLogs

MOST_DAYS = 36_500


@dataclass(frozen=True)
class Outcomes:
    """The account of a run of `outcomes`.

    Each trajectory has one outcome: ``read`` = ``written`` + all of ``dropped`` + the bad rows of ``files``.

    Attributes:
        written: number of trajectories written.
        known: number of them with any known component.
        components: number of known values of each component, and their mean; None where none is known.
        repositories: number of repositories compared.
        without_repository: trajectories without a comparison, by what is wrong with the repository of their working
            directory.
        commits: number of attributed commits.
        secrets: secrets replaced, by family.
        dropped: trajectories left out, by reason: ``no_trajectory``, ``outcome_not_an_object``.
        files: files of trajectories that were given, with the places of their first bad rows.
        converted: the account of the conversion of transcripts; None if there were none.
        size_bytes: bytes of trajectories read.
        written_bytes: bytes written.
    """

    written: int
    known: int
    components: dict[str, tuple[int, float | None]]
    repositories: int
    without_repository: dict[str, int]
    commits: int
    secrets: dict[str, int]
    dropped: dict[str, int]
    files: list[_core.FileFacts]
    converted: Conversion | None
    size_bytes: int
    written_bytes: int


def outcomes(
    sources: str | Path | Iterable[str | Path],
    out: str | Path,
    *,
    format: str | None = None,
    reports: str | Path | Iterable[str | Path] = (),
    repositories: str | Path | Iterable[str | Path] = (),
    after_days: int = AFTER_DAYS,
    pull_requests: str | Path | Iterable[str | Path] = (),
    allow_secrets: bool = False,
    pseudonyms: str | Path | None = None,
    max_line_bytes: int = Settings.max_line_bytes,
    threads: int | None = None,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Outcomes:
    """Find out what the work in trajectories earned, and write them with that, atomically.

    Every trajectory gets ``outcome``, an object with a number or null for each component, ``evidence``, the reason and
    place of each number, and ``attributed``, its commits. Transcripts are converted on the way. The page ``outcomes``
    of the manual describes the components.

    Args:
        sources: trajectories or transcripts: files, folders, globs or ``-``, as `karl_fast.convert` takes them.
        out: the file to write; missing parent folders are created.
        format: format of the transcripts, one of ``_core.transcripts()``; detected from each file by default.
        reports: verdicts of graders: reports of SWE-bench, or rows like ``{"id": "SESSION", "verified": true}``.
        repositories: git repositories to compare every trajectory with, or folders inside of them; by default that of
            its working directory, where it exists. They are only read, and nothing in them is executed.
        after_days: days after which a commit is judged.
        pull_requests: what ``gh pr view --json number,state,mergedAt,mergeCommit,commits`` saved.
        allow_secrets, pseudonyms: as in `karl_fast.convert`; evidence is found before anything is replaced.
        max_line_bytes: longer lines are dropped and counted.
        threads: number of threads; all cores by default. The output does not depend on it.
        force: replace an existing file of trajectories; no other file is ever replaced.
        progress: called with the bytes read so far and the bytes there are, as `karl_fast.read` does.

    Raises:
        FileError, LogError, BadRewardError, MissingExtraError, OutputExistsError, UsageError: as
            `karl_fast.convert`.
    """
    check_format(format)
    if not isinstance(after_days, int) or not 1 <= after_days <= MOST_DAYS:
        raise UsageError(f"after_days is {after_days!r}, wanted a whole number from 1 to {MOST_DAYS:,}")
    check_output(out, "outcomes.jsonl")
    options = common_options(
        allow_secrets=allow_secrets, pseudonyms=pseudonyms, max_line_bytes=max_line_bytes, threads=threads
    )
    evidence = {
        "reports": expand(reports),
        "repositories": expand(repositories),
        "pull_requests": expand(pull_requests),
    }
    repository = "name a git repository, or a folder inside of one"
    # Errors of the other kinds say what was wanted.
    hints = {path: repository if kind == "repositories" else None for kind, own in evidence.items() for path in own}
    with open_transcripts(sources, out, _core.Target.trajectories, format=format, force=force, evidence=hints) as (
        logs,
        target,
    ):
        facts = _core.outcomes(
            # What an earlier run wrote is read where it is named, and passed over in its folder.
            [file for file in logs.files if not (file[2] and Path(file[0]).resolve() == Path(out).resolve())],
            target,
            format=format,
            rate=False,
            after_days=after_days,
            progress=progress,
            **evidence,
            **options,
        )
    return _account(facts, logs)


def _account(facts: Any, logs: ResolvedLogs) -> Outcomes:
    values = dict(facts)
    del values["rewarded"]  # of `convert`
    means = {name: (known, total / known if known else None) for name, known, total in values["components"]}
    converted = values["converted"]
    return Outcomes(
        **values
        | {
            "components": means,
            "dropped": dict(values["dropped"]),
            "secrets": dict(values["secrets"]),
            "without_repository": dict(values["without_repository"]),
            "converted": None if converted is None else account_of(converted, logs),
        }
    )
