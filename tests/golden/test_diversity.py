"""Diversity equals the published formulas, as numbers that were computed elsewhere."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from karl_fast import diversity
from tests.golden.test_files import golden
from tests.tolerances import GOLDEN

GIVEN = golden("diversity")
IDENTITY = {"rtol": GOLDEN, "atol": 1e-14}


def ragged(sequences: list[list[str]]) -> tuple[Any, Any]:
    names = sorted({name for sequence in sequences for name in sequence})
    tokens = np.array([names.index(name) for sequence in sequences for name in sequence])
    return tokens, np.cumsum([0, *map(len, sequences)])


@pytest.mark.parametrize("case", GIVEN["pass_at_k"])
def test_pass_at_k_is_the_unbiased_estimator(case: Any) -> None:
    found = diversity.pass_at_k(np.array([case["n"]]), np.array([case["c"]]), case["k"])[0]
    assert math.isclose(found, case["pass@k"], rel_tol=GOLDEN)
    biased = case["biased 1-(1-c/n)^k"]
    if case["k"] > 1 and 0 < case["c"] < case["n"]:
        assert found > biased + 1e-3


@pytest.mark.parametrize("case", GIVEN["best_at_k"])
def test_best_at_k_is_the_expected_largest(case: Any) -> None:
    found = diversity.best_at_k(np.array(case["rewards"]), np.zeros(5, dtype=np.int64), k=case["k"])
    assert math.isclose(found[0], case["E_max_of_k_without_replacement"], rel_tol=GOLDEN)


@pytest.mark.parametrize("case", GIVEN["vendi"], ids=lambda case: case["id"])
def test_vendi_of_similarity_equals_vendi_of_vectors(case: Any) -> None:
    kernel = np.array(case["K"], dtype=np.float64)
    values, directions = np.linalg.eigh(kernel)
    vectors = directions * np.sqrt(values.clip(0))
    for order, wanted in ((1, case["vendi"]), (2, case["order2_vendi(1/sum lambda^2)"])):
        assert math.isclose(diversity.vendi_similarity(kernel, order=order), wanted, rel_tol=GOLDEN)
        assert math.isclose(diversity.vendi(vectors, order=order), wanted, rel_tol=GOLDEN)


@pytest.mark.parametrize("n", [1, 2])
def test_distinct_n_is_pooled(n: int) -> None:
    case = GIVEN["distinct_n"]
    assert math.isclose(diversity.distinct_n(*ragged(case["sequences"]), n), case[f"distinct_{n}"], rel_tol=GOLDEN)


def test_self_bleu_of_two_orders_without_smoothing() -> None:
    case = GIVEN["self_bleu_2"]
    found = diversity.self_bleu(*ragged(case["sequences"]), 2)
    np.testing.assert_allclose(found, case["per_sequence"], **IDENTITY)
    assert math.isclose(found.mean(), case["mean"], rel_tol=GOLDEN)


def test_strategy_entropy_is_normalised_by_all_categories() -> None:
    case = GIVEN["strategy_entropy"]
    counts = np.array(case["counts"], dtype=np.float64)
    assert math.isclose(diversity.entropy(counts), case["H_nats"], rel_tol=GOLDEN)
    evenness = diversity.evenness(counts)
    assert math.isclose(evenness, case["H_normalised_by_log_K(4 categories)"], rel_tol=GOLDEN)
    assert abs(evenness - case["H_normalised_by_log_observed(3)"]) > 0.1
    assert math.isclose(diversity.effective_number(counts), case["effective_number exp(H)"], rel_tol=GOLDEN)
    assert math.isclose(diversity.gini(counts), case["gini"], rel_tol=GOLDEN)
    assert diversity.coverage(counts) == 0.75
