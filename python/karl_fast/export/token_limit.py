"""The limit of tokens a row: rows that a trainer would cut, counted with the model's own tokenizer."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karl_fast._extras import missing_extra
from karl_fast._safe_text import counted
from karl_fast._suggest import suggest_path
from karl_fast.errors import FileError, TemplateError, UsageError
from karl_fast.log.field_hints import STAMP

if TYPE_CHECKING:
    from karl_fast.export.template_form import ChatTemplate
    from karl_fast.settings.sample import Settings


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
    from karl_fast.export.template_form import ChatTemplate  # with NumPy, which most runs do without

    tokenizer = _load_tokenizer(settings.tokenizer)
    if settings.shape != "text" and not tokenizer.chat_template:
        raise UsageError(f"the tokenizer at {settings.tokenizer} has no chat template to count a conversation with")
    return RowJudge(ChatTemplate(tokenizer), settings.max_tokens)


def _load_tokenizer(path: str) -> Any:
    if not Path(path).is_dir():
        raise FileError(
            f"cannot load a tokenizer from {path}: no such folder", 2, path, hint=suggest_path(path, Path.is_dir)
        )
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise missing_extra("--tokenizer needs transformers, which is not installed", "train") from error
    try:
        return AutoTokenizer.from_pretrained(path, local_files_only=True)
    except (OSError, ValueError) as error:
        raise FileError(f"cannot load a tokenizer from {path}: no tokenizer is in it", None, path) from error


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


REASONS = 20
"""Reasons why a template fails that are counted one by one."""


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


def bad_templates(row_judge: RowJudge | None) -> dict[str, list[str]]:
    """Return the reasons behind `bad_template` for a manifest, in sentences; nothing if there are none."""
    sentences = [] if row_judge is None else row_judge.sentences()
    return {"bad_templates": sentences} if sentences else {}
