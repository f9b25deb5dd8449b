"""Records as KARL writes them, and as nobody should: what is missing, null, of another type, huge or not a number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from random import Random

TOOLS = ("Read", "Edit", "Bash", "Write", "Grep", "NotebookEdit", "WebFetch", "Lire★", "")
COMMANDS = (
    "ls",
    "pytest -q",
    "Cargo Test",
    "make all",
    "make",
    "npm run build",
    "git diff",
    "PYTEST",
    "Été",
    None,
    "",
)
PATHS = ("/a.py", "/b.py", "/ç.py", "", None)
PREVIEWS = (
    '{"command": "pytest"}',
    ' {"file_path": "/a.py"}\n',
    "{}",
    "[]",
    "{broken}",
    '{"command": 3}',
    '{"file_path": "/a.py", "file_path": "/b.py"}',
    "make",
    None,
)
JUNK: tuple[Any, ...] = (
    None, True, False, 0, 1, -3, 7, 2.5, -0.5, 0.0, 1e300, -1e300, 5e-324, float("inf"), float("-inf"), float("nan"),
    10**15, -(10**18), 2**53 + 1, 10**400, -(10**400), "", "7", "Bash", [], [1], ["a", "b"], {}, {"a": 1},
    {"a": {"b": [None]}}, [[]], [{}],
)  # fmt: skip


def record(random: Random, junk: float) -> Any:
    """A record in which each value is junk or missing at that rate."""
    made = {"outcome": outcome(random, junk), "trajectory": trajectory(random, junk), "timing": timing(random, junk)}
    return spoilt(random, made, junk / 8)


def spoilt(random: Random, made: dict[str, Any], junk: float) -> dict[str, Any]:
    for key in list(made):
        if random.random() < junk:
            if random.random() < 0.3:
                del made[key]
            else:
                made[key] = random.choice(JUNK)
    return made


def outcome(random: Random, junk: float) -> dict[str, Any]:
    names = ("correction_detected", "redo_detected", "build_success", "session_continued")
    return spoilt(random, {name: random.choice((True, False, None)) for name in names if random.random() < 0.8}, junk)


def timing(random: Random, junk: float) -> dict[str, Any]:
    seconds = random.choice((random.uniform(1, 900), random.randrange(1, 900), None, 0))
    return spoilt(random, {"started_at": "2026-03-10T14:30:00+00:00", "duration_s": seconds}, junk)


def trajectory(random: Random, junk: float) -> dict[str, Any]:
    size = random.choice((0, 1, 2, 3, 5, 8, 13, 21, 34, 60))
    failing = random.choice((0.0, 0.1, 0.5))
    tools = random.sample(TOOLS, random.randrange(1, len(TOOLS)))
    events = [event(random, tools, failing, junk / 8) for _ in range(size)]
    if random.random() < 0.4:
        return spoilt(
            random, {"tool_calls": [call(random, one, junk / 8) for one in events], "tool_count": size}, junk / 4
        )
    return spoilt(random, counted(events), junk / 4)


def event(random: Random, tools: list[str], failing: float, junk: float) -> Any:
    params = {"command": random.choice(COMMANDS), "file_path": random.choice(PATHS)}
    made = {
        "tool_name": random.choice(tools),
        "key_params": spoilt(random, params, 0.05 if junk else 0.0),
        "success": None if random.random() < 0.1 else random.random() >= failing,
        "duration_ms": random.randrange(9999),
    }
    return random.choice(JUNK) if random.random() < junk / 8 else spoilt(random, made, junk)


def call(random: Random, made: Any, junk: float) -> Any:
    if not isinstance(made, dict):
        return made
    preview = random.choice(PREVIEWS if junk else PREVIEWS[:3])
    written = {"tool": made.get("tool_name"), "success": made.get("success"), "input_preview": preview}
    if random.random() < 0.5:
        written["key_params"] = made.get("key_params")
    return spoilt(random, written, junk)


def counted(events: list[Any]) -> dict[str, Any]:
    """The fields that KARL's tap writes."""
    whole = [one for one in events if isinstance(one, dict)]
    counts: dict[str, int] = {}
    for one in whole:
        name = str(one.get("tool_name"))
        counts[name] = counts.get(name, 0) + 1
    failed = [one for one in whole if one.get("success") is False]
    return {
        "tool_counts": counts,
        "total_tools": len(events),
        "successes": sum(one.get("success") is True for one in whole),
        "failures": len(failed),
        "bash_errors": sum(one.get("tool_name") == "Bash" for one in failed),
        "events": events,
    }


def tapped(random: Random) -> dict[str, Any]:
    """A record as KARL's tap stores it, with the keys in its order."""
    calls = [tapped_call(random) for _ in range(random.randrange(4, 37))]
    whole = counted(calls)
    given = outcome(random, 0.0)
    stored = round(random.random(), 4) if random.random() < 0.3 else None
    names = ("correction_detected", "build_success", "redo_detected", "session_continued")
    return {
        "id": f"traj_{random.randrange(16**8):08x}_{random.randrange(10**10)}",
        "session_id": f"{random.randrange(16**32):032x}",
        "channel": "live",
        "recorded_at": "2026-03-10T14:31:00.123456+00:00",
        "skill": {"name": "ops:deploy", "domain": random.choice(("ops", "coding", "research", None))},
        "context": {"prompt_text": "Make the tests pass. " * 20, "cwd": "/Users/dev/projects/bot", "git_repo": "bot"},
        "trajectory": {
            "tool_sequence": [one["tool_name"] for one in calls],
            **{key: whole[key] for key in ("tool_counts", "total_tools", "successes", "failures", "bash_errors")},
            "events": calls,
        },
        "outcome": {
            "annotation_status": "annotated",
            **{name: given.get(name) for name in names},
            "reward_score": stored,
        },
        "timing": {
            "started_at": "2026-03-10T14:30:00.123456+00:00",
            "ended_at": "2026-03-10T14:31:00.123456+00:00",
            "duration_s": timing(random, 0.0)["duration_s"],
        },
    }


def tapped_call(random: Random) -> dict[str, Any]:
    tool = random.choice(("Bash", "Bash", "Read", "Read", "Edit", "Grep", "Write"))
    file = f"/Users/dev/projects/bot/src/module_{random.randrange(8)}.py"
    command = (
        f"cd /Users/dev/projects/bot && {random.choice(COMMANDS) or 'git status'} 2>&1 | tail -{random.randrange(99)}"
    )
    params = {
        "Bash": {"command": command, "description": "Look at what is there"},
        "Grep": {"pattern": "def [a-z]+"},
    }
    success = random.choice((True, True, True, True, True, True, True, False, None))
    return {
        "tool_name": tool,
        "key_params": params.get(tool, {"file_path": file}),
        "success": success,
        "exit_code": {True: 0, False: 1, None: None}[success] if tool == "Bash" else None,
        "duration_ms": random.randrange(9999),
        "ts": f"2026-03-10T14:30:{random.randrange(60):02}.{random.randrange(10**6):06}+00:00",
    }
