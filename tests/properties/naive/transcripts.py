"""Twin of the conversion of Claude Code's transcripts: everything in memory, one line at a time."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

Line = dict[str, Any]
Trajectory = dict[str, Any]

EXPANDED = ("<command-name>", "<command-message>", "<command-args>")
WRAPPED = ("<task-notification>", "<command-", "<local-command-", "<bash-input>", "<bash-stdout>", "<bash-stderr>")


def lines(path: Path) -> list[Line]:
    """The whole records of a file."""
    found = []
    for text in path.read_text("utf-8", errors="replace").split("\n"):
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict):
            found.append(line)
    return found


def sessions(paths: list[Path]) -> dict[str, list[Line]]:
    """The lines of each session, each uuid once, the file that begins first in front."""
    by_file: dict[str, list[tuple[float, int, str, list[Line]]]] = defaultdict(list)
    for path in paths:
        mine: dict[str, list[Line]] = defaultdict(list)
        for line in lines(path):
            if line["type"] == "queue-operation":
                # Two of one file may be equal: the place of each among its equals is its id.
                text = json.dumps(line)
                line["uuid"] = f"{text} {sum(other['uuid'].startswith(text) for other in mine[line['sessionId']])}"
            if line.get("uuid"):
                mine[line["sessionId"]].append(line)
        for session, found in mine.items():
            by_file[session].append((min(map(moment, found)), len(found), str(path), found))
    merged = {}
    for session, files in by_file.items():
        once: dict[str, Line] = {}
        for *_, found in sorted(files, key=lambda file: file[:3]):
            for line in found:
                once.setdefault(line["uuid"], line)
        merged[session] = list(once.values())
    return merged


def moment(line: Line) -> float:
    return datetime.fromisoformat(line["timestamp"].replace("Z", "+00:00")).timestamp()


def threads(found: list[Line]) -> dict[str | None, list[Line]]:
    """The lines of the session itself under None, those of each sub-agent under its name."""
    by: dict[str | None, list[Line]] = defaultdict(list)
    own = {line["uuid"] for line in found}
    for line in found:
        by[line["agentId"] if line.get("isSidechain") else None].append(line)
        data = line.get("data") or {}
        if data.get("type") == "agent_progress" and data["message"]["uuid"] not in own:
            # Nothing names its parent: it is the line before.
            by[data["agentId"]].append(data["message"] | {"parentUuid": "not told"})
    return by


def branch(found: list[Line]) -> set[str]:
    """The lines from the last message back to the first; where a parent is not there, the one before."""
    by = {line["uuid"]: line for line in found}
    said = [line["uuid"] for line in found if line["type"] in ("user", "assistant")]
    order = [line["uuid"] for line in found]
    on: set[str] = set()
    queued = {line["uuid"] for line in found if line["type"] == "queue-operation"}
    here = said[-1] if said else None
    while here is not None and here not in on:
        on.add(here)
        line = by[here]
        parent = line.get("parentUuid") or line.get("logicalParentUuid")
        if parent in by:
            here = parent
        elif parent is None and line["type"] != "system":
            here = None
        else:
            earlier = [uuid for uuid in order[: order.index(here)] if by[uuid]["type"] in ("user", "assistant")]
            here = earlier[-1] if earlier else None
    before = True
    for line in found:
        if line["uuid"] in queued and before:
            on.add(line["uuid"])
        before = line["uuid"] in on if line["type"] in ("user", "assistant") else before
    return on


def words(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = [block["text"] if block["type"] == "text" else f"[{block['type']}]" for block in content or []]
    return "\n".join(part for part in parts if part)


def is_prompt(text: str) -> bool:
    text = text.lstrip()
    return bool(text) and not text.startswith(WRAPPED) and not text.startswith("[Request interrupted by user")


def success(block: Line, result: Any) -> bool | None:
    if block.get("is_error") is True or (isinstance(result, str) and result.startswith("Error")):
        return False
    if block.get("is_error") is False or isinstance(result, dict | list):
        return True
    return None


def messages(found: list[Line]) -> list[Line]:
    """The messages of one thread."""
    on = branch(found)
    ids = {line["message"]["id"] for line in found if line["uuid"] in on and line["type"] == "assistant"}
    out: list[Line] = []
    turns: dict[str, Line] = {}
    waiting: set[str] = set()
    queue: list[str] = []
    read: list[Line] = []
    expands = False
    for line in found:
        if line["type"] == "queue-operation":
            # Real ones are of versions without attachments: what is removed was read, before the next message.
            if line["operation"] == "enqueue":
                queue.append(line["content"])
            elif line["operation"] == "popAll":
                queue.clear()
            elif (words_of := queue.pop(0)) and line["operation"] == "remove" and line["uuid"] in on:
                read.append({"role": "user", "content": words_of, "timestamp": line["timestamp"]})
            continue
        if line["type"] not in ("user", "assistant") or line.get("isCompactSummary"):
            continue
        message = line["message"]
        if line.get("isMeta"):
            text = words(message["content"])
            if expands and line["uuid"] in on and is_prompt(text):
                out.append({"role": "user", "content": text, "timestamp": line["timestamp"]})
            continue
        if line["uuid"] in on:
            expands = line["type"] == "user" and words(message["content"]).startswith(EXPANDED)
        if line["type"] == "assistant":
            if message["id"] in ids and message["model"] != "<synthetic>":
                if message["id"] not in turns:
                    out += read
                    read = []
                    turns[message["id"]] = {"role": "assistant", "content": [], "reasoning": [], "calls": []}
                    turns[message["id"]] |= {"timestamp": line["timestamp"], "model": message["model"], "tokens": {}}
                    out.append(turns[message["id"]])
                count(turns[message["id"]]["tokens"], message["usage"])
                for block in message["content"]:
                    add(turns[message["id"]], block, waiting)
            continue
        blocks = message["content"]
        blocks = [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks
        prompt = []
        for block in blocks:
            if block["type"] == "tool_result":
                if block["tool_use_id"] in waiting:
                    waiting.remove(block["tool_use_id"])
                    done = success(block, line.get("toolUseResult"))
                    out.append(
                        {
                            "role": "tool",
                            "content": words(block.get("content")),
                            "id": block["tool_use_id"],
                            "success": done,
                            "timestamp": line["timestamp"],
                        }
                    )
            elif line["uuid"] in on and (block["type"] != "text" or is_prompt(block["text"])):
                prompt.append(words([block]))
        if prompt:
            out += read
            read = []
            out.append({"role": "user", "content": "\n".join(prompt), "timestamp": line["timestamp"]})
    return out + read


def count(tokens: dict[str, int], usage: Line) -> None:
    """Of a message whose lines differ, the most."""
    keys = {"input": "input_tokens", "output": "output_tokens"}
    keys |= {f"cache_{what}": f"cache_{what}_input_tokens" for what in ("creation", "read")}
    for mine, theirs in keys.items():
        if usage.get(theirs) is not None:
            tokens[mine] = max(tokens.get(mine, 0), usage[theirs])


def add(turn: Line, block: Line, waiting: set[str]) -> None:
    if block["type"] == "text":
        turn["content"].append(block["text"])
    elif block["type"] == "thinking":
        turn["reasoning"].append(block["thinking"])
    elif block["type"] == "tool_use":
        turn["calls"].append((block["id"], block["name"], block["input"]))
        waiting.add(block["id"])


def trajectories(paths: list[Path]) -> dict[str, list[Line]]:
    """The messages of each trajectory by its id."""
    made = {}
    for session, found in sessions(paths).items():
        for agent, mine in threads(found).items():
            if said := messages(mine):
                made[session if agent is None else f"{session}/{agent}"] = said
    return made
