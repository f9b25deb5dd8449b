"""Rows of preferences: pairs of answers, and answers with a label, in the forms that TRL reads.

```text
{"prompt", "chosen", "rejected"}       a pair: texts, or lists of messages
{"chosen", "rejected"}                 the same, where both are whole conversations: what they share is the prompt
{"prompt", "completion", "label"}      an answer that was wanted (true) or not (false), for the recipe kto
```

Texts are a user's message and the answer to it, as in other rows. Learned is what the model wrote in an answer, and
nothing of the prompt. For `kto` each answer of a pair is an answer with a label, and each prompt also comes with an
answer to another prompt: how much likelier the policy has made such answers is the baseline of the recipe.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from karl_fast.errors import DataSetError, NothingToTrainError, UsageError
from karl_fast.log.record_fields import list_keys
from karl_fast.reward.validate import show_value
from karl_fast.train.batching import shuffle_numbers
from karl_fast.train.examples import RowAccount, fit_row

if TYPE_CHECKING:
    from pathlib import Path

    from karl_fast.train.chat_template import Rendering, Text
    from karl_fast.train.examples import Example
    from karl_fast.train.settings import Training

    Message = dict[str, Any]

SHARED = 5
"""Seed number of the answers to other prompts, away from those of the order of epochs."""


@dataclass(frozen=True)
class Answer:
    """An answer to a prompt, as a row that a template renders.

    Attributes:
        row: ``prompt`` and ``completion``, both lists of messages, and the tools.
        number: of its row in the file.
        preferred: True if it was chosen, or has the label true.
    """

    row: dict[str, Any]
    number: int
    preferred: bool


@dataclass(frozen=True)
class AnswerSet:
    """Answers of a split.

    Attributes:
        answers: in the order of the rows; the two of a pair follow each other, the chosen one first.
        mismatched: for `kto`, each prompt with an answer to another one; None where every prompt is the same.
        count: rows of the file.
        dropped: rows without a preference, by reason.
    """

    answers: list[Answer]
    count: int
    mismatched: list[dict[str, Any] | None] = field(default_factory=list)
    dropped: dict[str, int] = field(default_factory=dict)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Rows to render: every answer, then what there is of `mismatched`."""
        return [answer.row for answer in self.answers] + [row for row in self.mismatched if row is not None]


def read_answers(rows: list[dict[str, Any]], place: Path | str, settings: Training) -> AnswerSet:
    """Read the answers of a split.

    Args:
        rows: of its file.
        place: what an error calls the file.
        settings: with a recipe of preferences.

    Raises:
        DataSetError: a row has none of the forms; the message names it, what came and what was wanted.
    """
    labels, dropped = settings.recipe == "kto", dict[str, int]()
    answers: list[Answer] = []
    for number, row in enumerate(rows):
        try:
            found = _answers(row, number, labels)
        except DataSetError as error:
            raise DataSetError(f"{place}, row {number + 1:,}: {error}", hint=error.hint) from error
        if not found:
            dropped["same_answer"] = dropped.get("same_answer", 0) + 1
        answers += found
    return AnswerSet(answers, len(rows), _mismatch(answers, settings.seed) if labels else [], dropped)


def _answers(row: dict[str, Any], number: int, labels: bool) -> list[Answer]:
    """Return the answers of a row; none where both are equal."""
    if "chosen" in row and "rejected" in row:
        prompt, chosen, rejected = _pair(row)
        if chosen == rejected:
            return []
        return [
            Answer(_answer_row(row, prompt, completion), number, preferred)
            for completion, preferred in ((chosen, True), (rejected, False))
        ]
    if labels and {"prompt", "completion", "label"} <= row.keys():
        label = row["label"]
        if not isinstance(label, bool) and label not in (0, 1):
            raise DataSetError(f"label is {show_value(label)}, wanted true or false")
        prompt, completion = _messages(row, "prompt", "user"), _messages(row, "completion", "assistant")
        return [Answer(_answer_row(row, prompt, completion), number, bool(label))]
    forms = "prompt, chosen and rejected" + (", or prompt, completion and label" if labels else "")
    hint = "karl-fast pairs makes pairs of transcripts"
    if not labels and "label" in row:
        hint = "--recipe kto learns from answers with a label"
    raise DataSetError(f"wanted {forms}{list_keys(list(row), 'the row', 'holds')}", hint=hint)


def _answer_row(row: dict[str, Any], prompt: list[Message], completion: list[Message]) -> dict[str, Any]:
    tools = {"tools": row["tools"]} if row.get("tools") else {}
    return {"prompt": prompt, "completion": completion} | tools


