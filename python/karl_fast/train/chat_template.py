"""Tokens of a row, and those of them that are learned.

A conversation is rendered once, and each turn of the assistant is located by rendering what came before it. Learned is
what the model generates: from the end of the generation prompt to the token that stops it, which some templates
(GLM) write as the marker of the next role. Prompts, tool output, the line break after a turn, the empty thoughts that a
template supplies for a turn without any, and turns with ``"weight": 0`` are not.

Some templates rewrite history: they leave the thoughts of earlier turns out once others follow. There the beginning
does not hold, and each turn becomes a row of its own, rendered as it was when the model spoke. Of a template that marks
what the assistant says (``{% generation %}``) only what is marked is learned.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.errors import TemplateError
from karl_fast.export.template_form import ChatTemplate, has_calls, thoughts_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from karl_fast.export.template_form import Form, Message
    from karl_fast.settings.schema import ToolFormat
    from karl_fast.train.settings import Rewritten, TrainOn

MARKED = re.compile(r"\{%-?\s*generation\s*-?%\}")

EMPTY_THOUGHTS = re.compile(
    r"\s*(?:<(\|?[\w:]*(?:think|thought|reasoning)\w*\|?)>\s*</\1>|\[THINK\]\s*\[/THINK\]"
    r"|</[\w:]*(?:think|thought|reasoning)\w*>|<\|START_THINKING\|>\s*<\|END_THINKING\|>|<\|channel>thought\s*<channel\|>)\s*"
)

SWITCHES = ({"enable_thinking": False, "thinking": False}, {"enable_thinking": True, "thinking": True})
"""Variables by which templates open a turn with thoughts or without."""

USER, TURN = "karluserx", "karlturnx"
"""Words of a conversation that shows what a template writes around a turn."""

HEADER = 300
"""Characters of a rendering that hold what a template writes before a turn, or after it."""

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


@dataclass(frozen=True)
class Rendering:
    """Result of rendering a row.

    Attributes:
        texts: its texts; none if the template fails on it.
        error: why it failed; None if it did not.
        endless: learned turns without a token that ends them.
        thoughtless: turns whose thoughts the template leaves out.
        calls_as_text: True if calls and results are written as text.
        tools_as_text: True if the definitions of tools are.
    """

    texts: list[Text] = field(default_factory=list)
    error: str | None = None
    endless: int = 0
    thoughtless: int = 0
    calls_as_text: bool = False
    tools_as_text: bool = False


@dataclass(frozen=True)
class _Turn:
    """A turn of the assistant as it was when it spoke.

    Attributes:
        text: the conversation up to the token that stops the turn, if there is one, and more.
        start: index of the first character that the model generates.
        stop: index after the last.
        ended: True if a token that stops generation is the last.
    """

    text: str
    start: int
    stop: int
    ended: bool


@dataclass(frozen=True)
class _Opening:
    """Texts that a template writes between the words of a user and those of the assistant.

    Attributes:
        prompt: with the generation prompt.
        others: with that of each switch, where it differs.
        turn: in a turn without thoughts.
    """

    prompt: str
    others: tuple[str, ...]
    turn: str

    def prompts(self, context: str) -> Iterator[str]:
        """Yield a context that ends with the generation prompt, with each other generation prompt in its place.

        The beginning of a turn is one of them where it differs in space alone.
        """
        yield context
        if self._differs_in_space and context.endswith(self.prompt):
            yield context[: len(context) - len(self.prompt)] + self.turn
        for other in self.others:
            if self.prompt in other:
                yield context + other.partition(self.prompt)[2]
            elif context.endswith(tail := self.prompt[len(common := _common(self.prompt, other)) :]):
                yield context[: len(context) - len(tail)] + other[len(common) :]

    @property
    def _differs_in_space(self) -> bool:
        begins = self.turn.startswith(self.prompt)
        return not begins and "".join(self.prompt.split()) == "".join(self.turn.split())

    def shared(self, context: str) -> str | None:
        """Return a context up to where generation prompt and turn part; None if more than empty thoughts differs."""
        common = _common(self.prompt, self.turn)
        rest, tail = self.turn[len(common) :], self.prompt[len(common) :]
        opened = re.search(r"\s*<[^<>]*$|\s*<[^<>]*>\s*$", common)
        blank = not rest.strip() or EMPTY_THOUGHTS.fullmatch((opened.group() if opened else "") + rest)
        return context[: len(context) - len(tail)] if blank and context.endswith(tail) else None

    @property
    def generated(self) -> str:
        """Text that the model generates itself before the words of a turn without thoughts."""
        lengths = [len(prompt) for prompt in self.prompts(self.prompt) if self.turn.startswith(prompt)]
        rest = self.turn[_past_empty_thoughts(self.turn, max(lengths)) :] if lengths else ""
        return "" if EMPTY_THOUGHTS.fullmatch(rest) else rest


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
    tool_format: ToolFormat = "auto"

    def texts(self, row: dict[str, Any]) -> list[Text]:
        """Render a row as text: one, or several if the template rewrites earlier turns.

        Raises:
            TemplateError: the row has no shape that mlx-lm supports, or the template fails on it.
        """
        return self.rendering(row).texts

    def rendering(self, row: dict[str, Any]) -> Rendering:
        """Render a row, with an account of what the template does not show.

        Raises:
            TemplateError: as `texts`.
        """
        if "completion" in row and "prompt" in row:
            row = row | {"messages": _joined(row["prompt"], row["completion"])}
        if "messages" in row:
            return self._of_messages(row["messages"], row.get("tools"))
        if isinstance(row.get("text"), str):
            return Rendering([self._plain_text(row["text"])])
        raise TemplateError("a row has neither messages, nor prompt and completion, nor text")

    def _of_messages(self, messages: Any, tools: Any) -> Rendering:
        """Render a conversation; with its calls as text too if its turns cannot be located otherwise."""
        form = self._template.form(messages, tools, self.tool_format)
        try:
            texts, endless = self._conversation(form)
        except TemplateError as error:
            if error.hint or self.tool_format != "auto" or form.calls_as_text or not has_calls(form.messages):
                raise
            form = self._template.form(messages, tools, "text")
            texts, endless = self._conversation(form)
        return Rendering(texts, None, endless, form.thoughtless, form.calls_as_text, form.tools_as_text)

    def _plain_text(self, text: str) -> Text:
        tokens, end = list(self._tokenizer.encode(_utf8(text))), self._tokenizer.eos_token_id
        if end is not None and (not tokens or tokens[-1] not in self.ends):
            tokens.append(end)
        return Text(np.array(tokens, dtype=np.int32), np.ones(len(tokens), dtype=np.bool_))

    def _conversation(self, form: Form) -> tuple[list[Text], int]:
        """Return the texts of a conversation, and the number of its learned turns that nothing ends."""
        messages = form.messages
        turns = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
        unlearned = [at for at in turns if not _is_learned(messages[at])]
        if self.train_on == "all":
            return [self._all_but(form, unlearned)], 0
        turns = [at for at in turns if at not in unlearned]
        turns = turns[-1:] if self.train_on == "last" else turns
        marked = self.train_on == "assistant" and MARKED.search(self._template.source) is not None
        try:
            spans = {at: self._locate_turn(form, at) for at in turns}
        except TemplateError:
            if not marked or unlearned:
                raise
            return [self._mask(messages, form.tools)], 0
        endless = sum(not turn.ended for turn in spans.values())
        whole = max((form.text, *(turn.text for turn in spans.values() if turn.text.startswith(form.text))), key=len)
        if all(whole.startswith(turn.text[: turn.stop]) for turn in spans.values()):
            text = self._learned(whole, [(turn.start, turn.stop) for turn in spans.values()])
            return [self._apply_mask(text, messages, form.tools) if marked else text], endless
        if self.rewritten == "error":
            raise TemplateError("the chat template rewrites earlier turns of a row once others follow", hint=REWRITES)
        texts = []
        for at, turn in spans.items():
            text = self._learned(turn.text, [(turn.start, turn.stop)])
            texts.append(self._apply_mask(text, messages[: at + 1], form.tools) if marked else text)
        return texts, endless

    def _all_but(self, form: Form, turns: list[int]) -> Text:
        """Return the whole with all but some turns learned.

        Raises:
            TemplateError: the position of such a turn cannot be determined.
        """
        tokens, *_ = self._encode(form.text)
        spans = [self._locate_turn(form, at) for at in turns]
        if not all(form.text.startswith(turn.text[: min(turn.stop, len(form.text))]) for turn in spans):
            raise TemplateError("the chat template hides where a turn with a weight of 0 stands")
        unlearned = self._learned(form.text, [(turn.start, turn.stop) for turn in spans], whole_turn=True)
        return Text(tokens, ~unlearned.learned)

    def _locate_turn(self, form: Form, at: int) -> _Turn:
        """Return a turn as it was when the model spoke.

        Raises:
            TemplateError: the position of the turn cannot be determined.
        """
        messages, tools = form.messages[: at + 1], form.tools
        text = form.text if at == len(form.messages) - 1 else self._render(messages, tools)
        if text is None:
            return self._locate_within(form, at)
        prompt_text = self._render(messages[:-1], tools, add_generation_prompt=True)
        text, start = self._find_start(text, prompt_text, messages, tools)
        return self._find_stop(text, self._past_header(text, start), form, at)

    def _find_start(
        self, rendering: str, prompt_text: str | None, messages: list[Message], tools: Any
    ) -> tuple[str, int]:
        """Return the text that the model saw and wrote, and where its own begins."""
        empty = not thoughts_of(messages[-1])
        if prompt_text is not None:
            ends = [len(prompt) for prompt in self._opening.prompts(prompt_text) if rendering.startswith(prompt)]
            if ends:
                return rendering, _past_empty_thoughts(rendering, max(ends)) if empty else max(ends)
            shared = self._opening.shared(prompt_text)
            if shared is not None and rendering.startswith(shared):
                return rendering, _past_empty_thoughts(rendering, len(shared)) if empty else len(shared)
        alone = prompt_text is None or all(message["role"] in ("system", "developer") for message in messages[:-1])
        for place in self._candidate_starts(rendering, messages, tools):
            for context in [rendering[:place]] if alone else self._opening.prompts(prompt_text or ""):
                if alone or self._shares_header(context, rendering, place):
                    text, start = context + rendering[place:], len(context)
                    return text, _past_empty_thoughts(text, start) if empty else start
        raise _unknown_start()

    def _shares_header(self, context: str, text: str, place: int) -> bool:
        """Return whether a context ends with the header of a role that is before a place."""
        header = _common(context[:-HEADER:-1], text[max(0, place - HEADER) : place][::-1])[::-1]
        return any(token in header for token in self._added)

    def _past_header(self, text: str, start: int) -> int:
        """Return the start of a turn after the header of its role, where the generation prompt had none (Gemma 4)."""
        prompt = self._opening.prompt
        places = sorted(at for token in self._added if (at := prompt.find(token)) >= 0)
        header = next((prompt[at:] for at in places if text.startswith(prompt[at:], start)), "")
        return start + len(header)

    def _candidate_starts(self, text: str, messages: list[Message], tools: Any) -> Iterator[int]:
        """Yield where the last turn may begin in a rendering, by one of other words in its place."""
        other = self._render([*messages[:-1], {"role": "assistant", "content": TURN}], tools)
        if other is not None and TURN in other:
            yield from self._before_words(text, other)

    def _before_words(self, text: str, other: str) -> Iterator[int]:
        """Yield where the model may have begun to write, in two renderings that differ in the words of a turn.

        Behind the empty thoughts of the other, before them, or behind the tag that opens them.
        """
        words, generated = other.rfind(TURN), self._opening.generated
        start = words - len(generated) if other[:words].endswith(generated) else words
        places = [start]
        for thoughts in EMPTY_THOUGHTS.finditer(other, max(0, start - 40), start):
            if thoughts.end() == start and (tag := re.compile(r"<[^<>]*>\n?").search(other, thoughts.start(), start)):
                places += [tag.start(), tag.end()]
        return (place for place in places if text[:place] == other[:place])

    def _locate_within(self, form: Form, at: int) -> _Turn:
        """Return a turn by its place in the whole, where the template does not render the beginning alone.

        Raises:
            TemplateError: as `_locate_turn`.
        """
        changed = [*form.messages[:at], {"role": "assistant", "content": TURN}, *form.messages[at + 1 :]]
        other = self._render(changed, form.tools)
        start = None if other is None or other.count(TURN) != 1 else next(self._before_words(form.text, other), None)
        if other is None or start is None:
            raise _unknown_start()
        tail = other[other.rfind(TURN) + len(TURN) :]
        if not form.text.endswith(tail):
            raise _unknown_start()
        end = len(form.text) - len(tail)
        run = self._run.match(form.text, end)
        stop = self._first_end(form.text, end, run.end() if run else end)
        return _Turn(form.text, start, end if stop is None else stop, stop is not None)

    def _find_stop(self, text: str, start: int, form: Form, at: int) -> _Turn:
        """Return a turn with what stops it: in its own text, or the marker of the next role behind it."""
        tail = max(start, len(text) - HEADER)
        run = next((match for match in self._run.finditer(text, tail) if match.end() == len(text)), None)
        begin = len(text) if run is None else run.start()
        stop = self._first_end(text, begin, len(text))
        if stop is not None:
            return _Turn(text, start, stop, True)
        if (stop_text := self._stop_after(text, form, at)) is not None:
            return _Turn(text + stop_text, start, len(text + stop_text), True)
        places = [place + len(token) for token in self._added if (place := text.rfind(token, begin)) >= 0]
        end = self._tokenizer.eos_token
        if not places and at == len(form.messages) - 1 and end in self._end_texts:
            return _Turn(text + end, start, len(text + end), True)  # of a template without any end, as of a plain text
        return _Turn(text, start, max(places, default=len(text)), False)

    def _stop_after(self, text: str, form: Form, at: int) -> str | None:
        """Return the token of the next role that stops a turn; None where the template has none."""
        rest = form.text[len(text) :] if form.text.startswith(text) else ""
        stop = self._stop_token.match(rest) if self._stop_token else None
        return stop.group() if stop else self._next_role("tool_calls" in form.messages[at])

    def _next_role(self, calls: bool) -> str | None:
        """Return the token behind a turn with calls, or without, if it stops generation."""
        turn: Message = {"role": "assistant", "content": TURN}
        answer: Message = {"role": "user", "content": USER}
        if calls:
            function = {"name": TURN, "arguments": {TURN: TURN}}
            turn |= {"content": "", "tool_calls": [{"id": TURN, "type": "function", "function": function}]}
            answer = {"role": "tool", "content": USER, "tool_call_id": TURN, "name": TURN}
        before = [{"role": "user", "content": USER}, turn]
        first, more = self._render(before), self._render([*before, answer])
        if first is None or more is None or not more.startswith(first) or self._stop_token is None:
            return None
        stop = self._stop_token.match(more, len(first))
        return stop.group() if stop else None

    def _first_end(self, text: str, start: int, end: int) -> int | None:
        """Return the index after the first token in a span that stops generation; None if there is none."""
        places = [(place, token) for token in self._end_texts if (place := text.find(token, start, end)) >= 0]
        return None if not places else min(places)[0] + len(min(places)[1])

    def _learned(self, whole: str, spans: list[tuple[int, int]], *, whole_turn: bool = False) -> Text:
        """Return the text with tokens of some turns marked: those within a turn, or all that hold a part of one."""
        tokens, starts, stops = self._encode(whole)
        learned = np.zeros(len(tokens), dtype=np.bool_)
        ending = np.isin(tokens, sorted(self.ends))  # a token that ends a turn may hold the space after it
        for start, end in spans:
            if whole_turn:
                learned |= (starts < end) & ((stops > start) | (starts >= start))
            else:
                learned |= (starts >= start) & (starts < end) & ((stops <= end) | ending)
        return Text(tokens, learned)

    def _apply_mask(self, text: Text, messages: list[Message], tools: Any) -> Text:
        """Return a text with what the template does not mark not learned."""
        mask = self._mask(messages, tools)
        length = min(len(mask.tokens), len(text.tokens))
        if not np.array_equal(mask.tokens[:length], text.tokens[:length]):
            return text
        learned = text.learned.copy()
        learned[:length] &= mask.learned[:length]
        return Text(text.tokens, learned)

    def _mask(self, messages: list[Message], tools: Any) -> Text:
        """Return what the template marks."""
        encoding = self._tokenizer.apply_chat_template(
            messages, tools=tools, return_dict=True, return_assistant_tokens_mask=True
        )
        tokens, learned = encoding["input_ids"], encoding["assistant_masks"]
        return Text(np.array(tokens, dtype=np.int32), np.array(learned, dtype=np.bool_))

    def _render(self, messages: list[Message], tools: Any = None, **how: Any) -> str | None:
        """Return the text of messages; None if the template raises."""
        try:
            return self._template.render(messages, tools, **how)
        except TemplateError:
            return None

    def _encode(self, text: str) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
        """Return tokens, the index of the first character of each, and that after its end."""
        encoding = self._tokenizer(_utf8(text), add_special_tokens=False, return_offsets_mapping=True)
        tokens, places = np.array(encoding["input_ids"], dtype=np.int32), encoding["offset_mapping"]
        starts, stops = np.array(places, dtype=np.int64).reshape(-1, 2).T
        return tokens, np.maximum.accumulate(starts) if len(starts) else starts, stops

    @cached_property
    def _template(self) -> ChatTemplate:
        return ChatTemplate(self.tokenizer)

    @property
    def _tokenizer(self) -> Any:
        """The tokenizer below mlx-lm's, which cannot be called."""
        return self._template.tokenizer

    @cached_property
    def _opening(self) -> _Opening:
        """Text that the template writes between a user and the assistant."""
        user: Message = {"role": "user", "content": USER}
        prompt = self._render([user], add_generation_prompt=True)
        turn = self._render([user, {"role": "assistant", "content": TURN}])
        if prompt is None or turn is None or USER not in prompt or USER not in turn or TURN not in turn:
            return _Opening("", (), "")
        texts = (self._render([user], add_generation_prompt=True, **switch) for switch in SWITCHES)
        others = {text.rpartition(USER)[2] for text in texts if text is not None and USER in text}
        plain = prompt.rpartition(USER)[2]
        between = turn.rpartition(TURN)[0].rpartition(USER)[2]
        return _Opening(plain, tuple(sorted(others - {plain})) if plain else (), between)

    @cached_property
    def _end_texts(self) -> list[str]:
        """The texts of the tokens that stop generation."""
        added = self._tokenizer.added_tokens_decoder
        texts = [str(added[id].content if id in added else self._tokenizer.decode([id])) for id in sorted(self.ends)]
        return [text for text in texts if text]

    @cached_property
    def _added(self) -> list[str]:
        """The texts of the tokens beyond the vocabulary, such as those of roles."""
        return sorted({*self._end_texts, *map(str, self._tokenizer.get_added_vocab())}, key=len, reverse=True)

    @cached_property
    def _run(self) -> re.Pattern[str]:
        """A run of such tokens and space."""
        return re.compile("(?:" + "|".join([*map(re.escape, self._added), r"\s"]) + ")+")

    @cached_property
    def _stop_token(self) -> re.Pattern[str] | None:
        """A token that stops generation, with the space before it."""
        texts = sorted(self._end_texts, key=len, reverse=True)
        return re.compile(r"\s*(?:" + "|".join(map(re.escape, texts)) + ")") if texts else None


