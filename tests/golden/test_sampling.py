"""Samplers equal to published numbers: `tests/golden/sampling.json`, whose makers stand inside."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from karl_fast import sampling
from tests.properties.naive import sampling as naive
from tests.tolerances import GOLDEN, SIGMAS

GOLDEN_FILE = Path(__file__).parent / "sampling.json"
SAMPLING: dict[str, Any] = json.loads(GOLDEN_FILE.read_text("utf-8"))
SEEDS = 10_000


@pytest.mark.parametrize("case", SAMPLING["plackett_luce_without_replacement"])
def test_inclusion_is_plackett_luce_only(case: Any) -> None:
    weights, k = np.array(case["w"]), case["k"]
    found = sampling.inclusion(np.log(weights), k)
    np.testing.assert_allclose(found, case["inclusion"], rtol=GOLDEN)
    if k > 1 and np.ptp(weights) > 0:
        assert np.abs(found - case["k*w/W(PPS target)"]).max() > 1e-3
        assert np.abs(found - case["with_replacement_inclusion"]).max() > 1e-3


@pytest.mark.parametrize("case", SAMPLING["plackett_luce_without_replacement"][:1])
def test_merged_state_draws_in_plackett_luce_order(case: Any) -> None:
    logs, k = np.log(np.array(case["w"])), case["k"]
    keys = np.zeros((len(logs), 3), dtype=np.uint64)
    keys[:, 0] = np.arange(len(logs))
    counts = dict.fromkeys(case["ordered_probabilities"], 0)
    for seed in range(SEEDS):
        state, other = sampling.TopK(k, seed=seed), sampling.TopK(k, seed=seed)
        state.update(keys[:1], logs[:1])
        other.update(keys[1:], logs[1:])
        other.merge(state)
        counts[",".join(map(str, other.drawn().keys[:, 0]))] += 1
    for order, chance in case["ordered_probabilities"].items():
        assert abs(counts[order] / SEEDS - chance) <= SIGMAS * math.sqrt(chance * (1 - chance) / SEEDS), order


@pytest.mark.parametrize("case", SAMPLING["threshold_varopt"])
def test_the_threshold_and_its_shares_are_these(case: Any) -> None:
    tau, shares = sampling.threshold(np.array(case["w"]), case["k"])
    assert math.isclose(tau, case["tau"], rel_tol=GOLDEN)
    np.testing.assert_allclose(shares, case["pi"], rtol=GOLDEN)
    for seed in range(20):
        found = sampling.draw_var_opt(np.array(case["w"]), case["k"], seed=seed)
        wanted = np.array(case["HT_weight_if_sampled max(w,tau)"])[found.rows]
        np.testing.assert_allclose(found.estimates, wanted, rtol=GOLDEN)


def test_priorities_select_and_estimate_as_published() -> None:
    case = SAMPLING["priority_sampling"]
    rows, tau = naive.priority(case["w"], case["k"], case["u"])
    assert (sorted(rows), tau) == (sorted(case["selected"]), case["tau=(k+1)-th priority"])
    estimates = {str(row): max(case["w"][row], tau) for row in rows}
    assert estimates == case["estimates max(w,tau)"]


def test_priority_estimates_are_unbiased_as_published() -> None:
    case = SAMPLING["priority_sampling"]
    weights = np.array(case["w"])
    estimates = np.zeros((SEEDS, len(weights)))
    for seed in range(SEEDS):
        found = sampling.draw_priority(weights, case["k"], seed=seed)
        estimates[seed, found.rows] = found.estimates
    off = (estimates.mean(axis=0) - weights) / (estimates.std(axis=0) / math.sqrt(SEEDS) + 1e-12)
    assert np.abs(off[:4]).max() <= SIGMAS
    assert abs(estimates[:, 4].mean() - 20) <= 0.05, "the largest is all but always drawn"


@pytest.mark.parametrize("case", SAMPLING["systematic_pps"]["cases"])
def test_systematic_shares_select_as_published(case: Any) -> None:
    """The rule of the golden file on the shares of :func:`threshold`."""
    published = SAMPLING["systematic_pps"]
    _, shares = sampling.threshold(np.array(published["w"]), published["k"])
    np.testing.assert_allclose(shares, published["pi"], rtol=GOLDEN)
    ends = np.concatenate([[0.0], np.cumsum(np.round(shares, 12))])
    found = np.flatnonzero(np.floor(ends[1:] - case["u"]) > np.floor(ends[:-1] - case["u"]))
    assert found.tolist() == case["selected"]
