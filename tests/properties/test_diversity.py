"""The measures of diversity: equal to their twins, lawful, and typed where they refuse."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from karl_fast import diversity, errors
from tests.properties.naive import diversity as naive
from tests.tolerances import LOG, TWIN

TOKENS = st.one_of(st.integers(0, 3), st.sampled_from([0, 7, 2**40, 2**62]))
SEQUENCES = st.lists(st.lists(TOKENS, max_size=12), max_size=12)
WEIGHTS = st.lists(st.one_of(st.just(0.0), st.floats(1e-3, 1e3)), min_size=1, max_size=12)
CODES = st.integers(-1, 4)
EIGEN = 1e-9
"""Relative: eigenvalues of a matrix of order one are off by rounding, and -x ln x is steep near 0."""


def ragged(sequences: Any) -> tuple[Any, Any]:
    tokens = np.array([token for sequence in sequences for token in sequence], dtype=np.int64)
    return tokens, np.cumsum([0, *map(len, sequences)], dtype=np.int64)


def same(found: float, wanted: float, tolerance: float = LOG) -> None:
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


@given(SEQUENCES, st.integers(1, 5))
def test_distinct_n_equals_its_twin(sequences: Any, n: int) -> None:
    np.testing.assert_equal(diversity.distinct_n(*ragged(sequences), n), naive.distinct_n(sequences, n))


@given(SEQUENCES, st.integers(1, 5), st.sampled_from(["none", "add-one"]))
def test_self_bleu_equals_its_twin(sequences: Any, n: int, smoothing: str) -> None:
    found = diversity.self_bleu(*ragged(sequences), n, smoothing=smoothing)
    same(found, naive.self_bleu(sequences, n, smoothing))


@given(SEQUENCES, st.integers(1, 3), st.sampled_from([1, 2]))
def test_vendi_of_ngrams_equals_its_twin(sequences: Any, n: int, order: Any) -> None:
    found = diversity.vendi_ngrams(*ragged(sequences), n, order=order)
    same(found, naive.vendi(naive.similarity(sequences, n), order), EIGEN)


@given(st.integers(1, 12), st.integers(1, 6), st.integers(0, 2**32 - 1), st.sampled_from(["f4", "f8"]))
def test_vendi_of_vectors_is_that_of_their_cosines(count: int, width: int, seed: int, dtype: str) -> None:
    vectors = np.random.default_rng(seed).normal(size=(count, width)).astype(dtype)
    unit = vectors / np.linalg.norm(vectors.astype("f8"), axis=1, keepdims=True)
    for order in (1, 2):
        wanted = naive.vendi(unit @ unit.T, order)
        same(diversity.vendi(vectors, order=order), wanted, EIGEN)
        same(diversity.vendi_similarity(unit @ unit.T, order=order), wanted, EIGEN)


def test_vendi_is_the_same_beyond_a_block() -> None:
    vectors = np.random.default_rng(5).normal(size=(3, 5000))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    same(diversity.vendi(vectors), naive.vendi(unit @ unit.T, 1), EIGEN)
    same(diversity.vendi(vectors.T.copy(), order=2), 1 / np.sum(gram_of(vectors.T) ** 2), EIGEN)


def gram_of(vectors: Any) -> Any:
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit.T @ unit / len(unit)


@given(st.lists(st.tuples(st.integers(0, 40), st.floats(0, 1)), max_size=10), st.integers(1, 45))
def test_pass_at_k_equals_exact_fractions(prompts: Any, k: int) -> None:
    counts = [(n, round(share * n)) for n, share in prompts]
    rollouts, successes = (np.array([pair[at] for pair in counts], dtype=np.int64) for at in (0, 1))
    same(diversity.pass_at_k(rollouts, successes, k), [naive.pass_at_k(n, c, k) for n, c in counts], TWIN)


REWARDS = st.one_of(st.floats(-5, 5, width=32), st.sampled_from([0.0, 1.0, math.nan]))


@given(st.lists(st.tuples(REWARDS, CODES), min_size=1, max_size=12), st.integers(1, 5), st.sampled_from(["f4", "f8"]))
def test_best_at_k_is_the_mean_over_sets(rows: Any, k: int, dtype: str) -> None:
    rewards, ids = np.array([reward for reward, _ in rows], dtype=dtype), np.array([code for _, code in rows])
    groups = list(dict.fromkeys(code for _, code in rows if code >= 0))
    wanted = [naive.best_at_k([reward for reward, code in rows if code == group], k) for group in groups]
    same(diversity.best_at_k(rewards, ids, k=k), wanted)


@given(st.integers(1, 12), st.data())
def test_best_at_k_of_bits_is_pass(n: int, data: Any) -> None:
    successes = data.draw(st.integers(0, n))
    rewards = np.array([1.0] * successes + [0.0] * (n - successes))
    for k in range(1, n + 1):
        best = diversity.best_at_k(rewards, np.zeros(n, dtype=np.int64), k=k)
        same(best, diversity.pass_at_k(np.array([n]), np.array([successes]), k))


@given(st.integers(1, 60), st.data())
def test_pass_at_k_rises_with_k(n: int, data: Any) -> None:
    successes = np.array([data.draw(st.integers(0, n))])
    found = np.array([diversity.pass_at_k(np.array([n]), successes, k)[0] for k in range(1, n + 1)])
    same(found[0], successes[0] / n)
    assert np.all(np.diff(found) > -TWIN)
    assert found[-1] == (successes[0] > 0)


@given(st.lists(REWARDS, min_size=2, max_size=12))
def test_best_at_k_rises_from_mean_to_max(rewards: list[float]) -> None:
    present = [reward for reward in rewards if not math.isnan(reward)]
    of_one = np.array([0, len(rewards)])
    found = [diversity.best_at_k(np.array(rewards), offsets=of_one, k=k)[0] for k in range(1, 13)]
    assert np.isnan(found[len(present) :]).all()
    if present:
        same(found[0], math.fsum(present) / len(present))
        assert found[len(present) - 1] == max(present)
        assert np.all(np.diff(found[: len(present)]) > -1e-11)


@given(WEIGHTS, st.sampled_from(["f4", "f8"]))
def test_measures_of_categories_equal_their_twins(weights: Any, dtype: str) -> None:
    column = np.array(weights, dtype=dtype)
    plain = [float(weight) for weight in column]
    entropy, used = naive.entropy(plain), sum(weight > 0 for weight in plain)
    same(diversity.entropy(column), entropy)
    same(diversity.gini(column), naive.gini(plain))
    assert diversity.coverage(column) == used / len(plain)
    if used:
        same(diversity.evenness(column), entropy / math.log(len(plain)) if len(plain) > 1 else 0.0)
        total = math.fsum(plain)
        wanted = [used, math.exp(entropy), 1 / math.fsum((weight / total) ** 2 for weight in plain)]
        found = [diversity.effective_number(column, order=order) for order in (0, 1, 2)]
        same(found, wanted)
        assert used + LOG >= found[0] >= found[1] - LOG >= found[2] - 2 * LOG >= 1 - 3 * LOG


@given(st.lists(st.tuples(CODES, CODES), max_size=40))
def test_mutual_information_is_what_entropy_loses_within_inputs(rows: Any) -> None:
    inputs, outputs = (np.array([row[at] for row in rows], dtype=np.int64) for at in (0, 1))
    found = diversity.mutual_information(inputs, outputs)
    same(found.mutual_nats, naive.mutual_information(inputs.tolist(), outputs.tolist()))
    same(found.mutual_nats, diversity.mutual_information(outputs, inputs).mutual_nats)
    if found.rows:
        assert 0 <= found.mutual_nats <= min(found.input_entropy_nats, found.output_entropy_nats) + LOG
        same(found.within_entropy_nats, found.output_entropy_nats - found.mutual_nats)


def test_template_collapse_has_entropy_and_no_information() -> None:
    """Both policies are as diverse; the first answers each prompt in its own way, the second all from one template."""
    prompts = np.repeat(np.arange(4), 8)
    answering, collapsed = prompts * 2 + np.tile([0, 1], 16), np.tile(np.arange(8), 4)
    own, template = (diversity.mutual_information(prompts, outputs) for outputs in (answering, collapsed))
    assert own.output_entropy_nats == template.output_entropy_nats
    same(own.mutual_nats, math.log(4))
    assert template.mutual_nats == 0.0
    assert (own.share, template.share) == (own.mutual_nats / own.output_entropy_nats, 0.0)


def test_the_bias_is_what_chance_gives() -> None:
    """Independent columns: the mean estimate over 400 of them is the bias within 4 standard errors. Seed 3."""
    generator = np.random.default_rng(3)
    found = [
        diversity.mutual_information(generator.integers(0, 4, 200), generator.integers(0, 5, 200)) for _ in range(400)
    ]
    off = np.array([one.mutual_nats - one.bias_nats for one in found])
    assert abs(off.mean()) < 4 * off.std() / math.sqrt(len(off))
    assert np.mean([one.mutual_nats for one in found]) > 10 * abs(off.mean())


@given(SEQUENCES, st.integers(1, 3), st.integers(2, 3))
def test_a_repeated_set_is_equally_diverse(sequences: Any, n: int, times: int) -> None:
    for order in (1, 2):
        once = diversity.vendi_ngrams(*ragged(sequences), n, order=order)  # type: ignore[arg-type]
        again = diversity.vendi_ngrams(*ragged(sequences * times), n, order=order)  # type: ignore[arg-type]
        same(again, once, EIGEN)
        with_grams = sum(len(sequence) >= n for sequence in sequences)
        assert math.isnan(once) if not with_grams else 1 - EIGEN <= once <= with_grams + EIGEN


@given(SEQUENCES, st.randoms(use_true_random=False))
def test_token_names_and_order_do_not_matter(sequences: Any, random: Any) -> None:
    names: dict[int, int] = {}
    renamed = [[names.setdefault(token, 900 - len(names)) for token in sequence] for sequence in sequences]
    random.shuffle(renamed)
    for measure in (diversity.distinct_n, diversity.vendi_ngrams):
        same(measure(*ragged(renamed), 2), measure(*ragged(sequences), 2), EIGEN)
    same(sorted(diversity.self_bleu(*ragged(renamed))), sorted(diversity.self_bleu(*ragged(sequences))))


@pytest.mark.parametrize("tokens", [1, 3, 2000])
def test_long_columns_equal_their_twins(tokens: int) -> None:
    """Few tokens are numbered by a table, many by a sort; 20,000 sequences are more than one thread takes."""
    generator = np.random.default_rng(11)
    sequences = [generator.integers(0, tokens, generator.integers(0, 6)).tolist() for _ in range(20_000)]
    assert diversity.distinct_n(*ragged(sequences), 3) == naive.distinct_n(sequences, 3)
    few = ragged(sequences[:300])
    same(diversity.vendi_ngrams(*few, order=2), naive.vendi(naive.similarity(sequences[:300], 2), 2), EIGEN)
    same(diversity.vendi_ngrams(*ragged(sequences), order=2), diversity.vendi_ngrams(*ragged(sequences * 2), order=2))


def test_names_in_an_arrow_column_are_tokens() -> None:
    names = pl.Series(["read", "edit", "bash", "read", "edit"])
    offsets = np.array([0, 3, 5])
    assert diversity.distinct_n(names, offsets, 2) == 2 / 3
    masked = names.cast(pl.Categorical).filter(pl.Series([True, True, False, True, True]))
    assert diversity.distinct_n(masked, np.array([0, 2, 4]), 1) == 0.5


def test_a_profile_equals_its_measures_of_drawn_rows() -> None:
    sequences = [[0, 1, 2], [0, 1, 2, 2], [3, 0, 1], [], [2]]
    rows = np.array([2, 0, 0, 4])
    drawn = [sequences[row] for row in rows]
    rollouts = diversity.Rollouts(
        *ragged(sequences), categories=np.array([0, 1, 1, 3, -1]), prompts=np.array([0, 0, 1, 1, 1])
    )
    found = diversity.profile(rollouts, rows)
    assert (found.rows, found.distinct_rows) == (4, 3)
    assert found.distinct_1 == naive.distinct_n(drawn, 1)
    assert found.distinct_n == naive.distinct_n(drawn, 2)
    same(found.self_bleu, float(np.mean(naive.self_bleu(drawn, 2, "none"))))
    same(found.vendi, naive.vendi(naive.similarity(drawn, 2), 2), EIGEN)
    same(found.entropy_nats, naive.entropy([2, 1, 0, 0]))
    assert (found.evenness, found.coverage) == (found.entropy_nats / math.log(4), 0.5)
    same(found.mutual_nats, naive.mutual_information([1, 0, 0, 1], [1, 0, 0, -1]))


def test_a_comparison_prints_each_measure_before_and_after() -> None:
    rollouts = diversity.Rollouts(*ragged([[0, 1], [2, 3]]))
    compared = diversity.compare(diversity.profile(rollouts), diversity.profile(rollouts, np.array([0, 0])))
    assert compared.ratios["vendi"] == 0.5
    assert math.isnan(compared.ratios["gini"])
    lines = str(compared).splitlines()
    assert lines[0].split() == ["before", "after", "ratio"]
    assert lines[2].split() == ["distinct_rows", "2", "1", "0.5000"]
    assert "vendi                     2.0000    1.0000    0.5000" in lines
    assert str(compared.after).splitlines()[0].split() == ["rows", "2"]


GROUPS = np.zeros(3, dtype=np.int64)
FLAT, ENDS = np.array([0, 1, 2]), np.array([0, 2, 3])
FAR = np.array([[1.0, 2.0], [2.0, 1.0]])
BENT = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.9], [0.0, 0.9, 1.0]])


def profiled(rows: Any) -> diversity.Profile:
    return diversity.profile(diversity.Rollouts(FLAT, ENDS), rows)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: diversity.distinct_n(np.array([0, -1]), np.array([0, 2])),
            errors.ArgumentError,
            "tokens at index 1 is -1",
        ),
        (lambda: diversity.distinct_n(FLAT, ENDS, 0), errors.ArgumentError, "n is 0"),
        (lambda: diversity.self_bleu(FLAT, ENDS, -1), errors.ArgumentError, "n is -1"),
        (lambda: diversity.vendi_ngrams(FLAT, np.array([0, 4])), errors.LayoutError, "offsets at index 1 is 4"),
        (lambda: diversity.distinct_n(FLAT.astype("f4"), ENDS), errors.DTypeError, "tokens has dtype float32"),
        (lambda: diversity.self_bleu(FLAT, ENDS, smoothing="floor"), errors.UsageError, "smoothing"),
        (lambda: diversity.vendi_ngrams(FLAT, ENDS, order=3), errors.UsageError, "order is 3"),
        (lambda: diversity.vendi(np.zeros((2, 2))), errors.ArgumentError, "vector 0 has length 0"),
        (lambda: diversity.vendi(np.array([[1.0], [math.nan]])), errors.ArgumentError, "vector 1 has length nan"),
        (lambda: diversity.vendi(np.ones((2, 2), dtype="i8")), errors.DTypeError, "vectors is int64"),
        (lambda: diversity.vendi([[1.0]]), errors.DTypeError, "vectors is list"),
        (lambda: diversity.vendi(np.ones(2)), errors.LayoutError, "vectors has 1 dim"),
        (lambda: diversity.vendi_similarity(np.ones((2, 3))), errors.LayoutError, r"shape \[2, 3\]"),
        (lambda: diversity.vendi_similarity(np.array([[1, 0.5], [0, 1]])), errors.ArgumentError, "symmetric"),
        (lambda: diversity.vendi_similarity(np.eye(2) * 2), errors.ArgumentError, "diagonal"),
        (lambda: diversity.vendi_similarity(FAR, order=2), errors.ArgumentError, r"similarity at \[0, 1\] is 2"),
        (lambda: diversity.vendi_similarity(BENT), errors.ArgumentError, "eigenvalue of -0.0909"),
        (lambda: diversity.pass_at_k(FLAT, np.array([0, 2, 0]), 1), errors.ArgumentError, "successes at index 1 is 2"),
        (lambda: diversity.pass_at_k(-FLAT, FLAT, 1), errors.ArgumentError, "rollouts at index 1 is -1"),
        (lambda: diversity.pass_at_k(FLAT, FLAT[:2], 1), errors.ArgumentError, "successes has length 2"),
        (lambda: diversity.pass_at_k(FLAT, FLAT, 0), errors.ArgumentError, "k is 0"),
        (
            lambda: diversity.best_at_k(np.array([0, math.inf, 0]), GROUPS, k=1),
            errors.ArgumentError,
            "rewards at index 1",
        ),
        (lambda: diversity.best_at_k(np.zeros(2), GROUPS, k=1), errors.ArgumentError, "rewards has length 2"),
        (lambda: diversity.entropy(np.array([1.0, -1.0])), errors.ArgumentError, "weights at index 1 is -1"),
        (lambda: diversity.gini(np.array([math.nan])), errors.ArgumentError, "weights at index 0 is NaN"),
        (lambda: diversity.effective_number(np.ones(2), order=3), errors.ArgumentError, "order is 3"),
        (lambda: diversity.entropy(np.full(2, 1.7e308)), errors.ArgumentError, "total of weights"),
        (lambda: diversity.mutual_information(FLAT, GROUPS[:1]), errors.ArgumentError, "outputs has length 1"),
        (lambda: diversity.Rollouts(FLAT, ENDS).take(np.array([2])), errors.ArgumentError, "row at index 0 is 2"),
        (lambda: diversity.Rollouts(FLAT, ENDS, FLAT[:2], 1).weights(), errors.ArgumentError, "categories hold 1"),
        (lambda: diversity.Rollouts(FLAT, ENDS, FLAT), errors.ArgumentError, "categories has length 3, wanted 2"),
        (lambda: diversity.Rollouts(FLAT, ENDS, prompts=FLAT), errors.ArgumentError, "prompts has length 3, wanted 2"),
        (lambda: diversity.Rollouts(FLAT, ENDS, category_count=-1), errors.ArgumentError, "category_count is -1"),
        (lambda: diversity.Rollouts(FLAT, ENDS[:0]), errors.LayoutError, "offsets has length 0"),
        (lambda: diversity.Rollouts(FLAT, ENDS, np.zeros(2)), errors.DTypeError, "categories has dtype float64"),
        (lambda: diversity.Rollouts(FLAT, ENDS, [0, 1.5]), errors.DTypeError, "categories is a list"),
        (lambda: diversity.Rollouts(FLAT, ENDS, FLAT[None]), errors.LayoutError, "categories has 2 dimensions"),
        (lambda: profiled(np.array([True, False])), errors.DTypeError, "rows has dtype bool, wanted int64"),
        (lambda: profiled(np.array([0.0])), errors.DTypeError, "rows has dtype float64, wanted int64"),
    ],
)
def test_what_cannot_be_measured_is_refused_by_name(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_nothing_to_measure_is_missing_and_not_zero() -> None:
    none, ends = np.zeros(0, dtype=np.int64), np.zeros(1, dtype=np.int64)
    assert math.isnan(diversity.distinct_n(none, ends))
    assert math.isnan(diversity.vendi_ngrams(none, ends))
    assert math.isnan(diversity.vendi(np.zeros((0, 3))))
    assert math.isnan(diversity.vendi_similarity(np.zeros((0, 0))))
    assert len(diversity.self_bleu(none, ends)) == 0
    assert np.isnan(diversity.self_bleu(FLAT, np.array([0, 3]))).all()
    for measure in (diversity.entropy, diversity.evenness, diversity.gini, diversity.effective_number):
        assert math.isnan(measure(np.zeros(3)))
        assert math.isnan(measure(np.zeros(0)))
    assert diversity.coverage(np.zeros(3)) == 0.0
    assert math.isnan(diversity.mutual_information(none, none).mutual_nats)
    assert math.isnan(diversity.profile(diversity.Rollouts(none, ends)).self_bleu)
