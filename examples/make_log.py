"""Writes `agent-log.jsonl`: 20 bugs, each tried 8 times by a made-up coding agent.

The same seed gives the same bytes on every machine: `python examples/make_log.py [OUT]`.
"""

from __future__ import annotations

import json
import random
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SEED = 20250917
ATTEMPTS = 8
FEWEST_CALLS = 3  # read, edit, test
SYSTEM = "You fix bugs in /repo. Run the tests and say what you changed."


@dataclass(frozen=True)
class Task:
    """A bug: where it is, what repairs it, and what only looks like it does."""

    name: str
    domain: str
    issue: str
    path: str
    code: str  # with BUG for the place of the next three
    fix: str
    bug: str
    wrong: str
    failure: str  # what pytest says while the bug is there
    tests: int
    skill: float  # the chance that an edit is the right one
    partial: float = 0.0  # the share of the tests that the wrong edit passes


TASKS = [
    Task(
        "iso-week-year", "dates", "week_label(date(2021, 1, 1)) is 2021-W53; that week belongs to 2020.",
        "src/calendar_tools/weeks.py",
        "def week_label(day):\n    week = day.isocalendar().week\n    return f\"{BUG}-W{week:02d}\"\n",
        "{day.isocalendar().year}", "{day.year}", "{day.year - (day.month == 1)}",
        "AssertionError: assert '2021-W53' == '2020-W53'", 9, 0.4, 0.67,
    ),
    Task(
        "csv-quoted-newline", "parsing", "A quoted cell with a line break in it becomes two rows.",
        "src/tables/read.py",
        "import csv\n\ndef rows(text):\n    return list(csv.reader(BUG))\n",
        "io.StringIO(text, newline=\"\")", "text.splitlines()", "text.replace(\"\\n\", \" \").split(\";\")",
        "AssertionError: assert 3 == 2", 6, 0.3,
    ),
    Task(
        "mutable-default", "api", "Two clients share their headers: what is set on one shows up on both.",
        "src/http_client/client.py",
        "class Client:\n    def __init__(self, headers=BUG):\n        self.headers = dict(headers or {})\n",
        "None", "{}", "{**DEFAULTS}",
        "AssertionError: assert {'X-Trace': '1'} == {}", 4, 0.75, 0.5,
    ),
    Task(
        "retry-backoff", "network", "The third retry waits 3 seconds; the documentation promises 1, 2, 4.",
        "src/http_client/retry.py",
        "def delay(attempt, base=1.0, cap=30.0):\n    return min(cap, base * BUG)\n",
        "2 ** attempt", "(attempt + 1)", "attempt ** 2",
        "AssertionError: assert 3.0 == 4.0", 7, 0.5, 0.43,
    ),
    Task(
        "typo-in-flag", "cli", "`tool --verbsoe` is what the help prints.",
        "src/tool/cli.py",
        "def options(parser):\n    parser.add_argument(BUG, action=\"store_true\")\n",
        "\"--verbose\"", "\"--verbsoe\"", "\"--verbsoe\", \"-v\"",
        "AssertionError: assert '--verbose' in help_text", 2, 1.0,
    ),
    Task(
        "readme-version", "docs", "README.md says 1.3, setup says 1.4.",
        "README.md",
        "# tables\n\nVersion: BUG\n",
        "1.4", "1.3", "1.3.1",
        "AssertionError: assert '1.3' == '1.4'", 1, 1.0,
    ),
    Task(
        "sort-natural", "text", "file10 comes before file2.",
        "src/files/listing.py",
        "import re\n\ndef natural(names):\n    return sorted(names, key=BUG)\n",
        "lambda name: [int(p) if p.isdigit() else p for p in re.split(r\"(\\d+)\", name)]",
        "str.lower", "len",
        "AssertionError: assert ['file10', 'file2'] == ['file2', 'file10']", 8, 0.45, 0.5,
    ),
    Task(
        "off-by-one-pages", "web", "The last page is empty when the count is a multiple of the page size.",
        "src/shop/pages.py",
        "def page_count(items, size):\n    return BUG\n",
        "-(-items // size)", "items // size + 1", "max(1, items // size)",
        "AssertionError: assert 4 == 3", 6, 0.6, 0.33,
    ),
    Task(
        "float-money", "shop", "The cart's total is 0.30000000000000004.",
        "src/shop/cart.py",
        "from decimal import Decimal\n\ndef total(prices):\n    return BUG\n",
        "sum((Decimal(str(price)) for price in prices), Decimal(0))", "sum(prices)", "round(sum(prices), 2)",
        "AssertionError: assert 0.30000000000000004 == Decimal('0.3')", 5, 0.3, 0.8,
    ),
    Task(
        "cache-key", "storage", "Two users see each other's settings after a login on the same host.",
        "src/store/cache.py",
        "def key(user, path):\n    return BUG\n",
        "f\"{len(user)}:{user}:{path}\"", "user + path", "f\"{user}:{path}\"",
        "AssertionError: assert key('ab', 'c') != key('a', 'bc')", 5, 0.25, 0.8,
    ),
    Task(
        "env-file", "config", "Values with `=` in them are cut short when .env is read.",
        "src/config/dotenv.py",
        "def parse(line):\n    name, value = BUG\n    return name.strip(), value.strip()\n",
        "line.split(\"=\", 1)", "line.split(\"=\")[:2]", "line.rsplit(\"=\", 1)",
        "AssertionError: assert 'postgres://db?ssl' == 'postgres://db?ssl=on'", 6, 0.55, 0.5,
    ),
    Task(
        "timezone-naive", "dates", "Reports are a day late for everyone east of Greenwich.",
        "src/report/when.py",
        "from datetime import datetime, UTC\n\ndef today(zone):\n    return BUG.date()\n",
        "datetime.now(zone)", "datetime.now(UTC)", "datetime.now()",
        "AssertionError: assert date(2025, 3, 1) == date(2025, 3, 2)", 7, 0.45, 0.57,
    ),
    Task(
        "deadlock-two-locks", "concurrency", "transfer(a, b) and transfer(b, a) at once never return.",
        "src/bank/transfer.py",
        "def transfer(source, target, sum):\n    with BUG:\n        source.take(sum)\n        target.put(sum)\n",
        "lock_in_order(source, target)", "source.lock, target.lock", "source.lock",
        "Failed: Timeout >5.0s", 4, 0.0,
    ),
    Task(
        "unicode-width", "text", "Table columns do not line up when a cell holds CJK text or an emoji.",
        "src/tables/width.py",
        "import unicodedata\n\ndef width(text):\n    return BUG\n",
        "sum(cells(grapheme) for grapheme in graphemes(text))", "len(text)",
        "sum(2 if unicodedata.east_asian_width(c) == \"W\" else 1 for c in text)",
        "AssertionError: assert 4 == 2", 10, 0.0,
    ),
    Task(
        "sql-injection", "storage", "find_user(\"x' OR '1'='1\") returns every user.",
        "src/store/users.py",
        "def find_user(db, name):\n    return db.execute(BUG).fetchall()\n",
        "\"SELECT * FROM users WHERE name = ?\", (name,)", "f\"SELECT * FROM users WHERE name = '{name}'\"",
        "\"SELECT * FROM users WHERE name = '%s'\" % name.replace(\"'\", \"\")",
        "AssertionError: assert 3 == 0", 5, 0.7, 0.6,
    ),
    Task(
        "path-traversal", "web", "GET /files/../secret.txt is answered with the file.",
        "src/web/files.py",
        "def resolve(root, name):\n    path = root / name\n"
        "    if BUG:\n        return path\n    raise PermissionError\n",
        "path.resolve().is_relative_to(root.resolve())", "path.exists()", "\"..\" not in name",
        "Failed: DID NOT RAISE <class 'PermissionError'>", 8, 0.35, 0.75,
    ),
    Task(
        "generator-consumed", "data", "mean(x for x in xs) is 0.",
        "src/stats/mean.py",
        "def mean(values):\n    BUG\n    return sum(values) / max(1, len(values))\n",
        "values = list(values)", "pass", "values = tuple(values) or (0,)",
        "TypeError: object of type 'generator' has no len()", 6, 0.8, 0.83,
    ),
    Task(
        "variance-catastrophe", "data", "The variance of [1e9, 1e9 + 1, 1e9 + 2] is negative.",
        "src/stats/variance.py",
        "def variance(xs):\n    m = sum(xs) / len(xs)\n    return BUG\n",
        "sum((x - m) ** 2 for x in xs) / len(xs)", "sum(x * x for x in xs) / len(xs) - m * m",
        "abs(sum(x * x for x in xs) / len(xs) - m * m)",
        "assert -128.0 == 0.6666666666666666 +- 6.7e-07", 9, 0.4, 0.44,
    ),
    Task(
        "signal-handler", "cli", "Ctrl-C during a download leaves a half file behind.",
        "src/tool/download.py",
        "def download(url, target):\n    part = target.with_suffix(\".part\")\n"
        "    fetch(url, part)\n    BUG\n",
        "part.replace(target)", "shutil.copy(part, target)", "part.rename(target); part.unlink()",
        "AssertionError: assert not True  # half file exists", 5, 0.15,
    ),
    Task(
        "regex-backtracking", "parsing", "A line of 40 spaces takes a minute to parse.",
        "src/tables/trim.py",
        "import re\n\nPATTERN = re.compile(BUG)\n",
        "r\"[ \\t]+$\"", "r\"([ \\t]+)+$\"", "r\"([ \\t]*)*$\"",
        "Failed: Timeout >2.0s", 3, 0.15,
    ),
]  # fmt: skip


