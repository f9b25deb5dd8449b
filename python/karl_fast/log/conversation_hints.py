"""Hints for conversations that were not found: the options that read them, each tried on the records first.

```text
records -> options that may name the conversation, the likeliest first
        -> rows under those options: has each a prompt and an answer, and all of the prompt?
        -> "did you mean --messages turns?", or the fields that belong to the prompt and no option joins
```
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karl_fast import _core
from karl_fast.log.log import columns
from karl_fast.log.record_fields import (
    SEARCH_BYTES,
    fitting_paths,
    is_conversation,
    likeliest_key,
    records,
    shorten_key,
    top_key,
    value_at,
)
from karl_fast.log.spool import temporary

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from karl_fast.log import Log


def conversation_hint(log: Log) -> str | None:
    """Return the options that were most likely meant for a conversation, or a prompt and its answer.

    Each is tried on the records: what is written has a prompt and an answer, and all of the prompt. Where a part of it
    would be lost by all of them, the hint names that part.
    """
    some, path = records(log), log.settings.messages
    lost_keys: list[str] = []
    for choices in _conversation_options(some, path):
        if not gives_rows(log, some, **choices):
            continue
        if not (unread := unread_prompt_keys(some, {"prompt": "prompt", "completion": "completion"} | choices)):
            options = " ".join(f"--{name} {shlex.quote(path)}" for name, path in choices.items())
            return f"did you mean {options}?"
        # Earlier turns that are taken for the conversation lose the prompt and the answer beside them.
        lost_keys = lost_keys or ([top_key(choices["messages"])] if {*unread} <= {*PROMPTS, *COMPLETIONS} else unread)
    return f"the texts of {' and '.join(map(shorten_key, lost_keys))} {JOIN}" if lost_keys else _joining_hint(log, some)


JOIN = (
    "belong to the prompt, and no option joins them to it: write all of it into one list of messages, or one text, and"
    " name that with --messages, or --prompt"
)
"""End of the hint for a prompt of which a part stands in a field of its own."""

PROMPTS = ("prompt", "messages", "conversation", "input", "question", "instruction", "query", "problem", "contents")
"""Names that tools use for a prompt beside its answer."""

COMPLETIONS = ("completion", "chosen", "response", "output", "answer", "generation")
"""Names that tools use for an answer beside its prompt."""

REJECTED = ("rejected", "non_preferred_output", "rejected_response", "rejected_messages", "rejected_completion")
"""Fields of preference sets with the rejected answer."""


def _conversation_options(some: Sequence[Mapping[str, Any]], asked: str | None) -> Iterator[dict[str, str]]:
    """Yield options that may name the conversations of some records, the likeliest first."""
    whole = [path for path in fitting_paths(some, "messages") if top_key(path) not in REJECTED]
    if (near := likeliest_key("messages", whole, asked)) is not None:
        yield {"messages": near}
    with_prompt = [path for path in whole if any(_has_prompt(value_at(record, path)) for record in some)]
    yield from ({"messages": path} for path in with_prompt)
    keys = dict.fromkeys(key for record in some for key in record)
    for answer in (name for name in COMPLETIONS if name in keys):
        answer_option = {} if answer == "completion" else {"completion": answer}
        prompts = [name for name in PROMPTS if name in keys and not _is_part(name, some)]
        yield from ({"prompt": name} | answer_option if name != "prompt" else answer_option for name in prompts)
    yield from ({"messages": path} for path in whole if path not in with_prompt)


PARTS = ("instruction", "input", "question", "query", "problem", "context", "passage")
"""Names of texts of which several make one prompt."""


def _is_part(name: str, some: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a text is one of several that make a prompt: alone it would lose the others."""
    return name in PARTS and any(record.get(other) for record in some for other in PARTS if other != name)


def _has_prompt(messages: object) -> bool:
    """Return whether a conversation begins with a message that is not the model's."""
    return is_conversation(messages) and not is_conversation(messages[:1])  # type: ignore[index]


def gives_rows(log: Log, some: Sequence[Mapping[str, Any]], **choices: Any) -> bool:
    """Return whether each of some records that has an answer under other settings has a prompt too, and one has."""
    settings = log.settings.replace(**choices)
    with temporary("-") as path:
        Path(path).write_text("".join(f"{json.dumps(record)}\n" for record in some[:TRIAL_RECORDS]), "utf-8")
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
        answers = _core.answered(core, 0, SEARCH_BYTES, 1)
    halves = [json.loads(answer, parse_int=float)[:2] for answer in answers if answer]
    prompts = [prompt for prompt, completion in halves if _has_content(completion)]
    return bool(prompts) and all(_has_content(prompt) for prompt in prompts)


