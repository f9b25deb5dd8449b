"""Made-up transcripts, written from the tools' published schemas: what no real sample is at hand for."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

Line = dict[str, Any]


def name(text: str) -> str:
    """A uuid, the same for the same text."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, text))


class Session:
    """A transcript of Claude Code while it is written: each line's parent is the line before."""

    def __init__(self, session: str = "s", agent: str | None = None, start: int = 0) -> None:
        self.session, self.agent = session, agent
        self.lines: list[Line] = []
        self.last: str | None = None
        self.clock = start

    @property
    def id(self) -> str:
        return name(self.session)

    def line(self, kind: str, **fields: Any) -> Line:
        """Appends a line with the fields that every line has."""
        self.clock += 1
        moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.clock)
        own = {
            "parentUuid": self.last,
            "isSidechain": self.agent is not None,
            "userType": "external",
            "cwd": "/home/dev/shop",
            "sessionId": self.id,
            "version": "2.1.29",
            "gitBranch": "main",
            "type": kind,
            "uuid": name(f"{self.session} {self.agent} {len(self.lines)} {fields}"),
            "timestamp": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }
        line = own | ({"agentId": self.agent} if self.agent else {}) | fields
        self.lines.append(line)
        self.last = line["uuid"]
        return line

    def ask(self, content: Any, **fields: Any) -> Line:
        return self.line("user", message={"role": "user", "content": content}, **fields)

    def speak(self, message: str, *blocks: Line, model: str = "claude-opus-4-5", **usage: int) -> list[Line]:
        """The model's message, a line for each block."""
        counts = {"input_tokens": 3, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 100}
        whole = {"model": model, "id": message, "type": "message", "role": "assistant", "stop_reason": None}
        return [
            self.line(
                "assistant",
                message=whole | {"content": [block], "usage": counts | {"output_tokens": at + 1} | usage},
                requestId="r",
            )
            for at, block in enumerate(blocks)
        ]

    def answer(self, call: str, content: Any, result: Any = None, is_error: bool | None = None) -> Line:
        block = {"tool_use_id": call, "type": "tool_result", "content": content}
        if is_error is not None:
            block["is_error"] = is_error
        more = {} if result is None else {"toolUseResult": result}
        return self.ask([block], **more)

    def queue(self, operation: str, **fields: Any) -> Line:
        """A line of the queue of prompts, which no parent links."""
        last = self.last
        line = self.line("queue-operation", operation=operation, **fields)
        for key in ("uuid", "parentUuid", "isSidechain", "userType", "cwd", "version", "gitBranch"):
            del line[key]
        self.last = last
        return line

    def attach(self, prompt: Any, mode: str | None = "prompt", **fields: Any) -> Line:
        """A prompt that was typed while the agent worked, where the model read it."""
        attachment = {"type": "queued_command", "prompt": prompt} | ({"commandMode": mode} if mode else {}) | fields
        return self.line("attachment", attachment=attachment)

    def compact(self, logical: str | None, **metadata: Any) -> Line:
        """A compaction and its summary; returns the boundary, after which the summary is the last line."""
        self.last = None
        fields = {"logicalParentUuid": logical, "compactMetadata": {"trigger": "auto", "preTokens": 9} | metadata}
        boundary = self.line("system", subtype="compact_boundary", content="Conversation compacted", **fields)
        self.ask("This session is being continued", isCompactSummary=True)
        return boundary

    def progress(self) -> Line:
        return self.line("progress", data={"type": "bash_progress", "output": "..."}, toolUseID="t")

    def relay(self, agent: Session, call: str) -> list[Line]:
        """A line of progress for each line of a sub-agent: the line itself is in it, without what all lines have."""
        base = {"parentUuid", "isSidechain", "userType", "cwd", "sessionId", "version", "gitBranch", "agentId"}
        told = [{key: value for key, value in line.items() if key not in base} for line in agent.lines]
        return [
            self.line(
                "progress",
                data={
                    "message": message,
                    "normalizedMessages": [],
                    "type": "agent_progress",
                    "prompt": "look there",
                    "agentId": agent.agent,
                },
                toolUseID=f"agent_msg_{at}",
                parentToolUseID=call,
            )
            for at, message in enumerate(told)
        ]

    def write(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in self.lines), "utf-8")
        return path


def text(words: str) -> Line:
    return {"type": "text", "text": words}


def thinking(words: str) -> Line:
    return {"type": "thinking", "thinking": words, "signature": "c2ln"}


def call(id: str, tool: str, **arguments: Any) -> Line:
    return {"type": "tool_use", "id": id, "name": tool, "input": arguments}


def plain(session: str = "s", prompt: str = "mend the till", start: int = 0) -> Session:
    """A prompt, two calls of which one fails, an answer."""
    made = Session(session, start=start)
    made.line("file-history-snapshot", messageId="m", snapshot={}, isSnapshotUpdate=False)
    for key in ("uuid", "sessionId", "timestamp", "parentUuid"):
        del made.lines[0][key]
    made.last = None
    made.ask(prompt)
    made.speak("m1", thinking("first look"), text("I look."), call("c1", "Read", file_path="/till.py"))
    made.progress()
    made.answer("c1", "total = 0", {"type": "text", "file": {"filePath": "/till.py"}})
    made.speak("m2", call("c2", "Bash", command="pytest -q"))
    made.answer("c2", "1 failed", "Error: Exit code 1", is_error=True)
    made.speak("m3", text("It is 0.\nMended."))
    return made
