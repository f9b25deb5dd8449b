"""Examples of a split from its rows, with an account of every row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.errors import DataSetError, NothingToTrainError, TemplateError
from karl_fast.export.training_rows import STAMP, number_of
from karl_fast.log.field_hints import fitting, held, likeliest
from karl_fast.reward.validate import shown
from karl_fast.train.chat_template import has_text
from karl_fast.train.overlong import fitted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from karl_fast.train.chat_template import Renderer, Text
    from karl_fast.train.settings import Training


@dataclass(frozen=True)
class Example:
    """Tokens to learn from, and facts about their row.

    Attributes:
        text: the tokens, and which are learned.
        row: its number in the file.
        reward: NaN where there is none.
        log_weight: NaN where there is none.
        group: the name of its group; None for none.
        domain: domain of the row; None if it has none.
    """

    text: Text
    row: int
    reward: float = np.nan
    log_weight: float = np.nan
    group: str | None = None
    domain: str | None = None

    def __len__(self) -> int:
        return len(self.text.tokens)

    @property
    def learned(self) -> int:
        """Number of tokens that are learned."""
        return int(self.text.learned.sum())


@dataclass
class RowAccount:
    """Account of the rows of a split: rows read = rows kept + rows dropped.

    Attributes:
        rows: number of rows read.
        dropped: number by reason: `overlong`, `nothing_to_learn`, `bad_template`.
        cut: rows with only the tail kept.
        windows: windows of long rows, beyond one a row.
        unrolled: rows with turns that became rows of their own.
        tokens: tokens of all rows, as rendered.
        left_out: tokens of longer rows that are in no example.
    """

    rows: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    cut: int = 0
    windows: int = 0
    unrolled: int = 0
    tokens: int = 0
    left_out: int = 0

    def drop(self, reason: str) -> None:
        """Count a row that is left out."""
        self.dropped[reason] = self.dropped.get(reason, 0) + 1

    @property
    def kept(self) -> int:
        """Rows of which something is learned."""
        return self.rows - sum(self.dropped.values())


def rendered(rows: Iterable[dict[str, Any]], renderer: Renderer) -> list[list[Text] | None]:
    """Render each row at full length; None if the template fails on it.

    Raises:
        TemplateError: the template rewrites history where that is to be an error.
    """
    return [_rendered(row, renderer) for row in rows]


def _rendered(row: dict[str, Any], renderer: Renderer) -> list[Text] | None:
    try:
        return renderer.texts(row)
    except TemplateError as error:
        if error.hint:  # not the row's fault
            raise
        return None


def prepared(
    rows: Sequence[dict[str, Any]], texts: list[list[Text] | None], settings: Training, place: str
) -> tuple[list[Example], RowAccount]:
    """Return the examples of a split, in the order of its rows.

    Args:
        rows: of the split.
        texts: what they were rendered to.
        settings: the limit on tokens, and what to do with longer rows.
        place: what an error calls the split.

    Raises:
        NothingToTrainError: a row is too long where that is to be an error; or no row is left.
    """
    account, found = RowAccount(len(rows)), []
    for number, (row, some) in enumerate(zip(rows, texts, strict=True)):
        found += _of_row(number, row, some, settings, account, place)
    if account.rows and not found:
        raise _none_left(rows[0], account, place)
    return found, account


def _none_left(row: dict[str, Any], account: RowAccount, place: str) -> NothingToTrainError:
    """Return the error if no row is left, with the fields of rows without learned tokens."""
    reasons = ", ".join(f"{reason.replace('_', ' ')} {count}" for reason, count in account.dropped.items())
    sentence = f"no row of {place} is left to learn from: {reasons}"
    if has_text(row):
        return NothingToTrainError(sentence)
    error = NothingToTrainError(sentence + held(list(row), "the rows"))
    key = likeliest("messages", fitting([row], "messages")) or "PATH"
    error.hint = f"karl-fast sample --messages {key} makes rows of a log: messages, prompt and completion, or text"
    return error


def _of_row(
    number: int, row: dict[str, Any], texts: list[Text] | None, settings: Training, account: RowAccount, place: str
) -> list[Example]:
    if texts is None:
        account.drop("bad_template")
        return []
    limit, overlong = settings.limit_tokens, settings.overlong
    longer = [text for text in texts if len(text.tokens) > limit]
    if longer and overlong == "error":
        raise _too_long(place, number, len(longer[0].tokens), limit)
    account.tokens += sum(len(text.tokens) for text in texts)
    cuts = [fitted(text, limit, overlong) for text in texts]
    account.left_out += sum(cut.left_out for cut in cuts)
    parts = [part for cut in cuts for part in cut.parts]
    if not parts:
        account.drop("overlong" if longer else "nothing_to_learn")
        return []
    account.unrolled += len(texts) > 1
    account.cut += bool(longer) and overlong == "tail"
    account.windows += max(0, len(parts) - len(texts))
    return [_example(part, number, row) for part in parts]


def _too_long(place: str, number: int, tokens: int, limit: int) -> NothingToTrainError:
    error = NothingToTrainError(f"{place}, row {number + 1:,} has {tokens:,} tokens, and max_seq_length is {limit:,}")
    error.hint = "--overlong tail keeps the last tokens of such rows, window cuts them, drop leaves them out"
    return error


def _example(part: Text, number: int, row: dict[str, Any]) -> Example:
    stamp = row.get(STAMP)
    stamp = stamp if isinstance(stamp, dict) else {}
    return Example(
        part,
        number,
        number_of(stamp, "reward"),
        number_of(stamp, "log_weight"),
        _group(stamp.get("group"), number),
        row.get("domain") or stamp.get("domain"),
    )


def _group(value: Any, number: int) -> str | None:
    """Return the group of a row as a text.

    Raises:
        DataSetError: it is neither a text nor a number.
    """
    if not isinstance(value, str | int | float | None) or isinstance(value, bool):
        raise DataSetError(f"row {number + 1:,} has the {STAMP}.group {shown(value)}, wanted a text or a number")
    return None if value is None else str(value)


def groups_of(examples: list[Example]) -> NDArray[np.int64]:
    """Return the number of each example's group, by first appearance; -1 for none."""
    numbers: dict[str, int] = {}
    found = [-1 if one.group is None else numbers.setdefault(one.group, len(numbers)) for one in examples]
    return np.array(found, dtype=np.int64)
