"""Preference pairs that a user made, from transcripts of agents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from karl_fast import _core
from karl_fast._safe_text import counted
from karl_fast.errors import NothingToSampleError
from karl_fast.settings.sample import Settings
from karl_fast.transcripts.conversion import Conversion, account_of
from karl_fast.transcripts.sources import (
    check_format,
    check_output,
    common_options,
    open_transcripts,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

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
        dropped: candidates that are not a pair, by name: ``request_changed`` (the user asked for something else on the
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
        sources: transcripts: files, folders, globs or ``-``, as `karl_fast.convert` takes them.
        out: the file to write, ``pairs.jsonl``; missing parent folders are created.
        format: format of the transcripts; detected from each file by default.
        shape: ``chat``: lists of messages, as TRL reads them; ``text``: texts, as mlx-lm-lora reads them for DPO.
        allow_secrets: keep secrets, which are replaced by default as in `karl_fast.sample`.
        pseudonyms: as in `karl_fast.convert`.
        max_line_bytes: longer lines are dropped and counted.
        threads: number of threads; all cores by default. The output does not depend on it.
        force: replace an existing file of pairs; no other file is ever replaced.
        progress: called with the bytes read so far and the bytes there are.

    Raises:
        NothingToSampleError: there is no pair; nothing is written.
        FileError, LogError, OutputExistsError, UsageError: as `karl_fast.convert`.
    """
    check_format(format)
    check_output(out, "pairs.jsonl")
    options = common_options(
        allow_secrets=allow_secrets, pseudonyms=pseudonyms, max_line_bytes=max_line_bytes, threads=threads
    )
    with open_transcripts(sources, out, _core.Target.pairs, format=format, force=force) as (logs, target):
        facts = _core.pairs(logs.files, target, format=format, shape=shape, progress=progress, **options)
    if not facts["pairs"]:
        raise _no_pair(facts)
    return Pairs(
        pairs=dict(facts["pairs"]),
        candidates=dict(facts["candidates"]),
        dropped=dict(facts["dropped"]),
        sessions=facts["sessions"],
        secrets=dict(facts["secrets"]),
        written_bytes=facts["written_bytes"],
        converted=account_of(facts["converted"], logs),
    )


def _no_pair(facts: _core.PairFacts) -> NothingToSampleError:
    """Return the error if there is no pair."""
    candidates = counted(sum(dict(facts["candidates"]).values()), "candidate")
    dropped = ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in facts["dropped"])
    sentence = f"no preference pair in {counted(facts['sessions'], 'session')}: {candidates}"
    return NothingToSampleError(
        sentence + (f", dropped: {dropped}" if dropped else ""),
        hint="a pair comes from a session that was rewound, or from a request that was made again within a day",
    )
