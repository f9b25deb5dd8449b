"""Preferences equal TRL: losses and gradients that the methods of its trainers computed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from karl_fast.objective import Batch, recipe
from karl_fast.objective.axes.preference import DivergenceBaseline, LogSigmoid, ScoreDifference, SquaredMargin
from tests.unit.objective.golden import cases, read

HELD = read("preference_losses")
GIVEN = {name: np.array(values) for name, values in HELD["inputs"].items()}
CASES = cases(HELD)


def objective(name: str, beta: float, **more: float) -> Any:
    match name.split()[0]:
        case "dpo":
            return replace(recipe("dpo").objective, margin=ScoreDifference(beta))
        case "ipo":
            return replace(recipe("ipo-pairs").objective, link=SquaredMargin(1 / (2 * beta)))
        case "simpo":
            return replace(recipe("simpo").objective, margin=ScoreDifference(beta, more["gamma"]))
        case "kto":
            return replace(recipe("kto").objective, margin=DivergenceBaseline(beta, **more))
    return replace(recipe("orpo").objective, link=LogSigmoid(beta))


def batch(name: str) -> Batch:
    pairs, sides = np.repeat(np.arange(3), 2), np.arange(6) % 2 == 0
    return Batch(
        mask=GIVEN["mask"],
        logp_ref=GIVEN["reference"],
        pair_ids=pairs,
        preferred=GIVEN["labels"] if name.startswith("kto") else sides,
        mismatched=GIVEN["other"] - GIVEN["other_reference"],
    )


@pytest.mark.parametrize("name", CASES)
def test_losses_and_gradients_are_those_of_trl(name: str) -> None:
    held, point = CASES[name], objective(name, **CASES[name]["settings"])
    found = point(GIVEN["logp"], point.score(batch(name)))
    digits = 2e-6 if name == "orpo" else 1e-12  # TRL's orpo casts to float32
    assert found.loss == pytest.approx(held["loss"], rel=digits)
    wanted = np.array(held["gradient"])
    np.testing.assert_allclose(found.coefficients, wanted, rtol=0, atol=digits * np.abs(wanted).max())


@pytest.mark.parametrize("name", CASES)
def test_no_recipe_stands_for_another(name: str) -> None:
    for other in CASES:
        if other == name:
            continue
        point = objective(other, **CASES[other]["settings"])
        loss = point(GIVEN["logp"], point.score(batch(other))).loss
        assert abs(loss - CASES[name]["loss"]) > 1e-4 * abs(loss), other


def test_statistics_are_means_over_pairs() -> None:
    point = objective("dpo", 0.1)
    found = point(GIVEN["logp"], point.score(batch("dpo"))).statistics
    scores = 0.1 * ((GIVEN["logp"] - GIVEN["reference"]) * GIVEN["mask"]).sum(1)
    assert found["reward_chosen"] == pytest.approx(scores[::2].mean(), rel=1e-12)
    assert found["reward_rejected"] == pytest.approx(scores[1::2].mean(), rel=1e-12)
    assert found["margin"] == pytest.approx((scores[::2] - scores[1::2]).mean(), rel=1e-12)
    assert found["accuracy"] == pytest.approx((scores[::2] > scores[1::2]).mean(), rel=1e-12)


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ([0, 0, 1, 1, 2, -1], r"^pair_ids\[5\] is -1, wanted the number of a pair, 0 or more$"),
        ([0, 0, 1, 1, 1, 2], r"^pair 1 has 2 preferred and 1 other answers, wanted one of each$"),
        ([0, 1, 0, 1, 2, 2], r"^pair 0 has 2 preferred and 0 other answers, wanted one of each$"),
    ],
)
def test_what_is_not_a_pair_is_refused(pairs: list[int], said: str) -> None:
    from karl_fast.errors import ArgumentError

    point = objective("dpo", 0.1)
    with pytest.raises(ArgumentError, match=said):
        point.score(replace(batch("dpo"), pair_ids=np.array(pairs)))


def test_a_pair_without_tokens_on_one_side_does_not_count() -> None:
    point, held = objective("dpo", 0.1), batch("dpo")
    mask = held.mask.copy()
    mask[3] = False
    found = point(GIVEN["logp"], point.score(replace(held, mask=mask)))
    alone = [row for row in range(6) if row not in (2, 3)]
    columns = {name: array[alone] for name, array in vars(held).items() if isinstance(array, np.ndarray)}
    rest = Batch(**columns)
    wanted = point(GIVEN["logp"][alone], point.score(rest))
    assert found.loss == pytest.approx(wanted.loss, rel=1e-14)
    assert not found.coefficients[2:4].any()


def test_answers_that_are_certain_have_finite_odds() -> None:
    point = objective("orpo", 0.1)
    for logp in (np.zeros_like(GIVEN["logp"]), np.full_like(GIVEN["logp"], -800.0)):
        found = point(logp, point.score(batch("orpo")))
        assert np.isfinite(found.loss)
        assert np.isfinite(found.coefficients).all()
