"""Diversity of a round, and the learned log Z: numbers that are worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from karl_fast.rl import rl
from karl_fast.rl.metrics import diversity_metrics
from tests.unit.rl.conftest import lines
from tests.unit.rl.test_reward import rollout

if TYPE_CHECKING:
    from collections.abc import Callable

    from karl_fast.rl.settings import Online


def test_diversity_is_of_the_tokens_of_the_policy() -> None:
    texts = {(0, "a"): [7, 8, 9], (0, "b"): [7, 8, 9], (1, "c"): [7, 7, 8], (1, "d"): [4, 5]}
    rollouts = [
        rollout(name).but(
            group=group, tokens=np.array([1, 2, *own], dtype=np.int32), spans=((2, 2 + len(own)),), states=("",)
        )
        for (group, name), own in texts.items()
    ]
    found = diversity_metrics(rollouts)
    assert found["distinct_1"] == pytest.approx(5 / 11)  # 4, 5, 7, 8, 9
    assert found["distinct_2"] == pytest.approx(4 / 7)  # 78, 89, 77, 45
    assert found["unique"] == pytest.approx((1 / 2 + 1) / 2)
    assert 0 < found["self_bleu"] < 1
    same = diversity_metrics([rollouts[0], rollouts[1]])
    assert same["self_bleu"] == pytest.approx(1)
    assert same["unique"] == 0.5


def test_learned_log_z_is_in_metrics_and_moves(online: Callable[..., Online]) -> None:
    settings = online(recipe="flowrl", rounds=6, log_z_learning_rate=0.05)
    rl(settings)
    found = [line["log_z"] for line in lines(Path(settings.out) / "metrics.jsonl")]
    assert len(found) == 6
    assert found[-1] != pytest.approx(found[0], abs=1e-3)
    rl(online(out=f"{settings.out}-grpo", rounds=1))
    assert "log_z" not in lines(Path(f"{settings.out}-grpo") / "metrics.jsonl")[0]
