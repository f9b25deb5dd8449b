"""Rows of any length are generated together, and each is the rollout that it would be alone."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np
import pytest

from karl_fast.rl.episode import Collector, RolloutBudget, Sampling
from karl_fast.rl.generate import (
    Decoder,
    Generation,
    PendingAnswer,
    Prefill,
    Turn,
    TurnRequest,
    generate_turns,
    rollout_key,
)
from karl_fast.rl.language_model import LanguageModel
from karl_fast.rl.rewards import RewardFunctions
from karl_fast.rl.rollout import Prompt
from tests.unit.modeling import model_zoo

if TYPE_CHECKING:
    from karl_fast.rl.rollout import Rollout

KINDS = ("qwen3", "gemma3_text", "qwen3_next", "deepseek_v3", "falcon_h1", "granitemoehybrid")
"""Keys and values, a sliding window, recurrent states, MLA, and lists of caches."""

ENDS = frozenset({5, 6, 7})


def policy(kind: str, ends: frozenset[int] = ENDS) -> Any:
    return LanguageModel(SimpleNamespace(model=model_zoo.built(kind), tokenizer=None, ends=ends, config={}))


def contexts(count: int, longest: int = 40, seed: int = 0) -> list[list[int]]:
    random = np.random.default_rng(seed)
    return [random.integers(8, model_zoo.VOCABULARY, length).tolist() for length in random.integers(2, longest, count)]


def forward(policy: Any, context: list[int], turn: Turn) -> Any:
    """The log-probabilities of a turn, by one pass over its row alone."""
    tokens = [*context, *turn.tokens.tolist()]
    logits = policy.head(policy.body(mx.array([tokens[:-1]])))[0, len(context) - 1 :].astype(mx.float32)
    logp = np.array(logits - mx.logsumexp(logits, axis=-1, keepdims=True))
    return logp[np.arange(len(turn.tokens)), turn.tokens]


class Fed:
    """The shapes of the tokens that a policy is fed."""

    def __init__(self, policy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[tuple[int, int]] = []
        body = policy.body

        def counted(tokens: Any, cache: Any = None) -> Any:
            self.seen.append(tuple(tokens.shape))
            return body(tokens, cache=cache)

        monkeypatch.setattr(policy, "body", counted)

    @property
    def prefilled(self) -> int:
        return sum(rows * width for rows, width in self.seen if width > 1)

    @property
    def decoded(self) -> int:
        return sum(rows for rows, width in self.seen if width == 1)


@pytest.mark.parametrize("kind", KINDS)
def test_rollout_is_independent_of_its_batch(kind: str) -> None:
    own, asked = policy(kind), [one for one in contexts(6) for _ in range(2)]
    budgets = np.random.default_rng(1).integers(1, 24, len(asked)).tolist()
    assert Decoder(own, 1.0).ragged
    alone, some, all_ = (generate_turns(own, asked, budgets, temperature=1.0, rows=rows, seed=3) for rows in (1, 5, 32))
    for context, *turns in zip(asked, alone, some, all_, strict=True):
        assert len({turn.tokens.tobytes() for turn in turns}) == 1
        wanted = forward(own, context, turns[0])
        assert max(np.abs(turn.logp - wanted).max() for turn in turns) < 1e-4


@pytest.mark.parametrize("kind", ["qwen3_next", "granitemoehybrid"])
def test_recurrent_states_never_read_padding(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in batches of mlx-lm that corrupted shorter rows without an error. The last lines show that this is seen."""
    own, asked = policy(kind), contexts(6)

    def farthest() -> float:
        turns = generate_turns(own, asked, [8] * 6, temperature=1.0, rows=8, seed=3)
        return float(
            max(np.abs(turn.logp - forward(own, one, turn)).max() for one, turn in zip(asked, turns, strict=True))
        )

    monkeypatch.setattr("mlx_lm.models.cache.ArraysCache.make_mask", lambda *_: None)
    assert farthest() < 1e-4
    monkeypatch.setattr("karl_fast.rl.generate.PREFILL_ROWS", 0.0)
    monkeypatch.setattr(Prefill, "_padded", True)
    assert farthest() > 1e-3


@pytest.mark.parametrize("kind", ["llama4", "gemma2", "afm7"])
def test_one_length_model_is_detected(kind: str) -> None:
    own, asked = policy(kind), [one for one in contexts(3) for _ in range(3)]
    assert not Decoder(own, 1.0).ragged
    for context, turn in zip(asked, generate_turns(own, asked, [9] * 9, temperature=1.0, rows=8, seed=3), strict=True):
        assert np.abs(turn.logp - forward(own, context, turn)).max() < 1e-4


