"""The gradient is the derivative, where it flows; and exactly 0 where no token counts, whatever stands there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from karl_fast.objective import Objective, Scored, recipe
from karl_fast.objective.axes.aggregate import TokenMean
from karl_fast.objective.axes.clip import Cap, Clip, DualClip, Flip, MaskNegatives, SoftGate, TwoSided
from karl_fast.objective.axes.ratio import SequenceProduct, SequenceRatio, TokenRatio
from karl_fast.objective.recipes import RECIPES
from tests.tolerances import AUTODIFF, SLOPE
from tests.unit.objective.batch_cases import BATCH, MASK, NEW, OLD, extra, loss_of
from tests.unit.objective.naive import loss as naive
from tests.unit.objective.objectives_to_test import neighbours

mx = pytest.importorskip("mlx.core")

STEP = 1e-6


def f64(array: Any) -> Any:
    return mx.array(np.asarray(array, dtype=np.float64), dtype=mx.float64)


def by_autodiff(objective: Objective, scored: Scored, logp: Any = NEW) -> tuple[float, Any, dict[str, Any]]:
    """Loss and gradients of the naive twin, by log-probabilities and by each further quantity."""
    more = {name: f64(values) for name, values in extra(objective).items()}
    names = ["logp", *more]

    def step_of(held: dict[str, Any]) -> Any:
        return naive(objective, held["logp"], scored, **{name: held[name] for name in more})

    step = mx.value_and_grad(step_of)
    value, slopes = step({"logp": f64(logp)} | more)
    return float(np.asarray(value)), np.array(slopes["logp"]), {name: np.array(slopes[name]) for name in names[1:]}


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
    monkeypatch.setattr(mx, "exp", lambda values: mx.power(base, values))
    monkeypatch.setattr(mx, "sigmoid", lambda values: 1 / (1 + mx.power(base, -values)))


@pytest.mark.parametrize("objective", [*neighbours(), *(held.objective for held in RECIPES.values())], ids=repr)
def test_loss_and_gradients_match_the_naive_twin(objective: Objective, monkeypatch: pytest.MonkeyPatch) -> None:
    exact(monkeypatch)
    scored = objective.score(BATCH)
    found = objective(NEW, scored, **extra(objective))
    loss, gradient, more = by_autodiff(objective, scored)
    assert found.loss == pytest.approx(loss, rel=AUTODIFF, abs=1e-13)
    np.testing.assert_allclose(found.coefficients, gradient, rtol=0, atol=AUTODIFF * np.abs(gradient).max())
    for name, slopes in more.items():
        mine = getattr(found, f"{name}_coefficients")
        np.testing.assert_allclose(mine, slopes, rtol=0, atol=AUTODIFF * np.abs(slopes).max())


@pytest.mark.parametrize("objective", neighbours(), ids=repr)
def test_the_gradient_is_the_derivative(objective: Objective, monkeypatch: pytest.MonkeyPatch) -> None:
    exact(monkeypatch)
    _, gradient = loss_of(objective)
    scored, held = objective.score(BATCH), Held()
    more = {name: f64(values) for name, values in extra(objective).items()}
    monkeypatch.setattr(mx, "stop_gradient", held)
    mx.eval(naive(objective, f64(NEW), scored, **more))

    def moved(row: int, token: int, step: float) -> float:
        values = NEW.copy()
        values[row, token] += step
        held.again()
        return float(np.asarray(naive(objective, f64(values), scored, **more)))

    for row, token in ((0, 0), (1, 1), (4, 3), (5, 2), (7, 0), (8, 1), (9, 4), (13, 3)):
        slope = (moved(row, token, STEP) - moved(row, token, -STEP)) / (2 * STEP)
        tolerance = SLOPE * max(1.0, float(np.abs(gradient).max()))
        assert slope == pytest.approx(gradient[row, token], abs=tolerance), (row, token)


@pytest.mark.parametrize("objective", neighbours(), ids=repr)
@pytest.mark.parametrize("garbage", [-np.inf, np.inf, np.nan, 1e30, -3.0])
def test_values_outside_the_mask_do_not_count(objective: Objective, garbage: float) -> None:
    wanted = loss_of(objective)
    spoilt = np.where(MASK, NEW, garbage)
    names = ("logp_old", "logp_ref", "logp_teacher", "token_rewards", "entropies")
    columns = {name: np.where(MASK, getattr(BATCH, name), garbage) for name in names}
    more = {name: np.where(MASK, held, garbage) if held.ndim == 2 else held for name, held in extra(objective).items()}
    loss, gradient = loss_of(objective, replace(BATCH, **columns), spoilt, **more)
    assert loss == wanted[0]
    np.testing.assert_array_equal(gradient, wanted[1])
    assert np.all(gradient[~MASK] == 0)


def kept(objective: Any) -> Any:
    return objective.score(BATCH).mask


@pytest.mark.parametrize("objective", neighbours(), ids=repr)
def test_a_rollout_that_is_dropped_has_no_gradient(objective: Any) -> None:
    assert np.all(loss_of(objective)[1][~kept(objective)] == 0)


FAR = np.array([[400.0], [-400.0], [90.0], [-90.0]])
HOLDING = [DualClip(0.2, 0.28, 3.0), TwoSided(0.2, 0.28, 3.0), Cap(5.0), Flip(0.2, 0.28, 3.0), SoftGate(1.0, 1.05)]
ONE_SIDED = [Clip(0.2, 0.28), MaskNegatives(Clip(0.2, 0.28), 0.2)]
"""Without a bound above where the advantage is negative."""


@pytest.mark.parametrize("clip", [*HOLDING, *ONE_SIDED], ids=repr)
@pytest.mark.parametrize("ratio", [TokenRatio(), SequenceRatio(), SequenceProduct()], ids=repr)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bounded_ratio_has_bounded_gradient(clip: Any, ratio: Any, dtype: Any) -> None:
    """exp(400) is infinite in float32: 0 times infinity is no gradient."""
    objective = replace(recipe("dr-grpo").objective, clip=clip, ratio=ratio)
    logp = OLD + np.resize(-np.abs(FAR) if clip in ONE_SIDED else FAR, (len(OLD), 1))
    found = objective(logp.astype(dtype), objective.score(BATCH))
    assert np.all(np.isfinite(found.coefficients))


@pytest.mark.parametrize("name", ["grpo", "dapo", "gspo", "dr-grpo"])
def test_zero_advantage_adds_nothing_even_at_overflow(name: str) -> None:
    objective = replace(recipe(name).objective, kl=recipe("dr-grpo").objective.kl)
    constant = replace(BATCH, rewards=np.full(len(OLD), 0.5), outcomes=np.resize([0.0, 1.0], len(OLD)))
    loss, gradient = loss_of(objective, constant, OLD + 1000.0)
    assert loss == 0
    assert np.all(gradient == 0)


def test_empty_batch_has_zero_loss_and_gradient() -> None:
    empty = replace(BATCH, mask=np.zeros_like(MASK), turns=np.full(MASK.shape, -1))
    for objective in neighbours():
        loss, gradient = loss_of(objective, empty)
        assert loss == 0, objective
        assert np.all(gradient == 0), objective


def test_a_ratio_on_its_bound_is_within() -> None:
    """At ratio 1 with bounds of 0 the gradient flows, as it does in the kernel."""
    tight = replace(recipe("dr-grpo").objective, clip=Clip(0.0, 0.0), aggregate=TokenMean())
    assert np.abs(loss_of(tight, BATCH, OLD)[1]).max() > 0
