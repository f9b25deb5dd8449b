"""Fields of records, for errors about missing fields."""

from __future__ import annotations

import json
import re
import shlex
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karl_fast import _core
from karl_fast._safe_text import counted
from karl_fast._suggest import MOST, nearest
from karl_fast.errors import ByNameError, KarlError, TranscriptError
from karl_fast.log.log import columns
from karl_fast.log.spool import temporary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from karl_fast._core import OutcomeFacts
    from karl_fast.log import Log

# Descriptions of the messages of a conversation, for errors and hints.


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


SHOWN = 16
"""Maximum keys of a record in an error."""

NAMES = {
    "group": ("group", "group_id", "task_id", "task", "problem_id", "prompt_id", "instance_id", "question_id"),
    "reward": ("reward", "score", "rewards", "return", "outcome", "resolved", "success"),
    "messages": (
        *("messages", "conversation", "conversations", "turns"),
        *("chat", "dialogue", "history", "trajectory", "traj", "contents"),
    ),
}
"""Names that tools use for each field, the most common first."""


INSIDE = {"group": ("", ".id", ".name")}
"""Suffixes after the name of a field that is an object with a name of its own."""


def lacking(log: Log, field: str, asked: str | None) -> tuple[str, str | None]:
    """Return the end of an error about a field that no record has, and its hint."""
    keys = first(log.inputs)
    if told := transcripts(log.inputs):
        return f"; {told}", CONVERT
    if told := unread(log.inputs):
        return f"; {told}", None
    if asked is None and (told := drawn(log.inputs)):
        return f"; {told}", REDRAW
    if told := unrated(log.inputs, field, asked):
        return f"; {told}", rated(log.inputs, rewarding(log.core.outcomes(log.settings.threads)))
    one = record(log)
    if asked and (lost := _lost_part(one, asked)):
        near = likeliest(field, fitting(records(log), field), lost)
        hint = f"did you mean --{field} {shlex.quote(asked.replace(lost, near))}?" if near else named(field, ())
        return f"; the first record lacks {lost}{held(keys)}", hint
    if more := _followed(log, field, asked, one):
        return held(keys), more
    found = holder(one, asked) if asked else None
    told = held(found[1], found[0], "holds") if found else held(keys)
    if field == "messages":
        return told, conversation_hint(log) or "name its path with --messages, or --prompt and --completion"
    others = {*(log.settings.paths or ())} if field == "reward" else set()
    return told, named(field, (path for path in fitting(records(log), field) if path not in others), asked)


def _lost_part(one: dict[str, Any], asked: str) -> str | None:
    """Return the first path that a record lacks of a field made of several, or by a function; None of a plain path."""
    paths = [path for path in re.split(r"\|\||[,|()\s]+|//\d+", asked) if path and path not in FUNCTIONS]
    return next((path for path in paths if at(one, path) is None), None) if one and paths != [asked] else None


FUNCTIONS = ("hash", "json", "plan")
"""Functions of the language of fields."""


def _followed(log: Log, field: str, asked: str | None, one: dict[str, Any]) -> str | None:
    """Return the hint for records of a form of their own, where no field can be named."""
    if asked is not None:
        return f"a function has a name and a weight: --reward score=1:{shlex.quote(asked)}" if ".py:" in asked else None
    path = next((file["path"] for file in log.inputs if file["keys"]), "-")
    if sum(file["rows_read"] for file in log.inputs) == 1 and (inside := [*filter(_is_record, one.values())]):
        every = len(inside) == len(one)
        return ByNameError("", path, "." if every else BY_NAME).hint
    return _preferred(log, field, path, one)


BY_NAME = 'with_entries(select(.value | type == "object"))'
"""The part of an object that holds records by name."""


def _is_record(value: object) -> bool:
    """Return whether a value has a reward and a conversation, or a prompt and its completion."""
    if not isinstance(value, dict) or not any(_is_reward(value.get(name)) for name in NAMES["reward"]):
        return False
    return any(is_conversation(value.get(name)) for name in NAMES["messages"]) or {"prompt", "completion"} <= {*value}


def _preferred(log: Log, field: str, path: str, one: dict[str, Any]) -> str | None:
    """Return the command that makes rows of the better answers of a preference set without rewards."""
    if not {"chosen", "rejected"} <= {*one} or field != "reward":
        return None
    for name in ("completion", "messages"):
        with_answers = [record | {name: record.get("chosen")} for record in records(log)]
        if _teaches(log, with_answers):
            program = shlex.quote(f". + {{{name}: .chosen, reward: 1}}")
            command = f"jq -c {program} {shlex.quote(path)} > chosen.jsonl"
            return f"of preferences the chosen answers can be learned: {command}"
    return None


