"""Rewards equal to what KARL v1.0.0 gave when it was run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from karl_fast import reward
from tests.golden.test_files import golden, ids
from tests.properties.naive import reward as naive

CASES = golden("karl_reward_v1")["cases"]
ADVANTAGE = "advantage_default_baseline_0.5"


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_record_has_the_reward_of_karl(case: dict[str, Any]) -> None:
    wanted = {key: value for key, value in case["outputs"].items() if key != ADVANTAGE}
    found = reward.compute_reward(case["record"])
    assert found == wanted == naive.reward(case["record"], "v1")
    assert list(found["components"]) == list(wanted["components"])
    assert reward.compute_reward(json.dumps(case["record"]).encode()) == wanted
    assert reward.compute_advantage(case["record"], found["reward_score"]) == case["outputs"][ADVANTAGE]
