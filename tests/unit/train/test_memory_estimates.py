"""What is known before a run, and how sure a difference is: arithmetic, held against what happens."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from tests.external_gradients import pulled
from tests.unit.modeling.parts import adapted, built, examples

import mlx.core as mx  # isort: skip

from karl_fast.errors import UsageError
from karl_fast.modeling.memory import ModelSizes, TrainingMemory, estimate_training
from karl_fast.modeling.model_views import checkpoint_layers
from karl_fast.modeling.optimizer import learning_rate
from karl_fast.modeling.parameters import flatten_tree
from karl_fast.train import Training
from karl_fast.train.batching import mix_seed, pad_rows
from karl_fast.train.evaluation import mean_difference
from karl_fast.train.memory import check_batch, longest_row
from karl_fast.train.model_logprobs import Scorer

SHAPE = {"hidden_size": 128, "intermediate_size": 512, "num_attention_heads": 4, "head_dim": 32}


@pytest.mark.parametrize(
    ("vocabulary", "layers", "count", "longest"),
    [(512, 4, 8, 250), (32_768, 4, 8, 250), (512, 1, 2, 1_500), (512, 4, 2, 1_500)],
)
@pytest.mark.parametrize("grad_checkpoint", [False, True])
def test_the_arithmetic_of_memory_is_what_is_measured(
    vocabulary: int, layers: int, count: int, longest: int, grad_checkpoint: bool
) -> None:
    """Never below what is measured, and not above three times that: of short rows, and of long ones with few layers."""
    model = adapted(built(vocabulary=vocabulary, num_hidden_layers=layers, max_position_embeddings=2048, **SHAPE))
    settings = Training(grad_checkpoint=grad_checkpoint)
    weights = sum(one.nbytes for one in flatten_tree(model.parameters()).values())
    rows = examples(count, vocabulary, longest=longest)
    batch, scorer = pad_rows(rows), Scorer(model)
    memory = estimate_training(model, scorer.body, vocabulary, settings, layers)
    mx.clear_cache()
    before = mx.get_active_memory() - weights
    mx.reset_peak_memory()
    with checkpoint_layers(model, grad_checkpoint):
        mx.eval(pulled(scorer.trace(batch), lambda logp: -logp.mean()))
    measured = mx.get_peak_memory() - before
    planned = memory.need(count, batch.mask.shape[1]).total
    assert measured <= planned <= 3 * measured


def test_excess_is_refused_with_fitting_sizes() -> None:
    shape = ModelSizes(1152, 262_144, 600_000_000, 26_000_000)
    settings = Training(memory_limit=2.0, max_seq_length=4096)
    memory = TrainingMemory(shape, lambda rows, tokens: rows * tokens * (26 * 50_000 + 12 * tokens), settings)
    with pytest.raises(UsageError, match=r"8 rows of 4,096 tokens, needs about \d+\.\d GB") as error:
        check_batch(memory, 8, 4096)
    hint = error.value.hint or ""
    longest = longest_row(memory, 8, 2_000_000_000)
    assert f"--max-seq-length {longest} (which fits)" in hint
    assert "--grad-checkpoint" in hint
    assert check_batch(memory, 8, longest).total <= 2_000_000_000 < memory.need(8, longest + 32).total


def test_a_schedule_rises_falls_and_has_no_state() -> None:
    settings = Training(learning_rate=1.0, warmup=4, lr_schedule="cosine")
    rates = [learning_rate(settings, step, 12) for step in range(1, 13)]
    assert rates[:4] == [0.25, 0.5, 0.75, 1.0]
    assert rates[4] == 1.0
    assert all(one > other > 0 for one, other in pairwise(rates[4:]))
    assert rates[8] == pytest.approx(0.5)
    linear = Training(learning_rate=1.0, lr_schedule="linear")
    assert [learning_rate(linear, step, 4) for step in range(1, 5)] == [1.0, 0.75, 0.5, 0.25]
    assert {learning_rate(Training(), step, 9) for step in range(1, 10)} == {1e-5}


def test_each_step_has_a_seed_of_its_own() -> None:
    seeds = {mix_seed(seed, step) for seed in range(50) for step in range(50)}
    assert len(seeds) == 2500
    assert all(0 <= seed < 1 << 64 for seed in seeds)


def test_interval_covers_the_difference_at_its_level() -> None:
    """alpha = 1e-4 that 200 intervals of 95% cover fewer than 175 or all of them, were they exact."""
    random, covered = np.random.default_rng(0), 0
    for _ in range(200):
        of_group = random.normal(0.3, 1.0, 40)
        nats = np.repeat(of_group, 3) + random.normal(0.0, 0.1, 120)
        found = mean_difference(nats, np.ones(120, dtype=np.int64), [f"g{row // 3}" for row in range(120)])
        covered += found.low is not None and found.high is not None and found.low <= 0.3 <= found.high
    assert 175 <= covered < 200


@pytest.mark.parametrize("groups", [2, 3, 5])
def test_few_groups_keep_the_error_level(groups: int) -> None:
    """alpha = 1e-4 that more than 38 of 400 intervals of 95% leave out 0, were they exact; 5 of them at least."""
    random, sure, counts = np.random.default_rng(groups), 0, np.full(4 * groups, 7, dtype=np.int64)
    names = [f"g{row // 4}" for row in range(4 * groups)]
    for _ in range(400):
        found = mean_difference(np.repeat(random.normal(0.0, 1.0, groups), 4), counts, names)
        assert found.low is not None
        assert found.high is not None
        sure += not found.low <= 0 <= found.high
    assert 5 <= sure <= 38


def test_equal_groups_have_the_interval_of_means() -> None:
    stats = pytest.importorskip("scipy.stats")
    random = np.random.default_rng(5)
    means = random.normal(0.1, 1.0, 6)
    found = mean_difference(
        np.repeat(means, 2) * 3, np.full(12, 3, dtype=np.int64), [f"g{row // 2}" for row in range(12)]
    )
    assert found.value == pytest.approx(means.mean())
    assert (found.low, found.high) == pytest.approx(stats.t.interval(0.95, 5, means.mean(), stats.sem(means)), rel=1e-5)


def test_rows_of_one_group_are_not_independent() -> None:
    random = np.random.default_rng(1)
    nats = np.repeat(random.normal(0.0, 1.0, 20), 5)
    counts = np.ones(100, dtype=np.int64)
    grouped = mean_difference(nats, counts, [f"g{row // 5}" for row in range(100)])
    alone = mean_difference(nats, counts, [f"g{row}" for row in range(100)])
    assert grouped.value == pytest.approx(alone.value)
    assert grouped.high - grouped.low > 1.5 * (alone.high - alone.low)  # type: ignore[operator]
    assert mean_difference(nats, counts, ["g"] * 100).low is None
