"""Messages in the form that a chat template takes: arguments of calls, names of thoughts, calls written as text.

Templates differ in what they take. Some want the arguments of a call as an object, some as text; some have one call in
a message, some none, and leave calls or results out without an error. So each row is rendered once with marks in the
place of its words. A form counts where every mark is in the rendering. Where no form of the template's own shows the
calls and results of a row, they are written as text:

```text
assistant   <tool_call>                                       user   <tool_response>
            {"name": "ls", "arguments": {"path": "/"}}               a.txt
            </tool_call>                                             </tool_response>
```

The results are turns of the user, joined with the user's words beside them, as many templates take no two turns of one
role in a row. The definitions of tools stand, one a line between ``<tools>`` and ``</tools>``, behind the system
prompt, or before the words of the first user where there is none.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from karl_fast.errors import TemplateError
from karl_fast.reward.validate import show_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from karl_fast.settings.schema import ToolFormat

    Message = dict[str, Any]

THOUGHTS = ("reasoning_content", "thinking", "reasoning")
"""Names that templates have for thoughts; rows have the same."""

CALLS_AS_TEXT = "# Tools\n\n<tools>\n{tools}\n</tools>\n\nA call is written as {example}"

EXAMPLE = '<tool_call>\n{"name": ..., "arguments": {...}}\n</tool_call>'

ROW = "the chat template cannot take a row: "
"""The beginning of an error that a template raised."""


@dataclass(frozen=True)
class Form:
    """A conversation as a template takes it.

    Attributes:
        messages: the messages.
        tools: definitions of tools; None where there are none, or they stand in a message.
        text: the rendering of the whole.
        calls_as_text: True if calls and results are written as text.
        tools_as_text: True if the definitions of tools are.
        thoughtless: turns whose thoughts the template leaves out.
    """

    messages: list[Message]
    tools: Any
    text: str
    calls_as_text: bool = False
    tools_as_text: bool = False
    thoughtless: int = 0


class ChatTemplate:
    """The chat template of a tokenizer."""

    def __init__(self, tokenizer: Any) -> None:
        """Take a tokenizer of transformers, or mlx-lm's around one."""
        self.tokenizer = tokenizer if callable(tokenizer) else tokenizer._tokenizer

    @property
    def source(self) -> str:
        """The text of the template."""
        return str(getattr(self.tokenizer, "chat_template", None) or "")

    def render(self, messages: list[Message], tools: Any = None, **options: Any) -> str:
        """Return the text of messages.

        Raises:
            TemplateError: the template raised anything.
        """
        if self._wants_parts:
            messages = [_in_parts(message) for message in messages]
        try:
            return str(self.tokenizer.apply_chat_template(messages, tools=tools, tokenize=False, **options))
        except Exception as error:  # jinja2's errors, and what the expressions of a template raise in Python
            raise TemplateError(f"{ROW}{_first_line(error)}") from error

    @cached_property
    def _wants_parts(self) -> bool:
        """True if the template shows content as a list of parts, and not as text: those of models that see images."""
        message: Message = {"role": "user", "content": "karlx"}
        return not self._shows(message) and self._shows(_in_parts(message))

    def _shows(self, message: Message) -> bool:
        try:
            return "karlx" in str(self.tokenizer.apply_chat_template([message], tokenize=False))
        except Exception:  # as in `render`
            return False

    def form(self, messages: Any, tools: Any = None, tool_format: ToolFormat = "auto") -> Form:
        """Return the first form of a conversation that the template renders whole.

        Raises:
            TemplateError: there is none, with the template's own message where it has one.
        """
        if not (isinstance(messages, list) and all(isinstance(message, dict) for message in messages)):
            raise TemplateError("the messages of a row are not a list of objects")
        plain, tools = [self._normalise(message) for message in messages], _normalise_tools(tools)
        calls = has_calls(plain)
        first_error: TemplateError | None = None
        for change in () if tool_format == "text" and calls else self._variants(plain):
            try:
                return self._render_whole(change(plain), tools, may_write_tools=tool_format != "template")
            except TemplateError as error:
                first_error = first_error or error
        if first_error is not None and (tool_format == "template" or not calls):
            raise first_error
        return self._as_text(plain, tools)

    def _as_text(self, messages: list[Message], tools: Any) -> Form:
        """Return a conversation with its calls, results and tools as text."""
        written = _with_tools_as_text(calls_as_text(messages), tools)
        form = self._render_whole(written, None, may_write_tools=False)
        return Form(form.messages, None, form.text, True, tools is not None, form.thoughtless)

    def _variants(self, messages: list[Message]) -> Iterator[Callable[[list[Message]], list[Message]]]:
        """Yield changes of messages to try: none first, then those that some templates want."""
        yield lambda some: some
        if any(message.get("tool_calls") for message in messages):
            yield _with_text_arguments
            if self._thoughts:
                yield self._with_thoughts_joined
            yield _with_short_ids
        if any(message["role"] == "developer" for message in messages):
            yield lambda some: [
                message | {"role": "system"} if message["role"] == "developer" else message for message in some
            ]

    def _render_whole(self, messages: list[Message], tools: Any, *, may_write_tools: bool) -> Form:
        """Return the form of messages.

        Raises:
            TemplateError: the template raises, or leaves a part of a message out.
        """
        marked, marks = _mark_messages(messages, self._thoughts)
        marked_tools, names = _mark_tools(tools)
        text = self.render(marked, marked_tools)
        if any(name not in text for name in names):
            if not may_write_tools:
                raise TemplateError("the chat template leaves out the definitions of tools")
            form = self._render_whole(_with_tools_as_text(messages, tools), None, may_write_tools=False)
            return Form(form.messages, None, form.text, False, True, form.thoughtless)
        missing = self._missing_marks([mark for mark in marks if mark.text not in text], marked, marked_tools)
        if what := next((mark.what for mark in missing if mark.what != "thoughts"), None):
            raise TemplateError(f"the chat template leaves out {what}")
        thoughtless = {mark.at for mark in missing} | self._unread_thoughts(messages)
        return Form(messages, tools, self.render(messages, tools), thoughtless=len(thoughtless))

    def _missing_marks(self, absent: list[_Mark], messages: list[Message], tools: Any) -> list[_Mark]:
        """Return the marks that a template shows nowhere, up to the first that is not of thoughts.

        A turn may be whole only while it is the last, and a system prompt may stand before the last user alone
        (Mistral). So marks are looked for in a rendering that the turn ends, and in one that calls for the next turn.
        """
        missing, texts = [], {}
        for mark in absent:
            at = mark.at + 1 if mark.own else self._next_turn(messages, mark.at)
            if at not in texts:
                texts[at] = self._render_or_empty(messages[:at], tools, add_generation_prompt=not mark.own)
            if mark.text not in texts[at]:
                missing.append(mark)
                if mark.what != "thoughts":
                    break
        return missing

    def _next_turn(self, messages: list[Message], at: int) -> int:
        """Return the index of the next turn of the assistant."""
        turns = (turn for turn in range(at, len(messages)) if messages[turn]["role"] == "assistant")
        return next(turns, len(messages))

    def _render_or_empty(self, messages: list[Message], tools: Any, **options: Any) -> str:
        try:
            return self.render(messages, tools, **options)
        except TemplateError:
            return ""

    def _unread_thoughts(self, messages: list[Message]) -> set[int]:
        """Return the indices of turns with thoughts beside their content, if the template reads none."""
        return set() if self._thoughts else {at for at, message in enumerate(messages) if thoughts_of(message)}

    @cached_property
    def _thoughts(self) -> str | None:
        """The name by which the template reads thoughts; None if it does not."""
        return next((name for name in THOUGHTS if re.search(rf"[.'\"]{name}\b", self.source)), None)

    def _normalise(self, message: Message) -> Message:
        """Return a message with text content and calls in one form.

        Raises:
            TemplateError: the role is not a text, or the content has parts other than text.
        """
        readable = {key: value for key, value in message.items() if key not in (*THOUGHTS, "tool_calls", "content")}
        calls = message.get("tool_calls") or []
        readable["content"] = _content(message)
        if not isinstance(message.get("role"), str):
            raise TemplateError(f"a message has the role {show_value(message.get('role'))}, wanted a text")
        if calls:
            readable["tool_calls"] = (
                [_normalise_call(call) for call in calls] if isinstance(calls, list) else [_normalise_call(calls)]
            )
        if thoughts := thoughts_of(message):
            readable[self._thoughts or THOUGHTS[0]] = thoughts
        return readable

    def _with_thoughts_joined(self, messages: list[Message]) -> list[Message]:
        """Return messages with the text beside a call put behind the thoughts: gpt-oss takes one of the two."""
        key = self._thoughts or THOUGHTS[0]
        return [
            message | {key: f"{message[key]}\n\n{message['content']}", "content": ""}
            if message.get("tool_calls") and message.get(key) and message["content"]
            else message
            for message in messages
        ]