PROMPTS = ("prompt", "messages", "conversation", "input", "question", "instruction", "query", "problem", "contents")
"""Names that tools use for a prompt beside its answer."""

COMPLETIONS = ("completion", "chosen", "response", "output", "answer", "generation")
"""Names that tools use for an answer beside its prompt."""


REJECTED = ("rejected", "non_preferred_output", "rejected_response", "rejected_messages", "rejected_completion")
"""Fields of preference sets with the rejected answer."""


def conversation_hint(log: Log) -> str | None:
    """Return the options that were most likely meant for a conversation, or a prompt and its answer.

    Each is tried on the records: what is written has a prompt and an answer, and all of the prompt. Where a part of it
    would be lost by all of them, the hint names that part.
    """
    found, asked = records(log), log.settings.messages
    lost: list[str] = []
    for choices in _conversations(found, asked):
        if not _teaches(log, found, **choices):
            continue
        if not (left := left_beside(found, {"prompt": "prompt", "completion": "completion"} | choices)):
            options = " ".join(f"--{name} {shlex.quote(path)}" for name, path in choices.items())
            return f"did you mean {options}?"
        # Earlier turns that are taken for the conversation lose the prompt and the answer beside them.
        lost = lost or ([top(choices["messages"])] if {*left} <= {*PROMPTS, *COMPLETIONS} else left)
    return f"the texts of {' and '.join(map(shortened, lost))} {JOIN}" if lost else _of_parts(log, found)


JOIN = (
    "belong to the prompt, and no option joins them to it: write all of it into one list of messages, or one text, and"
    " name that with --messages, or --prompt"
)
"""End of the hint for a prompt of which a part stands in a field of its own."""


def left_beside(found: Sequence[Mapping[str, Any]], fields: Mapping[str, str]) -> list[str]:
    """Return the keys of some records whose values belong to the prompt, and are in none of the fields that are read.

    Args:
        found: the records.
        fields: path of each field by its name; those of ``messages``, ``prompt`` and ``completion`` are read.
    """
    read = {name: fields[name] for name in ("messages", "prompt", "completion") if name in fields}
    keys = [key for key in dict.fromkeys(key for one in found for key in one) if key not in map(top, read.values())]
    return [key for key in keys if any(_is_left(one, key, read) for one in found)]


EARLIER = {"context", "dialog", "dialogue", "turns", "previous", "prior", "earlier", "past"}
"""Words in the names of lists of turns before a prompt; a `history` is such a list of whatever form."""

CHOICES = {"choice", "choices", "option", "options"}
"""Words in the names of the answers that a question offers."""


def _is_left(one: Mapping[str, Any], key: str, read: Mapping[str, str]) -> bool:
    """Return whether a value of a record belongs to its prompt and has a text that no field which is read has."""
    value, words = one.get(key), _words(key)
    if words & CHOICES and _are_choices(value):  # the answer is one of them, and the prompt offers them all
        fields = [path for name, path in read.items() if name != "completion"]
    elif isinstance(value, list) and ("history" in words or (words & EARLIER and _are_turns(value))):
        fields = [*read.values()]
    elif (
        _words(read.get("messages", "")) & {"history", *EARLIER} and key in (*PROMPTS, *COMPLETIONS) and _has_both(one)
    ):
        fields = [read["messages"]]
    else:
        return False
    texts = "\n".join(text for path in fields for text in _texts(at(one, path)))
    return bool(texts) and any(text not in texts for text in _texts(value))


def _words(name: str) -> set[str]:
    return {*re.findall("[a-z]+", name.lower())}


def _are_choices(value: object) -> bool:
    """Return whether a value is a text, texts in a list, or by their letter; not settings, nor answers of an API."""
    if isinstance(value, list):
        return not any(
            {"message", "delta", "finish_reason", "index"} & {*one} for one in value if isinstance(one, dict)
        )
    return not isinstance(value, dict) or all(len(key) == 1 or key in ("text", "label") for key in value)


def _are_turns(value: list[Any]) -> bool:
    """Return whether a list holds messages, or pairs of a question and its answer."""
    pairs = all(
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(half, str) for half in pair) for pair in value
    )
    return bool(value) and (pairs or is_conversation(value))