TRIAL_RECORDS = 16
"""Records that a hint is tried on."""


def _has_content(half: object) -> bool:
    """Return whether a text, or a message that is not the system's, has a content or calls."""
    if not isinstance(half, list):
        return bool(half)
    return any(
        bool(message.get("content") or message.get("tool_calls")) and message.get("role") != "system"
        for message in half
    )


def unread_prompt_keys(some: Sequence[Mapping[str, Any]], fields: Mapping[str, str]) -> list[str]:
    """Return the keys of some records whose values belong to the prompt, and are in none of the fields that are read.

    Args:
        some: the records.
        fields: path of each field by its name; those of ``messages``, ``prompt`` and ``completion`` are read.
    """
    read = {name: fields[name] for name in ("messages", "prompt", "completion") if name in fields}
    keys = [
        key for key in dict.fromkeys(key for record in some for key in record) if key not in map(top_key, read.values())
    ]
    return [key for key in keys if any(_is_unread(record, key, read) for record in some)]


EARLIER = {"context", "dialog", "dialogue", "turns", "previous", "prior", "earlier", "past"}
"""Words in the names of lists of turns before a prompt; a `history` is such a list of whatever form."""

CHOICES = {"choice", "choices", "option", "options"}
"""Words in the names of the answers that a question offers."""


def _is_unread(record: Mapping[str, Any], key: str, read: Mapping[str, str]) -> bool:
    """Return whether a value of a record belongs to its prompt and has a text that no field which is read has."""
    value, words = record.get(key), _words(key)
    if words & CHOICES and _are_choices(value):  # the answer is one of them, and the prompt offers them all
        fields = [path for name, path in read.items() if name != "completion"]
    elif isinstance(value, list) and ("history" in words or (words & EARLIER and _are_turns(value))):
        fields = [*read.values()]
    elif (
        _words(read.get("messages", "")) & {"history", *EARLIER}
        and key in (*PROMPTS, *COMPLETIONS)
        and _has_both(record)
    ):
        fields = [read["messages"]]
    else:
        return False
    texts = "\n".join(text for path in fields for text in _texts(value_at(record, path)))
    return bool(texts) and any(text not in texts for text in _texts(value))


def _words(name: str) -> set[str]:
    return {*re.findall("[a-z]+", name.lower())}


def _are_choices(value: object) -> bool:
    """Return whether a value is a text, texts in a list, or by their letter; not settings, nor answers of an API."""
    if isinstance(value, list):
        return not any(
            {"message", "delta", "finish_reason", "index"} & {*choice} for choice in value if isinstance(choice, dict)
        )
    return not isinstance(value, dict) or all(len(key) == 1 or key in ("text", "label") for key in value)


def _are_turns(value: list[Any]) -> bool:
    """Return whether a list holds messages, or pairs of a question and its answer."""
    pairs = all(
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(half, str) for half in pair) for pair in value
    )
    return bool(value) and (pairs or is_conversation(value))


def _has_both(record: Mapping[str, Any]) -> bool:
    """Return whether a record has a prompt and an answer by usual names."""
    return any(record.get(name) for name in PROMPTS) and any(record.get(name) for name in COMPLETIONS)


LABEL_KEYS = ("role", "from", "type", "name", "id", "label")
"""Keys of values that are not what is said."""


def _texts(value: object) -> Iterator[str]:
    """Yield the texts in a value, without roles and labels."""
    if isinstance(value, str) and value.strip():
        yield value.strip()
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts(None if key in LABEL_KEYS else inner)


def _joining_hint(log: Log, some: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the command that joins an instruction and its input to one prompt, as data sets of Alpaca have them."""
    if not all({"instruction", "input", "output"} <= {*record} for record in some):
        return None
    if lost_keys := unread_prompt_keys(some, {"prompt": "instruction", "messages": "input", "completion": "output"}):
        return f"the texts of {' and '.join(map(shorten_key, lost_keys))} {JOIN}"
    joined = [
        {**record, "prompt": f"{record['instruction']}\n\n{record['input']}", "completion": record["output"]}
        for record in some
    ]
    path = next((file["path"] for file in log.inputs if file["keys"]), "-")
    program = '. + {prompt: ([.instruction, .input | select(. != "")] | join("\\n\\n")), completion: .output}'
    return f"jq -c {shlex.quote(program)} {shlex.quote(path)} > log.jsonl" if gives_rows(log, joined) else None
