"""Export of chosen rows to a directory."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from karl_fast import _core
from karl_fast._extras import missing_extra
from karl_fast._output_path import advise, data_set, refuse_read
from karl_fast._pseudonyms import names
from karl_fast._safe_text import counted
from karl_fast._suggest import beside
from karl_fast.errors import FileError, NothingToSampleError, TemplateError, UsageError
from karl_fast.export.manifest import Manifest, dumps
from karl_fast.log.conversation_hints import conversation_hint
from karl_fast.log.field_hints import explain_missing_field
from karl_fast.log.record_fields import first_record, message_defect, value_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from karl_fast.export.template_form import ChatTemplate
    from karl_fast.log import Log
    from karl_fast.settings.sample import Settings
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
        pseudonyms=names(settings.pseudonyms),
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
    import numpy as np

    from karl_fast.export.manifest import describe_given_rows

    target = data_set(out, force=force)
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


def bad_templates(row_judge: RowJudge | None) -> dict[str, list[str]]:
    """Return the reasons behind `bad_template` for a manifest, in sentences; nothing if there are none."""
    sentences = [] if row_judge is None else row_judge.sentences()
    return {"bad_templates": sentences} if sentences else {}


def media_beside(draft: _core.Draft) -> dict[str, dict[str, int]]:
    """Return the kinds of media beside conversations behind `bad_message` for a manifest; nothing if there are none."""
    return {"media_beside": draft.media} if draft.media else {}


def check_any(draft: _core.Draft, log: Log, row_judge: RowJudge | None = None) -> None:
    """Raise if no row of a draft can be written, with the reasons, and the fields of records without text."""
    facts = draft.facts()
    if facts["rows"]:
        return
    reasons = ", ".join(f"{flaw.replace('_', ' ')} {count}" for flaw, count in facts["dropped"])
    sentence = f"none of the chosen rows can be written: {reasons or 'no row was chosen'}"
    more, hint = _conversation_error(log, draft, dict(facts["dropped"]))
    more += "".join(f"; {sentence}" for sentence in bad_templates(row_judge).get("bad_templates", []))
    raise NothingToSampleError(sentence + more, hint=hint)


def _conversation_error(log: Log, draft: _core.Draft, dropped: dict[str, int]) -> tuple[str, str | None]:
    """Return the end of an error about conversations (fields searched or first invalid row), and its hint."""
    if "no_trajectory" in dropped:
        return explain_missing_field(log, "messages", log.settings.messages)
    if "bad_message" in dropped:
        path = messages_from(log.inputs)
        if draft.media:
            return "".join(f"; {sentence}" for sentence in describe_media(draft.media)), None
        told = bad_message_text(first_record(log), path)
        if not told and (hint := conversation_hint(log)):
            return "; the conversation ends before its answer, which is beside it", hint
        return told, misread_hint(path)
    if dropped.keys() == {"unparsable"} and draft.failed_rows:
        first = draft.failed_rows[0]
        return f"; the first at byte {first['offset']:,} of {first['path']}", UNPARSABLE
    return "", None


# Rows that a trainer would cut, counted with the model's own tokenizer.


REASONS = 20
"""Reasons why a template fails that are counted one by one."""


@dataclass
class RowJudge:
    """Judge of rendered rows by their tokens.

    Attributes:
        template: the chat template of the model.
        limit: maximum tokens of a row.
        reasons: reasons behind `bad_template`: number of rows, and the id of the first.
    """

    template: ChatTemplate
    limit: int
    reasons: dict[str, tuple[int, str]] = field(default_factory=dict)

    def __call__(self, line: str) -> str | None:
        """Return the defect of a rendered row, if it has one."""
        row = json.loads(line)
        try:
            return "too_many_tokens" if _count_tokens(self.template, row) > self.limit else None
        except TemplateError as error:
            self._count(str(error), row)
            return "bad_template"

    def _count(self, reason: str, row: dict[str, Any]) -> None:
        from karl_fast.export.training_rows import STAMP  # with NumPy, which not every run needs

        reason = reason if reason in self.reasons or len(self.reasons) < REASONS else "other reasons"
        stamp = row.get(STAMP)
        count, first = self.reasons.get(reason, (0, str(stamp.get("id")) if isinstance(stamp, dict) else ""))
        self.reasons[reason] = (count + 1, first)

    def sentences(self) -> list[str]:
        """Return a sentence for each reason."""
        return [
            f"bad template in {counted(count, 'row')}, the first is {first}: {reason}"
            for reason, (count, first) in self.reasons.items()
        ]


def length_judge(settings: Settings) -> RowJudge | None:
    """Return a function from a rendered row to its defect if it exceeds ``max_tokens``; None without a limit.

    A row that fits is seen whole by a trainer with that ``max_seq_length``. So its prompt is shorter than the limit,
    and ``--mask-prompt`` leaves something to learn: a batch with nothing to learn has the loss 0/0, and mlx-lm goes on
    with it.

    Raises:
        MissingExtraError: the package transformers is not installed.
        FileError: there is no tokenizer at that path.
        UsageError: the tokenizer has no chat template, and rows are conversations.
    """
    if settings.max_tokens is None or settings.tokenizer is None:
        return None
    from karl_fast.export.template_form import ChatTemplate  # as above

    tokenizer = _load_tokenizer(settings.tokenizer)
    if settings.shape != "text" and not tokenizer.chat_template:
        raise UsageError(f"the tokenizer at {settings.tokenizer} has no chat template to count a conversation with")
    return RowJudge(ChatTemplate(tokenizer), settings.max_tokens)


def _load_tokenizer(path: str) -> Any:
    if not Path(path).is_dir():
        raise FileError(f"cannot load a tokenizer from {path}: no such folder", 2, path, hint=beside(path, Path.is_dir))
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise missing_extra("--tokenizer needs transformers, which is not installed", "train") from error
    try:
        return AutoTokenizer.from_pretrained(path, local_files_only=True)
    except (OSError, ValueError) as error:
        raise FileError(f"cannot load a tokenizer from {path}: no tokenizer is in it", None, path) from error


def _count_tokens(template: ChatTemplate, row: dict[str, Any]) -> int:
    """Return the number of tokens of a row as `train` renders it; of a text with the token that ends it.

    Raises:
        TemplateError: the template fails on the row.
    """
    if "completion" in row and "prompt" in row:
        pair = (("user", row["prompt"]), ("assistant", row["completion"]))
        row = {"messages": [{"role": role, "content": content} for role, content in pair]}
    if "messages" in row:
        text = template.form(row["messages"], row.get("tools")).text
        if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
            raise TemplateError("a text of a row holds half of a surrogate pair")
        return len(template.tokenizer(text, add_special_tokens=False)["input_ids"])
    return len(template.tokenizer.encode(row.get("text", ""))) + 1


# Descriptions of rows that cannot be written, for errors and warnings.


MESSAGE = "a message is an object with a role (or from), and its content (or value) a text or parts of text"
"""Expected form of a message, for all defects except tool calls."""


def messages_from(files: Sequence[Mapping[str, Any]]) -> str:
    """Return the path of conversations, if it is one for all files; empty if not, or if a format converts them."""
    paths = {str(dict(file["fields"]).get("messages", "")) for file in files}
    return paths.pop() if len(paths) == 1 else ""


def describe_media(media: Mapping[str, int]) -> Iterator[str]:
    """Yield a sentence for each kind of media beside the conversations of rows."""
    for kind, rows in media.items():
        yield f"{counted(rows, 'row has', 'rows have')} {kind} beside the conversation, and only text is learned"


def misread_hint(path: str) -> str:
    """Return the hint of an error about bad messages."""
    return MESSAGE + ("; --messages names another path" if path else "")


def bad_message_text(record: Mapping[str, Any], path: str) -> str:
    """Return `; in one record message 2 of turns has no role; it holds from, value`; empty if no defect is found."""
    messages = value_at(record, path) if path else None
    if messages is None:
        return ""
    if not isinstance(messages, list):
        return f"; in one record {path} is not a list of messages"
    found = ((number, message_defect(message)) for number, message in enumerate(messages, 1))
    return next((f"; in one record message {number} of {path} {why}" for number, why in found if why), "")
