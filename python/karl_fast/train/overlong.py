"""Rows that are longer than the model is to see at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from karl_fast.train.chat_template import Text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karl_fast.train.settings import Overlong


@dataclass(frozen=True)
class FittedText:
    """Parts of a text within the limit.

    Attributes:
        parts: parts within the limit, each with something to learn.
        left_out: tokens of a longer text that are in no part; 0 for a text within the limit.
    """

    parts: list[Text]
    left_out: int


def fit_text(text: Text, limit: int, overlong: Overlong) -> FittedText:
    """Cut a text to the limit: one part, several windows, or none.

    ``tail`` keeps the last tokens, where the answer and the end of the turn are. ``window`` cuts windows that begin
    half a limit apart; a token is learned in the first window that has it. The first token of a text is never learned:
    it has no hidden state before it. A part without learned tokens is left out.

    Args:
        text: a text of any length.
        limit: maximum tokens of a part.
        overlong: treatment of a longer text; ``drop`` and ``error`` keep nothing.
    """
    tokens, parts, seen = len(text.tokens), [], 0
    there = np.zeros(tokens, dtype=np.bool_)
    for start in _starts(tokens, limit, overlong):
        part = slice(start, start + limit)
        learned = text.learned[part].copy()
        learned[: max(1, seen - start)] = False
        seen = part.stop
        if learned.any():
            parts.append(Text(text.tokens[part], learned))
            there[part] = True
    return FittedText(parts, tokens - int(there.sum()) if tokens > limit else 0)


def _starts(tokens: int, limit: int, overlong: Overlong) -> Iterable[int]:
    """Return the start of each part."""
    if tokens <= limit:
        return [0]
    if overlong == "tail":
        return [tokens - limit]
    stride = max(1, limit // 2)
    return range(0, tokens - limit + stride, stride) if overlong == "window" else []
