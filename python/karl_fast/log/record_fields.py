"""Fields of records: the paths of their values, which values fit a field, and the key most likely meant by a name.

A path joins keys by dots, and a dot inside a key is escaped: ``task.id`` leads to 7 in ``{"task": {"id": 7}}``. Errors,
hints and warnings look at the first 64 KiB of records; nothing here decides what is drawn.
"""

from __future__ import annotations

import functools
import json
import re
from itertools import islice
from typing import TYPE_CHECKING, Any

from karl_fast import _core
from karl_fast._suggest import MOST, nearest
from karl_fast.errors import KarlError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from karl_fast.log import Log

SEARCH_BYTES = 64 << 10
"""Maximum bytes of records that are searched for fields."""


def records(log: Log, size: int = SEARCH_BYTES) -> list[dict[str, Any]]:
    """Return the intact records of a log with the least ids; empty for a stream that was read."""
    if log.core.streamed is not None:
        return []
    try:
        answers = _core.answered(log.core, 0, size, log.settings.threads)
    except KarlError:  # the file has changed, which another error reports
        return []
    # Python limits int-to-str conversion to 4,300 digits.
    return [json.loads(answer, parse_int=float)[2] for answer in answers if answer]


def first_record(log: Log) -> dict[str, Any]:
    """Return the intact record with the least id; empty if there is none."""
    return next(iter(records(log, 1)), {})


