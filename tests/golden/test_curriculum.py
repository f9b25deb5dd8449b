"""The curriculum beside numbers that were computed elsewhere."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from karl_fast import curriculum
from tests.golden.test_files import PARTITION, golden
from tests.tolerances import GOLDEN

MIXED = next(case for case in golden("update_rules")["cases"] if case["id"] == "mixed_group_probability")


@pytest.mark.parametrize("key", MIXED["outputs"])
def test_mixed_group_probability(key: str) -> None:
    found = re.fullmatch(r"K(\d+)_q(.+)", key)
    assert found
    value = curriculum.mixed_group_probability(np.array([float(found[2])]), size=int(found[1]))[0]
    assert math.isclose(value, MIXED["outputs"][key], rel_tol=GOLDEN)


def test_only_the_mean_is_a_success_rate() -> None:
    """At temperature 0.05 a prompt solved once in eight has soft value 0.9: far from its rate."""
    cases = [case for case in PARTITION["soft_value_vs_accuracy"] if case["beta_temperature"] == 0.05]
    accuracy = np.array([case["outputs"]["accuracy_p"] for case in cases])
    soft = np.array([case["outputs"]["beta_times_it(soft value)"] for case in cases])
    solved = [case["correct"] for case in cases]
    posterior = curriculum.BetaPosterior()
    posterior.update(np.arange(4), np.array(solved), np.full(4, 8))
    assert (
        curriculum.nearest_rate(posterior.mean(), 2).tolist() == curriculum.nearest_rate(accuracy, 2).tolist() == [2, 1]
    )
    assert curriculum.nearest_rate(soft, 2).tolist() != [2, 1]
