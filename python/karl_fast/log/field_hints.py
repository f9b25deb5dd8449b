"""Hints for fields that no record has: what the records are instead, or the field that was most likely meant.

A log without rewards may be a transcript, rows of a data set, trajectories without a rating, or a log with other
names. The first of these that fits gives the end of the error and its hint.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karl_fast import _core, _seen_hashes
from karl_fast._safe_text import counted
from karl_fast._suggest import MOST
from karl_fast.errors import ByNameError, KarlError, TranscriptError
from karl_fast.log.conversation_hints import conversation_hint, gives_rows
from karl_fast.log.record_fields import (
    NAMES,
    SEARCH_BYTES,
    first_keys,
    first_record,
    fitting_paths,
    holder,
    is_conversation,
    is_reward,
    likeliest_key,
    list_keys,
    path_parts,
    records,
    value_at,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from karl_fast._core import OutcomeFacts
    from karl_fast.log import Log


def explain_missing_field(log: Log, field: str, asked: str | None) -> tuple[str, str | None]:
    """Return the end of an error about a field that no record has, and its hint; ``asked`` is its name, if given."""
    keys = first_keys(log.inputs)
    if description := describe_transcripts(log.inputs):
        return f"; {description}", CONVERT
    if description := describe_unread(log.inputs):
        return f"; {description}", None
    if asked is None and (description := describe_data_set(log.inputs)):
        return f"; {description}", REDRAW
    if description := describe_unrated(log.inputs, field, asked):
        return f"; {description}", rating_hint(
            log.inputs, informative_outcomes(log.core.outcomes(log.settings.threads))
        )
    record = first_record(log)
    if asked and (missing := _missing_part(record, asked)):
        near = likeliest_key(field, fitting_paths(records(log), field), missing)
        hint = (
            f"did you mean --{field} {shlex.quote(asked.replace(missing, near))}?" if near else naming_hint(field, ())
        )
        return f"; the first record lacks {missing}{list_keys(keys)}", hint
    if more := _hint_by_form(log, field, asked, record):
        return list_keys(keys), more
    parent = holder(record, asked) if asked else None
    description = list_keys(parent[1], parent[0], "holds") if parent else list_keys(keys)
    if field == "messages":
        return description, conversation_hint(log) or "name its path with --messages, or --prompt and --completion"
    if field == "group" and asked is None and (repeated := find_repeated_prompts(log)) and repeated["group"]:
        prompts = counted(repeated["prompts"], "prompt occurs", "prompts occur")
        return description, f"{prompts} more than once: --group {shlex.quote(repeated['group'])} groups their rows"
    others = {*(log.settings.paths or ())} if field == "reward" else set()
    return description, naming_hint(
        field, (path for path in fitting_paths(records(log), field) if path not in others), asked
    )


def group_rows_hint(log: Log) -> str | None:
    """Return the options that read each element of records that hold a whole group; None for any others.

    Such a record has a list as its reward, and beside it lists of the same length, of which one has the responses.
    """
    record = _first_bad_record(log)
    reward = next((path for path in log.settings.paths or () if isinstance(record.get(path), list)), None)
    size = len(record[reward]) if reward else 0
    lists = [key for key, value in record.items() if isinstance(value, list) and len(value) == size and key != reward]
    lists = [key for key in lists if re.fullmatch(r"[A-Za-z_]\w*", key) and not is_conversation(record[key])]
    asked = (log.settings.completion, log.settings.messages, *NAMES["responses"])
    for key in sorted(lists, key=lambda key: asked.index(key) if key in asked else len(asked)):
        option = "messages" if all(map(is_conversation, record[key])) else "completion"
        if gives_rows(log, [record], **{"reward": {f"{reward}[]": 1.0}, option: f"{key}[]"}):
            return f"each record holds a group: --reward '{reward}[]' --{option} '{key}[]' makes a row of each element"
    return None


def _first_bad_record(log: Log) -> dict[str, Any]:
    """Return the first record that was dropped; empty if it is packed, or not an object on one line."""
    file = log.inputs[0]
    if not file["bad_rows"] or file["codec"] != "plain":
        return {}
    try:
        with Path(file["path"]).open("rb") as stream:
            stream.seek(file["bad_rows"][0]["offset"])
            record = json.loads(stream.readline(SEARCH_BYTES), parse_int=float)
    except (OSError, ValueError, RecursionError):  # of a pipe, cut, or deep
        return {}
    return record if isinstance(record, dict) else {}


def describe_transcripts(files: Iterable[Mapping[str, Any]]) -> str | None:
    """Return `x.jsonl is a transcript of codex` if a file that no format claims is one; None else."""
    transcripts = [(file["path"], kind) for file in files if (kind := _transcript(file)[0])]
    if not transcripts:
        return None
    path, kind = transcripts[0]
    if len(transcripts) == 1:
        return f"{path} is a transcript of {kind}"
    return f"{path} and {counted(len(transcripts) - 1, 'other')} are transcripts of {kind}"


def describe_unread(files: Iterable[Mapping[str, Any]]) -> str | None:
    """Return `x.jsonl: results of OpenHands, which ...` if a file is of a tool that is not read; None else."""
    return next((f"{file['path']}: {why}" for file in files if (why := _transcript(file)[1])), None)


def _transcript(file: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the kind of a transcript, or what it is if it is not read; None for a record with a reward or messages."""
    rewards = dict(file["fields"]).get("reward", "").split(",")  # no path where functions give all of it
    others = {"messages", *NAMES["reward"], *(path.partition(".")[0] for path in rewards)}
    if file["format"] != "generic" or others & {*file["keys"]}:
        return None, None
    fills_file = file["layout"] != "lines" or file["rows_read"] == 1
    return _core.transcript_by_keys(file["keys"], fills_file)


