"""From chosen rows to a directory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from karl_fast import _core
from karl_fast._output_path import advise, data_set, refuse_own
from karl_fast.errors import FileError, NothingToSampleError
from karl_fast.export.manifest import Manifest, dumps
from karl_fast.export.message_checks import bad_message, messages_from, misread
from karl_fast.export.token_length import judge
from karl_fast.log.field_hints import lacking, record

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from karl_fast.log import Log
    from karl_fast.settings.sample import Settings
    from karl_fast.typing import Floats, Integers

    Progress = Callable[[int, int], None]

UNPARSABLE = "inspect --strict parses every record, and counts those that are no JSON"

FEWEST = 4
"""The batch size that `mlx_lm lora` has unless told otherwise: it refuses a split with fewer rows."""


def plan(settings: Settings, prepared: Literal["held", "judged", "unread"]) -> _core.Export:
    """How rows are to be made, in the form that the extension takes.

    Args:
        settings: every choice.
        prepared: how far records that are written as they came are before: their texts are ``held``, or they are
            ``judged``, or ``unread``.
    """
    return _core.Export(
        shape=settings.shape,
        allow_secrets=settings.allow_secrets,
        prepared=prepared,
        fractions=settings.split,
        fewest=FEWEST,
        seed=settings.seed,
        threads=settings.threads,
        max_per_group=settings.max_per_group,
        judge=judge(settings),
        per=next(iter((settings.per or {}).items()), None),
    )


def export(
    log: Log,
    rows: Integers,
    out: str | Path,
    *,
    rewards: Floats | None = None,
    scores: Floats | None = None,
    log_weights: Floats | None = None,
    force: bool = False,
) -> Manifest:
    """Write rows of a log as a directory that ``mlx_lm lora --data`` trains on, whole or not at all.

    A row that cannot be written (see ``draw.failed`` of the manifest) is left out; the caller chose the rows, so
    nothing takes its place. The order of rows and their split follow the seed of the log's settings.

    Args:
        log: where the rows are.
        rows: row numbers, in the order they were drawn; one that stands several times is written as often. An array of
            NumPy, or an Arrow column, as all of these. [k]
        out: the directory.
        rewards, scores, log_weights: what each row's ``karl_fast`` object says of it; the log's rewards, and nothing,
            where absent. [B] each
        force: replace a data set that is there.

    Raises:
        OutputExistsError: the directory exists.
        FileError: it cannot be written; nothing is left behind.
        LogError: a file is no longer what it was when it was read.
        ArgumentError: a row that the log does not have.
        NothingToSampleError: none of the rows can be written.
    """
    import numpy as np

    from karl_fast.export.manifest import given

    target = data_set(out, force=force)
    refuse_own(out, log)
    rewards = log.rewards if rewards is None else rewards
    unknown = np.full(len(log), np.nan)
    draft = _core.Draft.given(
        log.core,
        rows,
        rewards,
        unknown if scores is None else scores,
        unknown if log_weights is None else log_weights,
        plan(log.settings, "judged"),
    )
    check_any(draft, log)
    manifest = given(log, draft)
    write(draft, manifest, target)
    return manifest


def write(draft: _core.Draft, manifest: Manifest, target: _core.Target, *, progress: Progress | None = None) -> bool:
    """Write a draft and its manifest; False, and nothing, where a record that was left unread is no row."""

    def text(files: list[tuple[str, int, str]]) -> str:
        manifest["export"]["files"] = {name: {"size_bytes": size, "xxh3_128": hash} for name, size, hash in files}
        return dumps(manifest)

    try:
        return draft.write(target, text, progress=progress)
    except FileError as error:
        advise(error, target.path, draft.size_bytes)
        raise


def check_any(draft: _core.Draft, log: Log) -> None:
    """Raise where no row of a draft can be written, with the reasons; and with what records hold that have no text."""
    facts = draft.facts()
    if facts["rows"]:
        return
    reasons = ", ".join(f"{flaw.replace('_', ' ')} {count}" for flaw, count in facts["dropped"])
    sentence = f"none of the chosen rows can be written: {reasons or 'no row was chosen'}"
    more, hint = _meant(log, draft, dict(facts["dropped"]))
    error = NothingToSampleError(sentence + more)
    error.hint = hint
    raise error


def _meant(log: Log, draft: _core.Draft, dropped: dict[str, int]) -> tuple[str, str | None]:
    """What an error adds to say where conversations were looked for, or where the first row lies that is no JSON."""
    if "no_trajectory" in dropped:
        return lacking(log, "messages", log.settings.messages)
    if "bad_message" in dropped:
        path = messages_from(log.inputs)
        return bad_message(record(log), path), misread(path)
    if dropped.keys() == {"unparsable"} and draft.failed_rows:
        first = draft.failed_rows[0]
        return f"; the first at byte {first['offset']:,} of {first['path']}", UNPARSABLE
    return "", None
