"""A round that does not fit is refused before anything is written, with values that fit."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from karl_fast.errors import UsageError
from karl_fast.modeling.load import adapt
from karl_fast.rl import rl
from karl_fast.rl.generate import Decoder, Generation, Turn, TurnRequest, rollout_key
from karl_fast.rl.language_model import LanguageModel
from karl_fast.rl.memory import RoundMemory, Sizes, estimate_round
from karl_fast.rl.settings import Online
from karl_fast.rl.setup import prepare
from karl_fast.train import Training
from tests.unit.modeling.parts import built

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = Path(__file__).parents[3] / "docs" / "guides" / "rl.md"
QWEN = {
    "model_type": "qwen3",
    "hidden_size": 1024,
    "num_hidden_layers": 28,
    "intermediate_size": 3072,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151_936,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 40_960,
    "rope_theta": 1e6,
    "tie_word_embeddings": True,
}
"""Qwen3-0.6B."""


def test_limit_that_nothing_fits_is_an_error(online: Callable[..., Online]) -> None:
    settings = online(training={"memory_limit": 0.0001})
    with pytest.raises(UsageError, match=r"a round that draws 16 .*, and there are 100\.0 kB") as error:
        rl(settings)
    assert " 0.0" not in str(error.value)
    assert "grad_checkpoint" not in str(error.value.hint)  # the policy's model has no layers by that name
    assert not Path(settings.out).exists()


def test_checkpoints_of_a_policy_without_layers_are_refused(online: Callable[..., Online]) -> None:
    settings = online(training={"grad_checkpoint": True})
    with pytest.raises(UsageError, match="grad_checkpoint is true, and Transformer has no list `layers`"):
        rl(settings)
    assert not Path(settings.out).exists()


def test_tight_limit_asks_for_a_fitting_value(online: Callable[..., Online]) -> None:
    """The value of the hint is taken; the next larger one is refused."""
    settings = online(max_tokens=200, training={"memory_limit": 0.02}, rounds=1)
    with pytest.raises(UsageError) as error:
        rl(settings)
    found = re.search(r"micro_batch = (\d+)", str(error.value.hint))
    assert found, error.value.hint
    size = int(found[1])
    with pytest.raises(UsageError):
        rl(online(max_tokens=200, training={"memory_limit": 0.02}, rounds=1, micro_batch=size + 1))
    prepare(online(max_tokens=200, training={"memory_limit": 0.02}, rounds=1, micro_batch=size)).close()


PAGE_SIZES = Sizes(4, 256, 8, 512, 4096, 8, 128, turns=False)


def test_run_of_the_page_fits_16_gb() -> None:
    shown = tomllib.loads(re.search(r"```toml\n(# rl\.toml.*?)```", PAGE.read_text("utf-8"), re.DOTALL)[1])  # type: ignore[index]
    groups, size, tokens = (shown[name] for name in ("prompts_per_round", "group_size", "max_tokens"))
    sizes = Sizes(shown["micro_batch"], 256, size, tokens, 4096, groups, 128, turns=False)
    assert sizes == PAGE_SIZES
    assert page_run().need(sizes).total < 10.7e9
    assert page_run().need(replace(sizes, micro_batch=32)).total > 30e9


@cache
def page_run() -> RoundMemory:
    """The arithmetic of the page's model, lazily: no weight of it is made."""
    import mlx.core as mx
    import mlx.nn as nn

    models: Any = pytest.importorskip("mlx_lm.models.qwen3")
    from mlx_lm.models.cache import make_prompt_cache

    model = models.Model(models.ModelArgs.from_dict(QWEN))
    model.set_dtype(mx.bfloat16)
    nn.quantize(model, group_size=64, bits=4)
    config = adapt(model, Training())
    policy: Any = SimpleNamespace(
        model=model,
        body=lambda tokens, cache=None: model.model(tokens, cache=cache),
        head=model.model.embed_tokens.as_linear,
        caches=lambda: make_prompt_cache(model),
        trained_head=False,
    )
    return estimate_round(policy, Online(), config)


def test_the_page_says_what_its_run_needs() -> None:
    import mlx.core as mx

    if mx.metal.is_available():
        pytest.skip("the page has the numbers of a machine without Metal, whose attention keeps its scores")
    text = PAGE.read_text("utf-8")
    assert f"is planned with {page_run().need(PAGE_SIZES).total / 1e9:.1f} GB" in text
    with pytest.raises(UsageError) as error:
        page_run().check(replace(PAGE_SIZES, micro_batch=32), Online(training=Training(memory_limit=10.7)))
    assert f"error: {error.value}\nhint: {error.value.hint}\n" in text


