"""Measures of runs, paired intervals over seeds, and verdicts on predictions.

A seed of an arm is compared with the same seed of another: both begin with the same weights and the same first prompts,
so their difference varies less than either. Intervals are 95 % by Student's t over seeds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from karl_fast.train.evaluation import student

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karl_fast.ablation.experiment import Experiment, Measure, Prediction

Verdict = Literal["supported", "refuted", "undecided"]

MOST_SEEDS = 1000
"""Number of seeds above which more seeds are not what an experiment needs."""


@dataclass(frozen=True)
class Interval:
    """A mean over seeds, with its interval.

    Attributes:
        mean: of all seeds.
        low, high: the 95 % interval; None for a single seed.
    """

    mean: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Judgement:
    """Verdict on a prediction.

    Attributes:
        claim: the sentence.
        verdict: whether the interval of the difference lies where the claim has it.
        difference: of the two arms, seed by seed.
        seeds_needed: number of seeds that would decide, if mean and spread stay; None if decided, or if more than a
            thousand would be needed.
    """

    claim: str
    verdict: Verdict
    difference: Interval
    seeds_needed: int | None = None


def interval(values: Any) -> Interval:
    """Compute a mean and its 95 % interval by Student's t.

    Args:
        values: a number for each seed. [S]

    Returns:
        The mean, without an interval for one number.

    Raises: nothing.
    """
    mean = float(np.mean(values))
    if len(values) < 2:
        return Interval(mean)
    half = student(len(values) - 1) * float(np.std(values, ddof=1)) / len(values) ** 0.5
    return Interval(mean, mean - half, mean + half)


def evaluate_measure(
    measure: Measure, rounds: Sequence[Mapping[str, Any]], held_out: Sequence[Any] = (), *, num_rounds: int = 0
) -> float:
    """Return a measure of a run from its lines of metrics; NaN where no line has the metric.

    ``num_rounds`` is the number of rounds that the run was to make: an alarm that stopped it before is not a level
    reached.
    """
    name = measure.metric.removeprefix("held_out.")
    lines = held_out if name != measure.metric else rounds
    values = [(place, line[name]) for place, line in enumerate(lines) if line.get(name) is not None]
    if not values:
        return math.nan
    if measure.lost is not None:
        width = min(measure.lost, len(values))
        means = np.convolve([value for _, value in values], np.full(width, 1 / width), "valid")
        return float(means.max() - means[-1])
    if measure.below is None and measure.above is None:
        last = measure.last or (len(lines) if name == measure.metric else 1)  # of evaluations, the newest one
        chosen = [value for place, value in values if place >= len(lines) - last]
        return float(np.mean(chosen)) if chosen else math.nan
    low, high = -math.inf if measure.below is None else measure.below, measure.above
    reached = (place for place, value in values if value <= low or (high is not None and value >= high))
    return float(next(reached, max(num_rounds, len(lines))) + 1)


def judge(prediction: Prediction, differences: Sequence[float]) -> Judgement:
    """Judge a prediction.

    Args:
        prediction: what is expected.
        differences: the measure of its arm less that of the other, for each seed. [S]

    Returns:
        The verdict at 95 %; with one seed nothing is decided.

    Raises: nothing.
    """
    difference, margin = interval(differences), prediction.margin
    if difference.low is None or difference.high is None:
        return Judgement(prediction.claim, "undecided", difference)
    low, high = (
        (-difference.high, -difference.low) if prediction.expect == "lower" else (difference.low, difference.high)
    )
    if prediction.expect == "equal":
        supported, refuted = -margin < low and high < margin, high < -margin or low > margin
        distance = abs(abs(difference.mean) - margin)
    else:
        supported, refuted = low > margin, high < margin
        distance = abs((low + high) / 2 - margin)
    if supported or refuted:
        return Judgement(prediction.claim, "supported" if supported else "refuted", difference)
    return Judgement(prediction.claim, "undecided", difference, count_seeds(differences, distance))


def count_seeds(differences: Sequence[float], distance: float) -> int | None:
    """Return the number of seeds whose interval would be narrower than a distance on each side."""
    deviation = float(np.std(differences, ddof=1))
    counts = range(len(differences) + 1, MOST_SEEDS + 1)
    return next((count for count in counts if student(count - 1) * deviation < distance * count**0.5), None)


Values = dict[str, dict[str, list[float]]]
"""Each measure by arm, a number for each seed."""


def compare(experiment: Experiment, values: Values) -> dict[str, Any]:
    """Return intervals of each arm, of its difference from the baseline, and the judgements."""
    base, arms = values[experiment.baseline], list(values)
    return {
        "intervals": {arm: {name: interval(values[arm][name]) for name in base} for arm in arms},
        "differences": {
            arm: {name: interval(np.subtract(values[arm][name], base[name])) for name in base}
            for arm in arms
            if arm != experiment.baseline
        },
        "predictions": [_judge(experiment, prediction, values) for prediction in experiment.predictions],
    }


def _judge(experiment: Experiment, prediction: Prediction, values: Values) -> Judgement:
    name = prediction.measure or next(iter(experiment.measures))
    other = values[prediction.than or experiment.baseline][name]
    return judge(prediction, list(np.subtract(values[prediction.arm][name], other)))