def _unknown_start() -> TemplateError:
    return TemplateError("the generation prompt of the chat template is not the beginning of its turns")


def _past_empty_thoughts(text: str, start: int) -> int:
    """Return the start of a turn after the empty thoughts that it begins with, or is within."""
    for thoughts in EMPTY_THOUGHTS.finditer(text, max(0, start - 40), start + 200):
        if thoughts.start() <= start < thoughts.start() + len(thoughts.group().rstrip()):
            return thoughts.end()
    return start


def _common(first: str, second: str) -> str:
    """Return the beginning that two texts share."""
    low, high = 0, min(len(first), len(second))
    while low < high:  # by halves, as contexts have megabytes
        middle = (low + high + 1) // 2
        low, high = (middle, high) if first.startswith(second[:middle]) else (low, middle - 1)
    return first[:low]


def _joined(prompt: Any, completion: Any) -> list[dict[str, Any]]:
    """Return a prompt and its completion as messages: texts, or lists of messages; no turn of a prompt is learned.

    Raises:
        TemplateError: they are neither.
    """
    if isinstance(prompt, str) and isinstance(completion, str):
        return [{"role": "user", "content": prompt}, {"role": "assistant", "content": completion}]
    lists = isinstance(prompt, list) and isinstance(completion, list)
    if not (lists and all(isinstance(message, dict) for message in (*prompt, *completion))):
        raise TemplateError("prompt and completion of a row are neither texts nor lists of messages")
    return [
        *(message | {"weight": 0} if message.get("role") == "assistant" else message for message in prompt),
        *completion,
    ]


def _is_learned(message: dict[str, Any]) -> bool:
    """Return whether the weight of the model's message, 0 or 1, says that it is learned.

    Raises:
        TemplateError: the weight is another.
    """
    weight = message.get("weight")
    if weight not in (None, 0, 1):
        raise TemplateError(f"a message of the assistant has the weight {weight!r}, wanted 0 or 1")
    return weight is None or bool(weight)


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
