r"""Rows of a log for a page: a short line of each, and conversations in packed blocks.

```text
rows of whole groups, by the hash of their ids --> redacted records --> index: columns of short values
                                                                   \-> blocks: deflate in base64, opened one by one
```
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast import _core
from karl_fast.export.write import draft_rows
from karl_fast.log.field_hints import STAMP
from karl_fast.pipeline.show import conversation_messages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from karl_fast.export.write import Progress
    from karl_fast.log import Log

ROWS = 2000
"""Rows of a page, unless more are asked for."""

BLOCK_BYTES = 1 << 18
"""Bytes of conversations in a block, before it is packed: short rows share one."""

PAGE_BYTES = 96 << 20
"""Packed bytes of a page: browsers open a larger file slowly. Rows beyond it are listed, and not readable."""

PROMPT = 240
"""Characters of the first prompt in the list."""

LONG_VALUE = 2000
"""Characters of a value of a record that a page shows; longer ones are named with their length."""

LESS_IS_BETTER = ("reverted", "corrected", "interrupted", "asked_again")
"""Outcomes of which 0 is the good value."""

SHARES = ("survived", "attribution")
"""Outcomes that are shares: neither passed nor failed."""

OUTCOMES = (
    "verified",
    "tests",
    "survived",
    "merged",
    "corrected",
    "build",
    "lint",
    "committed",
    "reverted",
    "interrupted",
)
"""Outcomes in the order of the list; other parts follow by the number of rows that have them."""

QUIET = ("interrupted", "asked_again", "reverted")
"""Outcomes that are 0 in most sessions, which a list leaves out where all of them are."""

CONVERSATION = ("messages", "prompt", "completion", "text", "tools")
"""Roles of fields that hold the conversation."""

SIZES = ("messages", "calls", "characters")


@dataclass
class PackedRows:
    """Rows of a page.

    Attributes:
        total: rows of the log.
        columns: values of each row, by name.
        groups, domains: names, by number.
        parts: outcomes and components of the reward, by name: a number or None for each row.
        blocks: packed conversations, in base64.
        unreadable: rows that a data set could not have.
        unpacked: rows beyond the size of a page.
        secrets: replaced secrets, by family.
        source: fields that the reward is read from.
    """

    total: int
    columns: dict[str, list[Any]] = field(default_factory=dict)
    groups: list[str] = field(default_factory=list)
    domains: list[str] = field(default_factory=list)
    parts: dict[str, list[float | None]] = field(default_factory=dict)
    blocks: list[bytes] = field(default_factory=list)
    unreadable: int = 0
    unpacked: int = 0
    secrets: Counter[str] = field(default_factory=Counter)
    source: str = ""

    def __len__(self) -> int:
        return len(self.columns.get("id", ()))

    def index(self) -> dict[str, Any]:
        """Return what the page needs to list rows, as values for JSON."""
        return {
            "total": self.total,
            "columns": self.columns,
            "groups": self.groups,
            "domains": self.domains,
            "parts": self.parts,
            "lessIsBetter": LESS_IS_BETTER,
            "shares": SHARES,
            "source": self.source,
        }

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Return a column of numbers; NaN where one is missing."""
        return np.array([np.nan if value is None else value for value in self.columns[name]], dtype=np.float64)


