"""One rule of what counts as a reward: a field of a log, a function offline, a function online, an environment."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np
import pytest

import karl_fast
from karl_fast.rl.environment import Guard, GuardedEnvironment
from karl_fast.rl.rewards import RewardFunctions, Weighted
from tests.unit.rl.test_reward import rollout

if TYPE_CHECKING:
    from pathlib import Path

HEADER = """
import sys
from decimal import Decimal
from fractions import Fraction

import mlx.core as mx
import numpy as np


class Breaks:
    shape = ()

    def item(self):
        raise SystemExit(1)

    def __float__(self):
        raise RuntimeError("no")

    def __repr__(self):
        raise RuntimeError("no")

"""

NUMBERS = {
    "0.25": ("0.25", 0.25),
    "3": ("3", 3.0),
    "True": ("true", 1.0),
    "False": ("false", 0.0),
    "-0.0": ("-0.0", 0.0),
    "1e100": ("1e100", 1e100),
    "-1e100": ("-1e100", -1e100),
    "10**100": ("1" + "0" * 100, 1e100),
    "5e-324": ("5e-324", 5e-324),
    "np.float32(0.5)": (None, 0.5),
    "np.float16(0.5)": (None, 0.5),
    "np.float64(0.5)": (None, 0.5),
    "np.longdouble(0.5)": (None, 0.5),
    "np.int64(3)": (None, 3.0),
    "np.uint8(3)": (None, 3.0),
    "np.bool_(True)": (None, 1.0),
    "np.array(0.5)": (None, 0.5),
    "mx.array(0.5)": (None, 0.5),
    "mx.array(0.5, mx.bfloat16)": (None, 0.5),
    "mx.array(True)": (None, 1.0),
    "Fraction(1, 4)": (None, 0.25),
}
"""Values that count: as Python, as JSON where it has a word for them, and the reward."""

MISSING = {
    "None": "null",
    "float('nan')": "NaN",
    "float('inf')": "Infinity",
    "-float('inf')": "-Infinity",
    "1.0000000000000002e100": "1.0000000000000002e100",
    "1e300": "1e300",
    "10**400": "1" + "0" * 400,
    "-10**400": "-1" + "0" * 400,
    "10**5000": "1" + "0" * 5000,
    "'0.5'": '"0.5"',
    "''": '""',
    "b'1'": None,
    "[1.0]": "[1.0]",
    "[]": "[]",
    "(1.0,)": None,
    "{'reward': 1.0}": '{"reward": 1.0}',
    "1j": None,
    "object()": None,
    "Decimal('0.5')": None,
    "Decimal('NaN')": None,
    "np.float32('nan')": None,
    "np.float64('inf')": None,
    "np.longdouble('1e4000')": None,
    "np.str_('1')": None,
    "np.datetime64(1, 'ns')": None,
    "np.timedelta64(1, 'ns')": None,
    "np.array([0.5])": None,
    "np.array([0.5, 1.0])": None,
    "np.array(None)": None,
    "np.complex64(1)": None,
    "np.ma.masked": None,
    "mx.array([0.5])": None,
    "mx.array(float('nan'))": None,
    "mx.array(1j)": None,
    "Breaks()": None,
}
"""Values that are missing rewards."""

TABLE = {value: (text, reward) for value, (text, reward) in NUMBERS.items()} | {
    value: (text, math.nan) for value, text in MISSING.items()
}

SCOPE: dict[str, Any] = {}
exec(HEADER, SCOPE)


def record(number: int, reward: str | None) -> str:
    talk = json.dumps([{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}])
    return f'{{"id": "{number}", "group": "g", "reward": {reward or "null"}, "case": {number}, "messages": {talk}}}\n'


def same(found: float, wanted: float) -> bool:
    return found == wanted or (math.isnan(found) and math.isnan(wanted))


@pytest.mark.parametrize("value", [value for value, (text, _) in TABLE.items() if text is not None])
def test_a_field_of_a_log(tmp_path: Path, value: str) -> None:
    text, wanted = TABLE[value]
    (tmp_path / "log.jsonl").write_text(record(0, "1.0") + record(1, text))
    log = karl_fast.read(tmp_path / "log.jsonl", format="generic")
    assert sorted(log.rewards[~np.isnan(log.rewards)]) == sorted(one for one in (1.0, wanted) if not math.isnan(one))
    assert sum(file["rows_read"] for file in log.inputs) == 2


def test_a_function_offline(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text("".join(record(number, "1.0") for number in range(len(TABLE))))
    cases = ", ".join(TABLE)
    (tmp_path / "my.py").write_text(
        f"{HEADER}\ndef given(case, completions):\n    return [[{cases}][number] for number in case]\n"
    )
    reward = {"given": {"fn": f"{tmp_path}/my.py:given"}}
    found = karl_fast.sample(tmp_path / "log.jsonl", None, sampler="all", reward=reward)
    rewards = {}
    for line in found.lines():
        stamp = json.loads(line)["karl_fast"]
        rewards[int(stamp["id"])] = stamp["reward"]
    assert rewards == {number: TABLE[value][1] for number, value in enumerate(TABLE) if value in NUMBERS}
    kinds = found.manifest["reward_functions"]["given"]["missing"]
    nothing = sum(value in ("None", "np.ma.masked") for value in MISSING)
    assert set(kinds) == {*KINDS}
    assert sum(kinds.values()) == len(MISSING) - nothing
    assert found.manifest["accounting"]["dropped"] == {"missing_reward": len(MISSING)}


KINDS = ("infinite", "nan", "not a number", "raised")


VECTOR = "{'reward': 1.0}"
"""Online a dictionary of numbers is a vector of rewards."""


def test_a_function_online_may_return_a_vector() -> None:
    def given(completions: list[str], **columns: Any) -> list[Any]:
        return [{"right": 1.0, "short": 0.5}, {"right": 0.0, "short": 0.25}]

    (group,), _ = RewardFunctions([Weighted("given", given)])([[rollout("a"), rollout("b")]])
    assert group[0].components == {"given.right": 1.0, "given.short": 0.5}


@pytest.mark.parametrize("value", [value for value in TABLE if value != VECTOR])
def test_a_function_online(value: str) -> None:
    def given(completions: list[str], **columns: Any) -> list[Any]:
        return [eval(value, SCOPE), 1.0]

    (group,), said = RewardFunctions([Weighted("given", given)])([[rollout("a"), rollout("b")]])
    assert same(group[0].reward, TABLE[value][1])
    assert (group[0].missing is None) == (value in NUMBERS)
    if value in ("None", "np.ma.masked"):
        assert group[0].missing == "none: not applicable"
    elif value in MISSING:
        assert said
        assert group[0].missing.removeprefix("given: ") in KINDS
    assert all(text.isprintable() and len(text) < 300 for text in said)


@pytest.mark.parametrize("way", ["score", "turn"])
@pytest.mark.parametrize("value", TABLE)
def test_an_environment(value: str, way: str) -> None:
    class Gives:
        def step(self, text: str) -> Any:
            return None, True, eval(value, SCOPE)

        def score(self) -> Any:
            return eval(value, SCOPE)

    environment = GuardedEnvironment(Gives(), Guard("the environment", 5.0))
    if way == "turn":
        done = environment.answer("text").done
        found = environment.turn_rewards[0] if environment.failure is None else math.nan
        assert done
    else:
        score = environment.score()
        found = math.nan if score is None else score
    assert same(found, TABLE[value][1])
    nothing = value in ("None", "np.ma.masked") and way == "score"
    assert (environment.failure is None) == (value in NUMBERS or nothing)
    assert environment.failure is None or environment.failure.kind in (*KINDS, "none")


def test_the_means_of_the_largest_rewards_are_finite(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text("".join(record(n, ("1e100", "-1e100", "1")[n % 3]) for n in range(60)))
    for score in ("raw", "zscore"):
        reward = karl_fast.sample(tmp_path / "log.jsonl", None, k=20, score=score).manifest["reward"]
        assert all(math.isfinite(reward[when][name]) for when in ("before", "after") for name in ("mean", "std"))


def test_mlx_is_what_the_table_says() -> None:
    assert eval("mx.array(0.5)", SCOPE).shape == mx.array(0.5).shape == ()
