"""Descriptions of the messages of a conversation, for errors and hints."""

from __future__ import annotations

from typing import Any

SPEAKERS = (
    *("system", "human", "user", "gpt", "chatgpt", "bing", "bard", "model", "assistant"),
    *("function_call", "tool", "function", "observation", "function_response", "developer", "ai", "ipython"),
)
"""Whom a message of ShareGPT can be from."""

ANSWERERS = ("assistant", "gpt", "chatgpt", "bing", "bard", "model", "ai")
"""Speakers that are the assistant."""

KEYS = 16
"""Maximum keys of an invalid message in an error."""

TEXTS = ("text", "input_text", "output_text")
"""The types of parts that are texts."""

MESSAGES_SHOWN = 40
"""Maximum characters of a foreign name in an error."""


def is_conversation(value: object) -> bool:
    """Return whether a value is a list of messages, at least one from the assistant."""
    return isinstance(value, list) and not any(map(wrong, value)) and any(map(_is_answer, value))


def _is_answer(message: dict[str, Any]) -> bool:
    return message["role"].lower() in ANSWERERS if "role" in message else message["from"].lower() in ANSWERERS


def wrong(message: object) -> str | None:
    """Return the defect of a message; None if it is valid."""
    if not isinstance(message, dict):
        return "is not an object"
    if "role" not in message and {"from", "value"} <= message.keys():
        return _misspoken(message["from"], message["value"])
    if not isinstance(message.get("role", ""), str):
        return "has a role that is not text"
    if "role" not in message:
        return f"has no role; it holds {', '.join([*message][:KEYS])}"
    if "content" not in message and "parts" in message:
        return None if _is_content(message["parts"]) else "has parts that are not texts"
    if not _is_content(message.get("content")):
        return "has a content that is neither a text nor parts of text"
    silent = not any(message.get(key) for key in ("content", "tool_calls", "function_call"))
    return f"has no content; it holds {', '.join([*message][:KEYS])}" if silent else None


def _misspoken(speaker: object, value: object) -> str | None:
    """Return the defect of a ShareGPT message; None if it is valid."""
    if not isinstance(speaker, str):
        return "is from what is not text"
    if speaker.lower() not in SPEAKERS:
        return f"is from {speaker[:MESSAGES_SHOWN]!r}, who is none of {', '.join(SPEAKERS)}"
    if speaker.lower() == "function_call" or _is_content(value):
        return None
    return "has a value that is neither a text nor parts of text"


def _is_content(content: object) -> bool:
    parts = content if isinstance(content, list) else []
    return isinstance(content, str | list | None) and all(_is_text(part) for part in parts)


def _is_text(part: object) -> bool:
    return isinstance(part, dict) and part.get("type", "text") in TEXTS and isinstance(part.get("text"), str)
