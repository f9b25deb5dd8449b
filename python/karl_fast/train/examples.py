"""Examples of a split from its rows, with an account of every row.

```text
row --> Renderer --> texts of any length --> `fit_text` by max_seq_length and overlong --> examples
```
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast._safe_text import clean, counted
from karl_fast.errors import DataSetError, NothingToTrainError, TemplateError
from karl_fast.export.token_limit import REASONS
from karl_fast.export.training_rows import STAMP, number_of
from karl_fast.log.record_fields import fitting_paths, likeliest_key, list_keys
from karl_fast.reward.validate import show_value
from karl_fast.train.chat_template import Rendering, Text, has_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from karl_fast.train.chat_template import Renderer
    from karl_fast.train.settings import Overlong, Training


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
        preferred: for recipes of preferences: True for an answer that was wanted, False for another; else None.
        mismatched: for `kto`: its prompt with an answer to another one; None for none.
    """

    text: Text
    row: int
    reward: float = np.nan
    log_weight: float = np.nan
    group: str | None = None
    domain: str | None = None
    preferred: bool | None = None
    mismatched: Text | None = None

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
        dropped: number by reason: `overlong`, `nothing_to_learn`, `bad_template`, `same_answer`.
        bad_templates: reasons behind `bad_template`: number of rows, and the first of them, from 1.
        cut: rows with only the tail kept.
        windows: windows of long rows, beyond one a row.
        unrolled: rows with turns that became rows of their own.
        tokens: tokens of all rows, as rendered.
        left_out: tokens of longer rows that are in no example.
        calls_as_text: rows whose calls of tools and results are written as text.
        tools_as_text: rows whose definitions of tools are.
        thoughtless: turns whose thoughts the template leaves out.
        endless: learned turns without a token that ends them.
    """

    rows: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    cut: int = 0
    windows: int = 0
    unrolled: int = 0
    tokens: int = 0
    left_out: int = 0
    bad_templates: dict[str, tuple[int, int]] = field(default_factory=dict)
    calls_as_text: int = 0
    tools_as_text: int = 0
    thoughtless: int = 0
    endless: int = 0

    def drop(self, reason: str) -> None:
        """Count a row that is left out."""
        self.dropped[reason] = self.dropped.get(reason, 0) + 1

    def drop_bad_template(self, reason: str, number: int) -> None:
        """Count a row that the template fails on, with the reason; reasons beyond `REASONS` count together."""
        self.drop("bad_template")
        reason = reason if reason in self.bad_templates or len(self.bad_templates) < REASONS else "other reasons"
        count, first = self.bad_templates.get(reason, (0, number + 1))
        self.bad_templates[reason] = (count + 1, first)

    def note(self, rendering: Rendering) -> None:
        """Count what a template did not show of a row."""
        self.calls_as_text += rendering.calls_as_text
        self.tools_as_text += rendering.tools_as_text
        self.thoughtless += rendering.thoughtless
        self.endless += rendering.endless

    def remarks(self, split: str) -> Iterator[str]:
        """Yield sentences on the rows that the template fails on, and on what it does not show of others."""
        for reason, (count, first) in self.bad_templates.items():
            yield f"{split}: bad template in {counted(count, 'row')}, the first is row {first:,}: {clean(reason)}"
        if self.calls_as_text:
            rows = counted(self.calls_as_text, "row")
            yield f"{split}: calls and results of tools are written as text in {rows} (--tool-format)"
        if self.tools_as_text:
            rows = counted(self.tools_as_text, "row")
            yield f"{split}: definitions of tools are written as text in {rows} (--tool-format)"
        if self.thoughtless:
            yield f"{split}: the chat template leaves out the thoughts of {counted(self.thoughtless, 'turn')}"
        if self.endless:
            turns = counted(self.endless, "learned turn")
            yield (
                f"{split}: {turns} without a token at the end that stops generation: stopping is not learned there; "
                "eos_token_id in the model's generation_config.json names the tokens that stop"
            )

    @property
    def kept(self) -> int:
        """Rows of which something is learned."""
        return self.rows - sum(self.dropped.values())


def render_rows(rows: Iterable[dict[str, Any]], renderer: Renderer) -> list[Rendering]:
    """Render each row at full length; without texts if the template fails on it.

    Raises:
        TemplateError: the template rewrites history where that is to be an error.
    """
    return [_render_row(row, renderer) for row in rows]


def _render_row(row: dict[str, Any], renderer: Renderer) -> Rendering:
    try:
        return renderer.rendering(row)
    except TemplateError as error:
        if error.hint:  # not the row's fault
            raise
        return Rendering(error=str(error))


def prepare_examples(
    rows: Sequence[dict[str, Any]], renderings: list[Rendering], settings: Training, place: str
) -> tuple[list[Example], RowAccount]:
    """Return the examples of a split, in the order of its rows.

    Args:
        rows: of the split.
        renderings: what they were rendered to.
        settings: the limit on tokens, and what to do with longer rows.
        place: what an error calls the split.

    Raises:
        NothingToTrainError: a row is too long where that is to be an error; or no row is left.
    """
    account, examples = RowAccount(len(rows)), []
    for number, (row, rendering) in enumerate(zip(rows, renderings, strict=True)):
        examples += fit_row(number, row, rendering, settings, account, place)
    if account.rows and not examples:
        raise _no_rows_error(rows[0], account, place)
    return examples, account


def _no_rows_error(row: dict[str, Any], account: RowAccount, place: str) -> NothingToTrainError:
    """Return the error if no row is left, with the fields of rows without learned tokens."""
    reasons = ", ".join(f"{reason.replace('_', ' ')} {count}" for reason, count in account.dropped.items())
    sentence = f"no row of {place} is left to learn from: {reasons}"
    if has_text(row):
        whys = [f"; row {first:,}: {clean(reason)}" for reason, (_, first) in account.bad_templates.items()]
        return NothingToTrainError(sentence + "".join(whys))
    error = NothingToTrainError(sentence + list_keys(list(row), "the rows"))
    key = likeliest_key("messages", fitting_paths([row], "messages")) or "PATH"
    error.hint = f"karl-fast sample --messages {key} makes rows of a log: messages, prompt and completion, or text"
    return error


def fit_row(
    number: int, row: dict[str, Any], rendering: Rendering, settings: Training, account: RowAccount, place: str
) -> list[Example]:
    """Return the examples of a rendered row, and count it where there are none.

    Raises:
        NothingToTrainError: the row is too long where that is to be an error.
    """
    if rendering.error is not None:
        account.drop_bad_template(rendering.error, number)
        return []
    account.note(rendering)
    texts = rendering.texts
    limit, overlong = settings.limit_tokens, settings.overlong
    longer = [text for text in texts if len(text.tokens) > limit]
    if longer and overlong == "error":
        raise _length_error(place, number, len(longer[0].tokens), limit)
    account.tokens += sum(len(text.tokens) for text in texts)
    cuts = [fit_text(text, limit, overlong) for text in texts]
    account.left_out += sum(cut.left_out for cut in cuts)
    parts = [part for cut in cuts for part in cut.parts]
    if not parts:
        account.drop("overlong" if longer else "nothing_to_learn")
        return []
    account.unrolled += len(texts) > 1
    account.cut += bool(longer) and overlong == "tail"
    account.windows += max(0, len(parts) - len(texts))
    return [_example(part, number, row) for part in parts]


def _length_error(place: str, number: int, tokens: int, limit: int) -> NothingToTrainError:
    return NothingToTrainError(
        f"{place}, row {number + 1:,} has {tokens:,} tokens, and max_seq_length is {limit:,}",
        hint="--overlong tail keeps the last tokens of such rows, window cuts them, drop leaves them out",
    )


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
        raise DataSetError(f"row {number + 1:,} has the {STAMP}.group {show_value(value)}, wanted a text or a number")
    return None if value is None else str(value)


def group_numbers(examples: list[Example]) -> NDArray[np.int64]:
    """Return the number of each example's group, by first appearance; -1 for none."""
    numbers: dict[str, int] = {}
    groups = [-1 if example.group is None else numbers.setdefault(example.group, len(numbers)) for example in examples]
    return np.array(groups, dtype=np.int64)


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
    tokens, parts, learned_until = len(text.tokens), [], 0
    covered = np.zeros(tokens, dtype=np.bool_)
    for start in _starts(tokens, limit, overlong):
        part = slice(start, start + limit)
        learned = text.learned[part].copy()
        learned[: max(1, learned_until - start)] = False
        learned_until = part.stop
        if learned.any():
            parts.append(Text(text.tokens[part], learned))
            covered[part] = True
    return FittedText(parts, tokens - int(covered.sum()) if tokens > limit else 0)


def _starts(tokens: int, limit: int, overlong: Overlong) -> Iterable[int]:
    """Return the start of each part."""
    if tokens <= limit:
        return [0]
    if overlong == "tail":
        return [tokens - limit]
    stride = max(1, limit // 2)
    return range(0, tokens - limit + stride, stride) if overlong == "window" else []
