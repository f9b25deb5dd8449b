"""Display of whole rollouts of an online run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karl_fast._safe_text import clean, pictured

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def describe_rollout(line: Mapping[str, Any]) -> str:
    """Format a line of ``rollouts.jsonl``: its numbers, and every message, without control characters."""
    return "\n".join(_rollout_lines(line))


def _rollout_lines(line: Mapping[str, Any]) -> Iterator[str]:
    reward = f"reward {line['reward']:.4g}" if line["reward"] is not None else f"missing: {clean(line['missing'])}"
    learned = "learned" if line["learned"] else "not learned"
    yield f"rollout   {clean(str(line['id']))}, round {line['round'] + 1}, prompt {clean(line['prompt_id'])}"
    yield f"outcome   {reward}, {clean(str(line['finish']))}, {learned}"
    if line["components"]:
        yield "rewards   " + ", ".join(f"{clean(name)} {value:.4g}" for name, value in line["components"].items())
    for message in line["messages"]:
        yield from _describe_message(message)


def _describe_message(message: Mapping[str, Any]) -> Iterator[str]:
    content = message.get("content")
    yield f"[{clean(str(message['role']))}]"
    yield from (pictured(text) for text in (content if isinstance(content, str) else str(content or "")).split("\n"))
    if calls := message.get("tool_calls"):
        yield pictured(f"tool_calls: {calls}")