def _has_both(one: Mapping[str, Any]) -> bool:
    """Return whether a record has a prompt and an answer by usual names."""
    return any(one.get(name) for name in PROMPTS) and any(one.get(name) for name in COMPLETIONS)


LABELS = ("role", "from", "type", "name", "id", "label")
"""Keys of values that are not what is said."""


def _texts(value: object) -> Iterator[str]:
    """Yield the texts in a value, without roles and labels."""
    if isinstance(value, str) and value.strip():
        yield value.strip()
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from _texts(None if key in LABELS else one)


def _of_parts(log: Log, found: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the command that joins an instruction and its input to one prompt, as data sets of Alpaca have them."""
    if not all({"instruction", "input", "output"} <= {*one} for one in found):
        return None
    if lost := left_beside(found, {"prompt": "instruction", "messages": "input", "completion": "output"}):
        return f"the texts of {' and '.join(map(shortened, lost))} {JOIN}"
    joined = [
        {**one, "prompt": f"{one['instruction']}\n\n{one['input']}", "completion": one["output"]} for one in found
    ]
    path = next((file["path"] for file in log.inputs if file["keys"]), "-")
    program = '. + {prompt: ([.instruction, .input | select(. != "")] | join("\\n\\n")), completion: .output}'
    return f"jq -c {shlex.quote(program)} {shlex.quote(path)} > log.jsonl" if _teaches(log, joined) else None


def _conversations(found: Sequence[Mapping[str, Any]], asked: str | None) -> Iterator[dict[str, str]]:
    """Yield options that may name the conversations of some records, the likeliest first."""
    whole = [path for path in fitting(found, "messages") if top(path) not in REJECTED]
    if (near := likeliest("messages", whole, asked)) is not None:
        yield {"messages": near}
    with_prompt = [path for path in whole if any(_has_prompt(at(one, path)) for one in found)]
    yield from ({"messages": path} for path in with_prompt)
    keys = dict.fromkeys(key for one in found for key in one)
    for answer in (name for name in COMPLETIONS if name in keys):
        named = {} if answer == "completion" else {"completion": answer}
        prompts = [name for name in PROMPTS if name in keys and not _is_part(name, found)]
        yield from ({"prompt": name} | named if name != "prompt" else named for name in prompts)
    yield from ({"messages": path} for path in whole if path not in with_prompt)


PARTS = ("instruction", "input", "question", "query", "problem", "context", "passage")
"""Names of texts of which several make one prompt."""


def _is_part(name: str, found: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a text is one of several that make a prompt: alone it would lose the others."""
    return name in PARTS and any(one.get(other) for one in found for other in PARTS if other != name)


def _has_prompt(messages: object) -> bool:
    """Return whether a conversation begins with a message that is not the model's."""
    return is_conversation(messages) and not is_conversation(messages[:1])  # type: ignore[index]


def _teaches(log: Log, found: Sequence[Mapping[str, Any]], **choices: Any) -> bool:
    """Return whether each of some records that has an answer under other settings has a prompt too, and one has."""
    settings = log.settings.replace(**choices)
    with temporary("-") as path:
        Path(path).write_text("".join(f"{json.dumps(one)}\n" for one in found[:TRIED]), "utf-8")
        core = _core.read(
            [(path, "-", False)],
            **columns(settings),
            partition=None,
            order=None,
            max_line_bytes=settings.max_line_bytes,
            domain_asked=False,
            compare=None,
            strict=False,
            threads=1,
            progress=None,
        )
        answers = _core.answered(core, 0, LOOKED, 1)
    halves = [json.loads(one, parse_int=float)[:2] for one in answers if one]
    prompts = [prompt for prompt, completion in halves if _says(completion)]
    return bool(prompts) and all(_says(prompt) for prompt in prompts)


TRIED = 16
"""Records that a hint is tried on."""


def _says(half: object) -> bool:
    """Return whether a text, or a message that is not the system's, has a content or calls."""
    if not isinstance(half, list):
        return bool(half)
    return any(
        bool(message.get("content") or message.get("tool_calls")) and message.get("role") != "system"
        for message in half
    )


def first(files: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the keys of a record of the first file that has one."""
    return next((list(file["keys"]) for file in files if file["keys"]), [])


def recordless(files: Sequence[Mapping[str, Any]]) -> str | None:
    """Return `a.jsonl and 1 other file` if files were read but have no records; None else."""
    if not files or first(files):
        return None
    return str(files[0]["path"]) + (f" and {counted(len(files) - 1, 'other file')}" if len(files) > 1 else "")


def held(keys: Sequence[str], what: str = "the records", verb: str = "hold") -> str:
    """Return `; the records hold id, task`; empty without keys."""
    more = [f"and {len(keys) - SHOWN} more"] if len(keys) > SHOWN else []
    return f"; {what} {verb} {', '.join([*map(shortened, keys[:SHOWN]), *more])}" if keys else ""


def shortened(key: str) -> str:
    """Return the beginning of a long key: a text may stand where a name should."""
    return key if len(key) <= LONGEST_KEY else f"{key[:LONGEST_KEY]}..."


LONGEST_KEY = 60
"""Characters of a key that are shown."""


LOOKED = 64 << 10
"""Maximum bytes of records that are searched for fields."""


def records(log: Log, size: int = LOOKED) -> list[dict[str, Any]]:
    """Return the intact records of a log with the least ids; empty for a stream that was read."""
    if log.core.streamed is not None:
        return []
    try:
        answers = _core.answered(log.core, 0, size, log.settings.threads)
    except KarlError:  # the file has changed: of that another error speaks
        return []
    # An int of Python has an end.
    return [json.loads(answer, parse_int=float)[2] for answer in answers if answer]


def record(log: Log) -> dict[str, Any]:
    """Return the first of them; empty if there is none."""
    return next(iter(records(log, 1)), {})


def _is_reward(value: object) -> bool:
    """Return whether a value is a valid reward."""
    return isinstance(value, bool | int | float) and abs(value) <= LARGEST


LARGEST = 1e100
"""The largest reward, in size, that counts."""


def _is_name(value: object) -> bool:
    return isinstance(value, str | bool | int | float)


FITS = {"reward": _is_reward, "messages": is_conversation}
"""Check of the value of a field, by name."""


def fitting(found: Sequence[Mapping[str, Any]], field: str) -> Iterator[str]:
    """Yield the paths at which any record has a valid value of a field, nested objects included."""
    fits = FITS.get(field, _is_name)
    return (path for path in dict.fromkeys(path for one in found for path in paths(one, fits)) if not ODD & {*path})


ODD = {*",=()|"}
"""Characters with a special meaning in options that take a path."""


def _is_anything(_: object) -> bool:
    return True


def paths(value: Mapping[str, Any], fits: Callable[[object], bool] = _is_anything, above: str = "") -> Iterator[str]:
    """Yield the path of every valid value in a record, nested objects included."""
    for key, inside in value.items():
        path = above + key.replace(".", r"\.")
        if key and fits(inside):
            yield path
        if key and isinstance(inside, dict):
            yield from paths(inside, fits, f"{path}.")


def _parts(path: str) -> list[str]:
    """Split a path into keys; a dot inside a key is escaped by a backslash."""
    return re.split(r"(?<!\\)\.", path)


def top(path: str) -> str:
    """Return the first key of a path."""
    return _parts(path)[0].replace(r"\.", ".")


def at(value: Any, path: str) -> Any:
    """Return the value at a path in a record; None if there is none."""
    for part in _parts(path):
        value = value.get(part.replace(r"\.", ".")) if isinstance(value, dict) else None
    return value


def holder(value: Mapping[str, Any], path: str) -> tuple[str, list[str]] | None:
    """Return path and keys of the object in a record that lacks the rest of a path; None if there is none."""
    walked: list[str] = []
    for part in _parts(path):
        key = part.replace(r"\.", ".")
        if key not in value:
            return (".".join(walked), list(value)) if walked else None
        walked, value = [*walked, part], value[key]
        if not isinstance(value, dict):
            return None
    return None


def likeliest(field: str, keys: Iterable[str], asked: str | None = None) -> str | None:
    """Return the key that was most likely meant: one nearly of the name that was asked for, or of that of the field.

    Only where no name was asked for, a usual one of the field is told.
    """
    others = [key for key in islice(keys, MOST) if key != (field if asked is None else asked)]
    if near := nearest(field if asked is None else asked, _alike(field, others, asked)):
        return near[0]
    if asked is not None:
        return None
    usual = [name + more for more in INSIDE.get(field, ("",)) for name in NAMES.get(field, ())]
    inside = (path for name in usual for path in others if path.endswith(f".{name}"))
    return next((name for name in usual if name in others), None) or next(inside, None)


def _alike(field: str, keys: Sequence[str], asked: str | None) -> Sequence[str]:
    """Return the keys that may be a slip of what was asked for; `reward_std` is none of `reward`."""
    return keys if asked is not None else [key for key in keys if not key.startswith(f"{field}_")]


def named(field: str, keys: Iterable[str], asked: str | None = None) -> str:
    """Return the hint to name a field."""
    keys = [*islice(keys, MOST)]
    key = likeliest(field, keys, asked)
    if field == "reward" and asked is None and key:
        key = _beside(key, keys)
    return f"did you mean --{field} {shlex.quote(key)}?" if key else f"name its path with --{field}"


WHOLE = {"total", "reward", "overall", "score", "sum", "mean", "final"}
"""Names of values made of several rewards."""


def _beside(key: str, keys: Sequence[str]) -> str:
    """Return a path with all others of its object, where that holds rewards by name and no sum of them."""
    parts = _parts(key)
    if len(parts) < 2 or parts[-2] not in ("rewards", "scores"):
        return key
    beside = [other for other in keys if _parts(other)[:-1] == parts[:-1]]
    return next((one for one in beside if _parts(one)[-1] in WHOLE), ",".join(beside))


def transcripts(files: Iterable[Mapping[str, Any]]) -> str | None:
    """Return `x.jsonl is a transcript of codex` if a file that no format claims is one; None else."""
    found = [(file["path"], kind) for file in files if (kind := _kind(file))]
    if not found:
        return None
    path, kind = found[0]
    if len(found) == 1:
        return f"{path} is a transcript of {kind}"
    return f"{path} and {counted(len(found) - 1, 'other')} are transcripts of {kind}"


def _kind(file: Mapping[str, Any]) -> str | None:
    """Return the kind of a transcript that is read; None for a record with a reward or messages."""
    return _transcript(file)[0]


def unread(files: Iterable[Mapping[str, Any]]) -> str | None:
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


def drawn(files: Iterable[Mapping[str, Any]]) -> str | None:
    """Return `data/train.jsonl is of a data set of karl-fast` if rows of a file have its stamp; None else."""
    path = next((file["path"] for file in files if STAMP in file["keys"] and "reward" not in file["keys"]), None)
    return path and f"{path} is of a data set of karl-fast"


STAMP = "karl_fast"
"""Key of the ``karl_fast`` object in a row of a data set."""

REDRAW = "give the log that it was drawn from, or --reward karl_fast.reward --group karl_fast.group"
"""Hint for rows of a data set."""

CONVERT = str(TranscriptError.hint)
"""Hint for transcripts."""


def unrated(files: Sequence[Mapping[str, Any]], field: str, asked: str | None) -> str | None:
    """Return `x.jsonl was converted without rewards` if trajectories have none and no other field was named."""
    if field != "reward" or asked is not None or not files or any(file["format"] != TRAJECTORY for file in files):
        return None
    more = f" and {counted(len(files) - 1, 'other')} were" if len(files) > 1 else " was"
    return f"{files[0]['path']}{more} converted without rewards"


TRAJECTORY = "trajectory"
"""The format that `convert` writes."""


def rated(files: Iterable[Mapping[str, Any]], outcomes: Sequence[str] = ()) -> str:
    """Return the hint for trajectories without rewards, given the paths of components of their outcomes."""
    if all("synthetic" in file["keys"] for file in files):
        return "they are synthetic: --reward synthetic draws them, with a reward of 1 each"
    if outcomes:
        return f"their outcomes are rewards where you name them: --reward {','.join(f'{path}=1' for path in outcomes)}"
    return "karl-fast outcomes finds what they earned, and convert --rate karl-v1 or karl-v2 gives rewards"


REWARDING = ("verified", "survived", "tests", "merged", "reverted", "corrected", "committed", "build", "lint")
"""Components of an outcome that say what work was worth; who typed it, and who stopped, says nothing of that."""


def rewarding(outcomes: OutcomeFacts | None) -> list[str]:
    """Return the paths of components of a log's outcomes that say what work was worth, and differ."""
    varied = {
        component["name"] for component in (outcomes or {"components": []})["components"] if not component["constant"]
    }
    return [f"outcome.{name}" for name in REWARDING if name in varied]
