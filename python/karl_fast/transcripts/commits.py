"""Synthetic questions from the commits of repositories."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from karl_fast import _core
from karl_fast.errors import UsageError
from karl_fast.log.discovery import as_list, path_of
from karl_fast.settings.sample import Settings
from karl_fast.transcripts.conversion import account_of
from karl_fast.transcripts.sources import check_output, common_options, open_output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from karl_fast.transcripts.conversion import Conversion


def convert_commits(
    repositories: str | Path | Iterable[str | Path],
    out: str | Path,
    *,
    allow_secrets: bool = False,
    pseudonyms: str | Path | None = None,
    max_line_bytes: int = Settings.max_line_bytes,
    threads: int | None = None,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Conversion:
    """Convert the commits of git repositories to one file of synthetic trajectories, written atomically.

    The message of a commit is the question, its diff the answer. Each row has ``synthetic`` 1 and no reward, so that
    `karl_fast.sample` drops it unless ``reward={"reward|synthetic": 1.0}`` asks for it. Commits that
    ask or answer nothing are dropped by name: merges, reverts and what they revert, fixups, messages of fewer than
    three words, diffs of fewer than 5 or more than 200 lines.

    Args:
        repositories: folders of repositories, bare ones too, or folders inside of them. Their trunk is read, by the
            command ``git``, and nothing in them is executed.
        out: the file to write; missing parent folders are created.
        allow_secrets, pseudonyms, force: as in `karl_fast.convert`.
        max_line_bytes: commits with longer lines are dropped and counted.
        threads: number of threads; all cores by default. The output does not depend on it.
        progress: called while commits are read.

    Returns:
        The account; its lines are commits.

    Raises:
        LogError: a folder is in no repository, or no commit can be used.
        FileError, OutputExistsError: as in `karl_fast.convert`.
        UsageError: no folder, an output with the suffix of a packed file, or a file that is not a key of pseudonyms.
    """
    check_output(out, "commits.jsonl")
    paths = [Path(path_of(path)) for path in as_list(repositories)]
    if not paths:
        raise UsageError("no repository is given: wanted folders", "repositories")
    options = common_options(
        allow_secrets=allow_secrets, pseudonyms=pseudonyms, max_line_bytes=max_line_bytes, threads=threads
    )
    with open_output(out, _core.Target.trajectories, force=force) as target:
        facts = _core.convert_commits(paths, target, progress=progress, **options)
    return account_of(facts)