def pack_rows(log: Log, count: int, packed_bytes: Progress | None = None) -> PackedRows:
    """Read rows of a log, whole groups of them as far as there is room, and pack their conversations.

    Args:
        log: as `inspect` opens it.
        count: maximum number of rows.
        packed_bytes: called with the bytes of rows that were read, and those of all of them: their share of the log.
    """
    chosen = choose_rows(log.groups, count)
    packed = PackedRows(len(log), source=", ".join(_reward_paths(log)))
    names, domains = log.group_names, log.domain_names
    packed.groups, group_codes = _rename(names, log.groups[chosen])
    packed.domains, domain_codes = _rename(domains, log.domains[chosen])
    rewards, paths = log.rewards, _conversation_keys(log)
    packer, summaries = _BlockPacker(packed), []
    size = sum(file["size_bytes"] for file in log.inputs) * len(chosen) // max(1, len(log))
    for place, row in enumerate(chosen.tolist()):
        record, conversation, secrets = read_row(log, row)
        packed.secrets.update(secrets)
        messages = _messages_of(record, conversation)
        packed.unreadable += conversation is None
        summaries.append(_summarise(log, row, record, conversation, messages, float(rewards[row])))
        packer.add(json_bytes(_content(record, messages, conversation, paths)))
        if packed_bytes is not None:
            packed_bytes(size * (place + 1) // len(chosen), size)
    packer.close()
    if summaries:
        _fill_columns(packed, summaries, group_codes, domain_codes, packer.places)
    return packed


def choose_rows(groups: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return row numbers: all, or whole groups in the order of their first row, as far as there is room.

    Rows of a log are in the order of the hashes of their ids, so that a choice of the first depends on no reward. A
    group that is larger than what is left gives its first rows.

    Args:
        groups: the number of each row's group; -1 for none. [B]
        count: maximum number of rows.
    """
    if len(groups) <= count:
        return np.arange(len(groups))
    sizes = np.bincount(groups[groups >= 0]) if (groups >= 0).any() else np.zeros(0, dtype=np.int64)
    wanted: dict[int, None] = {}  # in the order of their first rows
    alone, room = [], count
    for row, group in enumerate(groups.tolist()):
        if room <= 0:
            break
        if group < 0:
            alone.append(row)
            room -= 1
        elif group not in wanted:
            wanted[group] = None
            room -= int(sizes[group])
    chosen = np.flatnonzero(np.isin(groups, list(wanted)) & (groups >= 0))
    if room < 0:
        last = np.flatnonzero(groups == next(reversed(wanted)))
        chosen = np.setdiff1d(chosen, last[len(last) + room :], assume_unique=True)
    return np.union1d(chosen, np.array(alone, dtype=np.int64))


def _rename(names: Sequence[str], codes: NDArray[np.int64]) -> tuple[list[str], list[int]]:
    """Return the redacted names that are in use, and the number of each row's name among them; -1 for none."""
    used = sorted({code for code in codes.tolist() if code >= 0})
    numbers = {code: place for place, code in enumerate(used)}
    return [_core.redacted(names[code]) for code in used], [numbers.get(code, -1) for code in codes.tolist()]


def _reward_paths(log: Log) -> list[str]:
    named = list(log.settings.reward or ())
    return named or sorted({dict(file["fields"]).get("reward", "") for file in log.inputs} - {""})


def _conversation_keys(log: Log) -> set[str]:
    """Return the keys of records that hold the conversation, which is shown as such."""
    paths = [path for file in log.inputs for role, path in file["fields"] if role in CONVERSATION]
    return {path.removeprefix("json(").rstrip(")").split(".")[0] for path in paths} | {"messages", STAMP, "tools"}


def read_row(log: Log, row: int) -> tuple[dict[str, Any], dict[str, Any] | None, dict[str, int]]:
    """Return a row's record and its conversation, both without secrets, and the secrets that were replaced.

    The conversation is None where `sample` could not write the row.
    """
    record, secrets = _read_shape(log, row, "raw")
    conversation, _ = _read_shape(log, row, "chat")
    return record or {}, conversation, secrets


def _read_shape(log: Log, row: int, shape: Any) -> tuple[dict[str, Any] | None, dict[str, int]]:
    draft = draft_rows(log, np.array([row]), shape)
    line = next(iter(draft.lines(0, 0, 1)), None)
    return (None if line is None else _parse(line)), dict(draft.facts()["secrets"])


def _parse(line: str) -> dict[str, Any] | None:
    """Return the object of a line; None of one that is nested too deeply for Python."""
    try:
        value = json.loads(line, parse_int=_integer, parse_constant=str)
    except RecursionError:
        return None
    return value if isinstance(value, dict) else None


def _integer(digits: str) -> int | str:
    """Return a whole number; one that a page would round stays text."""
    return int(digits) if len(digits) < 16 else digits


def _messages_of(record: dict[str, Any], conversation: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the messages of the record where it has them as they are shown, which evidence points at; else as written.

    A data set drops trailing messages and some keys, such as the success of a call.
    """
    own = record.get("messages")
    if isinstance(own, list) and own and all(isinstance(one, dict) and isinstance(one.get("role"), str) for one in own):
        return own
    return conversation_messages(conversation or {}) or []


def _content(
    record: dict[str, Any], messages: list[dict[str, Any]], conversation: dict[str, Any] | None, keys: set[str]
) -> dict[str, Any]:
    """Return what the page shows of a row when it is opened."""
    facts = {key: _cut_value(value) for key, value in record.items() if key not in keys or not messages}
    return {
        "messages": messages,
        "tools": _tool_names(record.get("tools") or (conversation or {}).get("tools")),
        "facts": facts,
        "readable": conversation is not None,
    }


def _cut_value(value: Any) -> Any:
    """Return a value of a record, or in place of a long one its kind and length."""
    size = len(json.dumps(value))
    return {"long": size} if size > LONG_VALUE and not _is_evidence(value) else value


def _is_evidence(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, dict) and "component" in entry for entry in value)


def _tool_names(tools: Any) -> list[str]:
    if not isinstance(tools, list):
        return []
    functions = [tool.get("function", tool) for tool in tools if isinstance(tool, dict)]
    return [str(function.get("name")) for function in functions if isinstance(function, dict)]


def json_bytes(value: Any) -> bytes:
    """Return a value as JSON in ASCII: half of a character of UTF-16, which a log may hold, has no bytes."""
    return json.dumps(value, separators=(",", ":")).encode("ascii")


class _BlockPacker:
    """Blocks of rows; each is a list of contents."""

    def __init__(self, packed: PackedRows) -> None:
        self.packed = packed
        self.waiting: list[bytes] = []
        self.size = self.packed_size = 0
        self.places: list[tuple[int, int]] = []

    def add(self, content: bytes) -> None:
        """Add a row; its place is -1 where the page is full."""
        if self.packed_size > PAGE_BYTES:
            self.packed.unpacked += 1
            self.places.append((-1, 0))
            return
        self.places.append((len(self.packed.blocks), len(self.waiting)))
        self.waiting.append(content)
        self.size += len(content)
        if self.size >= BLOCK_BYTES:
            self.close()

    def close(self) -> None:
        """Pack the rows that wait."""
        if self.waiting:
            block = base64.b64encode(zlib.compress(b"[" + b",".join(self.waiting) + b"]", 6))
            self.packed.blocks.append(block)
            self.packed_size += len(block)
        self.waiting, self.size = [], 0


def _summarise(
    log: Log,
    row: int,
    record: dict[str, Any],
    conversation: dict[str, Any] | None,
    messages: list[dict[str, Any]],
    reward: float,
) -> dict[str, Any]:
    """Return the short values of a row."""
    stamp = record[STAMP] if isinstance(record.get(STAMP), dict) else {}
    drawn = (conversation or {}).get(STAMP) or {}
    ids = (stamp.get("id"), record.get("id"), drawn.get("id"))
    name = next((value for value in ids if isinstance(value, str | int)), None)
    parent = record["parent"] if isinstance(record.get("parent"), dict) else {}
    calls = [call for message in messages for call in _calls_of(message)]
    said = [message for message in messages if message.get("role") == "assistant"]
    return {
        "id": str(row if name is None else name),
        "reward": reward if np.isfinite(reward) else None,
        "prompt": first_prompt(messages)[:PROMPT],
        "messages": len(messages),
        "calls": len(calls),
        "characters": sum(map(_written_characters, said)),
        "split": Path(_core.place(log.core, row)[0]).stem if stamp else None,
        "weight": stamp.get("log_weight"),
        "round": record.get("round") if isinstance(record.get("round"), int) else None,
        "started": record.get("started_at") if isinstance(record.get("started_at"), str) else None,
        "parent": str(parent["id"]) if parent.get("id") is not None else None,
        "call": str(parent["tool_call_id"]) if parent.get("tool_call_id") is not None else None,
        "drawn": stamp.get("copies") if isinstance(stamp.get("copies"), int) else None,
        "hash": hashlib.blake2b(
            json_bytes([[one.get("role"), one.get("content"), one.get("tool_calls")] for one in messages]),
            digest_size=8,
        ).digest()
        if messages
        else None,
        "parts": dict(_parts_of(record, log, row)),
    }


def _calls_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    calls = message.get("tool_calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def _written_characters(message: dict[str, Any]) -> int:
    """Return the characters that the model wrote: its text, its thoughts, its calls."""
    size = len(text_of(message.get("content")))
    thoughts = message.get("reasoning_content")
    size += len(thoughts) if isinstance(thoughts, str) else 0
    return size + sum(len(json.dumps(call.get("function", call))) for call in _calls_of(message))


def first_prompt(messages: Iterable[dict[str, Any]]) -> str:
    """Return the first text that the user wrote, without line breaks."""
    texts = (text_of(message.get("content")) for message in messages if message.get("role") == "user")
    return next((" ".join(words[: 8 * PROMPT].split()) for words in texts if words.strip()), "")


def text_of(content: Any) -> str:
    """Return the text of a message: itself, or that of its parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def _parts_of(record: dict[str, Any], log: Log, row: int) -> Iterator[tuple[str, float]]:
    """Yield outcomes and components of the reward, by name."""
    for key in ("outcome", "reward_components", "components", "metrics"):
        values = record.get(key)
        if isinstance(values, dict):
            yield from ((name, float(value)) for name, value in values.items() if _is_number(value))
    if len(log.settings.reward or ()) > 1:
        for name, column in log.components.items():
            if np.isfinite(column[row]):
                yield name.removeprefix("outcome."), float(column[row])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and bool(np.isfinite(value))


def _fill_columns(
    packed: PackedRows,
    summaries: Sequence[dict[str, Any]],
    groups: list[int],
    domains: list[int],
    places: list[tuple[int, int]],
) -> None:
    copies = Counter(one["hash"] for one in summaries if one["hash"] is not None)
    columns: dict[str, list[Any]] = {
        name: [one[name] for one in summaries] for name in summaries[0] if name not in ("hash", "parts")
    }
    columns |= {"group": groups, "domain": domains, "copies": [copies.get(one["hash"], 1) for one in summaries]}
    columns |= {"block": [block for block, _ in places], "place": [place for _, place in places]}
    # Columns that no row has are left out, but for those that every page has.
    kept = ("id", "reward", "prompt", "group", "domain", "copies", "block", "place", *SIZES)
    packed.columns = {
        name: values for name, values in columns.items() if name in kept or any(value is not None for value in values)
    }
    names = Counter(name for one in summaries for name in one["parts"])
    order = sorted(names, key=lambda name: (OUTCOMES.index(name) if name in OUTCOMES else len(OUTCOMES), -names[name]))
    parts = {name: [one["parts"].get(name) for one in summaries] for name in order}
    packed.parts = {
        name: values
        for name, values in parts.items()
        if not (name in QUIET and all(value in (None, 0) for value in values)) and values != columns["reward"]
    }
