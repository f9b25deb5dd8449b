"""Tokens of a row, and those of them that are learned.

A conversation is rendered once, and each assistant turn found in it by rendering what came before: the text up to the
turn, with the words that call for an answer, has to be a beginning of the whole. What the assistant says, up to and
with the token that ends its turn, is learned; prompts, tool output and the line break after a turn are not, nor is a
turn with ``"weight": 0``.

Some templates rewrite history: they leave the thoughts of earlier turns out once others follow. There the beginning
does not hold, and each turn becomes a row of its own, rendered as it was when the model spoke. A template that marks
what the assistant says (``{% generation %}``) is taken at its word.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.errors import TemplateError
from karl_fast.reward.validate import shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karl_fast.train.settings import Rewritten, TrainOn

MARKED = re.compile(r"\{%-?\s*generation\s*-?%\}")

REWRITES = "--rewritten unroll trains each turn in a row of its own"


@dataclass(frozen=True)
class Text:
    """Tokens, and which of them are learned.

    Attributes:
        tokens: int32. [T]
        learned: bool. [T]
    """

    tokens: NDArray[np.int32]
    learned: NDArray[np.bool_]


def has_text(row: dict[str, Any]) -> bool:
    """Return whether a row has one of the shapes that mlx-lm supports."""
    return {"prompt", "completion"} <= row.keys() or "messages" in row or isinstance(row.get("text"), str)


@dataclass(frozen=True)
class Renderer:
    """A tokenizer, and the tokens that end a turn."""

    tokenizer: Any
    ends: frozenset[int]
    train_on: TrainOn = "assistant"
    rewritten: Rewritten = "unroll"

    def texts(self, row: dict[str, Any]) -> list[Text]:
        """Render a row as text: one, or several if the template rewrites earlier turns.

        Raises:
            TemplateError: the row has no shape that mlx-lm supports, or the template fails on it.
        """
        if "completion" in row and "prompt" in row:
            row = row | {"messages": _joined(row["prompt"], row["completion"])}
        if "messages" in row:
            messages = row["messages"]
            if not (isinstance(messages, list) and all(isinstance(one, dict) for one in messages)):
                raise TemplateError("the messages of a row are no list of objects")
            return self._conversation([_readable(one) for one in messages], row.get("tools"))
        if isinstance(row.get("text"), str):
            return [self._plain(row["text"])]
        raise TemplateError("a row has neither messages, nor prompt and completion, nor text")

    def _plain(self, text: str) -> Text:
        tokens, end = list(self._tokenizer.encode(_utf8(text))), self._tokenizer.eos_token_id
        if end is not None and (not tokens or tokens[-1] not in self.ends):
            tokens.append(end)
        return Text(np.array(tokens, dtype=np.int32), np.ones(len(tokens), dtype=np.bool_))

    def _conversation(self, messages: list[dict[str, Any]], tools: Any) -> list[Text]:
        turns = [at for at, message in enumerate(messages) if message.get("role") == "assistant"]
        unlearned = [at for at in turns if not _is_learned(messages[at])]
        if self.train_on == "all":
            tokens, *_ = self._encoded(self._rendered(messages, tools))
            return [self._without(Text(tokens, np.ones(len(tokens), dtype=np.bool_)), messages, tools, unlearned)]
        turns = [at for at in turns if at not in unlearned]
        turns = turns[-1:] if self.train_on == "last" else turns
        if self.train_on == "assistant" and MARKED.search(self._template):
            return [self._without(self._marked(messages, tools), messages, tools, unlearned)]
        whole = self._rendered(messages, tools)
        spans = [self._span(messages, tools, at, whole) for at in turns]
        kept = [span for span in spans if span is not None]
        if len(kept) == len(spans):
            return [self._learned(whole, kept)]
        if self.rewritten == "error":
            error = TemplateError("the chat template rewrites earlier turns of a row once others follow")
            error.hint = REWRITES
            raise error
        return [self._turn(messages[: at + 1], tools) for at in turns]

    def _without(self, text: Text, messages: list[dict[str, Any]], tools: Any, turns: list[int]) -> Text:
        """Return a text with some turns not learned.

        Raises:
            TemplateError: the position of such a turn cannot be determined.
        """
        if not turns:
            return text
        whole = self._rendered(messages, tools)
        spans = [span for at in turns if (span := self._span(messages, tools, at, whole)) is not None]
        unlearned = self._learned(whole, spans, whole_turn=True)
        if len(spans) < len(turns) or not np.array_equal(unlearned.tokens, text.tokens):
            raise TemplateError("the chat template hides where a turn with a weight of 0 stands")
        return Text(text.tokens, text.learned & ~unlearned.learned)

    def _turn(self, messages: list[dict[str, Any]], tools: Any) -> Text:
        """Return the last turn of a conversation that ends with it."""
        whole = self._rendered(messages, tools)
        span = self._span(messages, tools, len(messages) - 1, whole)
        if span is None:
            raise TemplateError("the chat template renders a turn otherwise than it calls for it, so none can be told")
        return self._learned(whole, [span])

    def _span(self, messages: list[dict[str, Any]], tools: Any, at: int, whole: str) -> tuple[int, int] | None:
        """Return start and end of a turn in the whole; None if the turn or its prefix is rendered differently there."""
        start = self._rendered(messages[:at], tools, add_generation_prompt=True)
        end = self._rendered(messages[: at + 1], tools)
        if whole.startswith(end) and end.startswith(start):
            return len(start), len(end)
        return None

    def _learned(self, whole: str, spans: list[tuple[int, int]], *, whole_turn: bool = False) -> Text:
        """Return the text with tokens of some turns marked: those within a turn, or all that hold a part of one."""
        tokens, starts, stops = self._encoded(whole)
        learned = np.zeros(len(tokens), dtype=np.bool_)
        for start, end in spans:
            if whole_turn:
                learned |= (starts < end) & ((stops > start) | (starts >= start))
                continue
            within = np.flatnonzero((starts >= start) & (starts < end) & ((stops <= end) | self._ending(tokens)))
            if within.size:
                learned[within[within < self._end_of_turn(tokens, int(within[0]), int(within[-1]) + 1)]] = True
        return Text(tokens, learned)

    def _ending(self, tokens: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return True for tokens that end a turn, possibly with the space after it."""
        return np.isin(tokens, sorted(self.ends))

    def _end_of_turn(self, tokens: NDArray[np.int32], first: int, last: int) -> int:
        """Return the index after the last end token of a turn; text that a template adds after it is not learned."""
        ending = [at for at in range(first, last) if int(tokens[at]) in self.ends]
        return ending[-1] + 1 if ending else last

    def _marked(self, messages: list[dict[str, Any]], tools: Any) -> Text:
        found = self._tokenizer.apply_chat_template(
            messages, tools=tools, return_dict=True, return_assistant_tokens_mask=True
        )
        tokens, learned = found["input_ids"], found["assistant_masks"]
        return Text(np.array(tokens, dtype=np.int32), np.array(learned, dtype=np.bool_))

    def _rendered(self, messages: list[dict[str, Any]], tools: Any, **how: Any) -> str:
        try:
            return str(self._tokenizer.apply_chat_template(messages, tools=tools, tokenize=False, **how))
        except (ValueError, TypeError, KeyError, AttributeError) as error:  # jinja2's errors are ValueErrors
            raise TemplateError(f"the chat template cannot take a row: {_first_line(error)}") from error

    def _encoded(self, text: str) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
        """Return tokens, the index of the first character of each, and that after its end."""
        found = self._tokenizer(_utf8(text), add_special_tokens=False, return_offsets_mapping=True)
        tokens, places = np.array(found["input_ids"], dtype=np.int32), found["offset_mapping"]
        starts, stops = np.array(places, dtype=np.int64).reshape(-1, 2).T
        return tokens, np.maximum.accumulate(starts) if len(starts) else starts, stops

    @property
    def _tokenizer(self) -> Any:
        """The tokenizer below mlx-lm's, which cannot be called."""
        return self.tokenizer if callable(self.tokenizer) else self.tokenizer._tokenizer

    @property
    def _template(self) -> str:
        return str(getattr(self._tokenizer, "chat_template", None) or "")


