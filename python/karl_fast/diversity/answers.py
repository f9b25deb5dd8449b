"""Diversity of the answers in a log or a data set, word by word.

```text
distinct_n = different n-grams / all n-grams      unique = mean over groups of different answers / answers
```
"""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast._core import distinct_n, self_bleu

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

ROWS = 1000
"""Rows that are compared: the first in an order that does not depend on their content."""


def of_answers(answers: Iterable[tuple[Hashable | None, Any]]) -> dict[str, float | None] | None:
    """Return the diversity of the first `ROWS` answers; None without a word in them.

    Args:
        answers: the group of each, None for none, and its text or messages.

    Returns:
        ``rows`` compared; ``distinct_1`` and ``distinct_2``, the shares of different words and pairs among all;
        ``self_bleu``, the mean BLEU (pairs of words) of an answer with the others as references; ``unique``, the mean
        share of different answers in a group of two or more. None where there is nothing to compare.
    """
    texts = [(group, text) for group, answer in islice(answers, ROWS) if (text := words_of(answer))]
    if not texts:
        return None
    codes: dict[str, int] = {}
    words = [codes.setdefault(word, len(codes)) for _, text in texts for word in text]
    offsets = np.cumsum([0, *(len(text) for _, text in texts)], dtype=np.int64)
    columns = np.array(words, dtype=np.int64), offsets
    numbers = {
        "distinct_1": distinct_n(*columns, 1),
        "distinct_2": distinct_n(*columns, 2),
        "self_bleu": float(self_bleu(*columns, 2).mean()),
        "unique": _unique(texts),
    }
    return {"rows": len(texts)} | {
        name: float(number) if math.isfinite(number) else None for name, number in numbers.items()
    }


def words_of(answer: Any) -> tuple[str, ...]:
    """Return the words of an answer: a text, or what the assistant says in messages."""
    if isinstance(answer, str):
        return tuple(answer.split())
    if not isinstance(answer, list):
        return ()
    contents = [
        message.get("content") for message in answer if isinstance(message, dict) and message.get("role") == "assistant"
    ]
    return tuple(word for content in contents if isinstance(content, str) for word in content.split())


def _unique(texts: Iterable[tuple[Hashable | None, tuple[str, ...]]]) -> float:
    """Return the mean share of different answers in the groups of two or more; NaN without one."""
    groups: defaultdict[Hashable, list[tuple[str, ...]]] = defaultdict(list)
    for group, text in texts:
        if group is not None:
            groups[group].append(text)
    shares = [len(set(own)) / len(own) for own in groups.values() if len(own) > 1]
    return float(np.mean(shares)) if shares else math.nan
