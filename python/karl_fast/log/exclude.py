"""Prompts that must not be learned from: those of a benchmark, and rows whose prompt is or contains one of them.

```text
file -> text of each prompt -> words, lower case, without punctuation -> first 8 words: where to look
prompt of a row -> its words -> at each known run of 8 words: does the whole text stand here?
```

A benchmark's question often stands inside a template ("Solve: ... Put the answer in a box."), so containment counts;
a text of fewer than eight words counts only where it is all that the user says, for it may occur by chance.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast import _core, _seen_hashes
from karl_fast.errors import FileError, LogError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from karl_fast.log.log import Log

RUN = 8
"""Words of a run that is looked for; texts of the web share eight words by chance rarely, seven and fewer often."""

PROMPT_KEYS = ("prompt", "question", "problem", "instruction", "input", "query", "text", "task", "messages")
"""Keys of the prompt in benchmarks, the most exact first."""

WINDOW_BYTES = 64 << 20
"""Bytes of records that are parsed at a time."""

WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Excluded:
    """Prompts that must not be learned from.

    Attributes:
        path: file that they were read from.
        count: number of different prompts.
        whole: all words of each.
        by_run: for each first run of words, the texts that begin with it.
    """

    path: str
    count: int
    whole: frozenset[tuple[str, ...]]
    by_run: Mapping[tuple[str, ...], tuple[tuple[str, ...], ...]]

    def holds(self, prompt: Any) -> bool:
        """Return whether a prompt is one of them, or contains one of eight words or more.

        Args:
            prompt: a text, or the messages before the first answer, of which the user's count where there are some.

        Returns:
            True where it does.
        """
        messages = _seen_hashes.messages_of({"prompt": prompt})
        user_turns = [message for message in messages if message.get("role") == "user"] or messages
        words = _words(" ".join(_seen_hashes.text_of(message.get("content")) for message in user_turns))
        if words in self.whole:
            return True
        return any(
            words[start : start + len(text)] == text
            for start in range(len(words) - RUN + 1)
            for text in self.by_run.get(words[start : start + RUN], ())
        )


def _words(text: str) -> tuple[str, ...]:
    return tuple(WORD.findall(text.lower()))


def read_excluded(path: str) -> Excluded:
    """Read prompts of a benchmark: JSON Lines, a JSON array, or a text with one prompt a line.

    Args:
        path: the file. A record is a text, or an object with its prompt under ``prompt``, ``question``, ``problem``,
            ``messages`` or a like name.

    Returns:
        The prompts.

    Raises:
        FileError: the file cannot be read.
        LogError: a record has no prompt, or the file has no record.
    """
    try:
        text = Path(path).read_text("utf-8-sig")
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}", error.errno, path) from error
    except UnicodeDecodeError as error:
        raise LogError(f"{path} is not UTF-8 at byte {error.start}") from error
    texts = {_words(prompt) for prompt in _prompts(text, path)} - {()}
    if not texts:
        raise LogError(f"{path} has no prompt", hint="wanted JSON Lines with a prompt or question, or a text of lines")
    by_run: defaultdict[tuple[str, ...], list[tuple[str, ...]]] = defaultdict(list)
    for words in sorted(texts):
        if len(words) >= RUN:
            by_run[words[:RUN]].append(words)
    return Excluded(path, len(texts), frozenset(texts), {run: tuple(places) for run, places in by_run.items()})


def _prompts(text: str, path: str) -> Iterable[str]:
    """Yield the prompt of each record of a file."""
    if text.lstrip()[:1] == "[":
        try:
            records = json.loads(text)
        except ValueError as error:
            raise LogError(f"{path} begins like a JSON array, and is not one: {error}") from error
        for number, record in enumerate(records, 1):
            yield _prompt_of(record, f"{path}, record {number}")
        return
    is_json = text.lstrip()[:1] == "{"
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        if not is_json:
            yield line
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            raise LogError(f"{path}, line {number}: not JSON: {error}") from error
        yield _prompt_of(record, f"{path}, line {number}")


def _prompt_of(record: Any, place: str) -> str:
    if isinstance(record, str):
        return record
    values = record if isinstance(record, dict) else {}
    for key in PROMPT_KEYS:
        value = values.get(key)
        if isinstance(value, str) and value.strip():
            return value
        if isinstance(value, list) and value and all(isinstance(message, dict) for message in value):
            user_turns = [message for message in value if message.get("role", message.get("from")) in ("user", "human")]
            return " ".join(
                _seen_hashes.text_of(message.get("content", message.get("value"))) for message in user_turns[:1]
            )
    keys = ", ".join(map(str, values)) or type(record).__name__
    raise LogError(f"{place}: no prompt; it holds {keys[:200]}", hint=f"wanted one of {', '.join(PROMPT_KEYS)}")


def exclude_rows(log: Log) -> Log:
    """Return a log in which rows with a prompt of ``settings.exclude`` have no reward, and so cannot be drawn.

    Args:
        log: the log; its records are read again.

    Returns:
        The same records, with the number of those that are excluded.

    Raises:
        FileError, LogError: as :func:`read_excluded` and :func:`excluded_rows`.
    """
    if log.settings.exclude is None:
        return log
    excluded = read_excluded(log.settings.exclude)
    rewards = log.rewards.copy()
    rows = excluded_rows(log, excluded)
    if log.tree_roots is not None:
        rows |= rows[log.tree_roots]  # what a session called worked at its prompt, too
    with_reward = int((rows & ~np.isnan(rewards)).sum())
    rewards[rows] = np.nan
    components = [log.core.component(index) for index in range(log.core.components)]
    core = _core.rewarded(log.core, components, rewards)
    facts = {"path": excluded.path, "prompts": excluded.count, "rows": int(rows.sum()), "with_reward": with_reward}
    return log.of(core, facts)


def excluded_rows(log: Log, excluded: Excluded) -> NDArray[np.bool_]:
    """Return which rows of a log have a prompt that is, or contains, one of the excluded ones. [B]

    Args:
        log: the log; its records are read again.
        excluded: the prompts.

    Returns:
        True for rows that must not be learned from.

    Raises:
        LogChangedError, FileError: a file is no longer what it was, or cannot be read.
    """
    rows, first = np.zeros(len(log), dtype=np.bool_), 0
    decoder = json.JSONDecoder(parse_int=float)
    while first < len(log):
        window = _core.answered(log.core, first, WINDOW_BYTES, log.settings.threads)
        for row, text in enumerate(window, first):
            # "[prompt, answer, record]": only the prompt is parsed.
            rows[row] = text is not None and excluded.holds(decoder.raw_decode(text, 1)[0])
        first += len(window)
    return rows