def _joined(prompt: Any, completion: Any) -> list[dict[str, Any]]:
    """Return a prompt and its completion as messages: texts, or lists of messages; no turn of a prompt is learned.

    Raises:
        TemplateError: they are neither.
    """
    if isinstance(prompt, str) and isinstance(completion, str):
        return [{"role": "user", "content": prompt}, {"role": "assistant", "content": completion}]
    lists = isinstance(prompt, list) and isinstance(completion, list)
    if not (lists and all(isinstance(one, dict) for one in (*prompt, *completion))):
        raise TemplateError("prompt and completion of a row are neither texts nor lists of messages")
    return [*(one | {"weight": 0} if one.get("role") == "assistant" else one for one in prompt), *completion]


def _readable(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message with text content: templates render other values in Python syntax.

    Raises:
        TemplateError: the role is not a text, or the content has parts other than text.
    """
    content = message.get("content")
    if not isinstance(message.get("role"), str):
        raise TemplateError(f"a message has the role {shown(message.get('role'))}, wanted a text")
    if isinstance(content, str) or (content is None and message.get("tool_calls")):
        return message
    parts = content if isinstance(content, list) else [content]
    texts = [part["text"] for part in parts if isinstance(part, dict) and _is_text(part)]
    if not isinstance(content, list) or len(texts) < len(parts):
        raise TemplateError(f"a message has the content {shown(content)}, wanted a text or parts of the type text")
    return message | {"content": "".join(texts)}


def _is_text(part: dict[str, Any]) -> bool:
    """Return whether a part of a message's content is text."""
    return part.get("type") == "text" and isinstance(part.get("text"), str)


def _is_learned(message: dict[str, Any]) -> bool:
    """Return whether the weight of the model's message, 0 or 1, says that it is learned.

    Raises:
        TemplateError: the weight is another.
    """
    weight = message.get("weight")
    if weight not in (None, 0, 1):
        raise TemplateError(f"a message of the assistant has the weight {weight!r}, wanted 0 or 1")
    return weight is None or bool(weight)


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0][:200] or type(error).__name__


def _utf8(text: str) -> str:
    """Return a text that a tokenizer takes.

    Raises:
        TemplateError: it holds half of a surrogate pair.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise TemplateError("a text of a row holds half of a surrogate pair") from error
    return text
