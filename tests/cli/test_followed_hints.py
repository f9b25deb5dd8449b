"""A hint that names a flag is followed: the same error does not come again."""

from __future__ import annotations

import itertools
import re
import shlex
from typing import TYPE_CHECKING, Any

import pytest

from tests import rows
from tests.cli.run import karl

if TYPE_CHECKING:
    from pathlib import Path

TALK = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]

VALUES: dict[str, list[Any]] = {
    "number": [0.5, 1, 0.25, 0],
    "text": ["0.5", "1", "good", "bad"],
    "list": [[0.5], [1], [], [0]],
    "object": [{"a": 1, "b c": 0.5}, {"a": 0, "b c": 0.5}, {"a": 1}, {"a": 0.5}],
    "null": [None, None, None, None],
    "huge": [1e300, 1e101, float("inf"), float("nan")],
    "bool": [True, False, True, True],
    "talk": [TALK, TALK, TALK, TALK],
    "questions": [TALK[:1]] * 4,
    "words": ["a b", "c d", "e f", "g h"],
    "turns": [{"turns": TALK}] * 4,
    "some": [None, 0.5, None, 1],
}

NAMES = ["rewards", "score", "solution", "conversation", "traj", "a.b", "re ward", "messages.x", "task_id", "reward=x"]

RECORDS = [
    [{"id": n, one: VALUES[kind][n], other: VALUES[more][n]} for n in range(4)]
    for (one, other), (kind, more) in itertools.product(
        [
            ("rewards", "conversation"),
            ("score", "traj"),
            ("re ward", "a.b"),
            ("outcome", "solution"),
            ("reward=x", "task_id"),
        ],
        [
            *((kind, "talk") for kind in VALUES),
            ("number", "questions"),
            ("number", "words"),
            ("number", "turns"),
            ("text", "number"),
        ],
    )
]

COMMANDS = [
    ["sample", "-k", 2, "--dry-run"],
    ["sample", "-k", 2, "--dry-run", "--reward", "rewrad"],
    ["sample", "-k", 2, "--dry-run", "--sampler", "reservoir", "--messages", "mesages"],
    ["inspect", "--score", "zscore"],
    ["inspect"],
]


@pytest.mark.parametrize("number", range(0, len(RECORDS), 4))
def test_followed_hint_does_not_repeat_the_error(number: int, tmp_path: Path) -> None:
    for at, records in enumerate(RECORDS[number : number + 4]):
        log = rows.write(tmp_path / f"{at}.jsonl", records)
        command: list[Any] = [*COMMANDS[(number + at) % len(COMMANDS)]]
        first, *rest = command
        done = karl(first, log, *rest)
        for _ in range(3):
            text = " ".join((done.stdout + done.stderr).split())
            found = re.search(r"did you mean (--.+?)\?", text)
            if not found:
                break
            flag, value = shlex.split(found[1])
            before = done
            rest = [*_without(rest, flag), flag, value]
            done = karl(first, log, *rest)
            assert done.stderr != before.stderr or first == "inspect", (records[0], rest, done.stderr)
            again = " ".join((done.stdout + done.stderr).split())
            assert found[0] not in again, (records[0], rest, again)


def _without(words: list[Any], flag: str) -> list[Any]:
    if flag not in words:
        return words
    at = words.index(flag)
    return words[:at] + words[at + 2 :]