def _in_parts(message: Message) -> Message:
    return message | {"content": [{"type": "text", "text": message["content"]}]}


def has_calls(messages: list[Message]) -> bool:
    """Return whether messages have calls of tools or results in them."""
    return any(message.get("tool_calls") or message["role"] == "tool" for message in messages)


def thoughts_of(message: Message) -> str:
    """Return the thoughts of a message; an empty text without any."""
    texts = (message.get(name) for name in THOUGHTS)
    return next((text for text in texts if isinstance(text, str) and text.strip()), "")


def calls_as_text(messages: list[Message]) -> list[Message]:
    """Return messages with calls and results written as text; results are turns of the user, joined with its words."""
    written: list[Message] = []
    after_result = False
    for message in messages:
        is_result = message["role"] == "tool"
        turn = _result_to_text(message) if is_result else _calls_to_text(message)
        if written and turn["role"] == written[-1]["role"] == "user" and (is_result or after_result):
            between = "\n" if is_result and after_result else "\n\n"
            written[-1] = written[-1] | {"content": f"{written[-1]['content']}{between}{turn['content']}"}
        else:
            written.append(turn)
        after_result = is_result
    return written


def _calls_to_text(message: Message) -> Message:
    calls = message.get("tool_calls") or []
    texts = [message["content"]] if message["content"].strip() or not calls else []
    for call in calls:
        values = {"name": call["function"].get("name"), "arguments": call["function"]["arguments"]}
        texts.append(f"<tool_call>\n{json.dumps(values, ensure_ascii=False)}\n</tool_call>")
    return {key: value for key, value in message.items() if key != "tool_calls"} | {"content": "\n".join(texts)}


