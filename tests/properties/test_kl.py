"""Divergences: fast equals plain, derivatives are those of the values, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from karl_fast import kl
from karl_fast.errors import ArgumentError, DTypeError, LayoutError
from tests.properties.naive import kl as naive

NAMES = st.sampled_from(["k1", "k2", "k3"])
LOGP = st.floats(-12, 0, allow_subnormal=False)
SLOPE = 1e-4
"""Relative to the larger of 1 and the value: a central difference with a step of 1e-5, of numbers up to exp(24)."""


PLAIN = 1e-15
"""Absolute: what exp(-d) + d - 1 loses near d = 0, where its terms are of size 1."""


@st.composite
def tokens(draw: st.DrawFn) -> tuple[Any, Any, Any]:
    size = draw(st.integers(1, 40))
    return tuple(np.array(draw(st.lists(LOGP, min_size=size, max_size=size))) for _ in range(3))  # type: ignore[return-value]


@st.composite
def tables(draw: st.DrawFn) -> tuple[Any, Any]:
    rows, vocabulary = draw(st.integers(1, 4)), draw(st.integers(1, 30))
    seed = draw(st.integers(0, 1000))
    made = np.random.default_rng(seed).normal(0, 3, (2, rows, vocabulary))
    return made[0], made[1]


@given(tokens(), NAMES)
def test_estimates_equal_their_twins(data: Any, name: Any) -> None:
    logp, logp_ref, logp_old = data
    d = logp - logp_ref
    found = kl.estimate(logp, logp_ref, estimator=name)
    np.testing.assert_allclose(found, naive.estimate(d, name), rtol=1e-13, atol=PLAIN)
    ratio = np.exp(logp - logp_old)
    found = kl.estimate(logp, logp_ref, estimator=name, logp_old=logp_old)
    np.testing.assert_allclose(found, ratio * naive.estimate(d, name), rtol=1e-13, atol=PLAIN * ratio.max())
    found = kl.gradient(logp, logp_ref, estimator=name, logp_old=logp_old)
    np.testing.assert_allclose(found, ratio * naive.slope(d, name), rtol=1e-11, atol=1e-13)


@given(tokens(), NAMES)
def test_the_ratio_gradient_is_the_slope(data: Any, name: Any) -> None:
    logp, logp_ref, logp_old = data
    step = 1e-5
    above, below = (kl.estimate(logp + by, logp_ref, estimator=name, logp_old=logp_old) for by in (step, -step))
    found = kl.gradient(logp, logp_ref, estimator=name, logp_old=logp_old, through_ratio=True)
    scale = np.maximum(1.0, np.abs(above))
    assert np.all(np.abs(found - (above - below) / (2 * step)) <= SLOPE * scale)


@given(tokens())
def test_k2_and_k3_are_never_negative(data: Any) -> None:
    logp, logp_ref, _ = data
    names: Any = ("k2", "k3")
    for name in names:
        assert np.all(kl.estimate(logp, logp_ref, estimator=name) >= 0.0)
        assert np.all(kl.estimate(logp, logp, estimator=name) == 0.0)


def test_k3_keeps_its_digits_near_zero() -> None:
    """exp(-d) + d - 1 as it reads is 0 at d = 1e-9."""
    found = kl.estimate(np.array([1e-9]), np.array([0.0]), estimator="k3")[0]
    assert math.isclose(found, 5e-19, rel_tol=1e-8)


@pytest.mark.parametrize("name", ["k1", "k2", "k3"])
@pytest.mark.parametrize("through_ratio", [False, True])
def test_gradients_equal_those_of_torch(name: Any, through_ratio: bool) -> None:
    torch = pytest.importorskip("torch")
    logp, logp_ref, logp_old = np.random.default_rng(4).uniform(-5, 0, (3, 200))
    policy = torch.tensor(logp, requires_grad=True)
    d, ratio = policy - torch.tensor(logp_ref), torch.exp(policy - torch.tensor(logp_old))
    value = {"k1": d, "k2": d * d / 2, "k3": torch.expm1(-d) + d}[name]
    ((ratio if through_ratio else ratio.detach()) * value).sum().backward()
    found = kl.gradient(logp, logp_ref, estimator=name, logp_old=logp_old, through_ratio=through_ratio)
    np.testing.assert_allclose(found, policy.grad.numpy(), rtol=1e-10, atol=1e-12)


def test_float32_gives_float32_of_the_float64_result() -> None:
    logp, logp_ref = np.random.default_rng(5).uniform(-5, 0, (2, 5000)).astype(np.float32)
    for call in (kl.estimate, kl.gradient):
        found = call(logp, logp_ref, estimator="k3")
        assert found.dtype == np.float32
        wide = call(logp.astype(np.float64), logp_ref.astype(np.float64), estimator="k3")
        np.testing.assert_array_equal(found, wide.astype(np.float32))


@given(tables())
def test_the_exact_divergence_equals_its_twin(data: Any) -> None:
    logits, reference = data
    wanted = [naive.reverse(p, q) for p, q in zip(logits, reference, strict=True)]
    np.testing.assert_allclose(kl.categorical(logits, reference), wanted, rtol=1e-10, atol=1e-12)
    swapped = kl.categorical(reference, logits, direction="forward")
    np.testing.assert_array_equal(kl.categorical(logits, reference), swapped)


@given(tables(), st.sampled_from(["reverse", "forward"]))
def test_gradient_is_the_slope_with_sum_zero(data: Any, direction: Any) -> None:
    logits, reference = data
    found = kl.categorical_gradient(logits, reference, direction=direction)
    np.testing.assert_allclose(found.sum(axis=1), 0.0, atol=1e-12)
    step = np.zeros_like(logits)
    step[:, 0] = 1e-5
    above, below = (kl.categorical(logits + by, reference, direction=direction) for by in (step, -step))
    np.testing.assert_allclose(found[:, 0], (above - below) / 2e-5, rtol=1e-5, atol=1e-8)


def test_the_exact_gradient_equals_that_of_torch() -> None:
    torch = pytest.importorskip("torch")
    logits, reference = np.random.default_rng(6).normal(0, 2, (2, 7, 3000))
    policy = torch.tensor(logits, requires_grad=True)
    log_p = torch.log_softmax(policy, 1)
    log_q = torch.log_softmax(torch.tensor(reference), 1)
    (log_p.exp() * (log_p - log_q)).sum().backward()
    np.testing.assert_allclose(kl.categorical_gradient(logits, reference), policy.grad.numpy(), rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("direction", ["reverse", "forward"])
def test_the_exact_divergence_is_never_negative(direction: Any) -> None:
    """Rounding takes the plain sum of about half of these below zero."""
    logits, noise = np.random.default_rng(7).normal(0, [[[3.0]], [[1e-9]]], (2, 500, 6))
    found = kl.categorical(logits, logits + noise, direction=direction)
    assert np.all(found >= 0.0)
    np.testing.assert_allclose(found, 0.0, atol=1e-14)


@pytest.mark.parametrize("apart", [1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("direction", ["reverse", "forward"])
def test_a_small_divergence_keeps_its_digits(apart: float, direction: Any) -> None:
    """To second order it is half the variance of the step: 0.5 sum p step^2 - 0.5 (sum p step)^2."""
    logits = np.array([[0.5, -1.0, 2.0, 0.25]])
    reference = logits + apart * np.array([[1.0, -2.0, 0.5, 3.0]])
    step, p = (reference - logits)[0], naive.softmax(logits[0])
    wanted = 0.5 * (p @ step**2 - (p @ step) ** 2)
    found = kl.categorical(logits, reference, direction=direction)[0]
    assert math.isclose(found, wanted, rel_tol=10 * apart + 1e-6)


def test_a_divergence_of_tiny_probabilities_is_finite() -> None:
    """A token at exp(-740) under the policy and near 1 under the reference, and one that underflows to 0."""
    for low in (-740.0, -800.0):
        logits, reference = np.array([[0.0, low]]), np.array([[-1.0, 0.0]])
        wanted = math.log1p(math.exp(-1)) + 1  # -log q of the token that the policy has alone
        assert math.isclose(kl.categorical(logits, reference)[0], wanted, rel_tol=1e-14)


def test_excluded_tokens() -> None:
    logits, reference = np.array([[0.0, 0.0, -np.inf]]), np.array([[0.0, -np.inf, -np.inf]])
    assert kl.categorical(logits, reference)[0] == math.inf
    assert math.isclose(kl.categorical(logits, reference, direction="forward")[0], math.log(2))
    assert kl.categorical(logits, logits)[0] == 0.0
    with pytest.raises(ArgumentError, match="divergence at index 0 is inf"):
        kl.categorical_gradient(logits, reference)
    np.testing.assert_array_equal(kl.categorical_gradient(logits, logits), np.zeros((1, 3)))
    with pytest.raises(ArgumentError, match="log_z of the row at index 0 is -inf"):
        kl.categorical(np.full((1, 3), -np.inf), reference)


def test_the_penalty_is_summed_over_each_rollout() -> None:
    logp, logp_ref = np.array([-1.0, -2.0, -3.0]), np.array([-1.5, -2.0, -2.0])
    offsets = np.array([0, 2, 2, 3], dtype=np.int64)
    found = kl.in_reward(np.array([1.0, math.nan, 0.0]), logp, logp_ref, offsets, kl_coef=0.1)
    np.testing.assert_allclose(found, [0.95, math.nan, 0.1], rtol=1e-15)


@given(tokens(), NAMES, st.booleans(), st.integers(0, 1000))
def test_a_masked_token_is_zero(data: Any, name: Any, through_ratio: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    mask = rng.random(len(data[0])) < 0.5
    odd = [np.where(mask, column, rng.choice([np.nan, np.inf, -np.inf, 900.0], len(mask))) for column in data]
    calls = [(kl.estimate, {}), (kl.gradient, {"through_ratio": through_ratio})]
    for call, more in calls:
        found = call(odd[0], odd[1], estimator=name, logp_old=odd[2], mask=mask, **more)
        whole = call(data[0], data[1], estimator=name, logp_old=data[2], **more)  # type: ignore[arg-type]
        np.testing.assert_array_equal(found, np.where(mask, whole, 0.0))
    offsets = np.array([0, len(mask) // 2, len(mask)])
    found = kl.in_reward(ONE.repeat(2), odd[0], odd[1], offsets, kl_coef=0.5, mask=mask)
    packed = np.array([0, mask[: offsets[1]].sum(), mask.sum()])
    wanted = kl.in_reward(ONE.repeat(2), data[0][mask], data[1][mask], packed, kl_coef=0.5)
    np.testing.assert_array_equal(found, wanted)


ONE, TWO = np.zeros(1), np.zeros(2)
ROW, STARTS = np.zeros((1, 2)), np.array([0, 2])


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: kl.estimate(TWO, ONE, estimator="k1"), ArgumentError, "logp_ref has length 1, wanted 2"),
        (lambda: kl.estimate(TWO, TWO, estimator="k4"), ArgumentError, 'estimator is "k4", wanted k1, k2 or k3'),  # type: ignore[arg-type]
        (lambda: kl.estimate(TWO, TWO, estimator="k1", logp_old=ONE), ArgumentError, "logp_old has length 1"),
        (lambda: kl.estimate(TWO, TWO.astype(np.float32), estimator="k1"), DTypeError, "logp_ref has dtype float32"),
        (lambda: kl.estimate(TWO - math.inf, TWO, estimator="k1"), ArgumentError, "logp at index 0 is -inf"),
        (lambda: kl.estimate(TWO - 800, TWO, estimator="k3"), ArgumentError, "estimate at index 0 is inf"),
        (lambda: kl.in_reward(ONE, TWO, TWO, np.array([0, 1]), kl_coef=1.0), LayoutError, "offsets at index 1 is 1"),
        (
            lambda: kl.estimate(TWO, TWO, estimator="k1", mask=np.ones(1, bool)),
            ArgumentError,
            "mask has length 1, wanted 2",
        ),
        (
            lambda: kl.estimate(TWO * np.nan, TWO, estimator="k1", mask=np.array([False, True])),
            ArgumentError,
            "logp at index 1 is NaN",
        ),
        (
            lambda: kl.in_reward(ONE, TWO, TWO, STARTS, kl_coef=-0.5),
            ArgumentError,
            "^kl_coef is -0.5, wanted a finite number, 0 or more$",
        ),
        (lambda: kl.in_reward(ONE, TWO, TWO, STARTS, kl_coef=math.inf), ArgumentError, "^kl_coef is inf, wanted a fin"),
        (
            lambda: kl.in_reward(ONE + math.inf, TWO, TWO, STARTS, kl_coef=1.0),
            ArgumentError,
            "^rewards at index 0 is inf",
        ),
        (lambda: kl.categorical(ROW + math.inf, ROW), ArgumentError, "^logits at index 0 is inf"),
        (lambda: kl.categorical(ROW, ROW * math.nan), ArgumentError, "^logits_ref at index 0 is NaN"),
        (lambda: kl.categorical([[1.0]], ROW), DTypeError, "^logits is a list, wanted a NumPy array of float32 or f"),  # type: ignore[arg-type]
        (lambda: kl.categorical(ROW, ((1.0,),)), DTypeError, "^logits_ref is a tuple, wanted"),  # type: ignore[arg-type]
        (lambda: kl.categorical(np.zeros((2, 0)), np.zeros((2, 0))), LayoutError, "^logits has 0 columns, wanted one"),
        (lambda: kl.categorical(TWO, TWO), LayoutError, "logits has 1 dimensions, wanted 2"),
        (lambda: kl.categorical(np.zeros((2, 3)).T, np.zeros((3, 2))), LayoutError, "logits is not contiguous"),
        (lambda: kl.categorical(np.zeros((2, 3)), np.zeros((3, 2))), LayoutError, r"logits_ref has shape \(3, 2\)"),
        (
            lambda: kl.categorical(np.zeros((1, 2), complex), np.zeros((1, 2))),
            DTypeError,
            "logits has dtype complex128",
        ),
        (lambda: kl.categorical(np.zeros((1, 2)), np.zeros((1, 2)), direction="up"), ArgumentError, 'is "up"'),  # type: ignore[arg-type]
    ],
)
def test_bad_input_is_refused_by_name(call: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call()


def test_nothing_has_no_divergence() -> None:
    nothing = np.array([])
    assert kl.estimate(nothing, nothing, estimator="k3").shape == (0,)
    assert kl.categorical(np.zeros((0, 5)), np.zeros((0, 5))).shape == (0,)
    assert kl.categorical_gradient(np.zeros((0, 5)), np.zeros((0, 5))).shape == (0, 5)