@pytest.mark.parametrize(
    ("groups", "prompt", "tokens", "observed", "rows"),
    [
        (64, 300, 16, 0, 256),
        (12, 700, 8, 0, 256),
        (12, 20, 400, 0, 256),
        (12, 200, 32, 300, 256),
        (12, 20, 32, 1, 256),
        (12, 300, 200, 0, 12),
    ],
    ids=["many prompts", "long prompts", "long answers", "long observations", "short observations", "replaced rows"],
)
def test_drawing_takes_no_more_than_is_planned(groups: int, prompt: int, tokens: int, observed: int, rows: int) -> None:
    """Of a model of which weights and logits are little, so that contexts and caches are what is measured."""
    import mlx.core as mx

    model = built(max_position_embeddings=4096)
    config = adapt(model, Training())
    model.eval()
    mx.eval(model.parameters())
    tokenizer: Any = SimpleNamespace(eos_token_ids=[])
    policy = LanguageModel(SimpleNamespace(model=model, tokenizer=tokenizer, ends=frozenset(), config={}))
    turns, each = bool(observed), tokens // 2 if observed else tokens
    context = prompt + tokens + observed if turns else 4096
    sizes = Sizes(4, rows, 4, tokens, context, groups, prompt, turns=turns)
    planned = estimate_round(policy, Online(), config).need(sizes).drawing
    random = np.random.default_rng(0)
    contexts = [row for row in random.integers(0, 97, (groups, prompt)).tolist() for _ in range(4)]
    mx.clear_cache()
    decoder = Decoder(policy, 1.0)
    assert decoder.ragged
    before = mx.get_active_memory()
    mx.reset_peak_memory()

    def answer(ask: TurnRequest, turn: Turn) -> TurnRequest | None:
        more = [*ask.tokens, *turn.tokens.tolist(), *[5] * observed]
        return None if ask.last else TurnRequest(ask.rollout, more, each, ask.key, each)

    short = rows < len(contexts)  # some, so that rows leave and enter at different times
    budgets = [each // (1 + row % 3) if short else each for row in range(len(contexts))]
    asks = [
        TurnRequest(row, one, budgets[row], rollout_key(0, row), last=not turns) for row, one in enumerate(contexts)
    ]
    Generation(decoder, rows)(asks, answer)
    measured = mx.get_peak_memory() - before
    assert measured <= planned <= 4 * measured


def test_environment_is_planned_to_its_longest_context(online: Callable[..., Online]) -> None:
    sizes = Sizes(4, 8, 4, 9, 4096, 4, 5, turns=True)
    assert sizes.tokens == 4096
    assert replace(sizes, turns=False).tokens == 14
    settings = online(environment=f"{__file__}:Echo", rewards={}, max_turns=2, training={"memory_limit": 0.01})
    with pytest.raises(
        UsageError, match=r"4,096 tokens \(max_context, up to which an environment may answer\)"
    ) as error:
        rl(settings)
    found = re.search(r"max_context = (\d+)", str(error.value.hint))
    assert found, error.value.hint
    prepare(replace(settings, max_context=int(found[1]))).close()


class Echo:
    """Says back what it hears."""

    def reset(self, prompt: Any) -> None:
        pass

    def step(self, text: str) -> tuple[str, bool]:
        return text, False

    def score(self) -> float:
        return 0.0


def test_one_micro_batch_is_in_memory() -> None:
    sizes = {"rollouts_in_flight": 256, "max_tokens": 9, "max_context": 99, "groups": 4, "prompt": 5, "turns": False}
    assert Sizes(micro_batch=4, group_size=8, **sizes).learned == 4
    assert Sizes(micro_batch=99, group_size=8, **sizes).learned == 32


@pytest.mark.parametrize("direction", ["reverse", "forward"])
def test_the_plan_counts_the_logits_of_a_reference(direction: str) -> None:
    import mlx.core as mx
    import mlx.nn as nn

    from karl_fast.modeling.chunked_logp import IN_FLIGHT_DIVERGENCE, ReferenceLogits, chunk_rows, score_tokens

    vocabulary, hidden = 50_000, 16
    rows, head = chunk_rows(vocabulary), nn.Linear(hidden, vocabulary, bias=False)
    states, others = (mx.random.normal((4 * rows, hidden)) for _ in range(2))
    mx.eval(head.parameters(), states, others)
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    reference = ReferenceLogits(others, head, direction)
    targets = mx.zeros(4 * rows, mx.int32)
    mx.eval(score_tokens(head, states, targets, rows, ("logp", "divergence"), reference, slopes=True))
    chunks = (mx.get_peak_memory() - before) / (4 * rows * vocabulary)
    assert 12 < chunks < IN_FLIGHT_DIVERGENCE


def test_divergence_needs_the_reference_in_memory() -> None:
    plain, beside = (replace(page_run(), divergence=divergence).need(PAGE_SIZES) for divergence in (False, True))
    assert plain.drawing == beside.drawing
    tokens, vocabulary, hidden = 4 * PAGE_SIZES.tokens, QWEN["vocab_size"], QWEN["hidden_size"]
    from karl_fast.modeling.chunked_logp import chunk_rows

    assert beside.learning - plain.learning == 4 * tokens * hidden + 8 * 4 * chunk_rows(vocabulary) * vocabulary