def _result_to_text(message: Message) -> Message:
    return {"role": "user", "content": f"<tool_response>\n{message['content']}\n</tool_response>"}


def _with_tools_as_text(messages: list[Message], tools: Any) -> list[Message]:
    """Return messages with the definitions of tools in the first of the system, or of the user."""
    if not tools:
        return messages
    lines = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
    text = CALLS_AS_TEXT.format(tools=lines, example=EXAMPLE)
    if messages and messages[0]["role"] in ("system", "developer"):
        return [messages[0] | {"content": f"{messages[0]['content']}\n\n{text}"}, *messages[1:]]
    at = next((at for at, message in enumerate(messages) if message["role"] == "user"), None)
    if at is None:
        return [{"role": "system", "content": text}, *messages]
    return [*messages[:at], messages[at] | {"content": f"{text}\n\n{messages[at]['content']}"}, *messages[at + 1 :]]


def _content(message: Message) -> str:
    """Return the content of a message as text: templates render other values in Python syntax.

    Raises:
        TemplateError: it has parts other than text.
    """
    content = message.get("content")
    if isinstance(content, str):
        return content
    if content is None and (message.get("tool_calls") or (message.get("role") == "assistant" and thoughts_of(message))):
        return ""
    parts = content if isinstance(content, list) else [content]
    texts = [part["text"] for part in parts if isinstance(part, dict) and _is_text(part)]
    if not isinstance(content, list) or len(texts) < len(parts):
        raise TemplateError(f"a message has the content {show_value(content)}, wanted a text or parts of the type text")
    return "".join(texts)


def _is_text(part: dict[str, Any]) -> bool:
    """Return whether a part of a message's content is text."""
    return part.get("type") == "text" and isinstance(part.get("text"), str)


def _normalise_call(call: Any) -> dict[str, Any]:
    """Return a call with its arguments as an object, if they are one or the JSON text of one.

    Raises:
        TemplateError: it is not an object.
    """
    function = call.get("function", call) if isinstance(call, dict) else None
    if not isinstance(function, dict):
        raise TemplateError(f"a message has the call {show_value(call)}, wanted an object with a function")
    read = {key: value for key, value in function.items() if key in ("name", "arguments", "description")}
    read["arguments"] = _parse_arguments(function.get("arguments"))
    about = {} if function is call else {key: value for key, value in call.items() if key != "function"}
    identity = {"id": call["id"]} if function is call and "id" in call else {}
    return {"type": "function", **about, **identity, "function": read}


def _normalise_tools(value: Any) -> list[Any] | None:
    """Return definitions of tools in the form that templates know; None without any.

    Raises:
        TemplateError: they are not a list of objects with names, nor the JSON text of one.
    """
    if isinstance(value, str) and value.strip():
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise TemplateError(f"the tools of a row are {show_value(value)}, wanted a list of objects") from None
    if not value:
        return None
    if not isinstance(value, list):
        raise TemplateError(f"the tools of a row are {show_value(value)}, wanted a list of objects")
    return [_normalise_tool(tool) for tool in value]


