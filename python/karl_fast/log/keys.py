"""What records hold, for errors about what is in none of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karl_fast import _core
from karl_fast.errors import TranscriptError
from karl_fast.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

SHOWN = 16
"""How many keys of a record an error lists."""

NAMES = {
    "group": ("group", "group_id", "task_id", "task", "problem_id", "prompt_id", "instance_id", "question_id"),
    "reward": ("reward", "score", "rewards", "return", "outcome", "resolved", "success"),
    "messages": ("messages", "conversation", "turns", "chat", "dialogue", "history", "trajectory", "traj"),
}
"""What tools call a field, the likeliest first."""


def lacking(files: Sequence[Mapping[str, Any]], field: str, asked: str | None) -> tuple[str, str]:
    """What an error adds to say that no record has a field, and its hint: transcripts are to be converted first."""
    keys = first(files)
    if told := transcripts(files):
        return f"; {told}", CONVERT
    return held(keys), named(field, keys, asked)


def first(files: Sequence[Mapping[str, Any]]) -> list[str]:
    """The keys of a record of the first file."""
    return list(files[0]["keys"]) if files else []


def held(keys: Sequence[str], what: str = "records") -> str:
    """`; the records hold id, task`; nothing where there are no keys."""
    more = [f"and {len(keys) - SHOWN} more"] if len(keys) > SHOWN else []
    return f"; the {what} hold {', '.join([*keys[:SHOWN], *more])}" if keys else ""


def likeliest(field: str, keys: Sequence[str], asked: str | None = None) -> str | None:
    """The key that was meant: the one most like what was asked for, or one that other tools keep the field under."""
    from difflib import get_close_matches  # most runs lack nothing

    wanted = field if asked is None else asked
    others = [key for key in keys if key != wanted]
    near = get_close_matches(wanted, others, n=1)
    return near[0] if near else next((name for name in NAMES.get(field, ()) if name in others), None)


def named(field: str, keys: Sequence[str], asked: str | None = None) -> str:
    """The hint to name a field."""
    key = likeliest(field, keys, asked)
    return f"did you mean --{field} {key}?" if key else f"name its path with --{field}"


def transcripts(files: Iterable[Mapping[str, Any]]) -> str | None:
    """`x.jsonl is a transcript of codex`, where a file is one that no format claims; None where none is."""
    found = [(file["path"], kind) for file in files if (kind := _kind(file))]
    if not found:
        return None
    path, kind = found[0]
    if len(found) == 1:
        return f"{path} is a transcript of {kind}"
    return f"{path} and {counted(len(found) - 1, 'other')} are transcripts of {kind}"


def _kind(file: Mapping[str, Any]) -> str | None:
    """The kind of a transcript; a record that has a reward, or its messages, is of none, whatever else it has."""
    rewards = dict(file["fields"]).get("reward", "").split(",")  # no path where functions give all of it
    others = {"messages", *NAMES["reward"], *(path.partition(".")[0] for path in rewards)}
    if file["format"] != "generic" or others & {*file["keys"]}:
        return None
    return _core.transcript_by_keys(file["keys"])


CONVERT = str(TranscriptError.hint)
"""What is to be done with them."""
