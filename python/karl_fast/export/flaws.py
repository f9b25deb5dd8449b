"""What is wrong with rows that cannot be written, for errors and warnings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karl_fast.log.keys import at, held

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MESSAGE = "a message is an object with a role (or from), and its content (or value) a text or parts of text"
"""What a bad message is not, unless its tool calls are none."""


SPEAKERS = (
    *("system", "human", "user", "gpt", "chatgpt", "bing", "bard", "model", "assistant"),
    *("function_call", "tool", "function", "observation", "function_response", "developer", "ai", "ipython"),
)
"""Whom a message of ShareGPT can be from."""

TEXTS = ("text", "input_text", "output_text")
"""The types of parts that are texts."""

SHOWN = 40
"""How much of anybody else's name an error shows."""


def messages_from(files: Sequence[Mapping[str, Any]]) -> str:
    """The path that conversations of all files are at; nothing where they differ, or a format makes them of others."""
    paths = {str(dict(file["fields"]).get("messages", "")) for file in files}
    return paths.pop() if len(paths) == 1 else ""


def misread(path: str) -> str:
    """What an error with bad messages hints at."""
    return MESSAGE + ("; --messages names another path" if path else "")


def bad_message(record: Mapping[str, Any], path: str) -> str:
    """`; in one record message 2 of turns has no role; it holds from, value`; nothing where all seems well."""
    messages = at(record, path) if path else None
    if messages is None:
        return ""
    if not isinstance(messages, list):
        return f"; in one record {path} is no list of messages"
    wrong = ((number, _wrong(message)) for number, message in enumerate(messages, 1))
    return next((f"; in one record message {number} of {path} {why}" for number, why in wrong if why), "")


def _wrong(message: object) -> str | None:
    if not isinstance(message, dict):
        return "is no object"
    if "role" not in message and {"from", "value"} <= message.keys():
        return _misspoken(message["from"], message["value"])
    if not isinstance(message.get("role", ""), str):
        return "has a role that is no text"
    if "role" not in message:
        return f"has no role{held([*message], 'it', 'holds')}"
    if not _is_content(message.get("content")):
        return "has a content that is neither a text nor parts of text"
    silent = not any(message.get(key) for key in ("content", "tool_calls", "function_call"))
    return f"has no content{held([*message], 'it', 'holds')}" if silent else None


def _misspoken(speaker: object, value: object) -> str | None:
    """What is wrong with a message of ShareGPT."""
    if not isinstance(speaker, str):
        return "is from what is no text"
    if speaker.lower() not in SPEAKERS:
        return f"is from {speaker[:SHOWN]!r}, who is none of {', '.join(SPEAKERS)}"
    if speaker.lower() == "function_call" or _is_content(value):
        return None
    return "has a value that is neither a text nor parts of text"


def _is_content(content: object) -> bool:
    parts = content if isinstance(content, list) else []
    return isinstance(content, str | list | None) and all(_is_text(part) for part in parts)


def _is_text(part: object) -> bool:
    return isinstance(part, dict) and part.get("type", "text") in TEXTS and isinstance(part.get("text"), str)
