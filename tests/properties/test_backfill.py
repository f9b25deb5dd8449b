"""A backfill by Rust against the same by Python's own JSON, line by line: bytes, counts and baselines."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karl_fast import reward
from karl_fast.reward.karl_store import BackfillPass, measure_baselines, stored_pair
from tests.properties.karl_records import record, tapped

VERSIONS: list[Any] = ["v1", "v2"]
SEEDS = st.integers(0, 2**32)

SPACE = ("", "", " ", "\t", "\r", "  ")
NUMBERS = (
    "0", "-0", "7", "-12", "0.5", "1.0", "1.50", "-0.0", "0.0001", "0.00001", "1e5", "1E+2", "1e400", "-1e400",
    "1e-400", "0.1234567890123456789", "123456789012345678901234567890", "9007199254740993.0", "1e16", "123456789012.6",
    "5e-324", "2.2250738585072011e-308", "NaN", "Infinity", "-Infinity", "0.30000000000000004", "100000000000000000.0",
)  # fmt: skip
CHARS = (
    "a", "Z", " ", "é", "★", "😀", "\x7f", "\u2028", "/", r"\/", r"\n", r"\"", r"\\", r"\u0041", r"\u00E9", r"\u000A",
    r"\u007f", r"\ud83d\ude00", r"\uD83D\uDE00", r"\ud83d", r"\ude00", r"\u0022", r"\u005C", r"\b\f\r\t",
)  # fmt: skip
BROKEN = ("", ",", "}", "]", "{", '"', "\\", "1", "-", ".", "e", "x", "\x01", "\n", "null", r"\u12", "01", ":")
KEYS = (
    "outcome",
    "skill",
    "domain",
    "reward_score",
    "trajectory",
    "timing",
    "advantage",
    "reward_components",
    "a",
    "é",
)


class Speller:
    """Writer of JSON in other spellings than ``json.dumps`` has: space, escapes, numbers, and keys that occur again."""

    def __init__(self, random: Random, rate: float) -> None:
        self.random, self.rate = random, rate

    def rarely(self) -> bool:
        return self.random.random() < self.rate

    def space(self) -> str:
        return self.random.choice(SPACE) if self.rarely() else ""

    def text(self, value: Any) -> str:
        """A value; at the rate, another."""
        if self.rarely() and self.rarely():
            return self.junk(3)
        if isinstance(value, dict):
            return self.members([(key, self.text(one)) for key, one in value.items()])
        if isinstance(value, list):
            return self.joined("[", [self.text(one) for one in value], "]")
        if isinstance(value, str):
            return self.string(value)
        return json.dumps(value)

    def junk(self, depth: int) -> str:
        kind = self.random.randrange(6 if depth else 4)
        if kind == 0:
            return self.random.choice(NUMBERS)
        if kind == 1:
            return self.random.choice(("true", "false", "null", '""', "{}", "[]", "[ ]", "{ }"))
        if kind < 4:
            return '"' + "".join(self.random.choice(CHARS) for _ in range(self.random.randrange(6))) + '"'
        if kind == 4:
            return self.joined("[", [self.junk(depth - 1) for _ in range(self.random.randrange(4))], "]")
        some = self.random.choices(KEYS, k=self.random.choice((1, 2, 3, 5, 40)))
        return self.members([(key, self.junk(depth - 1)) for key in some])

    def members(self, members: list[tuple[str, str]]) -> str:
        if members and self.rarely():
            key = self.random.choice(members)[0]
            members.insert(self.random.randrange(len(members) + 1), (key, self.junk(2)))
        return self.joined("{", [f"{self.string(key)}{self.space()}:{self.space()}{one}" for key, one in members], "}")

    def joined(self, opening: str, parts: list[str], closing: str) -> str:
        comma = f"{self.space()},{self.space()}"
        return f"{opening}{self.space()}{comma.join(parts)}{self.space()}{closing}"

    def string(self, text: str) -> str:
        if not self.rarely():
            return json.dumps(text, ensure_ascii=not self.rarely())
        hexadecimal = "\\u{:04X}" if self.rarely() else "\\u{:04x}"
        units = text.encode("utf-16-be", "surrogatepass")
        return '"' + "".join(hexadecimal.format(units[at] << 8 | units[at + 1]) for at in range(0, len(units), 2)) + '"'


def line(random: Random) -> bytes:
    """A line of a store: as KARL writes it, spelled otherwise, with values of other types, or broken."""
    rate = random.choice((0.0, 0.02, 0.1, 0.3))
    made = tapped(random) if random.random() < 0.3 else spoilt(random)
    text = Speller(random, rate).text(made) if random.random() < 0.8 else json.dumps(made)
    if random.random() < 0.1:
        at = random.randrange(len(text))
        text = text[:at] + random.choice(BROKEN) + text[at + random.randrange(3) :]
    text = text.replace("\n", " ") if random.random() < 0.9 else text
    raw = text.encode("utf-8", "surrogatepass")
    return raw if random.random() < 0.97 else raw.replace(b"a", b"\xff", 1)


def spoilt(random: Random) -> Any:
    """A record with the fields of a store, each in another type at times."""
    made = record(random, random.choice((0.0, 0.05)))
    if not isinstance(made, dict):
        return made
    domains: tuple[Any, ...] = ("ops", "ops", "écrire", "", None, 3, 1.0, True, [1], {}, "x\ud800")
    scores: tuple[Any, ...] = (0.5, 0.25, 0.75, 1.0, None, None, None, None, 1, True, "0.5", float("nan"), 1e200, [])
    skills: tuple[Any, ...] = ({"domain": random.choice(domains)}, {"domain": "ops"}, "name", None, {})
    whole: dict[str, Any] = {"id": "é", "skill": random.choice(skills), "domain": random.choice(domains), **made}
    if isinstance(whole.get("outcome"), dict) and random.random() < 0.7:
        whole["outcome"]["reward_score"] = random.choice(scores)
    if random.random() < 0.1:
        whole["deep"] = json.loads("[" * 200 + "]" * 200)
    if random.random() < 0.05:
        whole["long"] = 10**700
    return whole


def by_python(text: bytes, version: Any, *, force: bool) -> tuple[bytes, dict[str, Any]]:
    """The store after a backfill of which Python does every line."""
    lines = [one + b"\n" for one in text[:-1].split(b"\n")]
    pairs = [stored_pair(one, version)[1] for one in lines]
    run = BackfillPass(force, version, measure_baselines([pair for pair in pairs if pair is not None], version))
    written = b"".join([run.line(one) for one in lines])
    errors = len(lines) - run.scored - run.skipped
    counts = {"total": len(lines), "scored": run.scored, "skipped": run.skipped, "errors": errors}
    return written if run.scored else text, {**counts, "domain_baselines": run.baselines.means}


@pytest.mark.parametrize("version", VERSIONS)
@given(seed=SEEDS, force=st.booleans())
def test_rust_writes_the_bytes_that_python_writes(version: Any, seed: int, force: bool) -> None:
    random = Random(seed)
    text = b"".join(line(random) + b"\n" for _ in range(random.choice((1, 3, 10))))
    wanted, counts = by_python(text, version, force=force)
    with TemporaryDirectory() as folder:
        store = Path(folder, "store.jsonl")
        store.write_bytes(text)
        report = reward.backfill_rewards(force, path=store, version=version)
        assert store.read_bytes() == wanted
    assert repr(report) == repr(counts)
