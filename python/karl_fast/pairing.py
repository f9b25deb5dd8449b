"""Preference pairs that a user made, from transcripts of agents."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from karl_fast import _core
from karl_fast._output_path import check_around, refuse_link, refuse_read
from karl_fast._pseudonyms import names
from karl_fast._safe_text import counted
from karl_fast.conversion import SUFFIXES, Conversion, account_of, advised, folders, refuse_packed
from karl_fast.errors import NothingToSampleError
from karl_fast.log.discovery import as_list, path_of, resolve_logs
from karl_fast.settings.sample import Settings
from karl_fast.settings.validation import check_choice, normalize_format

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Shape = Literal["chat", "text"]
"""Shapes of a pair: lists of messages for TRL, or texts for mlx-lm-lora."""


@dataclass(frozen=True)
class Pairs:
    """The account of a search for preference pairs.

    All of ``candidates`` = all of ``pairs`` + all of ``dropped``.

    Attributes:
        pairs: pairs written, by reason: ``rewound`` (the user went back in a session and kept another branch),
            ``asked_again`` (the user made the request again in a new session within a day).
        candidates: trajectories of one request of which one was kept, by that reason.
        dropped: candidates that are no pair, by name: ``request_changed`` (the user asked for something else on the
            branch that was kept), ``cut_answer`` (the connection broke inside one), ``same_answer``, ``no_answer``,
            ``no_conversation``, ``not_one_answer`` (the shape ``text`` holds one prompt and one answer).
        sessions: sessions read, without those of sub-agents.
        secrets: secrets replaced, by family.
        written_bytes: bytes written.
        converted: the account of the conversion before.
    """

    pairs: dict[str, int]
    candidates: dict[str, int]
    dropped: dict[str, int]
    sessions: int
    secrets: dict[str, int]
    written_bytes: int
    converted: Conversion


def pairs(
    sources: str | Path | Iterable[str | Path],
    out: str | Path,
    *,
    format: str | None = None,
    shape: Shape = "chat",
    allow_secrets: bool = False,
    pseudonyms: str | Path | None = None,
    max_line_bytes: int = Settings.max_line_bytes,
    threads: int | None = None,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Pairs:
    """Write the preference pairs in transcripts of agents to one file, one pair a line, atomically.

    A row has ``prompt``, ``chosen``, ``rejected`` and ``reason``. The page ``outcomes`` of the manual describes it.

    Args:
        sources: transcripts: files, folders, globs or ``-``, as :func:`karl_fast.convert` takes them.
        out: the file to write, ``pairs.jsonl``; missing parent folders are created.
        format: format of the transcripts; detected from each file by default.
        shape: ``chat``: lists of messages, as TRL reads them; ``text``: texts, as mlx-lm-lora reads them for DPO.
        allow_secrets: keep secrets, which are replaced by default as in :func:`karl_fast.sample`.
        pseudonyms: as in :func:`karl_fast.convert`.
        max_line_bytes: longer lines are dropped and counted.
        threads: number of threads; all cores by default. The output does not depend on it.
        force: replace an existing file of pairs; no other file is ever replaced.
        progress: called with the bytes read so far and the bytes there are.

    Raises:
        NothingToSampleError: there is no pair; nothing is written.
        FileError, LogError, OutputExistsError, UsageError: as :func:`karl_fast.convert`.
    """
    if format is not None:
        named = normalize_format(format) if isinstance(format, str) else format
        check_choice("format", named, [name for name, _ in _core.transcripts()])
    refuse_packed(Path(out))
    refuse_link(out)
    check_around(out)
    key = names(pseudonyms)
    usual = Settings()
    limits = usual.replace(max_line_bytes=max_line_bytes, threads=usual.threads if threads is None else threads)
    expanded = [str(Path(os.path.expanduser(path_of(path)))) for path in as_list(sources)]  # noqa: PTH111
    with folders(Path(out).parent):
        with advised(out, format):
            target = _core.Target.pairs(Path(out), force=force)
        with resolve_logs(expanded, SUFFIXES) as found, advised(out, format):
            refuse_read(out, (name for name, _, optional in found.files if not optional or format))
            facts = _core.pairs(
                found.files,
                target,
                format=format,
                shape=shape,
                allow_secrets=allow_secrets,
                pseudonyms=key,
                max_line_bytes=limits.max_line_bytes,
                threads=limits.threads,
                progress=progress,
            )
    if not facts["pairs"]:
        raise _nothing(facts)
    return Pairs(
        pairs=dict(facts["pairs"]),
        candidates=dict(facts["candidates"]),
        dropped=dict(facts["dropped"]),
        sessions=facts["sessions"],
        secrets=dict(facts["secrets"]),
        written_bytes=facts["written_bytes"],
        converted=account_of(facts["converted"], found),
    )


def _nothing(facts: _core.PairFacts) -> NothingToSampleError:
    """Return the error if there is no pair."""
    candidates = counted(sum(dict(facts["candidates"]).values()), "candidate")
    dropped = ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in facts["dropped"])
    sentence = f"no preference pair in {counted(facts['sessions'], 'session')}: {candidates}"
    return NothingToSampleError(
        sentence + (f", dropped: {dropped}" if dropped else ""),
        hint="a pair comes from a session that was rewound, or from a request that was made again within a day",
    )
