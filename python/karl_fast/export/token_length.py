"""Rows that a trainer would cut, counted with the model's own tokenizer."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karl_fast._extras import missing_extra
from karl_fast._suggest import beside
from karl_fast.errors import FileError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from karl_fast.settings.sample import Settings


def judge(settings: Settings) -> Callable[[str], str | None] | None:
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
    tokenizer, limit = _load(settings.tokenizer), settings.max_tokens
    if settings.shape != "text" and not tokenizer.chat_template:
        raise UsageError(f"the tokenizer at {settings.tokenizer} has no chat template to count a conversation with")

    def flaw(line: str) -> str | None:
        try:
            return "too_many_tokens" if _tokens(tokenizer, json.loads(line)) > limit else None
        except ValueError:  # jinja2's TemplateError is one: templates raise it for roles that they do not know
            return "bad_template"

    return flaw


def _load(path: str) -> Any:
    if not Path(path).is_dir():
        nowhere = FileError(f"cannot load a tokenizer from {path}: no such folder", 2, path)
        nowhere.hint = beside(path, Path.is_dir)
        raise nowhere
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise missing_extra("--tokenizer needs transformers, which is not installed", "train") from error
    try:
        return AutoTokenizer.from_pretrained(path, local_files_only=True)
    except (OSError, ValueError) as error:
        raise FileError(f"cannot load a tokenizer from {path}: no tokenizer is in it", None, path) from error


def _tokens(tokenizer: Any, row: dict[str, Any]) -> int:
    """Return the number of tokens of a row in `mlx_lm lora`: chat template for messages, text plus end of sequence."""
    if "completion" in row and "prompt" in row:
        pair = (("user", row["prompt"]), ("assistant", row["completion"]))
        row = {"messages": [{"role": role, "content": content} for role, content in pair]}
    if "messages" in row:
        ids = tokenizer.apply_chat_template(row["messages"], tools=row.get("tools"), return_dict=False)
        return len(ids)
    return len(tokenizer.encode(row.get("text", ""))) + 1
