"""Rows of a log in a terminal: a list of the best, or one row whole."""

from __future__ import annotations

import json as json_text
import shutil
import textwrap
from typing import TYPE_CHECKING, Any

from karl_fast._safe_text import clean, clean_one_to_one, counted, decimal, in_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karl_fast.pipeline.show import Ranking, Row

WIDEST = 100
"""Characters of a line at a wide terminal: longer ones are hard to read."""

FOLDED_LINES = 6
"""Lines of the result of a tool that are shown unless --full asks for all."""

QUIET_COMPONENTS = {"interrupted": 0.0, "asked_again": 0.0, "reverted": 0.0}
"""Outcomes with their usual value, which a list leaves out."""


def terminal_width() -> int:
    """Return the columns of a line of text."""
    return min(WIDEST, shutil.get_terminal_size((80, 24)).columns)


def to_json(ranking: Ranking) -> dict[str, Any]:
    """Return the rows with their records, for JSON."""
    rows = [
        {"id": row.id, "value": row.value, "reward": row.reward, "group": row.group, "record": row.record}
        for row in ranking.rows
    ]
    counts = {"read": ranking.read, "with_value": ranking.with_value, "mean": ranking.mean}
    return {"by": ranking.by, "source": ranking.source} | counts | {"rows": rows}


def describe_ranking(ranking: Ranking, width: int) -> Iterator[str]:
    """Yield the lines of a ranking: a head, and a few lines for each row."""
    what = "a reward" if ranking.by == "reward" else f"a number {clean(ranking.by)}"
    mean = "" if ranking.mean is None else f", mean {decimal(ranking.mean)}"
    yield f"rows      {ranking.read:,} read, {ranking.with_value:,} with {what}{mean}"
    if ranking.by == "reward" and ranking.source:
        yield f"          source: {clean(ranking.source)}"
    if not ranking.with_value and (path := _other_number(ranking)):
        yield f"          no row has one; --by {path} ranks by what the records have"
    for place, row in enumerate(ranking.rows, 1):
        yield ""
        number = "no number" if row.value is None else decimal(row.value)
        yield _cut(f"{place:>3}  {number}  {clean(row.id)}", width)
        indent = "     "
        yield from (_cut(indent + line, width) for line in _facts(row, ranking.by))
        if prompt := first_prompt(row):
            yield _cut(f"{indent}> {clean(' '.join(prompt.split()))}", width)
        yield from (_cut(indent + line, width) for line in _evidence(row))


def _other_number(ranking: Ranking) -> str | None:
    """Return the path of an outcome that the shown records know, or of another number that they have."""
    outcomes = [row.record.get("outcome") for row in ranking.rows]
    known = [
        f"outcome.{name}"
        for outcome in outcomes
        if isinstance(outcome, dict)
        for name, value in outcome.items()
        if isinstance(value, int | float) and name not in QUIET_COMPONENTS
    ]
    if known:
        return max(sorted(set(known)), key=known.count)
    return next((key for row in ranking.rows for key in ("turns", "num_tokens") if key in row.record), None)


def _facts(row: Row, by: str) -> Iterator[str]:
    """Yield a line with the group, the size and the time of a row, and one for a row that is not written."""
    record = row.record
    parts = [] if row.group is None else [f"group {clean(row.group)}"]
    if by != "reward" and row.reward is not None:
        parts.append(f"reward {decimal(row.reward)}")
    if row.messages is not None:
        calls = sum(len(message.get("tool_calls") or ()) for message in row.messages)
        parts.append(counted(len(row.messages), "message") + (f", {counted(calls, 'call')}" if calls else ""))
    if isinstance(seconds := record.get("duration_seconds"), int | float):
        parts.append(in_time(seconds))
    if isinstance(record.get("started_at"), str):
        parts.append(clean(record["started_at"][:16].replace("T", " ")))
    if isinstance(parent := record.get("parent"), dict):
        parts.append(f"sub-agent of {clean(str(parent.get('id')))}")
    if parts:
        yield "; ".join(parts)
    if row.messages is None:
        yield "sample cannot write this row: karl-fast inspect says why"


def first_prompt(row: Row) -> str | None:
    """Return the first text that the user wrote."""
    for message in row.messages or ():
        if message.get("role") == "user" and isinstance(content := message.get("content"), str) and content.strip():
            return content
    return None


def _evidence(row: Row) -> Iterator[str]:
    """Yield the outcomes of a row that are not as usual, each with its reason and its place; components of a reward."""
    for entry in row.record.get("evidence") or ():
        if not isinstance(entry, dict) or (entry.get("component"), entry.get("value")) in QUIET_COMPONENTS.items():
            continue
        place = next((f" ({key} {entry[key]})" for key in ("commit", "file", "message") if key in entry), "")
        value = entry.get("value")
        number = f" {value:g}" if isinstance(value, int | float) else ""
        yield clean(f"{entry.get('component')}{number}: {entry.get('why')}{place}")
    for name in ("reward_components", "components"):
        if isinstance(parts := row.record.get(name), dict):
            numbers = [f"{key} {value:.4g}" for key, value in parts.items() if isinstance(value, int | float)]
            yield clean(", ".join(numbers))


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 1] + "\u2026"


def describe_row(row: Row, width: int, *, full: bool) -> Iterator[str]:
    """Yield a row whole: its facts, its evidence, and every message, tool calls and results folded."""
    reward = "no reward" if row.reward is None else f"reward {decimal(row.reward)}"
    yield _cut(f"{clean(row.id)}  {reward}", width)
    for line in (*_facts(row, "reward"), *_evidence(row)):
        yield from textwrap.wrap(line, width, initial_indent="  ", subsequent_indent="    ")
    if row.tools:
        names = [str(tool.get("function", tool).get("name")) for tool in row.tools if isinstance(tool, dict)]
        yield from textwrap.wrap(
            f"tools: {clean(', '.join(names))}", width, initial_indent="  ", subsequent_indent="    "
        )
    for number, message in enumerate(row.messages or ()):
        yield ""
        yield _cut(
            f"-- {number} {clean(str(message.get('role')))} {clean(str(message.get('name') or ''))}".rstrip(), width
        )
        yield from _message(message, width, full)


def _message(message: dict[str, Any], width: int, full: bool) -> Iterator[str]:
    content = message.get("content")
    text = content if isinstance(content, str) else "" if content is None else json_text.dumps(content)
    lines = (
        [part for line in text.rstrip("\n").split("\n") for part in _wrap(clean_one_to_one(line), width)]
        if text
        else []
    )
    if message.get("role") == "tool" and not full and len(lines) > FOLDED_LINES:
        yield from lines[: FOLDED_LINES - 1]
        yield f"... {counted(len(lines) - FOLDED_LINES + 1, 'more line')}; --full shows them"
    else:
        yield from lines
    for call in message.get("tool_calls") or ():
        function = call.get("function", call)
        arguments = function.get("arguments")
        shown = arguments if isinstance(arguments, str) else json_text.dumps(arguments, ensure_ascii=False)
        line = clean_one_to_one(f"{function.get('name')}({shown})".replace("\n", "\\n"))
        yield from (_wrap(f"=> {line}", width) if full else [_cut(f"=> {line}", width)])


def _wrap(line: str, width: int) -> list[str]:
    """Break a line between words, and a longer word at the width."""
    return textwrap.wrap(line, width, replace_whitespace=False) or [""]
