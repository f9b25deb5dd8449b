"""Rows that are longer than the model is to see at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from karl_fast.train.template import Text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karl_fast.train.settings import Overlong


def fitted(text: Text, limit: int, overlong: Overlong) -> list[Text]:
    """What is left of a text within the limit: one text, several windows, or none.

    ``tail`` keeps the last tokens, where the answer and the end of the turn are. ``window`` cuts windows that begin
    half a limit apart; a token is learned in the first that it is in. The first token of a text is never learned: no
    hidden state stands in front of it.

    Args:
        text: of any length.
        limit: tokens.
        overlong: what to do with a longer text; nothing is left of one with ``drop`` or ``error``.
    """
    if len(text.tokens) <= limit:
        cut = [text]
    elif overlong == "tail":
        cut = [Text(text.tokens[-limit:], text.learned[-limit:])]
    elif overlong == "window":
        cut = list(_windows(text, limit))
    else:
        cut = []
    return [Text(one.tokens, learned) for one in cut if (learned := _after_first(one)).any()]


def left_out(tokens: int, limit: int, overlong: Overlong) -> int:
    """How many of a text's tokens are in no part of it, for they are too many."""
    if tokens <= limit or overlong == "window":
        return 0
    return tokens - limit if overlong == "tail" else tokens


def _after_first(text: Text) -> np.ndarray:
    return text.learned & (np.arange(len(text.learned)) > 0)


def _windows(text: Text, limit: int) -> Iterator[Text]:
    stride, seen = max(1, limit // 2), 0
    for start in range(0, len(text.tokens) - limit + stride, stride):
        learned = text.learned[start : start + limit].copy()
        learned[: max(0, seen - start)] = False
        seen = start + limit
        yield Text(text.tokens[start:seen], learned)