def _pair(row: dict[str, Any]) -> tuple[list[Message], list[Message], list[Message]]:
    """Return the prompt of a pair and its two answers.

    Whole conversations, with the prompt in them, come with a prompt beside them too: what both share is the prompt.
    """
    chosen, rejected = _messages(row, "chosen", "assistant"), _messages(row, "rejected", "assistant")
    if _begins_with_answer(chosen) and _begins_with_answer(rejected):
        if "prompt" not in row:
            raise DataSetError("chosen and rejected are answers without a prompt, wanted prompt beside them")
        return _messages(row, "prompt", "user"), chosen, rejected
    shared = next(
        (at for at, (token, other) in enumerate(zip(chosen, rejected, strict=False)) if token != other),
        min(len(chosen), len(rejected)),
    )
    if shared == 0:
        raise DataSetError("chosen and rejected begin with different messages, wanted two answers to one prompt")
    return chosen[:shared], chosen[shared:], rejected[shared:]


def _begins_with_answer(messages: list[Message]) -> bool:
    return not messages or messages[0].get("role") == "assistant"


def _messages(row: dict[str, Any], name: str, role: str) -> list[Message]:
    """Return a field of a row as messages: a list of them, one, or a text of a role.

    Raises:
        DataSetError: it is none of these.
    """
    value = row[name]
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    if isinstance(value, dict):
        return [value]
    if isinstance(value, list) and all(isinstance(message, dict) for message in value):
        return value
    raise DataSetError(f"{name} is {show_value(value)}, wanted a text or a list of messages")


def _mismatch(answers: list[Answer], seed: int) -> list[dict[str, Any] | None]:
    """Return each prompt with the answer to another one: the next, in an order by the seed, that has another prompt."""
    order = shuffle_numbers(len(answers), seed, SHARED).tolist()
    place = {at: index for index, at in enumerate(order)}
    rows: list[dict[str, Any] | None] = []
    for at, answer in enumerate(answers):
        prompt = answer.row["prompt"]
        following = (answers[order[(place[at] + step) % len(order)]] for step in range(1, len(order)))
        other = next((row for row in following if row.row["prompt"] != prompt), None)
        rows.append(None if other is None else answer.row | {"completion": other.row["completion"]})
    return rows


def prepare_answers(
    answers: AnswerSet, renderings: list[Rendering], settings: Training, place: str, paired: bool
) -> tuple[list[Example], RowAccount]:
    """Return the examples of a split, in the order of its answers; both of a pair, or none.

    Args:
        answers: of the split.
        renderings: what `AnswerSet.rows` were rendered to.
        settings: the limit on tokens, and what to do with longer answers.
        place: what an error calls the split.
        paired: True if the answers of a row share a group.

    Raises:
        NothingToTrainError: an answer is too long where that is to be an error; or no row is left.
        UsageError: an answer is cut, or in parts: then its log-probability is not that of the whole.
    """
    account = RowAccount(answers.count, dict(answers.dropped))
    examples: list[Example] = []
    sides: dict[int, list[int]] = {}
    for at, answer in enumerate(answers.answers):
        sides.setdefault(answer.number, []).append(at)
    mismatches = _mismatched_examples(answers, renderings[len(answers.answers) :], settings)
    for number, members in sides.items():
        found: list[Example] = []
        for at in members:
            answer, rendering = answers.answers[at], renderings[at]
            fitted = fit_row(number, answer.row, rendering, settings, account, place)
            if not fitted:
                break
            if len(fitted) > 1 or account.cut:
                raise _parts_error(settings.recipe, number, place)
            group = str(number) if paired else None
            found.append(replace(fitted[0], group=group, preferred=answer.preferred, mismatched=mismatches.get(at)))
        else:
            examples += found
    if account.rows and not examples:
        reasons = ", ".join(f"{reason.replace('_', ' ')} {count}" for reason, count in account.dropped.items())
        raise NothingToTrainError(f"no row of {place} is left to learn from: {reasons}")
    return examples, account


def _parts_error(recipe: str, number: int, place: str) -> UsageError:
    return UsageError(
        f"the recipe {recipe} compares whole answers, and one of {place}, row {number + 1:,} is cut or in parts",
        hint="--overlong drop leaves long rows out, --train-on last learns from one turn an answer",
    )


def _mismatched_examples(answers: AnswerSet, renderings: list[Rendering], settings: Training) -> dict[int, Text]:
    """Return the texts of prompts with answers to others that fit, by the number of the answer."""
    texts: dict[int, Text] = {}
    numbers = [at for at, row in enumerate(answers.mismatched) if row is not None]
    for at, rendering in zip(numbers, renderings, strict=True):
        if rendering.error is None and len(rendering.texts) == 1:
            text = rendering.texts[0]
            if len(text.tokens) <= settings.limit_tokens and text.learned[1:].any():
                texts[at] = text
    return texts
