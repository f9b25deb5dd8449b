"""Descriptions of rows that cannot be written, for errors and warnings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karl_fast._safe_text import counted
from karl_fast.log.field_hints import at
from karl_fast.log.message_hints import wrong

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MESSAGE = "a message is an object with a role (or from), and its content (or value) a text or parts of text"
"""Expected form of a message, for all defects except tool calls."""


def messages_from(files: Sequence[Mapping[str, Any]]) -> str:
    """Return the path of conversations, if it is one for all files; empty if not, or if a format converts them."""
    paths = {str(dict(file["fields"]).get("messages", "")) for file in files}
    return paths.pop() if len(paths) == 1 else ""


def describe_media(media: Mapping[str, int]) -> Iterator[str]:
    """Yield a sentence for each kind of media beside the conversations of rows."""
    for kind, rows in media.items():
        yield f"{counted(rows, 'row has', 'rows have')} {kind} beside the conversation, and only text is learned"


def misread_hint(path: str) -> str:
    """Return the hint of an error about bad messages."""
    return MESSAGE + ("; --messages names another path" if path else "")


def bad_message_text(record: Mapping[str, Any], path: str) -> str:
    """Return `; in one record message 2 of turns has no role; it holds from, value`; empty if no defect is found."""
    messages = at(record, path) if path else None
    if messages is None:
        return ""
    if not isinstance(messages, list):
        return f"; in one record {path} is not a list of messages"
    found = ((number, wrong(message)) for number, message in enumerate(messages, 1))
    return next((f"; in one record message {number} of {path} {why}" for number, why in found if why), "")
