"""Measures of runs, intervals, and verdicts, against SciPy and by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from karl_fast.ablation import Interval, Measure, Prediction, interval, judge
from karl_fast.ablation.analysis import count_seeds, evaluate_measure
from karl_fast.errors import UsageError
from karl_fast.train.evaluation import student

LINES = [{"outcome": value, "entropy": 2.0 - value} for value in (0.1, 0.5, 0.3, 0.9)]


@pytest.mark.parametrize(
    ("measure", "value"),
    [
        (Measure("outcome"), 0.45),
        (Measure("outcome", last=2), 0.6),
        (Measure("outcome", last=99), 0.45),
        (Measure("outcome", above=0.5), 2.0),
        (Measure("entropy", below=1.2), 4.0),
        (Measure("entropy", below=0.1), 5.0),
        (Measure("held_out.reward"), 0.7),
        (Measure("nothing"), math.nan),
    ],
)
def test_measures_of_a_run(measure: Measure, value: float) -> None:
    found = evaluate_measure(measure, LINES, [{"reward": 0.2}, {"reward": 0.7}])
    assert found == pytest.approx(value, nan_ok=True)


def test_loss_since_the_best_is_of_stretches() -> None:
    rewards = [0.0, 0.5, 0.9, 0.7, 0.1, 0.3]
    lines = [{"outcome": value} for value in rewards]
    assert evaluate_measure(Measure("outcome", lost=2), lines) == pytest.approx(0.8 - 0.2)
    assert evaluate_measure(Measure("outcome", lost=1), lines) == pytest.approx(0.9 - 0.3)
    assert evaluate_measure(Measure("outcome", lost=2), lines[:3]) == pytest.approx(0.0)
    assert evaluate_measure(Measure("outcome", lost=9), lines) == pytest.approx(0.0)
    with pytest.raises(UsageError, match=r"^lost is 0 for outcome, wanted a number of rounds from 1 on"):
        Measure("outcome", lost=0)


def test_stopped_run_has_not_reached_a_level() -> None:
    assert evaluate_measure(Measure("entropy", below=0.1), LINES, num_rounds=100) == 101
    assert evaluate_measure(Measure("entropy", below=1.2), LINES, num_rounds=100) == 4


def test_rounds_without_the_metric_are_left_out() -> None:
    lines = [{}, {"outcome": None}, {"outcome": 0.5}, {}]
    assert evaluate_measure(Measure("outcome"), lines) == 0.5
    assert math.isnan(evaluate_measure(Measure("outcome", last=1), lines))


def test_interval_is_that_of_students_t() -> None:
    values = [0.1, 0.4, 0.35, 0.8]
    found = interval(values)
    assert (found.low, found.high) == pytest.approx(
        stats.t.interval(0.95, 3, np.mean(values), stats.sem(values)), rel=1e-5
    )
    assert found.mean == pytest.approx(np.mean(values))
    assert interval([0.5]) == Interval(0.5)
    for freedom in (*range(1, 40), 200):
        assert student(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=1e-4)


@pytest.mark.parametrize(
    ("expect", "margin", "differences", "verdict"),
    [
        ("higher", 0.0, [0.1, 0.12, 0.11], "supported"),
        ("higher", 0.0, [-0.1, -0.12, -0.11], "refuted"),
        ("higher", 0.0, [0.1, -0.12, 0.11], "undecided"),
        ("higher", 0.2, [0.1, 0.12, 0.11], "refuted"),
        ("lower", 0.0, [-0.1, -0.12, -0.11], "supported"),
        ("lower", 0.0, [0.1, 0.12, 0.11], "refuted"),
        ("lower", 0.05, [-0.1, -0.12, -0.11], "supported"),
        ("equal", 0.05, [0.01, -0.01, 0.0], "supported"),
        ("equal", 0.05, [0.1, 0.12, 0.11], "refuted"),
        ("equal", 0.05, [-0.1, -0.12, -0.11], "refuted"),
        ("equal", 0.05, [0.1, -0.12, 0.0], "undecided"),
        ("higher", 0.0, [0.1], "undecided"),
    ],
)
def test_verdicts_follow_the_interval(expect: str, margin: float, differences: list[float], verdict: str) -> None:
    prediction = Prediction("claim", "a", expect=expect, margin=margin)  # type: ignore[arg-type]
    assert judge(prediction, differences).verdict == verdict


def test_a_verdict_is_wrong_at_its_rate() -> None:
    rng = np.random.default_rng(3)
    verdicts = [judge(Prediction("claim", "a"), rng.normal(size=5)).verdict for _ in range(4000)]
    low, high = stats.binom.interval(1 - 1e-6, 4000, 0.025)  # of two sides each
    for verdict in ("supported", "refuted"):
        assert low <= verdicts.count(verdict) <= high


def test_the_seeds_that_would_decide_do() -> None:
    differences = [0.3, -0.2, 0.25, 0.1]
    needed = judge(Prediction("claim", "a"), differences).seeds_needed
    assert needed is not None
    mean, deviation = np.mean(differences), np.std(differences, ddof=1)
    for seeds, decided in ((needed, True), (needed - 1, False)):
        assert (stats.t.ppf(0.975, seeds - 1) * deviation / seeds**0.5 < mean) == decided
    assert count_seeds([1.0, -1.0], 1e-9) is None
    assert judge(Prediction("claim", "a"), [0.1, 0.12, 0.11]).seeds_needed is None
