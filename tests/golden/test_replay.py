"""Replay beside numbers that were computed elsewhere: delight, its gate, and the Kondo gate."""

from __future__ import annotations

import math

import numpy as np
import pytest

from karl_fast import replay
from tests.golden.test_files import golden
from tests.tolerances import GOLDEN

CASES = {case["id"]: case for case in golden("update_rules")["cases"]}


@pytest.mark.parametrize("name", ["dg_eta1.0", "dg_eta0.5"])
def test_delight_equals_the_delightful_policy_gradient(name: str) -> None:
    inputs, outputs = CASES[name]["inputs"], CASES[name]["outputs"]
    logp, advantages = np.array(inputs["logp"]), np.array(inputs["advantage"])
    surprisals = replay.surprisal(logp, np.arange(len(logp) + 1, dtype=np.int64))
    delights = replay.delight(advantages, surprisals)
    np.testing.assert_allclose(delights, outputs["delight"], rtol=GOLDEN)
    gates = replay.delight_gate(delights, eta=inputs["eta"])
    np.testing.assert_allclose(gates, outputs["gate"], rtol=GOLDEN)
    np.testing.assert_allclose(-gates * advantages / len(logp), outputs["grad_wrt_logp"], rtol=GOLDEN)


@pytest.mark.parametrize("name", ["kondo_soft_keep0.5", "kondo_soft_keep0.2"])
def test_the_price_of_the_kondo_gate(name: str) -> None:
    """The published price is that of twenty halvings of a wide bracket: right to a millionth of it."""
    inputs, outputs = CASES[name]["inputs"], CASES[name]["outputs"]
    delights = np.array(inputs["delight"])
    price = replay.kondo_price(delights, inputs["keep"], eta=inputs["eta"])
    assert math.isclose(price, outputs["price_lambda"], abs_tol=3e-5)
    gates = replay.delight_gate(delights, eta=inputs["eta"], price=price)
    assert math.isclose(gates.mean(), inputs["keep"], rel_tol=1e-12)
    assert abs(gates.mean() - inputs["keep"]) < abs(outputs["mean_gate_prob"] - inputs["keep"])


def test_the_hard_kondo_gate_is_the_largest_delights() -> None:
    case = CASES["kondo_hard_topk_0.4"]
    delights = np.array(case["inputs"]["delight"])
    k = max(1, round(case["inputs"]["pct_learn"] * len(delights)))
    gate = np.zeros(len(delights))
    gate[replay.largest(delights, k)] = 1.0
    assert (k, gate.tolist()) == (case["outputs"]["k"], case["outputs"]["gate"])


@pytest.mark.parametrize("name", ["pedagogical_student_gate_k4.0_g-2.5", "pedagogical_student_gate_k2.0_g-3.5"])
def test_gate_of_pedagogical_rl_is_that_of_a_log_probability(name: str) -> None:
    """Tokens of a teacher that the student finds unlikely are left out; the loss is the mean under these weights."""
    inputs, outputs = CASES[name]["inputs"], CASES[name]["outputs"]
    logp = np.array(inputs["logp"])
    gates = replay.delight_gate(logp, eta=1 / inputs["kappa"], price=inputs["gamma"])
    np.testing.assert_allclose(gates, outputs["w"], rtol=GOLDEN)
    assert math.isclose(-(gates * logp).sum() / gates.sum(), outputs["loss"], rel_tol=GOLDEN)
