"""Signals that rewards name, offline and online."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from karl_fast.reward.karl import compute_reward

if TYPE_CHECKING:
    from karl_fast.reward.karl import Version

Scorer: TypeAlias = Callable[..., Sequence[float | None]]
"""``fn(completions, prompts=None, **columns)``, called by keyword: a reward a row, None where it does not apply."""

OF_VERSION: dict[Version, tuple[str, ...]] = {
    "v1": ("outcome", "process", "efficiency"),
    "v2": ("outcome", "process", "efficiency", "verification", "consistency", "motion"),
}


ENGINE_FIELDS = ("outcome", "trajectory", "timing", "karl_fast_trajectory", "messages", "duration_seconds")
"""Fields the engine reads: the first three in KARL's records, the first and last three in a canonical trajectory."""

MARK_FIELDS = frozenset({"trajectory", "timing", "karl_fast_trajectory"})
"""Fields that only KARL's records and canonical trajectories have."""

GROUPWISE = ("length",)
"""Signals that compare the rollouts of a group, as which they take the rows of a call."""


def karl_signal(version: Version, key: str, /, completions: Sequence[Any], **columns: Sequence[Any]) -> list[float]:
    """Compute a score of KARL's engine from the columns it reads; missing ones, and None in a row, are left out.

    Rows without a field of KARL's or of a canonical trajectory are scored by the calls of tools in their completion.
    """
    names = [name for name in ENGINE_FIELDS if name in columns]
    rewards = []
    for row, completion in enumerate(completions):
        record: dict[str, Any] = {name: columns[name][row] for name in names if columns[name][row] is not None}
        scorable = record if MARK_FIELDS & record.keys() else _trajectory(record, completion)
        rewards.append(compute_reward(scorable, version=version)[key])
    return rewards


def _trajectory(record: dict[str, Any], completion: Any) -> dict[str, Any]:
    """Return a canonical trajectory with the calls of a conversation, and the outcome of a record, if it is KARL's."""
    outcome = {"outcome": record["outcome"]} if isinstance(record.get("outcome"), dict) else {}
    # Of a record the completion ends with the last turn of the model: results after it are in its messages alone.
    conversation = record.get("messages", completion)
    messages = _with_calls(conversation) if isinstance(conversation, list) else []
    return {"karl_fast_trajectory": 1, "messages": messages, **outcome}


def _with_calls(messages: Sequence[Any]) -> list[Any]:
    """Return messages in which each result of a tool has its call, which an environment says by name and arguments."""
    complete: list[Any] = []
    for number, message in enumerate(messages):
        if isinstance(message, dict) and message.get("role") == "tool" and not message.get("tool_call_id"):
            id, function = f"call-{number}", {name: message.get(name) for name in ("name", "arguments")}
            complete.append({"role": "assistant", "tool_calls": [{"id": id, "function": function}]})
            message = message | {"tool_call_id": id}
        complete.append(message)
    return complete


def format_signal(completions: Sequence[Any], **columns: Sequence[Any]) -> list[float]:
    """Score the form of each turn of the model: thoughts that end with `</think>`, and then an answer.

    Returns:
        The share of turns of that form, 0 without a turn; a `<think>` is at the beginning, or in the prompt. [B]
    """
    turns = [[completion] if isinstance(completion, str) else assistant_texts(completion) for completion in completions]
    return [sum(map(_has_thought_form, texts)) / len(texts) if texts else 0.0 for texts in turns]


def assistant_texts(messages: Sequence[dict[str, Any]]) -> list[str]:
    """Return the texts of the assistant's messages."""
    return [str(message.get("content") or "") for message in messages if message.get("role") == "assistant"]


def _has_thought_form(text: str) -> bool:
    thoughts, _, answer = text.strip().removeprefix("<think>").partition("</think>")
    return bool(answer.strip()) and "<think>" not in thoughts + answer and "</think>" not in answer


def length_signal(
    completions: Sequence[Any], completion_ids: Sequence[Any] | None = None, **columns: Sequence[Any]
) -> list[float]:
    """Score the rollouts of a group by length: 1 for the shortest, 0 for the longest, .5 if all are equal.

    The length is in tokens of the model, or in characters where these are unknown.
    """
    texts = [
        completion if isinstance(completion, str) else "".join(assistant_texts(completion))
        for completion in completions
    ]
    return shorter_is_better(texts if completion_ids is None else completion_ids)


def shorter_is_better(trajectories: Sequence[Any]) -> list[float]:
    """Score a group by length: 1 for the shortest, 0 for the longest.

        r_i = (longest - length_i) / (longest - shortest); .5 if all are equal

    Args:
        trajectories: objects with a length, of one group. [G]

    Returns:
        The rewards. [G]

    Raises:
        TypeError: a trajectory without a length.

    Reference: Kimi k1.5 (arXiv:2501.12599), its length reward rescaled to 0 to 1, without the part for errors.
    """
    lengths = [len(trajectory) for trajectory in trajectories]
    least, most = min(lengths), max(lengths)
    return [(most - length) / (most - least) if most > least else 0.5 for length in lengths]


BY_NAME: dict[str, Scorer] = {
    **{f"karl-{version}": partial(karl_signal, version, "reward_score") for version in OF_VERSION},
    **{
        f"karl-{version}.{name}": partial(karl_signal, version, f"{name}_score")
        for version, names in OF_VERSION.items()
        for name in names
    },
    "format": format_signal,
    "length": length_signal,
}
"""The function of each."""

SIGNALS = tuple(BY_NAME)
"""Names of signals for ``fn`` of a `Part`."""
