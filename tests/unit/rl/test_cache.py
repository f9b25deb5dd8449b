"""A turn goes on from what the last one computed: the same chances, for less work."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from karl_fast.rl import generate as draw
from karl_fast.rl import kv_cache as cache
from karl_fast.rl.collect import Collector, Sampling
from karl_fast.rl.episode import Budget
from karl_fast.rl.next_token import Decoder
from karl_fast.rl.policy import LanguageModel
from karl_fast.rl.rewards import RewardFunctions
from karl_fast.rl.rollout import Prompt
from tests.unit.train import zoo

if TYPE_CHECKING:
    from karl_fast.rl.rollout import Rollout


class Widths:
    """How many tokens a policy is fed at a time, but for those that it draws."""

    def __init__(self, policy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[tuple[int, int]] = []
        body = policy.body

        def counted(tokens: Any, cache: Any = None) -> Any:
            if tokens.shape[1] > 1:
                self.seen.append(tuple(tokens.shape))
            return body(tokens, cache=cache)

        monkeypatch.setattr(policy, "body", counted)

    @property
    def tokens(self) -> int:
        return sum(rows * width for rows, width in self.seen)


def test_rollouts_of_other_lengths_go_on_together_with_the_chances_of_a_fresh_start(
    language: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = [[5, 9, 12, 40, 7]] * 3 + [[8, 6, 30, 31, 32, 33, 90]] * 3
    decoder = Decoder(language, 1.0)
    said = draw.go_on(decoder, first, [3, 4, 5] * 2, [None] * 6, keep=True, rows=8, seed=1)
    heard = [one for _, one in said]
    assert all(one is not None for one in heard)
    assert len({id(one.caches) for one in heard if one is not None}) == 2
    contexts = [
        (context + turn.tokens.tolist() + [50, 51, 52, 53, 54, 55, 56, 57])[:14]
        for context, (turn, _) in zip(first, said, strict=True)
    ]
    widths = Widths(language, monkeypatch)
    fresh = draw.draw(language, contexts, [6] * 6, temperature=1.0, rows=8, seed=2)
    again = draw.go_on(decoder, contexts, [6] * 6, heard, keep=False, rows=8, seed=2)
    assert [width for _, width in widths.seen] == [14, 14 - min(one.length for one in heard if one is not None)]
    assert all(one is None for _, one in again)
    for plain, (turn, _) in zip(fresh, again, strict=True):
        assert plain.tokens.tolist() == turn.tokens.tolist()
        assert np.abs(plain.logp - turn.logp).max() < 1e-4
        assert np.abs(plain.entropy - turn.entropy).max() < 1e-4


class Talker:
    """Answers three turns, at a length of its own."""

    def reset(self, prompt: Any) -> str:
        self.turns = 0
        return "a word to begin with " * 4

    def step(self, text: str) -> tuple[str, bool]:
        self.turns += 1
        return "and another one", self.turns == 4

    def score(self) -> float:
        return 1.0


def collected(policy: Any, **more: Any) -> list[Rollout]:
    prompts = [Prompt(name, 0, ({"role": "user", "content": name * 4},)) for name in ("question", "another")]
    sampling = Sampling(group_size=4, budget=Budget(60, turns=4, turn_tokens=6), **more)
    return Collector(Decoder(policy, 1.0), RewardFunctions((), environment=1.0), sampling, Talker)(
        prompts, first=0, seed=1, version=0
    )[0]


def test_a_conversation_computes_what_is_new_until_a_cache_forgets(
    language: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    widths = Widths(language, monkeypatch)
    carried = collected(language)
    some = widths.tokens
    monkeypatch.setattr(draw, "carried", lambda caches: False)
    widths.seen.clear()
    anew = collected(language)
    forgets = any(hasattr(one, "max_size") for one in language.caches())  # its window is shorter than what is said
    assert some == widths.tokens if forgets else some < widths.tokens / 2
    for one, other in zip(carried, anew, strict=True):
        assert one.tokens.tolist() == other.tokens.tolist()
        assert np.abs(one.logp - other.logp).max() < 1e-4


def test_no_more_caches_are_kept_than_rollouts_are_drawn_at_a_time(
    language: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    widths = Widths(language, monkeypatch)
    collected(language, rows=7)
    assert min(width for _, width in widths.seen) > 20


def test_a_cache_that_forgets_or_is_of_another_kind_is_not_carried_on(reversal: Any) -> None:
    models = pytest.importorskip("mlx_lm.models.cache")
    import mlx.core as mx

    rotating = models.RotatingKVCache(4)
    rotating.update_and_fetch(mx.zeros((1, 1, 3, 2)), mx.zeros((1, 1, 3, 2)))
    assert cache.carried([models.KVCache(), rotating])
    for _ in range(2):
        rotating.update_and_fetch(mx.zeros((1, 1, 1, 2)), mx.zeros((1, 1, 1, 2)))
    assert not cache.carried([models.KVCache(), rotating])
    assert not cache.carried([models.ChunkedKVCache(8)])
    assert not cache.carried(reversal.policy(seed=1).caches())
    assert not cache.carried([])


@pytest.mark.parametrize("kind", ["qwen3", "gemma3_text", "qwen3_next"])
def test_contexts_that_are_computed_apart_are_those_computed_together(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few rows at a time, at first and going on, whatever a cache holds."""
    policy = LanguageModel(SimpleNamespace(model=zoo.built(kind), tokenizer=None, ends=frozenset(), config={}))
    decoder, random = Decoder(policy, 1.0), np.random.default_rng(2)
    contexts = [row for row in random.integers(0, zoo.VOCABULARY, (5, 7)).tolist() for _ in range(2)]

    def said() -> list[Any]:
        first = draw.go_on(decoder, contexts, [4] * 10, [None] * 10, keep=True, rows=16, seed=1)
        more = [[*row, *turn.tokens.tolist(), 1, 2, 3] for row, (turn, _) in zip(contexts, first, strict=True)]
        then = draw.go_on(decoder, more, [4] * 10, [one for _, one in first], keep=False, rows=16, seed=2)
        return [turn for turn, _ in (*first, *then)]

    together = said()
    monkeypatch.setattr(draw, "PREFILL", 16)
    widths = Widths(policy, monkeypatch)
    apart = said()
    assert all(rows * width <= 16 for rows, width in widths.seen)
    assert len(widths.seen) > 4
    for one, other in zip(together, apart, strict=True):
        assert one.tokens.tolist() == other.tokens.tolist()
        assert np.abs(one.logp - other.logp).max() < 1e-4
