"""Export of chosen rows to a directory: rendered, checked, and written with their manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from karl_fast import _core
from karl_fast._output_path import add_disk_hint, check_data_set, refuse_read
from karl_fast._pseudonyms import read_key
from karl_fast._safe_text import counted
from karl_fast.errors import FileError, NothingToSampleError
from karl_fast.export.card import CARD, describe_data_set
from karl_fast.export.manifest import Manifest, describe_given_rows, dumps
from karl_fast.export.tables import SHAPES, write_tables
from karl_fast.export.token_limit import RowJudge, bad_templates, length_judge
from karl_fast.log.conversation_hints import conversation_hint
from karl_fast.log.field_hints import explain_missing_field
from karl_fast.log.record_fields import first_record, message_defect, value_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from karl_fast.log import Log
    from karl_fast.settings.sample import Settings
    from karl_fast.settings.schema import Shape
    from karl_fast.typing import Floats, Integers

    Progress = Callable[[int, int], None]

UNPARSABLE = "inspect --strict parses every record, and counts those that are not JSON"

FEWEST = 4
"""Default batch size of `mlx_lm lora`, which refuses a split with fewer rows."""


def export_plan(
    settings: Settings, prepared: Literal["held", "judged", "unread"], row_judge: RowJudge | None = None
) -> _core.Export:
    """Return the settings of the export in the form that the extension takes.

    Args:
        settings: all settings.
        prepared: state of records that are written unchanged: texts in memory (``held``), checked (``judged``) or
            ``unread``.
        row_judge: what `judge` made of the settings.
    """
    return _core.Export(
        shape=settings.shape,
        allow_secrets=settings.allow_secrets,
        pseudonyms=read_key(settings.pseudonyms),
        prepared=prepared,
        fractions=settings.split,
        fewest=FEWEST,
        seed=settings.seed,
        threads=settings.threads,
        max_per_group=settings.max_per_group,
        judge=row_judge,
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
    """Write rows of a log atomically as a directory that ``mlx_lm lora --data`` trains on.

    A row that cannot be written (see ``draw.failed`` of the manifest) is left out without a replacement, since the
    caller chose the rows. The order of rows and their split follow the seed of the log's settings.

    Args:
        log: the log with the rows.
        rows: row numbers, in the order they were drawn; repeated rows are written repeatedly. A NumPy array or an Arrow
            column, like the others. [k]
        out: the directory.
        rewards, scores, log_weights: values for each row's ``karl_fast`` object; by default the log's rewards, no
            scores and no weights. [B] each
        force: replace an existing data set.

    Raises:
        OutputExistsError: the directory exists.
        FileError: it cannot be written; nothing is left behind.
        LogError: a file changed after it was read.
        ArgumentError: a row that the log does not have.
        NothingToSampleError: none of the rows can be written.
    """
    import numpy as np  # here, because most runs do without

    target = check_data_set(out, force=force)
    refuse_read(out, (file["path"] for file in log.inputs))
    rewards = log.rewards if rewards is None else rewards
    unknown = np.full(len(log), np.nan)
    row_judge = length_judge(log.settings)
    draft = _core.Draft.given(
        log.core,
        rows,
        rewards,
        unknown if scores is None else scores,
        unknown if log_weights is None else log_weights,
        export_plan(log.settings, "judged", row_judge),
    )
    check_any(draft, log, row_judge)
    manifest = describe_given_rows(log, draft)
    manifest["run"] |= media_beside(draft) | bad_templates(row_judge)
    write(draft, manifest, target)
    return manifest


def draft_rows(log: Log, rows: Integers, shape: Shape) -> _core.Draft:
    """Return rows of a log as a data set of one file and this shape has them, to be read and not written."""
    import numpy as np  # here, because most runs do without

    plan = export_plan(log.settings.replace(shape=shape, split=(1.0, 0.0, 0.0), max_per_group=None), "judged")
    unknown = np.full(len(log), np.nan)
    return _core.Draft.given(log.core, rows, log.rewards, unknown, unknown, plan)


def write(draft: _core.Draft, manifest: Manifest, target: _core.Target, *, progress: Progress | None = None) -> bool:
    """Write a draft and its manifest; False, and nothing, where a record that was left unread is not a row."""

    def text(files: list[tuple[str, int, str]]) -> str:
        manifest["export"]["files"] = {name: {"size_bytes": size, "xxh3_128": hash} for name, size, hash in files}
        return dumps(manifest)

    beside = {CARD: describe_data_set(manifest).encode()}
    if manifest["export"]["shape"] in SHAPES:
        beside |= write_tables(draft)
    try:
        return draft.write(target, text, beside, progress=progress)
    except FileError as error:
        add_disk_hint(error, target.path, draft.size_bytes)
        raise


def media_beside(draft: _core.Draft) -> dict[str, dict[str, int]]:
    """Return the kinds of media beside conversations behind `bad_message` for a manifest; nothing if there are none."""
    return {"media_beside": draft.media} if draft.media else {}


def check_any(draft: _core.Draft, log: Log, row_judge: RowJudge | None = None) -> None:
    """Raise if no row of a draft can be written, with the reasons, and the fields of records without text."""
    facts = draft.facts()
    if facts["rows"]:
        return
    reasons, hint = describe_unwritable(log, draft)
    sentence = f"none of the chosen rows can be written: {reasons or 'no row was chosen'}"
    more = ""
    more += "".join(f"; {sentence}" for sentence in bad_templates(row_judge).get("bad_templates", []))
    raise NothingToSampleError(sentence + more, hint=hint)


def describe_unwritable(log: Log, draft: _core.Draft) -> tuple[str, str | None]:
    """Return why no row of a draft can be written, with the first defect that is known, and a hint.

    Args:
        log: the log that the rows are of.
        draft: rows, of which none can be written.

    Returns:
        The reasons by their numbers, as a part of a sentence; and what to do, None where nothing is known.
    """
    dropped = draft.facts()["dropped"]
    reasons = ", ".join(f"{flaw.replace('_', ' ')} {count}" for flaw, count in dropped)
    more, hint = _conversation_error(log, draft, dict(dropped))
    return reasons + more, hint


def _conversation_error(log: Log, draft: _core.Draft, dropped: dict[str, int]) -> tuple[str, str | None]:
    """Return the end of an error about conversations (fields searched or first invalid row), and its hint."""
    if "no_trajectory" in dropped:
        return explain_missing_field(log, "messages", log.settings.messages)
    if "bad_message" in dropped:
        path = messages_from(log.inputs)
        if draft.media:
            return "".join(f"; {sentence}" for sentence in describe_media(draft.media)), None
        defect = bad_message_text(first_record(log), path)
        if not defect and (hint := conversation_hint(log)):
            return "; the conversation ends before its answer, which is beside it", hint
        return defect, MESSAGE + ("; --messages names another path" if path else "")
    if dropped.keys() == {"unparsable"} and draft.failed_rows:
        first = draft.failed_rows[0]
        return f"; the first at byte {first['offset']:,} of {first['path']}", UNPARSABLE
    return "", None


MESSAGE = "a message is an object with a role (or from), and its content (or value) a text or parts of text"
"""Expected form of a message, for all defects except tool calls."""


def messages_from(files: Sequence[Mapping[str, Any]]) -> str:
    """Return the path of conversations, if it is one for all files; empty if not, or if a format converts them."""
    paths = {str(dict(file["fields"]).get("messages", "")) for file in files}
    return paths.pop() if len(paths) == 1 else ""


def describe_media(media: Mapping[str, int]) -> Iterator[str]:
    """Yield a sentence for each kind of media in rows."""
    for kind, rows in media.items():
        yield f"{counted(rows, 'row has', 'rows have')} {kind}, and only text is learned"


def bad_message_text(record: Mapping[str, Any], path: str) -> str:
    """Return `; in one record message 2 of turns has no role; it holds from, value`; empty if no defect is found."""
    messages = value_at(record, path) if path else None
    if messages is None:
        return ""
    if not isinstance(messages, list):
        return f"; in one record {path} is not a list of messages"
    defects = ((number, message_defect(message)) for number, message in enumerate(messages, 1))
    return next((f"; in one record message {number} of {path} {why}" for number, why in defects if why), "")