def first_keys(files: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the keys of a record of the first file that has one."""
    return next((list(file["keys"]) for file in files if file["keys"]), [])


def list_keys(keys: Sequence[str], what: str = "the records", verb: str = "hold") -> str:
    """Return `; the records hold id, task`; empty without keys."""
    more = [f"and {len(keys) - KEYS_SHOWN} more"] if len(keys) > KEYS_SHOWN else []
    return f"; {what} {verb} {', '.join([*map(shorten_key, keys[:KEYS_SHOWN]), *more])}" if keys else ""


KEYS_SHOWN = 16
"""Maximum keys of a record in an error."""


def shorten_key(key: str) -> str:
    """Return the beginning of a long key: a text may stand where a name should."""
    return key if len(key) <= LONGEST_KEY else f"{key[:LONGEST_KEY]}..."


LONGEST_KEY = 60
"""Characters of a key that are shown."""


def paths(value: Mapping[str, Any], fits: Callable[[object], bool] = lambda _: True, above: str = "") -> Iterator[str]:
    """Yield the path of every valid value in a record, nested objects included."""
    for key, inside in value.items():
        path = above + key.replace(".", r"\.")
        if key and fits(inside):
            yield path
        if key and isinstance(inside, dict):
            yield from paths(inside, fits, f"{path}.")


def value_at(value: Any, path: str) -> Any:
    """Return the value at a path in a record; None if there is none."""
    for part in path_parts(path):
        value = value.get(part.replace(r"\.", ".")) if isinstance(value, dict) else None
    return value


def top_key(path: str) -> str:
    """Return the first key of a path."""
    return path_parts(path)[0].replace(r"\.", ".")


def holder(value: Mapping[str, Any], path: str) -> tuple[str, list[str]] | None:
    """Return path and keys of the object in a record that lacks the rest of a path; None if there is none."""
    passed: list[str] = []
    for part in path_parts(path):
        key = part.replace(r"\.", ".")
        if key not in value:
            return (".".join(passed), list(value)) if passed else None
        passed, value = [*passed, part], value[key]
        if not isinstance(value, dict):
            return None
    return None


@functools.cache  # audit looks up the same few paths in every record
def path_parts(path: str) -> list[str]:
    """Split a path into keys; a dot inside a key is escaped by a backslash. `[]` is left out: rows have an element."""
    return re.split(r"(?<!\\)\.", re.sub(r"\[\](?=\.|$)", "", path))


NAMES = {
    "group": ("group", "group_id", "task_id", "task", "problem_id", "prompt_id", "instance_id", "question_id"),
    "reward": ("reward", "score", "rewards", "return", "outcome", "resolved", "success"),
    "messages": (
        *("messages", "conversation", "conversations", "turns"),
        *("chat", "dialogue", "history", "trajectory", "traj", "contents"),
    ),
    "responses": ("responses", "completions", "outputs", "generations", "answers", "samples"),
    "response": ("completion", "response", "output", "generation", "answer", "text"),
}
"""Names that tools use for each field, the most common first."""

NESTED_SUFFIXES = {"group": ("", ".id", ".name")}
"""Suffixes after the name of a field that is an object with a name of its own."""


def likeliest_key(field: str, keys: Iterable[str], asked: str | None = None) -> str | None:
    """Return the key that was most likely meant: one nearly of the name that was asked for, or of that of the field.

    A usual name of the field counts only if no name was asked for.
    """
    others = [key for key in islice(keys, MOST) if key != (field if asked is None else asked)]
    if near := nearest(field if asked is None else asked, _similar_keys(field, others, asked)):
        return near[0]
    if asked is not None:
        return None
    usual = [name + more for more in NESTED_SUFFIXES.get(field, ("",)) for name in NAMES.get(field, ())]
    inside = (path for name in usual for path in others if path.endswith(f".{name}"))
    return next((name for name in usual if name in others), None) or next(inside, None)


def _similar_keys(field: str, keys: Sequence[str], asked: str | None) -> Sequence[str]:
    """Return the keys that may be a slip of what was asked for; `reward_std` is not one of `reward`."""
    return keys if asked is not None else [key for key in keys if not key.startswith(f"{field}_")]


def fitting_paths(some: Sequence[Mapping[str, Any]], field: str) -> Iterator[str]:
    """Yield the paths at which any record has a valid value of a field, nested objects included."""
    fits = CHECKS.get(field, _is_name)
    fitting = dict.fromkeys(path for record in some for path in paths(record, fits))
    return (path for path in fitting if not SPECIAL_CHARACTERS & {*path})


SPECIAL_CHARACTERS = {*",=()|"}
"""Characters with a special meaning in options that take a path."""


def is_reward(value: object) -> bool:
    """Return whether a value is a valid reward."""
    return isinstance(value, bool | int | float) and abs(value) <= LARGEST_REWARD


LARGEST_REWARD = 1e100
"""The largest reward, in size, that counts."""


def _is_name(value: object) -> bool:
    return isinstance(value, str | bool | int | float)


def is_conversation(value: object) -> bool:
    """Return whether a value is a list of messages, at least one from the assistant."""
    return isinstance(value, list) and not any(map(message_defect, value)) and any(map(_is_answer, value))


CHECKS = {"reward": is_reward, "messages": is_conversation}
"""Check of the value of a field, by name."""


def _is_answer(message: dict[str, Any]) -> bool:
    return message["role"].lower() in ANSWERERS if "role" in message else message["from"].lower() in ANSWERERS


def message_defect(message: object) -> str | None:
    """Return the defect of a message; None if it is valid."""
    if not isinstance(message, dict):
        return "is not an object"
    if "role" not in message and {"from", "value"} <= message.keys():
        return _sharegpt_defect(message["from"], message["value"])
    if not isinstance(message.get("role", ""), str):
        return "has a role that is not text"
    if "role" not in message:
        return f"has no role; it holds {', '.join([*message][:MESSAGE_KEYS_SHOWN])}"
    if "content" not in message and "parts" in message:
        return None if _is_content(message["parts"]) else "has parts that are not texts"
    if not _is_content(message.get("content")):
        return "has a content that is neither a text nor parts of text"
    silent = not any(message.get(key) for key in ("content", "tool_calls", "function_call"))
    return f"has no content; it holds {', '.join([*message][:MESSAGE_KEYS_SHOWN])}" if silent else None


def _sharegpt_defect(speaker: object, value: object) -> str | None:
    """Return the defect of a ShareGPT message; None if it is valid."""
    if not isinstance(speaker, str):
        return "is from what is not text"
    if speaker.lower() not in SPEAKERS:
        return f"is from {speaker[:SPEAKER_LENGTH]!r}, who is none of {', '.join(SPEAKERS)}"
    if speaker.lower() == "function_call" or _is_content(value):
        return None
    return "has a value that is neither a text nor parts of text"


def _is_content(content: object) -> bool:
    parts = content if isinstance(content, list) else []
    return isinstance(content, str | list | None) and all(_is_text(part) for part in parts)


def _is_text(part: object) -> bool:
    return isinstance(part, dict) and part.get("type", "text") in TEXTS and isinstance(part.get("text"), str)


SPEAKERS = (
    *("system", "human", "user", "gpt", "chatgpt", "bing", "bard", "model", "assistant"),
    *("function_call", "tool", "function", "observation", "function_response", "developer", "ai", "ipython"),
)
"""Whom a message of ShareGPT can be from."""

ANSWERERS = ("assistant", "gpt", "chatgpt", "bing", "bard", "model", "ai")
"""Speakers that are the assistant."""

TEXTS = ("text", "input_text", "output_text")
"""The types of parts that are texts."""

MESSAGE_KEYS_SHOWN = 16
"""Maximum keys of an invalid message in an error."""

SPEAKER_LENGTH = 40
"""Maximum characters of a foreign name in an error."""
