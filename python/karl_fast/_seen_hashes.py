"""Hashes of the prompts and groups that a run learned from or chose on, kept in its folder.

```text
seen-hashes.txt      prompt 5f0c...     a line each, sorted; 16 bytes as hexadecimal digits
                     group 90ab...
```

A prompt is what the user says before the first answer, white space aside: a system prompt or a greeting that differs
does not hide it. As in splits, messages are compared by role and text: ids, times and parts of text make no
difference. Groups named by a bare number are left out: a row number means nothing outside of its log.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from karl_fast import _atomic
from karl_fast.errors import DataSetError, FileError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

FILE = "seen-hashes.txt"

BYTES = 16
"""Size of a hash: BLAKE2b of 128 bits."""

KINDS = ("group", "prompt")

ROLES = {"human": "user", "gpt": "assistant", "model": "assistant", "ai": "assistant", "function": "tool"}
"""Roles of other producers."""


@dataclass(frozen=True)
class Seen:
    """Hashes of prompts and groups."""

    prompts: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    def __or__(self, other: Seen) -> Seen:
        return Seen(self.prompts | other.prompts, self.groups | other.groups)

    def __and__(self, other: Seen) -> Seen:
        return Seen(self.prompts & other.prompts, self.groups & other.groups)

    def __bool__(self) -> bool:
        return bool(self.prompts or self.groups)


def prompt_hash(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the hash of a prompt: the user's messages before the first answer, or all of them if none is a user's."""
    roles = [ROLES.get(role := str(message.get("role", message.get("from"))).lower(), role) for message in messages]
    asked = next((at for at, role in enumerate(roles) if role in ("user", "tool")), 0)
    answers = (at for at in range(asked, len(roles)) if roles[at] == "assistant" and messages[at].get("weight") != 0)
    before = range(next(answers, len(roles)))
    user_turns = [at for at in before if roles[at] == "user"] or before
    return _hash("\n".join(text_of(messages[at].get("content", messages[at].get("value"))) for at in user_turns))


def group_hash(name: object) -> str | None:
    """Return the hash of the name of a group; None for no name, and for a bare number."""
    text = "" if name is None else str(name)
    return None if not text or text.isdecimal() else _hash(text)


def text_of(content: Any) -> str:
    """Return the text of a message's content, parts of text joined as in a row; parts that are not text as JSON."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(
            part["text"] if isinstance(part, dict) and isinstance(part.get("text"), str) else _json(part)
            for part in content
        )
    return _json(content)


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _hash(text: str) -> str:
    import hashlib  # a data set is made without

    plain = " ".join(text.split()).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(plain, digest_size=BYTES).hexdigest()


def hash_prompts(prompts: Iterable[Sequence[Mapping[str, Any]]], groups: Iterable[object] = ()) -> Seen:
    """Return the hashes of prompts and of names of groups."""
    named = (group_hash(name) for name in groups)
    return Seen(frozenset(map(prompt_hash, prompts)), frozenset(name for name in named if name is not None))


def hash_rows(rows: Iterable[Mapping[str, Any]]) -> Seen:
    """Return the hashes of rows: of a data set, of a log of trajectories, or of a file of prompts."""
    held = list(rows)
    stamps = [row["karl_fast"] if isinstance(row.get("karl_fast"), dict) else row for row in held]
    return hash_prompts(map(messages_of, held), (stamp.get("group") for stamp in stamps))


def messages_of(row: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the messages of a row; the text of one that has none as a user's message."""
    for name in ("messages", "prompt", "text"):
        value = row.get(name)
        if isinstance(value, list) and all(isinstance(item, dict) for item in value):
            return value
        if isinstance(value, str):
            return [{"role": "user", "content": value}]
    return [{"role": "user", "content": _json(dict(row))}]


def write_seen(folder: Path, seen: Seen) -> None:
    """Write the hashes into a folder, whole or not at all."""
    lines = [f"group {digest}\n" for digest in sorted(seen.groups)] + [
        f"prompt {digest}\n" for digest in sorted(seen.prompts)
    ]
    _atomic.write_file(folder / FILE, lambda file: file.write("".join(lines).encode()))


def read_seen(folder: Path) -> Seen | None:
    """Read the hashes of a folder; None if it has none.

    Raises:
        FileError: the file cannot be read.
        DataSetError: a line is not a hash.
    """
    file = folder / FILE
    try:
        text = file.read_text("ascii")
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise DataSetError(f"{file} is damaged: it is not ASCII") from error
    except OSError as error:
        raise FileError(f"cannot read {file}: {error.strerror}", error.errno, str(file)) from error
    hashes: dict[str, set[str]] = {kind: set() for kind in KINDS}
    for number, line in enumerate(text.splitlines(), 1):
        kind, _, digits = line.partition(" ")
        if kind not in KINDS or len(digits) != 2 * BYTES or not set(digits) <= set("0123456789abcdef"):
            raise DataSetError(
                f"{file}, line {number:,}: {line[:60]!r}, wanted group or prompt and 32 hexadecimal digits"
            )
        hashes[kind].add(digits)
    return Seen(frozenset(hashes["prompt"]), frozenset(hashes["group"]))
