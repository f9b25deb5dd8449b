"""Writes a made-up agent log to measure with: the same seed gives the same bytes on every machine.

    python benches/pipeline/make_log.py big.jsonl                                   # 100,000 records of about 12 KB
    python benches/pipeline/make_log.py small.jsonl --kind small --records 3000000  # 300 bytes each

Rollouts come in groups of 8, in no order. What misleads a reader that takes shortcuts is there on purpose: `reward`
stands last, behind the conversation; nested objects have a `group` and a `reward` of their own; texts hold quotes,
backslashes, brackets, escapes, and whole records written as text.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from typing import Any

GROUP = 8
TOOLS = ["shell", "read_file", "write_file", "search", "run_tests", "browse"]
DOMAINS = ["web", "data", "systems", "docs", "games"]
ODD = [
    '{"group": "decoy", "reward": 1.0, "messages": []}',
    '"reward": 0.0, "group": "decoy"}',
    '\\"reward\\": \\"1\\"',
    'if (a[i] != "}{") { b = [c, "]"]; }\n',
    "D:\\build\\out\\new.txt",
    "\x1b[32mpassed\x1b[0m\t12\r\n",
    "größer, naïve, être",
    "奖励 轨迹 抽样",
    "журнал наград",
    "✅ 🧪",
    "@@ -3,7 +3,9 @@\n-    return None\n+    return {}\n",
    "\u2028\u0000\\u0041\\n",
]


def prose(rng: random.Random, length: int) -> str:
    """A long text that contents are cut from: words by Zipf's law, with odd pieces between them."""
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    words = ["".join(rng.choices(letters, k=rng.randint(2, 10))) for _ in range(8000)]
    weights = [1 / (rank + 2) for rank in range(len(words))]
    parts: list[str] = []
    size = 0
    while size < length:
        some = rng.choices(words, weights, k=400)
        for odd in rng.choices(ODD, k=8):
            some[rng.randrange(len(some))] = odd
        for _ in range(30):
            some[rng.randrange(len(some))] += rng.choice([".", ",", "\n", "()", f" {rng.randrange(100_000)}"])
        parts.append(" ".join(some))
        size += len(parts[-1])
    return "".join(parts)


class Maker:
    def __init__(self, kind: str, records: int, seed: int) -> None:
        self.kind, self.rng = kind, random.Random(f"{seed} {kind} {records}")
        self.prose = prose(self.rng, (16 if kind == "big" else 1) << 20 if records > 10_000 else 1 << 18)
        self.groups = [index // GROUP for index in range(records)]
        self.rng.shuffle(self.groups)
        self.ease = [self.rng.gauss(0.6, 0.05) for _ in range(records // GROUP + 1)]

    def text(self, length: int) -> str:
        start = self.rng.randrange(len(self.prose) - length)
        return self.prose[start : start + length]

    def record(self, index: int) -> dict[str, Any]:
        group = self.groups[index]
        reward = round(min(max(self.rng.gauss(self.ease[group], 0.075), 0.0), 1.0), 4)
        body = self.conversation() if self.kind == "big" else {"text": self.text(self.rng.randint(20, 60))}
        return {
            "id": f"run-{index:08d}-{self.rng.getrandbits(32):08x}",
            "time": round(1.75e9 + 3.7 * index, 2),
            "group": f"task-{group:07d}",
            "domain": DOMAINS[group % len(DOMAINS)],
            "meta": {"group": f"host-{index % 31}", "attempt": index % GROUP, "reward": None},
            **body,
            "reward": reward,
            "reward_components": {"outcome": round(reward * reward, 4), "format": 1.0},
        }

    def conversation(self) -> dict[str, Any]:
        left = int(min(max(self.rng.lognormvariate(8.9, 0.7), 2_000), 40_000))
        messages = [{"role": "system", "content": self.text(400)}, {"role": "user", "content": self.text(600)}]
        while left > 0:
            size = int(min(self.rng.lognormvariate(6.2, 0.9), 6_000)) + 30
            messages += self.exchange(f"call_{self.rng.getrandbits(32):08x}", size)
            left -= size + 450
        messages.append({"role": "assistant", "content": self.text(200)})
        return {"messages": messages, "num_tokens": sum(len(message["content"]) for message in messages) // 4}

    def exchange(self, call: str, size: int) -> list[dict[str, Any]]:
        """A tool call and what came back."""
        tool = self.rng.choice(TOOLS)
        arguments = json.dumps({"path": f"/src/{tool}.py", "query": self.text(40), "group": "argument"})
        function = {"name": tool, "arguments": arguments}
        calls = [{"id": call, "type": "function", "function": function}]
        return [
            {"role": "assistant", "content": self.text(150), "tool_calls": calls},
            {"role": "tool", "tool_call_id": call, "name": tool, "content": self.text(size), "exit_code": 0},
        ]


def write(path: Path, kind: str, records: int, seed: int) -> None:
    maker = Maker(kind, records, seed)
    encode = json.JSONEncoder().encode
    with path.open("w", encoding="utf-8", newline="\n", buffering=1 << 20) as file:
        file.writelines(f"{encode(maker.record(index))}\n" for index in range(records))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--kind", choices=("big", "small"), default="big")
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    write(args.out, args.kind, args.records, args.seed)


if __name__ == "__main__":
    main()
