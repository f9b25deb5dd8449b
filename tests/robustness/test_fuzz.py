"""What the fuzzer's texts are to the fast scan and to the trusted parser, held against Python's `json`.

The harness is `rust/karl-log/examples/fuzz_scan`; it holds the two against each other, and prints what it found here.
`KARL_FAST_FUZZ` says how many texts are made.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
COUNT = int(os.environ.get("KARL_FAST_FUZZ", "20000"))
PATHS = (["id"], ["group"], ["reward"], ["meta"], ["meta", "id"], ["meta", "group", "id"], ["a.b"], ["ключ"])
DEEPEST = 127
RESERVED = "$serde_json::private::"


class Number(str):
    """A number by its digits: nothing is rounded before it is compared."""


class Word(str):
    """NaN, Infinity or -Infinity."""


class Object(dict[str, Any]):
    """An object that remembers the members which later ones replaced."""

    def __init__(self, members: list[tuple[str, Any]]) -> None:
        super().__init__(members)
        self.members = members


DECODER = json.JSONDecoder(parse_int=Number, parse_float=Number, parse_constant=Word, object_pairs_hook=Object)


def decoded(text: bytes) -> Any:
    """What Python reads, or None where it refuses."""
    try:
        return DECODER.decode(text.decode("utf-8"))
    except (ValueError, RecursionError):
        return None


def writable(value: Any, depth: int = 0) -> bool:
    """Whether the trusted parser takes it too: no lone surrogates, no deep nesting, none of its own signs as keys."""
    if isinstance(value, Object):
        keys = all(writable(key) and not key.startswith(RESERVED) for key, _ in value.members)
        return keys and depth < DEEPEST and all(writable(one, depth + 1) for _, one in value.members)
    if isinstance(value, list):
        return depth < DEEPEST and all(writable(one, depth + 1) for one in value)
    return not isinstance(value, str) or value.encode("utf-8", "ignore").decode() == value


def looked_up(value: Any, path: list[str]) -> Any:
    """The value at a path; KeyError where there is none."""
    for key in path:
        if not isinstance(value, dict):
            raise KeyError(key)
        value = value[key]
    return value


def reward_of(value: Any) -> str:
    """How the harness prints the reward that a value is."""
    if value is None or (isinstance(value, Word) and value == "NaN"):
        return "Missing"
    if isinstance(value, Word):
        return "Infinite"
    if isinstance(value, bool | Number):
        number = float(value) + 0.0
        return struct.pack(">d", number).hex() if abs(number) <= 1e100 else "Infinite"
    return "NotANumber"


def name_of(value: Any, raw: bytes) -> str:
    """How the harness prints the name that a value is."""
    if value is None:
        return "Missing"
    if isinstance(value, bool | Number):
        return raw.hex()
    return value.encode().hex() if isinstance(value, str) and not isinstance(value, Word) else "Bad"


def check(line: str) -> str:
    """Hold one line of the harness against Python; what the text was."""
    first, verdict, *found = line.rstrip("\n").split("\t")
    text = bytes.fromhex(first)
    if verdict in ("refused", "other"):
        value = decoded(text)
        assert not isinstance(value, dict) or not writable(value) or not text.startswith(b"{"), text
        return verdict
    record = text[: int(found[0])]
    value = decoded(record)
    assert (verdict == "whole") == (value is not None and writable(value)), text
    if value is None:
        return verdict
    # Python reads it, so the scan's every value is Python's, whether or not the trusted parser writes the record.
    for path, place in zip(PATHS, found[1:], strict=True):
        if place == "-":
            with pytest.raises(KeyError):
                looked_up(value, path)
            continue
        start, end, reward, name = place.split(" ")
        wanted, raw = looked_up(value, path), record[int(start) : int(end)]
        assert (decoded(raw), type(decoded(raw))) == (wanted, type(wanted)), text
        assert reward == reward_of(wanted), text
        assert name == (name_of(wanted, raw) if writable(wanted) else "Bad"), text
    return verdict


@pytest.fixture(scope="module")
def harness() -> Path:
    if shutil.which("cargo") is None:
        pytest.skip("the fuzzer is built with cargo, which is not here")
    # With the features of the whole workspace, as `cargo test --workspace` has built it.
    build = ["cargo", "build", "--quiet", "--workspace", "--example", "fuzz_scan", "--message-format", "json"]
    done = subprocess.run(build, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found = [json.loads(line).get("executable") for line in done.stdout.splitlines()]
    return Path(next(path for path in reversed(found) if path))


def test_python_reads_values_like_the_scan(harness: Path) -> None:
    kinds: dict[str, int] = {}
    with subprocess.Popen([harness, str(COUNT), "2", "--print"], stdout=subprocess.PIPE, text=True) as fuzzer:
        assert fuzzer.stdout is not None
        for line in fuzzer.stdout:
            kind = check(line)
            kinds[kind] = kinds.get(kind, 0) + 1
    assert fuzzer.returncode == 0
    assert sum(kinds.values()) == COUNT
    assert kinds["whole"] > COUNT // 10
    assert kinds["damaged"] > COUNT // 10
    assert kinds["refused"] > COUNT // 3
