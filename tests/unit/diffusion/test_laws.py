"""Laws of a step: they sum to one, are drawn as they are scored, and have exact entropies, divergences and slopes."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core", reason="mlx is not installed: pip install '.[train]'")

from scipy import stats  # noqa: E402

from karl_fast.diffusion.flow import DiscreteFlow  # noqa: E402
from karl_fast.diffusion.masked import MaskedDiffusion  # noqa: E402
from karl_fast.diffusion.subsets import draw_subsets, inclusion, log_symmetric  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

pytestmark = pytest.mark.mlx

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "fsdfm_step_logprob.json").read_text("utf-8"))
ALPHA = 1e-3
"""Chance that a right sampler fails one of the chi-square tests below; their seeds are fixed."""

V, L = 3, 3
LAWS = {
    "flow": (DiscreteFlow(V), (0, 1, 2)),
    "masked": (MaskedDiffusion(0, 0.5), (0, 2, 0)),
    "masked again": (MaskedDiffusion(0, 0.5, remask=0.2), (0, 2, 1)),
}
TOTAL = 4


def logits(seed: int, rows: int = 1) -> NDArray[np.float32]:
    """The same random logits for every row."""
    one = np.random.default_rng(seed).normal(size=(1, L, V)).astype(np.float32)
    return np.repeat(one, rows, axis=0)


def every_state() -> NDArray[np.int32]:
    return np.array(list(itertools.product(range(V), repeat=L)), dtype=np.int32)


def enumerate_logp(law: Any, state: tuple[int, ...], number: int, seed: int = 0) -> NDArray[np.float64]:
    """Log-probabilities of every next state."""
    following = every_state()
    rows = len(following)
    states, numbers = mx.array(np.array([state] * rows, dtype=np.int32)), mx.full(rows, number, dtype=mx.int32)
    return np.array(law.logp(mx.array(logits(seed, rows)), states, mx.array(following), numbers, TOTAL), np.float64)


def make_cases() -> Iterator[Any]:
    for name, (law, state) in LAWS.items():
        for number in range(TOTAL):
            yield pytest.param(law, state, number, id=f"{name} {number}")


CASES = list(make_cases())


@pytest.mark.parametrize(("law", "state", "number"), CASES)
def test_step_probabilities_sum_to_one(law: Any, state: tuple[int, ...], number: int) -> None:
    assert np.exp(enumerate_logp(law, state, number)).sum() == pytest.approx(1, abs=2e-6)


@pytest.mark.parametrize(("law", "state", "number"), CASES)
def test_draws_have_the_distribution_that_is_scored(law: Any, state: tuple[int, ...], number: int) -> None:
    rows = 4000
    generators = [np.random.default_rng([7, number, row]) for row in range(rows)]
    states = np.array([state] * rows, dtype=np.int32)
    drawn = law.draw(logits(0, rows), states, number, TOTAL, generators)
    counts = np.bincount(drawn @ V ** np.arange(L)[::-1], minlength=V**L)
    expected = rows * np.exp(enumerate_logp(law, state, number))
    assert counts[expected == 0].sum() == 0
    assert chi_square(counts, expected) > ALPHA


def chi_square(counts: NDArray[Any], expected: NDArray[Any]) -> float:
    """Tail probability; cells of fewer than five expected draws are one cell."""
    small = expected < 5
    observed = np.append(counts[~small], counts[small].sum())
    wanted = np.append(expected[~small], expected[small].sum())
    observed, wanted = observed[wanted > 0], wanted[wanted > 0]
    if len(wanted) == 1:
        return 1.0
    return float(stats.chisquare(observed, wanted * observed.sum() / wanted.sum()).pvalue)


def test_greedy_draws_take_the_likeliest_token_at_places_chosen_as_they_are_otherwise() -> None:
    law, rows = MaskedDiffusion(0, 0.01), 200
    table = np.repeat(np.array([[[0, 1, 0], [0, 0, 6], [0, 1, 0]]], dtype=np.float32), rows, axis=0)
    states = np.zeros((rows, L), dtype=np.int32)
    generators = [np.random.default_rng([1, row]) for row in range(rows)]
    drawn = law.draw(table, states, 0, L, generators, sharpness=1e4)
    assert (drawn == [0, 2, 0]).all()  # the surest place first, and its likeliest token


@pytest.mark.parametrize("name", LAWS)
def test_the_whole_chain_has_the_distribution_of_its_enumeration(name: str) -> None:
    """Logits depend on the state, so that a wrong state before a step would show."""
    law, _ = LAWS[name]
    space, rows = every_state(), 4000
    table = np.random.default_rng(1).normal(size=(V**L, L, V)).astype(np.float32)

    def place(states: NDArray[np.int32]) -> NDArray[np.int64]:
        return states @ V ** np.arange(L)[::-1]

    p = np.full(V**L, 1 / V**L) if name == "flow" else (space == 0).all(1).astype(float)
    for number in range(TOTAL):
        before, after = np.repeat(space, len(space), axis=0), np.tile(space, (len(space), 1))
        numbers = mx.full(len(before), number, dtype=mx.int32)
        logp = law.logp(mx.array(table[place(before)]), mx.array(before), mx.array(after), numbers, TOTAL)
        p = p @ np.exp(np.array(logp, np.float64)).reshape(len(space), len(space))
    generators = [np.random.default_rng([11, row]) for row in range(rows)]
    states = law.start(L, generators)
    for number in range(TOTAL):
        states = law.draw(table[place(states)], states, number, TOTAL, generators)
    assert p.sum() == pytest.approx(1, abs=1e-5)
    assert chi_square(np.bincount(place(states), minlength=V**L), rows * p) > ALPHA


@pytest.mark.parametrize(("law", "state", "number"), CASES)
def test_entropy_and_divergence_are_the_sums_over_all_states(law: Any, state: tuple[int, ...], number: int) -> None:
    mine, other = enumerate_logp(law, state, number), enumerate_logp(law, state, number, seed=5)
    p, possible = np.exp(mine), np.isfinite(mine)
    states, numbers = mx.array([state]), mx.array([number])
    entropy = law.entropy(mx.array(logits(0)), states, numbers, TOTAL).item()
    assert entropy == pytest.approx(-(p[possible] * mine[possible]).sum(), abs=1e-5)
    divergence = law.divergence(mx.array(logits(0)), mx.array(logits(5)), states, numbers, TOTAL).item()
    assert divergence == pytest.approx((p[possible] * (mine[possible] - other[possible])).sum(), abs=1e-5)


@pytest.mark.parametrize("quantity", ["logp", "entropy", "divergence"])
@pytest.mark.parametrize(("law", "state", "number"), CASES)
def test_slopes_equal_finite_differences(law: Any, state: tuple[int, ...], number: int, quantity: str) -> None:
    generators = [np.random.default_rng(3)]
    states, numbers = mx.array([state]), mx.array([number])
    following = mx.array(law.draw(logits(0), np.array([state], dtype=np.int32), number, TOTAL, generators))

    def value(values: Any) -> Any:
        if quantity == "logp":
            return law.logp(values, states, following, numbers, TOTAL).sum()
        if quantity == "entropy":
            return law.entropy(values, states, numbers, TOTAL).sum()
        return law.divergence(values, mx.array(logits(5)), states, numbers, TOTAL).sum()

    slopes = np.array(mx.grad(value)(mx.array(logits(0))))
    assert np.isfinite(slopes).all()
    width, differences = 1e-2, np.zeros_like(slopes)
    for place in np.ndindex(slopes.shape):
        ends = []
        for sign in (1, -1):
            moved = logits(0)
            moved[place] += sign * width
            ends.append(value(mx.array(moved)).item())
        differences[place] = (ends[0] - ends[1]) / (2 * width)
    np.testing.assert_allclose(slopes, differences, atol=2e-3)


# The golden file: the public code, whose clamps and mean this has not


def by_hand(t: float, dt: float, clamp: float) -> NDArray[np.float64]:
    """Log-probabilities of the positions of the golden file in float64, with the clamps of the public code or none."""
    inputs = GOLDEN["inputs"]
    scores = np.array(inputs["logits"][0])
    p = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    before, after = (np.array(inputs[name][0]) for name in ("x_t", "x_next"))
    places = np.arange(len(before))
    rate = 2 * t / max(1 - t * t, 1e-6)
    current = p[places, before]
    stay = np.minimum(np.exp(-rate * (1 - current) * dt), 1 - clamp)
    with np.errstate(divide="ignore"):
        jump = np.log1p(-stay) + np.log(p[places, after]) - np.log1p(-np.minimum(current, 1 - clamp))
        return np.where(before == after, np.log(np.exp(-rate * (1 - current) * dt)), jump)


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: f"t {case['t']}")
def test_golden_log_probabilities_but_for_clamps_and_mean(case: dict[str, Any]) -> None:
    t, dt, outputs = case["t"], case["dt"], case["outputs"]
    clamped, exact = (by_hand(t, dt, clamp)[:3] for clamp in (1e-4, 0.0))
    np.testing.assert_allclose(clamped, outputs["per_position_logp"], rtol=1e-9, atol=1e-12)
    assert clamped.mean() == pytest.approx(outputs["independent_float64_mean_logp"], rel=1e-9)
    total = round(1 / dt)
    inputs = GOLDEN["inputs"]
    number = round(t * total)
    if number == total - 1:  # its step is the last, which is drawn from the model's distribution: scored as that
        scores = np.array(inputs["logits"][0])
        exact = scores[np.arange(4), inputs["x_next"][0]] - np.log(np.exp(scores).sum(-1))
        exact = exact[:3]
    found = [
        DiscreteFlow(4)
        .logp(
            mx.array(inputs["logits"])[:, place : place + 1],
            mx.array(inputs["x_t"])[:, place : place + 1],
            mx.array(inputs["x_next"])[:, place : place + 1],
            mx.array([number]),
            total,
        )
        .item()
        for place in range(3)
    ]
    np.testing.assert_allclose(found, exact, rtol=2e-6)


def test_golden_tokens_of_masked_diffusion_are_a_part_of_the_log_probability() -> None:
    example = GOLDEN["masked_diffusion_refusion"]["example"]
    scores = np.pad(np.array(example["logits"]), ((0, 0), (1, 0)))  # token 0 is the mask
    law = MaskedDiffusion(0, 1.0)
    states, following = mx.zeros((1, 2), mx.int32), mx.array([[token + 1 for token in example["tokens"]]])
    both = law.logp(mx.array(scores[None]), states, following, mx.array([0]), 1).item()
    assert both == pytest.approx(example["logp"], rel=2e-6)  # with both chosen, the choice is certain
    first = mx.array([[following[0, 0].item(), 0]])
    alone = law.logp(mx.array(scores[None]), states, first, mx.array([0]), 2).item()
    logp = scores[:, 1:] - np.log(np.exp(scores[:, 1:]).sum(-1, keepdims=True))
    choice = logp.max(-1) - np.log(np.exp(logp.max(-1)).sum())
    assert alone == pytest.approx(choice[0] + logp[0, 0], rel=2e-6)


# Subsets


def brute_force(weights: NDArray[Any], size: int) -> dict[tuple[int, ...], float]:
    subsets = list(itertools.combinations(range(len(weights)), size))
    mass = np.array([np.exp(weights[list(subset)].sum()) for subset in subsets])
    return dict(zip(subsets, mass / mass.sum(), strict=True))


@pytest.mark.parametrize("size", range(6))
def test_subsets_have_the_law_of_their_enumeration(size: int) -> None:
    weights = np.random.default_rng(size).normal(scale=2, size=5)
    law = brute_force(weights, size)
    whole = np.log(sum(np.exp(weights[list(subset)].sum()) for subset in law))
    row, sizes = mx.array(weights[None].astype(np.float32)), mx.array([size])
    assert log_symmetric(row, sizes).item() == pytest.approx(whole, abs=1e-5)
    shares = [sum(p for subset, p in law.items() if place in subset) for place in range(5)]
    np.testing.assert_allclose(np.array(inclusion(row, sizes))[0], shares, atol=1e-5)
    draws = np.random.default_rng(9).random((3000, 5))
    chosen = draw_subsets(np.repeat(weights[None], 3000, axis=0), np.full(3000, size), draws)
    assert (chosen.sum(1) == size).all()
    counts = [(chosen == np.isin(np.arange(5), subset)).all(1).sum() for subset in law]
    assert chi_square(np.array(counts), 3000 * np.array(list(law.values()))) > ALPHA
