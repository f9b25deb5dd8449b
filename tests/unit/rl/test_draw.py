"""Turns are drawn from softmax(logits / T) itself, and carry the log-probabilities that they were drawn with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from karl_fast.rl.generate import Decoder, generate_turns

if TYPE_CHECKING:
    from types import ModuleType

TEMPERATURE = 0.7


@pytest.fixture
def policy(reversal: ModuleType) -> Any:
    import mlx.core as mx

    mx.random.seed(1)
    return reversal.policy(seed=1)


def logits(policy: Any, context: list[int]) -> Any:
    import mlx.core as mx

    return np.array(policy.head(policy.body(mx.array([context])))[0, -1]).astype(np.float64)


def test_first_tokens_follow_the_softmax_at_the_temperature(policy: Any) -> None:
    context, count = [1, 2, 8], 20_000
    turns = generate_turns(policy, [context] * count, [1] * count, temperature=TEMPERATURE, rows=count, seed=5)
    seen = np.bincount([turn.tokens[0] for turn in turns], minlength=10)
    chance = np.exp(logits(policy, context) / TEMPERATURE)
    chance /= chance.sum()
    statistic = ((seen - count * chance) ** 2 / (count * chance)).sum()
    assert statistic < 33.72  # chi-square, 9 degrees of freedom, alpha 1e-4
    for turn in turns[:50]:
        assert turn.logp[0] == pytest.approx(np.log(chance[turn.tokens[0]]), abs=1e-5)
        assert turn.entropy[0] == pytest.approx(-(chance * np.log(chance)).sum(), abs=1e-5)


def test_turn_ends_by_token_or_budget(policy: Any) -> None:
    budgets = [1, 3, 6] * 30
    turns = generate_turns(policy, [[1, 2, 8]] * 90, budgets, temperature=1.0, rows=40, seed=0)
    for turn, budget in zip(turns, budgets, strict=True):
        ends = np.isin(turn.tokens, list(policy.ends))
        assert not ends[:-1].any()
        assert ends[-1] == turn.ended
        assert len(turn.tokens) == len(turn.logp) == len(turn.entropy) <= budget
        assert turn.ended or len(turn.tokens) == budget
    assert {turn.ended for turn in turns} == {True, False}


def test_draw_is_a_function_of_the_seed(policy: Any) -> None:
    contexts = [[1, 2, 8], [3, 8], [1, 2, 8], [4, 5, 6, 8]] * 4
    first, again, other = (
        generate_turns(policy, contexts, [5] * 16, temperature=1.0, rows=64, seed=seed) for seed in (7, 7, 8)
    )
    assert all(np.array_equal(a.tokens, b.tokens) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a.tokens, b.tokens) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize("temperature", [1.0, TEMPERATURE])
def test_drawn_logp_equals_the_training_forward(language: Any, temperature: float) -> None:
    from karl_fast.rl.logprobs import Forward
    from karl_fast.rl.rollout import Packed

    contexts = [language.encode([{"role": "user", "content": text}]) for text in ("flight", "a longer question")]
    contexts = [context for context in contexts for _ in range(4)]
    turns = generate_turns(language, contexts, [40] * 8, temperature=temperature, rows=8, seed=2)
    width = max(len(context) + len(turn.tokens) for context, turn in zip(contexts, turns, strict=True))
    tokens, logp = np.zeros((8, width), np.int32), np.zeros((8, width), np.float32)
    mask = np.zeros((8, width), np.bool_)
    for row, (context, turn) in enumerate(zip(contexts, turns, strict=True)):
        place = slice(len(context), len(context) + len(turn.tokens))
        tokens[row, : place.stop] = [*context, *turn.tokens]
        logp[row, place], mask[row, place] = turn.logp, True
    packed = Packed(tokens, mask[:, 1:], np.where(mask, 0, -1)[:, 1:], logp[:, 1:])
    found = Forward(language, temperature).logp(packed)
    assert np.abs(found - packed.logp).max() < 1e-4
    assert not found[~packed.mask].any()


@pytest.mark.parametrize("vocabulary", [1, 10, 513, 40_000])
@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
def test_choice_on_a_cpu_is_that_of_mlx(
    policy: Any, vocabulary: int, temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both take the same noise by the same key, so that a seed has the same tokens on a CPU and on a GPU."""
    import mlx.core as mx

    random = np.random.default_rng(vocabulary)
    logits = mx.array(random.normal(0, 4, (30, vocabulary)).astype(np.float32))
    keys = random.integers(0, 2**64, 30, dtype=np.uint64)
    found = {}
    for on_cpu in (False, True):
        monkeypatch.setattr("karl_fast.rl.generate._runs_on_cpu", lambda on_cpu=on_cpu: on_cpu)
        found[on_cpu] = [np.array(part) for part in Decoder(policy, temperature).choose(logits, keys)]
    assert (found[True][0] == found[False][0]).all()
    for ours, wanted in zip(found[True][1:], found[False][1:], strict=True):
        assert ours.shape == (30, 1)
        assert np.allclose(ours, wanted, atol=1e-4)


def test_a_cpu_computes_no_noise_that_cannot_win(policy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlx.core as mx

    monkeypatch.setattr("karl_fast.rl.generate._runs_on_cpu", lambda: True)
    monkeypatch.setattr("karl_fast.rl.generate.gumbel_noise", None)
    token, logp, negentropy = Decoder(policy, 1.0).choose(mx.zeros((2, 8)), np.array([1, 2], dtype=np.uint64))
    assert np.allclose(logp, -np.log(8))
    assert np.allclose(negentropy, -np.log(8))
    assert token.shape == (2, 1)


def test_a_gpu_computes_entropy_only_where_it_is_asked_for(policy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlx.core as mx

    monkeypatch.setattr("karl_fast.rl.generate._runs_on_cpu", lambda: False)
    logits, keys = mx.zeros((2, 8)), np.array([1, 2], dtype=np.uint64)
    whole, without = (Decoder(policy, 1.0, entropy=entropy).choose(logits, keys) for entropy in (True, False))
    assert (np.array(whole[0]) == np.array(without[0])).all()
    assert np.isnan(np.array(without[2])).all()