def tool(name: str, about: str, *arguments: str) -> dict[str, Any]:
    """A tool in the form that chat templates take."""
    parameters = {"type": "object", "properties": {argument: {"type": "string"} for argument in arguments}}
    return {"type": "function", "function": {"name": name, "description": about, "parameters": parameters}}


TOOLS = [
    tool("bash", "Run a command.", "command"),
    tool("read", "Read a file.", "path"),
    tool("edit", "Replace text in a file.", "path", "old", "new"),
]

PLANS = (
    "Let me look at the code first.", "I start with the file that the issue names.",
    "I want to see it fail first.", "Reading before editing.", "",
)  # fmt: skip
GUESSES = (
    "The cause is this expression.", "This line does not do what its name says.", "Found it.",
    "I think this is the one place that has to change.", "",
)  # fmt: skip


class Attempt:
    """One trajectory while it happens."""

    def __init__(self, task: Task, number: int, rng: random.Random) -> None:
        self.task, self.number, self.rng = task, number, rng
        self.messages: list[dict[str, Any]] = [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": task.issue},
        ]
        self.calls = 0
        self.line = task.bug  # what stands in the file

    def chance(self, probability: float) -> bool:
        """True so often."""
        return self.rng.random() < probability

    def pick(self, choices: tuple[str, ...]) -> str:
        """One of them."""
        return choices[int(self.rng.random() * len(choices))]

    def call(self, name: str, output: str, say: str, **arguments: str) -> None:
        """The assistant calls a tool, and the tool answers."""
        self.calls += 1
        place = f"c{self.calls}"
        function = {"name": name, "arguments": json.dumps(arguments, separators=(",", ":"))}
        request = {"id": place, "type": "function", "function": function}
        self.messages.append({"role": "assistant", "content": say or None, "tool_calls": [request]})
        self.messages.append({"role": "tool", "tool_call_id": place, "content": output})

    def look_around(self) -> None:
        """What an agent does before it knows where to look."""
        path, folder = self.task.path, self.task.path.rpartition("/")[0] or "."
        if self.chance(0.35):
            names = f"{path}\ntests/\npyproject.toml\n"
            self.call("bash", names, self.pick(PLANS), command=f"ls {folder} tests")
        if self.chance(0.3):
            match = f"{path}:3:{self.task.bug}\n"
            self.call("bash", match, "", command=f"grep -rn '{self.task.bug[:18]}' src")
        if self.chance(0.15):
            log = "9f2c1e0 Move helpers\n41d7a55 First version\n"
            self.call("bash", log, "Has this worked before?", command=f"git log --oneline -- {path}")
        if self.task.name == "env-file" and self.chance(0.5):
            # The access key that AWS prints in its documentation: it opens nothing.
            content = "DATABASE_URL=postgres://db?ssl=on\nAWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE\nDEBUG=1\n"
            self.call("bash", content, "An example of such a file helps.", command="cat .env")

    def read(self) -> None:
        """Open the file as it is by now."""
        code = self.task.code.replace("BUG", self.line)
        self.call("read", code, self.pick(PLANS), path=self.task.path)

    def edit(self, line: str) -> None:
        """Put something in the place of the bug."""
        path, old, self.line = self.task.path, self.line, line
        self.call("edit", f"{path}: 1 replacement", self.pick(GUESSES), path=path, old=old, new=line)

    def test(self) -> None:
        """Run the task's tests."""
        task, file = self.task, f"tests/test_{self.task.name}.py"
        failed = task.tests - round(self.outcome * task.tests)
        seconds = f"{0.02 + self.rng.random() / 5:.2f}s"
        dots = "." * (task.tests - failed) + "F" * failed
        head = f"{file} {dots} [100%]\n"
        if failed:
            body = f"E   {task.failure}\nFAILED {file}\n"
            output = f"{head}{body}{failed} failed, {task.tests - failed} passed in {seconds}\n"
        else:
            output = f"{head}{task.tests} passed in {seconds}\n"
        self.call("bash", output, "", command=f"pytest -q {file}")

    @property
    def outcome(self) -> float:
        """The share of the tests that pass."""
        if self.line == self.task.bug:
            return 0.0
        return 1.0 if self.line == self.task.fix else self.task.partial

    def run(self) -> None:
        """Look, edit, test; when tests fail, try again or give up."""
        sure = self.task.skill == 1.0
        if not sure:
            self.look_around()
            if self.chance(0.15):
                self.test()
        self.read()
        for _ in range(3):
            self.edit(self.task.fix if self.chance(self.task.skill) else self.task.wrong)
            if not sure and self.chance(0.1):
                break  # and claims success without a test
            self.test()
            if self.outcome == 1.0 or self.chance(0.5):
                break
            if self.chance(0.2):
                self.read()
        self.say_goodbye()

    def say_goodbye(self) -> None:
        """Tell what was done, truly or not, or be cut off before."""
        done = f"In `{self.task.path}` I replaced `{self.task.bug}` by `{self.line}`."
        ran = any("pytest" in str(message.get("tool_calls")) for message in self.messages)
        if self.task.skill < 1.0 and self.chance(0.06):
            return  # out of budget: the log ends with a tool's answer
        if self.outcome == 1.0 and ran:
            say = f"{done} All {self.task.tests} tests pass."
        elif not ran:
            say = f"{done} This should fix it."
        else:
            say = f"{done} {self.pick(('Some tests still fail; I stop here.', 'The rest looks unrelated.'))}"
        self.messages.append({"role": "assistant", "content": say})
        if self.chance(0.05):
            self.messages.append({"role": "user", "content": "Thanks."})

    def record(self) -> dict[str, Any]:
        """The line of the log."""
        spare = min(1.0, max(0.0, 1 - (self.calls - FEWEST_CALLS) / 9))
        parts = {"outcome": round(self.outcome, 4), "efficiency": round(self.outcome * spare, 4)}
        minute = TASKS.index(self.task) * ATTEMPTS + self.number
        return {
            "id": f"{self.task.name}/{self.number}",
            "group": self.task.name,
            "domain": self.task.domain,
            "reward": round(0.8 * parts["outcome"] + 0.2 * parts["efficiency"], 4),
            "reward_components": parts,
            "num_tokens": len(json.dumps(self.messages)) // 4,
            "ts": f"2025-09-17T{8 + minute // 60:02d}:{minute % 60:02d}:00Z",
            "messages": self.messages,
            "tools": TOOLS,
        }


def records(seed: int) -> list[dict[str, Any]]:
    """All attempts, in the order in which they ran."""
    rng = random.Random(seed)
    attempts = [Attempt(task, number, rng) for task in TASKS for number in range(ATTEMPTS)]
    for attempt in attempts:
        attempt.run()
    records = [attempt.record() for attempt in attempts]
    for ungraded in (45, 118):  # the grader was killed
        records[ungraded]["reward"] = None
        records[ungraded]["reward_components"] = {"outcome": None, "efficiency": None}
    return records


def main() -> None:
    """Write the log, with two scars that logs have: a blank line, and two records on one line."""
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("agent-log.jsonl")
    lines = [json.dumps(record, separators=(",", ":")) + "\n" for record in records(SEED)]
    lines[70] = lines[70].rstrip("\n")
    lines[100] += "\n"
    out.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