def _normalise_tool(value: Any) -> Any:
    """Return a definition of a tool with its function in an object of its own."""
    function = value.get("function", value) if isinstance(value, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise TemplateError(f"a tool of a row is {show_value(value)}, wanted an object with a name")
    return value if function is not value else {"type": "function", "function": value}


def _parse_arguments(value: Any) -> Any:
    if value is None or (isinstance(value, str) and not value.strip()):
        return {}
    if not isinstance(value, str):
        return value
    try:
        read = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return read if isinstance(read, dict) else value


def _with_text_arguments(messages: list[Message]) -> list[Message]:
    """Return messages with the arguments of calls as JSON text: DeepSeek's templates put them together with texts."""

    def text(call: dict[str, Any]) -> dict[str, Any]:
        value = call["function"]["arguments"]
        value = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return call | {"function": call["function"] | {"arguments": value}}

    return [
        message | {"tool_calls": [text(call) for call in message["tool_calls"]]} if "tool_calls" in message else message
        for message in messages
    ]


def _with_short_ids(messages: list[Message]) -> list[Message]:
    """Return messages with ids of nine letters and digits: Mistral's templates raise at others."""

    def short(value: Any) -> str:
        return hashlib.blake2b(str(value).encode("utf-8", "replace"), digest_size=5).hexdigest()[:9]

    changed = []
    for message in messages:
        calls = [call | {"id": short(call.get("id"))} for call in message.get("tool_calls", [])]
        answers = {"tool_call_id": short(message["tool_call_id"])} if "tool_call_id" in message else {}
        changed.append(message | answers | ({"tool_calls": calls} if calls else {}))
    return changed


@dataclass(frozen=True)
class _Mark:
    """A mark in the place of a text: its message, what the text is, and whether it is of a turn of the model."""

    text: str
    at: int
    what: str
    own: bool


def _mark_messages(messages: list[Message], thoughts: str | None) -> tuple[list[Message], list[_Mark]]:
    """Return messages with marks in place of their texts, and the marks."""
    marks: list[_Mark] = []

    def mark(at: int, what: str) -> str:
        marks.append(_Mark(f"karl{len(marks)}x", at, what, messages[at]["role"] == "assistant"))
        return marks[-1].text

    marked = []
    for at, message in enumerate(messages):
        copy = dict(message)
        if message["content"].strip():
            copy["content"] = _mark_content(message, partial(mark, at))
        if thoughts in message and thoughts is not None:
            copy[thoughts] = mark(at, "thoughts")
        if calls := message.get("tool_calls"):
            copy["tool_calls"] = [_mark_call(call, partial(mark, at, "calls of tools")) for call in calls]
        marked.append(copy)
    return marked, marks


def _mark_content(message: Message, mark: Callable[[str], str]) -> str:
    """Return the content of a message with marks; what a turn has up to its last ``</think>`` is its thoughts.

    Many templates cut content there, and some (DeepSeek V3) do not show what they cut.
    """
    thoughts, closed, words = message["content"].rpartition("</think>")
    if not closed or message["role"] != "assistant":
        return mark(_content_name(message))
    what = "thoughts" if words.strip() or not message.get("tool_calls") else _content_name(message)
    parts = re.split("(</?think>)", thoughts)
    marked = [part if part in ("<think>", "</think>") or not part.strip() else mark(what) for part in parts]
    return "".join([*marked, closed, mark(_content_name(message)) if words.strip() else words])


def _content_name(message: Message) -> str:
    """Return what the content of a message is, in words."""
    if message.get("tool_calls"):
        return "the text beside a call"
    return "results of tools" if message["role"] == "tool" else f"a message of the role {message['role']}"


def _mark_call(call: dict[str, Any], mark: Callable[[], str]) -> dict[str, Any]:
    value, marked = call["function"]["arguments"], {"name": mark()}
    if isinstance(value, dict):
        return call | {"function": marked | {"arguments": {mark(): mark()} if value else {}}}
    return call | {
        "function": marked | {"arguments": json.dumps({mark(): mark()}) if isinstance(value, str) else value}
    }


def _mark_tools(tools: list[Any] | None) -> tuple[list[Any] | None, list[str]]:
    """Return definitions of tools with marks for names, and the marks."""
    if tools is None:
        return None, []
    names = [f"karltool{at}x" for at in range(len(tools))]
    marked = [tool | {"function": tool["function"] | {"name": name}} for tool, name in zip(tools, names, strict=True)]
    return marked, names


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0][:200] or type(error).__name__
