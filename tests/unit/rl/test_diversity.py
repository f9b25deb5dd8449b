"""Diversity of a round: numbers that are worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from karl_fast.rl import metrics
from tests.unit.rl.test_reward import rollout


def test_diversity_is_of_the_tokens_of_the_policy() -> None:
    texts = {(0, "a"): [7, 8, 9], (0, "b"): [7, 8, 9], (1, "c"): [7, 7, 8], (1, "d"): [4, 5]}
    rollouts = [
        rollout(name).but(
            group=group, tokens=np.array([1, 2, *own], dtype=np.int32), spans=((2, 2 + len(own)),), states=("",)
        )
        for (group, name), own in texts.items()
    ]
    found = metrics.diversity(rollouts)
    assert found["distinct_1"] == pytest.approx(5 / 11)  # 4, 5, 7, 8, 9
    assert found["distinct_2"] == pytest.approx(4 / 7)  # 78, 89, 77, 45
    assert found["unique"] == pytest.approx((1 / 2 + 1) / 2)
    assert 0 < found["self_bleu"] < 1
    same = metrics.diversity([rollouts[0], rollouts[1]])
    assert same["self_bleu"] == pytest.approx(1)
    assert same["unique"] == 0.5
