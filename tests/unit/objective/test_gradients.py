"""The gradient is the derivative, where it flows; and exactly 0 where no token counts, whatever stands there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from karl_fast.objective import Objective, mlx_arrays, recipe
from karl_fast.objective.axes.aggregate import TokenMean
from karl_fast.objective.axes.clip import Cap, Clip, DualClip, Flip, MaskNegatives, SoftGate, TwoSided
from karl_fast.objective.axes.ratio import SequenceProduct, SequenceRatio, TokenRatio
from tests.tolerances import SLOPE
from tests.unit.objective.battery import neighbours
from tests.unit.objective.cases import BATCH, MASK, NEW, OLD, extra, f64, loss_of

STEP = 1e-6


class Held:
    """`mx.stop_gradient` that remembers what it was given, and gives it again when the log-probabilities move.

    What carries no gradient is then a constant, and a difference is a derivative.
    """

    def __init__(self) -> None:
        self.values: list[mx.array] = []
        self.place: int | None = None

    def __call__(self, value: mx.array) -> mx.array:
        if self.place is None:
            self.values.append(value)
            return value
        self.place += 1
        return self.values[self.place - 1]

    def again(self) -> None:
        self.place = 0


def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the CPU `mx.exp` of a float64 has a float32's digits, `mx.power` all of them."""
    base = f64(np.e)
    monkeypatch.setattr(mlx_arrays.mx, "exp", lambda values: mx.power(base, values))
    monkeypatch.setattr(mlx_arrays.mx, "sigmoid", lambda values: 1 / (1 + mx.power(base, -values)))


@pytest.mark.parametrize("objective", neighbours(), ids=repr)
def test_the_gradient_is_the_derivative(objective: Objective, monkeypatch: pytest.MonkeyPatch) -> None:
    exact(monkeypatch)
    _, gradient = loss_of(objective)
    scored, more, held = objective.score(BATCH), extra(objective), Held()
    monkeypatch.setattr(mlx_arrays.mx, "stop_gradient", held)
    mx.eval(objective(f64(NEW), scored, **more))

    def moved(row: int, token: int, step: float) -> float:
        values = NEW.copy()
        values[row, token] += step
        held.again()
        return float(np.asarray(objective(f64(values), scored, **more)))

    single = scored.weights is not None  # float32, as they cross the line
    for row, token in ((0, 0), (1, 1), (4, 3), (5, 2), (7, 0), (8, 1), (9, 4), (13, 3)):
        slope = (moved(row, token, STEP) - moved(row, token, -STEP)) / (2 * STEP)
        tolerance = (1e-6 if single else SLOPE) * max(1.0, float(np.abs(gradient).max()))
        assert slope == pytest.approx(gradient[row, token], abs=tolerance), (row, token)


@pytest.mark.parametrize("objective", neighbours(), ids=repr)
@pytest.mark.parametrize("garbage", [-np.inf, np.inf, np.nan, 1e30, -3.0])
def test_what_stands_outside_the_mask_has_no_part_in_the_loss_or_the_gradient(
    objective: Objective, garbage: float
) -> None:
    wanted = loss_of(objective)
    spoilt = np.where(MASK, NEW, garbage)
    names = ("logp_old", "logp_ref", "token_rewards")
    columns = {name: np.where(MASK, getattr(BATCH, name), garbage) for name in names}
    loss, gradient = loss_of(objective, replace(BATCH, **columns), spoilt)
    assert loss == wanted[0]
    np.testing.assert_array_equal(gradient, wanted[1])
    assert np.all(gradient[~MASK] == 0)


def kept(objective: Any) -> Any:
    return np.array(objective.score(BATCH).mask)


@pytest.mark.parametrize("objective", neighbours(), ids=repr)
def test_a_rollout_that_is_dropped_has_no_gradient(objective: Any) -> None:
    assert np.all(loss_of(objective)[1][~kept(objective)] == 0)


FAR = np.array([[400.0], [-400.0], [90.0], [-90.0]])
HOLDING = [DualClip(0.2, 0.28, 3.0), TwoSided(0.2, 0.28, 3.0), Cap(5.0), Flip(0.2, 0.28, 3.0), SoftGate(1.0, 1.05)]
ONE_SIDED = [Clip(0.2, 0.28), MaskNegatives(Clip(0.2, 0.28), 0.2)]
"""Without a bound above where the advantage is negative."""


@pytest.mark.parametrize("clip", [*HOLDING, *ONE_SIDED], ids=repr)
@pytest.mark.parametrize("ratio", [TokenRatio(), SequenceRatio(), SequenceProduct()], ids=repr)
@pytest.mark.parametrize("dtype", [mx.float32, mx.float64])
def test_a_bound_that_holds_a_ratio_holds_its_gradient_too(clip: Any, ratio: Any, dtype: Any) -> None:
    """exp(400) is infinite in float32: 0 times infinity is no gradient."""
    objective = replace(recipe("dr-grpo").objective, clip=clip, ratio=ratio)
    logp = OLD + np.resize(-np.abs(FAR) if clip in ONE_SIDED else FAR, (len(OLD), 1))
    scored = objective.score(BATCH)
    _, gradient = mx.value_and_grad(lambda values: objective(values, scored))(mx.array(logp, dtype=dtype))
    assert np.all(np.isfinite(np.array(gradient)))


@pytest.mark.parametrize("name", ["grpo", "dapo", "gspo", "dr-grpo"])
def test_a_token_of_advantage_zero_adds_nothing_even_where_its_ratio_overflows(name: str) -> None:
    objective = replace(recipe(name).objective, kl=recipe("dr-grpo").objective.kl)
    constant = replace(BATCH, rewards=np.full(len(OLD), 0.5), outcomes=np.resize([0.0, 1.0], len(OLD)))
    loss, gradient = loss_of(objective, constant, OLD + 1000.0)
    assert loss == 0
    assert np.all(gradient == 0)


def test_a_batch_of_which_nothing_counts_has_loss_zero_and_no_gradient() -> None:
    empty = replace(BATCH, mask=np.zeros_like(MASK), turns=np.full(MASK.shape, -1))
    for objective in neighbours():
        loss, gradient = loss_of(objective, empty)
        assert loss == 0, objective
        assert np.all(gradient == 0), objective


def test_a_ratio_on_its_bound_is_within() -> None:
    """At ratio 1 with bounds of 0 the gradient flows, as it does in the kernel."""
    tight = replace(recipe("dr-grpo").objective, clip=Clip(0.0, 0.0), aggregate=TokenMean())
    assert np.abs(loss_of(tight, BATCH, OLD)[1]).max() > 0
