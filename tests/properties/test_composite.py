"""Composites of signals, functions from files, shaping and rewards by group."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from karl_fast import errors, reward
from tests.golden.test_files import golden
from tests.properties.naive import composite as naive

NUMBERS = st.floats(-10, 10)
CASES = golden("ordebug_composite_reward")["cases"]


def always(values: list[Any]) -> Any:
    return lambda completions, **_: values


@given(
    rows=st.lists(st.tuples(*[st.none() | NUMBERS] * 3), min_size=1, max_size=8),
    weights=st.tuples(*[NUMBERS.filter(lambda weight: abs(weight) > 1e-3)] * 3),
)
def test_an_inapplicable_signal_gives_away_its_weight(rows: Any, weights: Any) -> None:
    columns = list(map(list, zip(*rows, strict=True)))
    parts = tuple(
        reward.Part(name, weight, always(column)) for name, weight, column in zip("abc", weights, columns, strict=True)
    )
    found = reward.Composite(parts)(["x"] * len(rows))
    wanted = [naive.composite(row, weights) for row in rows]
    assert np.allclose(found.rewards, wanted, rtol=1e-12, atol=1e-12, equal_nan=True)
    for name, column in zip("abc", columns, strict=True):
        assert np.array_equal(found.components[name], [math.nan if it is None else it for it in column], equal_nan=True)


def test_an_inapplicable_signal_is_not_zero() -> None:
    parts = (reward.Part("a", 0.5, always([1.0, 1.0])), reward.Part("b", 0.5, always([None, 0.0])))
    assert reward.Composite(parts)(["x", "y"]).rewards.tolist() == [1.0, 0.5]


def test_a_column_that_is_missing_is_missing() -> None:
    parts = (reward.Part("a", 0.5), reward.Part("b", 0.5, always([1.0, 1.0])))
    found = reward.Composite(parts)(["x", "y"], a=[None, 3.0]).rewards
    assert math.isnan(found[0])
    assert found[1] == 2.0


@pytest.mark.parametrize(
    ("result", "says"),
    [
        ([1.0], "gave 1 value for 2 completions, from row 0 on"),
        ([0.0, math.nan], "row 1: the reward is nan"),
        ([math.inf, 0.0], "row 0: the reward is inf"),
        ([0.0, "1"], "row 1: the reward is '1'"),
        ([[1], 0.0], r"row 0: the reward is \[1\]"),
        (None, "gave NoneType for 2 completions"),
        ({"a": 1.0, "b": 2.0}, "gave dict for 2 completions"),
        (np.ones((2, 1)), r"gave an array of the shape \(2, 1\) for 2 completions"),
        ([0.0, 10**400], "row 1: the reward is 1000"),
        ([1e101, 0.0], r"row 0: the reward is 1e\+101"),
    ],
)
def test_a_wrong_reward_names_function_and_row(result: Any, says: str) -> None:
    with pytest.raises(errors.RewardError, match=r"test_composite\.py:always.*" + says):
        reward.Composite((reward.Part("a", 1.0, always(result)),))(["x", "y"])


def test_a_table_names_functions_of_files(tmp_path: Path) -> None:
    (tmp_path / "my.py").write_text(
        "def score(completions, prompts=None, **columns):\n    return [float(len(one)) for one in completions]\n"
        "def bad(completions, **_):\n    raise RuntimeError('no')\n"
    )
    table = {"outcome": 0.5, "length": {"weight": 0.25, "fn": "my.py:score"}}
    found = reward.Composite.of(table, tmp_path)(["abcd", ""], outcome=[1.0, 2.0])
    assert found.rewards.tolist() == [1.5, 1.0]
    bad = reward.Composite.of({"x": {"fn": "my.py:bad"}}, tmp_path)
    with pytest.raises(errors.RewardError, match=r"my\.py:bad, row 0, raised RuntimeError: no"):
        bad(["a"])


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({}, "wanted one or more"),
        ({"a": "x"}, "reward.a is 'x'"),
        ({"a": True}, "reward.a is True"),
        ({"a": 0}, "wanted a finite number other than 0"),
        ({"a": math.nan}, "wanted a finite number"),
        ({"a": {"weight": 1}}, "reward.a is"),
        ({"a": {"fn": "my.py:score", "wait": 1}}, "reward.a is"),
        ({"a": {"fn": "none.py:score"}}, "there is no file none.py"),
        ({"a": {"fn": "karl-v3"}}, "wanted 'file.py:name'"),
    ],
)
def test_a_table_that_means_nothing_is_refused(table: Any, says: str) -> None:
    with pytest.raises(errors.UsageError, match=says):
        reward.Composite.of(table)


def test_a_file_that_cannot_be_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("1 / 0\n")
    for fn, says in (
        ("broken.py:score", "does not run: ZeroDivisionError"),
        ("fine.py:score", "has no function score"),
    ):
        (tmp_path / "fine.py").write_text("")
        with pytest.raises(errors.UsageError, match=says):
            reward.Composite.of({"a": {"fn": fn}}, tmp_path)


@pytest.mark.parametrize("name", [name for name in reward.SIGNALS if name.startswith("karl-")])
def test_the_signals_of_the_engine_are_its_scores(name: str) -> None:
    record = {"outcome": {"redo_detected": True}, "timing": {"duration_s": 30}, "trajectory": {"total_tools": 3}}
    version, _, signal = name.removeprefix("karl-").partition(".")
    wanted = reward.compute_reward(record, version=version)[f"{signal}_score" if signal else "reward_score"]  # type: ignore[arg-type]
    rows = {key: [value, None] for key, value in record.items()}
    found = reward.Composite((reward.Part("it", 1.0, name),))(["", ""], **rows).rewards
    assert found.tolist()[0] == wanted
    assert (
        found.tolist()[1] == reward.compute_reward({}, version=version)[f"{signal}_score" if signal else "reward_score"]
    )  # type: ignore[arg-type]


EXAMPLE = Path(__file__).parents[2] / "examples" / "or_debug.py"


def or_debug(case: dict[str, Any]) -> reward.Rewards:
    names = {"outcome": 0.5, "diagnosis": 0.3, "efficiency": 0.2}
    parts = {name: {"weight": weight, "fn": f"{EXAMPLE}:{name}"} for name, weight in names.items()}
    columns = {"ground_truth_iis": [case["ground_truth_iis"]], "steps": [case["steps"]]}
    return reward.Composite.of(parts)([case["completion"]], **columns)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["completion"][:30])
def test_the_debuggers_composite_is_the_original_without_defects(case: dict[str, Any]) -> None:
    found, wanted = or_debug(case), case["outputs"]
    scores = {name: float(values[0]) for name, values in found.components.items()}
    assert scores["efficiency"] == wanted["efficiency"]
    # Its noise is left out: 20 + U(-2, 2) is 20.
    assert abs(scores["outcome"] - wanted["outcome"]) <= (0 if case["deterministic"] else 2)
    repaired = {1: 20.0, 2: 20.0, 6: math.nan}.get(CASES.index(case), wanted["diagnosis"])
    assert scores["diagnosis"] == repaired or (math.isnan(scores["diagnosis"]) and math.isnan(repaired))
    if scores["diagnosis"] == wanted["diagnosis"] and case["deterministic"]:
        assert found.rewards[0] == pytest.approx(wanted["total"], rel=1e-15)


def test_shaping_keeps_the_reward_before_it() -> None:
    rewards = np.array([-50.0, 0.0, 38.8, np.nan])
    shaped = reward.Shaped(rewards, reward.AsymmetricScale(up=1.4))
    assert shaped.rewards is rewards
    assert np.array_equal(shaped.shaped, [-50.0, 0.0, 38.8 * 1.4, np.nan], equal_nan=True)
    assert reward.AsymmetricScale(2.0, 0.5, 1.0)(np.array([0.0, 1.0, 3.0])).tolist() == [0.5, 1.0, 5.0]
    for wrong in ({"up": 0.0}, {"down": -1.0}, {"up": math.inf}, {"centre": math.nan}):
        with pytest.raises(errors.UsageError, match="wanted scales above 0"):
            reward.AsymmetricScale(**wrong)
    for bad in (np.array([np.inf]), np.array([1]), [1.0]):
        with pytest.raises(errors.ArgumentError):
            reward.Shaped(bad, reward.AsymmetricScale())  # type: ignore[arg-type]


def test_groups_are_scored_one_by_one() -> None:
    trajectories, groups = ["aaa", "b", "cc", "ddd", "e", "f"], ["x", "y", "x", "x", None, "y"]
    found = reward.score_groups(reward.shorter_is_better, trajectories, groups)
    assert np.array_equal(found, [0.0, 0.5, 1.0, 0.0, np.nan, 0.5], equal_nan=True)


@pytest.mark.parametrize(
    ("scorer", "says"),
    [
        (lambda some: [0.0], "group 'x' gave 1 value"),
        (lambda some: [0.0, math.nan], "group 'x', row 1"),
        (lambda some: 1 / 0, "group 'x', row 0, raised ZeroDivisionError"),
    ],
)
def test_a_wrong_score_names_function_and_group(scorer: Any, says: str) -> None:
    with pytest.raises(errors.RewardError, match=says):
        reward.score_groups(scorer, ["a", "b"], ["x", "x"])
    with pytest.raises(errors.ArgumentError, match="1 groups"):
        reward.score_groups(scorer, ["a", "b"], ["x"])