@pytest.mark.parametrize("rows", [3, 16])
def test_a_prompt_is_computed_once_for_its_group(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for members that wait for a place."""
    own, asked = policy("qwen3_next"), [one for one in contexts(2, seed=4) for _ in range(5)]
    fed = Fed(own, monkeypatch)
    decoder = Decoder(own, 1.0)
    assert decoder.ragged
    fed.seen.clear()
    found: dict[int, Turn] = {}
    asks = [TurnRequest(row, one, 6, rollout_key(3, row)) for row, one in enumerate(asked)]
    Generation(decoder, rows)(asks, lambda ask, turn: found.update({ask.rollout: turn}))
    assert len(found) == 10
    assert fed.prefilled == len(asked[0]) + len(asked[5])


def test_finished_rows_are_replaced_with_little_waste(monkeypatch: pytest.MonkeyPatch) -> None:
    own = policy("qwen3", frozenset())
    fed, budgets = Fed(own, monkeypatch), np.random.default_rng(2).integers(1, 40, 24).tolist()
    decoder = Decoder(own, 1.0)
    assert decoder.ragged
    fed.seen.clear()
    found: list[Turn] = []
    asks = [TurnRequest(row, one, budgets[row], rollout_key(3, row)) for row, one in enumerate(contexts(24, seed=5))]
    Generation(decoder, 4)(asks, lambda _, turn: found.append(turn))
    assert sorted(len(turn.tokens) for turn in found) == sorted(budgets)
    assert max(rows for rows, _ in fed.seen) == 4
    assert fed.decoded < 1.5 * sum(budgets)
    assert sum(width == 1 for _, width in fed.seen) < sum(budgets) / 2


class Talker:
    """Answers three turns, at a length of its own."""

    def reset(self, prompt: Any) -> str:
        self.turns = 0
        return "a word to begin with " * 4

    def step(self, text: str) -> tuple[str, bool]:
        self.turns += 1
        return "and another one" * (1 + len(text) % 3), self.turns == 4

    def score(self) -> float:
        return 1.0


def collected(policy: Any, **more: Any) -> list[Rollout]:
    prompts = [Prompt(name, 0, ({"role": "user", "content": name * 4},)) for name in ("question", "another")]
    sampling = Sampling(group_size=4, budget=RolloutBudget(60, turns=4, turn_tokens=6), **more)
    return Collector(Decoder(policy, 1.0), RewardFunctions((), environment=1.0), sampling, Talker)(
        prompts, first=0, seed=1, version=0
    )[0]


def test_a_conversation_computes_what_is_new(language: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also beyond a sliding window."""
    fed = Fed(language, monkeypatch)
    carried = collected(language)
    some = fed.prefilled
    monkeypatch.setattr(Prefill, "extract", lambda *_: None)
    fed.seen.clear()
    anew = collected(language, rows=3)
    assert some < fed.prefilled / 2
    for one, other in zip(carried, anew, strict=True):
        assert len(one.spans) == 4
        assert one.tokens.tolist() == other.tokens.tolist()
        assert np.abs(one.logp - other.logp).max() < 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_turns_continue_from_cached_turns(kind: str) -> None:
    own, begun = policy(kind), contexts(7, seed=6)
    said: dict[int, list[tuple[list[int], Turn]]] = {row: [] for row in range(7)}

    def answer(ask: TurnRequest, turn: Turn) -> TurnRequest | None:
        told = said[ask.rollout]
        told.append((list(ask.tokens), turn))
        if ask.last:
            return None
        more = [*ask.tokens, *turn.tokens.tolist(), *range(20, 24 + (ask.rollout * 5 + len(told)) % 7)]
        drawn = ask.num_drawn + len(turn.tokens)
        return TurnRequest(ask.rollout, more, 5 + ask.rollout % 3, ask.key, drawn, last=len(told) == 2)

    asks = [TurnRequest(row, one, 4 + row % 5, rollout_key(9, row), last=False) for row, one in enumerate(begun)]
    Generation(Decoder(own, 1.0), 4)(asks, answer)
    for told in said.values():
        assert len(told) == 3
        for context, turn in told:
            assert np.abs(turn.logp - forward(own, context, turn)).max() < 1e-4


def test_other_rows_continue_during_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    own, enough, calls = policy("qwen3", frozenset()), threading.Event(), [0]
    body = own.body
    decoder = Decoder(own, 1.0)
    assert decoder.ragged

    def counted(tokens: Any, cache: Any = None) -> Any:
        calls[0] += 1
        if calls[0] > 20:
            enough.set()
        return body(tokens, cache=cache)

    monkeypatch.setattr(own, "body", counted)
    waited: list[bool] = []
    turns: list[tuple[TurnRequest, Turn]] = []
    with ThreadPoolExecutor(1) as threads:

        def answer(ask: TurnRequest, turn: Turn) -> PendingAnswer | None:
            turns.append((ask, turn))
            if ask.last:
                return None
            work = threads.submit(enough.wait, 30)

            def then() -> TurnRequest:
                waited.append(work.result())
                return TurnRequest(0, [*ask.tokens, *turn.tokens.tolist(), 9, 9, 9], 4, ask.key, 3)

            return PendingAnswer(work, then)

        asks = [
            TurnRequest(row, one, (3, 60)[row], rollout_key(2, row), last=row == 1)
            for row, one in enumerate(contexts(2))
        ]
        Generation(decoder, 2, overlap=True)(asks, answer)
    assert waited == [True]
    assert [(ask.rollout, len(turn.tokens)) for ask, turn in turns] == [(0, 3), (0, 4), (1, 60)]
    for ask, turn in turns:
        assert np.abs(turn.logp - forward(own, list(ask.tokens), turn)).max() < 1e-4


def test_overlapped_conversation_equals_the_fixed_one(language: Any) -> None:
    """But for rounding, which decides nothing here."""
    for one, other in zip(collected(language), collected(language, overlap=True, rows=5), strict=True):
        assert one.tokens.tolist() == other.tokens.tolist()
        assert one.messages == other.messages


@pytest.mark.parametrize("kind", ["qwen3", "qwen3_next"])
def test_contexts_computed_apart_equal_those_together(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    own, asked = policy(kind), contexts(8, longest=9)
    together = generate_turns(own, asked, [4] * 8, temperature=1.0, rows=16, seed=1)
    monkeypatch.setattr("karl_fast.rl.generate.PREFILL", 16)
    fed = Fed(own, monkeypatch)
    apart = generate_turns(own, asked, [4] * 8, temperature=1.0, rows=16, seed=1)
    assert all(rows * width <= 16 for rows, width in fed.seen if width > 1)
    for one, other in zip(together, apart, strict=True):
        assert one.tokens.tolist() == other.tokens.tolist()
        assert np.abs(one.logp - other.logp).max() < 1e-4