CONVERT = str(TranscriptError.hint)
"""Hint for transcripts."""


def describe_data_set(files: Iterable[Mapping[str, Any]]) -> str | None:
    """Return `data/train.jsonl is of a data set of karl-fast` if rows of a file have its stamp; None else."""
    path = next((file["path"] for file in files if STAMP in file["keys"] and "reward" not in file["keys"]), None)
    return path and f"{path} is of a data set of karl-fast"


STAMP = "karl_fast"
"""Key of the object in a row of a data set that says where it came from; rows written `--as raw` have none."""

REDRAW = "give the log that it was drawn from, or --reward karl_fast.reward --group karl_fast.group"
"""Hint for rows of a data set."""


def describe_unrated(files: Sequence[Mapping[str, Any]], field: str, asked: str | None) -> str | None:
    """Return `x.jsonl was converted without rewards` if trajectories have none and no other field was named."""
    if field != "reward" or asked is not None or not files or any(file["format"] != TRAJECTORY for file in files):
        return None
    more = f" and {counted(len(files) - 1, 'other')} were" if len(files) > 1 else " was"
    return f"{files[0]['path']}{more} converted without rewards"


TRAJECTORY = "trajectory"
"""The format that `convert` writes."""


def rating_hint(files: Iterable[Mapping[str, Any]], outcomes: Sequence[str] = ()) -> str:
    """Return the hint for trajectories without rewards, given the paths of components of their outcomes."""
    if all("synthetic" in file["keys"] for file in files):
        return "they are synthetic: --reward synthetic draws them, with a reward of 1 each"
    if outcomes:
        return f"their outcomes are rewards where you name them: --reward {','.join(f'{path}=1' for path in outcomes)}"
    return "karl-fast outcomes finds what they earned, and convert --rate karl-v1 or karl-v2 gives rewards"


INFORMATIVE = ("verified", "survived", "tests", "merged", "reverted", "corrected", "committed", "build", "lint")
"""Components of an outcome that say what work was worth; who typed it, and who stopped, says nothing about that."""


def informative_outcomes(outcomes: OutcomeFacts | None) -> list[str]:
    """Return the paths of components of a log's outcomes that say what work was worth, and differ."""
    varied = {
        component["name"] for component in (outcomes or {"components": []})["components"] if not component["constant"]
    }
    return [f"outcome.{name}" for name in INFORMATIVE if name in varied]


def _missing_part(record: dict[str, Any], asked: str) -> str | None:
    """Return the first path that a record lacks of a field made of several, or by a function; None of a plain path."""
    paths = [path for path in re.split(r"\|\||[,|()\s]+|//\d+", asked) if path and path not in FUNCTIONS]
    return (
        next((path for path in paths if value_at(record, path) is None), None) if record and paths != [asked] else None
    )


FUNCTIONS = ("hash", "json", "plan")
"""Functions of the language of fields."""


def _hint_by_form(log: Log, field: str, asked: str | None, record: dict[str, Any]) -> str | None:
    """Return the hint for records of a form of their own, where no field can be named."""
    if asked is not None:
        return f"a function has a name and a weight: --reward score=1:{shlex.quote(asked)}" if ".py:" in asked else None
    path = next((file["path"] for file in log.inputs if file["keys"]), "-")
    if sum(file["rows_read"] for file in log.inputs) == 1 and (inner_records := [*filter(_is_record, record.values())]):
        are_all = len(inner_records) == len(record)
        return ByNameError("", path, "." if are_all else BY_NAME).hint
    return (_elements_hint(record) if field == "reward" else None) or _preference_hint(log, field, path, record)


