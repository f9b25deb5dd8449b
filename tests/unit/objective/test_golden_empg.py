"""Entropy-modulated credit equals EMPG as ARLArena executed it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from karl_fast.objective import Batch
from karl_fast.objective.axes.advantage import Given
from karl_fast.objective.axes.empg import EntropyModulated
from tests.tolerances import GOLDEN
from tests.unit.objective.golden import read

EXECUTED, EXACT = read("sampo_empg")["empg"], read("empg_float64")
STEPS = (2, 2)
"""Steps of each trajectory: the golden rows are steps, which a rollout has end to end."""


def rollouts(name: str) -> np.ndarray:
    rows = np.array(EXECUTED["inputs"][name], dtype=np.float64)
    return rows.reshape(len(STEPS), -1)


MASK = rollouts("mask") > 0
BATCH = Batch(
    mask=MASK,
    advantages=rollouts("adv_before")[:, 0].copy(),
    entropies=rollouts("entropy"),
    turns=np.repeat([np.array(EXECUTED["inputs"]["step"][:2], dtype=np.int64)], 2, axis=0).repeat(3, axis=1),
)
KEEP = np.ones(2, dtype=np.bool_)


def test_the_point_gives_what_arlarena_gave() -> None:
    found = EntropyModulated(Given())(BATCH, KEEP)
    executed = rollouts_of_outputs()
    np.testing.assert_allclose(found[MASK], executed[MASK], atol=3e-7)  # in float32
    exact = np.array(EXACT["outputs"]["after"]).reshape(2, 2).repeat(3, axis=1)
    np.testing.assert_allclose(found[MASK], exact[MASK], rtol=GOLDEN)


def rollouts_of_outputs() -> np.ndarray:
    return np.array(EXECUTED["outputs"]["adv_after(EXECUTED)"]).reshape(len(STEPS), -1)


@pytest.mark.parametrize("other", [{"fade": 0.9}, {"bonus_fade": 0.9}, {"bonus": 0.06}, {"eps": 0.0}])
def test_each_constant_of_the_point_matters(other: dict[str, float]) -> None:
    exact = np.array(EXACT["outputs"]["after"]).reshape(2, 2).repeat(3, axis=1)
    found = replace(EntropyModulated(Given()), **other)(BATCH, KEEP)
    assert np.abs(found[MASK] / exact[MASK] - 1.0).max() > GOLDEN


def test_credit_without_the_entropies_is_another() -> None:
    found = Given()(BATCH, KEEP)[:, None].repeat(6, axis=1)
    assert np.abs(found[MASK] - rollouts_of_outputs()[MASK]).max() > 0.1
