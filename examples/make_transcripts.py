"""Writes the transcripts in claude-code/, in the form in which Claude Code keeps them: made up, the same on every run.

Eight sessions of one project. One was taken up again, so that a second file repeats its beginning; one called a
sub-agent; one was compacted; in one a prompt was taken back; and one line is torn.
"""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent / "claude-code"
PROJECT = "-home-dev-shop"

TASKS = [
    ("The till adds VAT twice.", ["Read", "Edit", "Bash"], 0),
    ("Receipts are printed upside down.", ["Grep", "Read", "Bash", "Edit", "Bash"], 1),
    ("Sort the orders by date.", ["Read", "Write"], 0),
    ("The cart forgets its last item.", ["Bash", "Bash", "Bash", "Edit", "Bash"], 3),
    ("Rename Customer to Guest everywhere.", ["Grep", "Edit", "Edit", "Edit", "Bash"], 0),
    ("Why is the search slow?", ["Read", "Read", "Read", "Grep"], 0),
    ("Write a test for refunds.", ["Read", "Write", "Bash", "Edit", "Bash"], 1),
    ("Discounts go below zero.", ["Read", "Edit", "Bash"], 1),
]
"""What was asked, the tools that were called, and how many of the first commands failed."""


def name(text: str) -> str:
    """A uuid, the same for the same text."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, "karl-fast " + text))


class Session:
    """A transcript: each line's parent is the line before."""

    def __init__(self, number: int, agent: str | None = None) -> None:
        self.id, self.agent = name(f"session {number}"), agent
        self.clock = datetime(2026, 1, 5 + number, 9, tzinfo=UTC)
        self.lines: list[dict[str, Any]] = []
        self.last: str | None = None

    def line(self, kind: str, **fields: Any) -> None:
        """A line with what every line has."""
        self.clock += timedelta(seconds=7)
        own = {"parentUuid": self.last, "isSidechain": self.agent is not None, "cwd": "/home/dev/shop"}
        own |= {"sessionId": self.id, "version": "2.1.29", "gitBranch": "main", "type": kind}
        self.last = name(f"{self.id} {self.agent} {len(self.lines)}")
        when = self.clock.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        more = {"agentId": self.agent} if self.agent else {}
        self.lines.append(own | more | {"uuid": self.last, "timestamp": when} | fields)

    def ask(self, words: Any, **fields: Any) -> None:
        """A user's line."""
        self.line("user", message={"role": "user", "content": words}, **fields)

    def speak(self, *blocks: dict[str, Any]) -> None:
        """The model's message, a line for each block."""
        usage = {
            "input_tokens": 4,
            "cache_creation_input_tokens": 50,
            "cache_read_input_tokens": 900,
            "output_tokens": 2,
        }
        message = {"model": "claude-opus-4-5", "id": f"msg_{len(self.lines)}", "type": "message", "role": "assistant"}
        for block in blocks:
            self.line("assistant", message=message | {"content": [block], "stop_reason": None, "usage": usage})

    def call(self, tool: str, fails: bool, **arguments: Any) -> None:
        """A call of a tool, its progress and its result."""
        call = f"toolu_{self.id[:4]}_{len(self.lines)}"
        self.speak({"type": "tool_use", "id": call, "name": tool, "input": arguments})
        self.line("progress", data={"type": "bash_progress", "output": "..."}, toolUseID=call)
        words = "Exit code 1\n1 failed" if fails else "ok"
        block = {"tool_use_id": call, "type": "tool_result", "content": words} | ({"is_error": True} if fails else {})
        self.ask([block], toolUseResult=f"Error: {words}" if fails else {"stdout": words, "stderr": ""})

    def text(self, lines: int | None = None) -> str:
        """The first lines, or all."""
        return "".join(json.dumps(line) + "\n" for line in self.lines[:lines])


def arguments(tool: str, at: int) -> dict[str, str]:
    """What a tool is called with."""
    path = f"/home/dev/shop/part_{at % 2}.py"
    changed = {"old_string": "a", "new_string": "b"}
    return {
        "Read": {"file_path": path},
        "Grep": {"pattern": "Customer"},
        "Edit": {"file_path": path} | changed,
        "Write": {"file_path": path, "content": "x = 1\n"},
        "Bash": {"command": "pytest -q"},
    }[tool]


def session(number: int) -> Session:
    """The session of a task."""
    asked, tools, failures = TASKS[number]
    transcript = Session(number)
    if number == 2:
        transcript.ask("<command-name>/model</command-name>")
    transcript.ask(asked)
    if number == 4:
        before = transcript.last
        transcript.speak({"type": "text", "text": "I begin with the tests."})
        transcript.last = before  # taken back
        transcript.ask(asked + " Not in the tests.")
    for at, tool in enumerate(tools):
        fails = tool == "Bash" and failures > 0
        failures -= fails
        transcript.call(tool, fails, **arguments(tool, at))
        if number == 3 and at == 2:
            last, transcript.last = transcript.last, None
            transcript.line(
                "system", subtype="compact_boundary", logicalParentUuid=last, content="Conversation compacted"
            )
            transcript.ask("This session is being continued.", isCompactSummary=True)
    transcript.speak(
        {"type": "thinking", "thinking": "That is all.", "signature": ""}, {"type": "text", "text": "Done."}
    )
    return transcript


def main() -> None:
    """Write every file anew."""
    folder = HERE / PROJECT
    for number in range(len(TASKS)):
        transcript = session(number)
        if number == 5:
            agent = Session(number, "a5earch")
            agent.ask("Find what the search reads.")
            agent.speak({"type": "text", "text": "It reads every order."})
            transcript.speak(
                {
                    "type": "tool_use",
                    "id": "toolu_task",
                    "name": "Task",
                    "input": {"prompt": "Find what the search reads."},
                }
            )
            block = {"tool_use_id": "toolu_task", "type": "tool_result", "content": "It reads every order."}
            transcript.ask([block], toolUseResult={"status": "completed", "agentId": "a5earch"})
            transcript.speak({"type": "text", "text": "It reads every order, each time."})
            part = folder / transcript.id / "subagents" / "agent-a5earch.jsonl"
            part.parent.mkdir(parents=True, exist_ok=True)
            part.write_text(agent.text(), "utf-8")
        torn = transcript.text()[:-40] if number == 7 else transcript.text()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{transcript.id}.jsonl").write_text(torn, "utf-8")
        if number == 0:
            (folder / f"{name('copy')}.jsonl").write_text(transcript.text(6), "utf-8")


if __name__ == "__main__":
    main()