def _elements_hint(record: dict[str, Any]) -> str | None:
    """Return the options that read each element of a list of objects with a reward and an answer; None without one."""
    for key, elements in record.items():
        if not isinstance(elements, list) or not elements or not all(isinstance(element, dict) for element in elements):
            continue
        reward = next((name for name in NAMES["reward"] if all(is_reward(e.get(name)) for e in elements)), None)
        answers = [name for name in NAMES["response"] if all(isinstance(e.get(name), str) for e in elements)]
        talks = [name for name in NAMES["messages"] if all(is_conversation(e.get(name)) for e in elements)]
        if reward and (answers or talks):
            option, name = ("messages", talks[0]) if talks else ("completion", answers[0])
            path = key.replace(".", r"\.")
            return (
                f"each record holds a group: --reward {shlex.quote(f'{path}[].{reward}')} "
                f"--{option} {shlex.quote(f'{path}[].{name}')} makes a row of each element"
            )
    return None


BY_NAME = 'with_entries(select(.value | type == "object"))'
"""The part of an object that holds records by name."""


def _is_record(value: object) -> bool:
    """Return whether a value has a reward and a conversation, or a prompt and its completion."""
    if not isinstance(value, dict) or not any(is_reward(value.get(name)) for name in NAMES["reward"]):
        return False
    return any(is_conversation(value.get(name)) for name in NAMES["messages"]) or {"prompt", "completion"} <= {*value}


def _preference_hint(log: Log, field: str, path: str, example: dict[str, Any]) -> str | None:
    """Return the command that makes rows of the better answers of a preference set without rewards."""
    if not {"chosen", "rejected"} <= {*example} or field != "reward":
        return None
    for name in ("completion", "messages"):
        with_answers = [record | {name: record.get("chosen")} for record in records(log)]
        if gives_rows(log, with_answers):
            program = shlex.quote(f". + {{{name}: .chosen, reward: 1}}")
            command = f"jq -c {program} {shlex.quote(path)} > chosen.jsonl"
            return f"of preferences the chosen answers can be learned: {command}"
    return None


def naming_hint(field: str, keys: Iterable[str], asked: str | None = None) -> str:
    """Return the hint that names a field by its most likely path."""
    keys = [*islice(keys, MOST)]
    key = likeliest_key(field, keys, asked)
    if field == "reward" and asked is None and key:
        key = _with_siblings(key, keys)
    return f"did you mean --{field} {shlex.quote(key)}?" if key else f"name its path with --{field}"


SUM_NAMES = {"total", "reward", "overall", "score", "sum", "mean", "final"}
"""Names of values made of several rewards."""


def _with_siblings(key: str, keys: Sequence[str]) -> str:
    """Return a path with all others of its object, where that holds rewards by name and no sum of them."""
    parts = path_parts(key)
    if len(parts) < 2 or parts[-2] not in ("rewards", "scores"):
        return key
    siblings = [other for other in keys if path_parts(other)[:-1] == parts[:-1]]
    return next((path for path in siblings if path_parts(path)[-1] in SUM_NAMES), ",".join(siblings))


def describe_recordless(files: Sequence[Mapping[str, Any]]) -> str | None:
    """Return `a.jsonl and 1 other file` if files were read but have no records; None else."""
    if not files or first_keys(files):
        return None
    return str(files[0]["path"]) + (f" and {counted(len(files) - 1, 'other file')}" if len(files) > 1 else "")


def find_repeated_prompts(log: Log) -> dict[str, Any] | None:
    """Return prompts that occur several times in a log without groups, and the option that groups them.

    Args:
        log: the log; its first 4 MiB of records are read again.

    Returns:
        ``prompts`` that occur twice or more, ``rows`` of them, and the ``group`` that parts rows by prompt, None where
        no field of the records has the prompt alone; None where there are groups, or nothing occurs again.
    """
    if log.core.streamed is not None or not len(log) or log.core.distinct("group"):
        return None
    rows = _prompts_and_records(log)
    counts = Counter(_seen_hashes.prompt_hash(_seen_hashes.messages_of({"prompt": prompt})) for prompt, _ in rows)
    repeated = {prompt: count for prompt, count in counts.items() if count > 1}
    if not repeated:
        return None
    return {"prompts": len(repeated), "rows": sum(repeated.values()), "group": _prompt_field(log, rows)}


PROMPT_BYTES = 4 << 20
"""Bytes of records that are searched for repeated prompts."""


def _prompts_and_records(log: Log) -> list[tuple[Any, dict[str, Any]]]:
    """Return the prompts that the first records of a log have, with these records."""
    try:
        texts = _core.answered(log.core, 0, PROMPT_BYTES, log.settings.threads)
    except KarlError:  # the file has changed, which another error reports
        return []
    parsed = [json.loads(text, parse_int=float) for text in texts if text is not None]
    return [(prompt, record) for prompt, _, record in parsed if prompt]


def _prompt_field(log: Log, rows: list[tuple[Any, dict[str, Any]]]) -> str | None:
    """Return ``hash(PATH)`` of the field that holds the prompt of every one of some records; None without one."""
    paths = {dict(file["fields"]).get("prompt", "") for file in log.inputs} - {""}
    return next((f"hash({path})" for path in sorted(paths) if all(value_at(record, path) for _, record in rows)), None)
