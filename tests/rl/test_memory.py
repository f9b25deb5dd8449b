"""A round that does not fit is refused before anything is written, with values that fit."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from karl_fast.errors import UsageError
from karl_fast.rl import rl
from karl_fast.rl.memory import Sizes, of_policy
from karl_fast.rl.run import prepare
from karl_fast.rl.settings import Online
from karl_fast.train import Training
from karl_fast.train.model import adapt

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = Path(__file__).parents[2] / "python" / "karl_fast" / "docs" / "rl.md"
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


def test_a_limit_that_nothing_fits_into_is_an_error(online: Callable[..., Online]) -> None:
    settings = online(training={"memory_limit": 0.0001})
    with pytest.raises(UsageError, match=r"a round that draws 16 .*, and there are 0\.0 GB") as error:
        rl(settings)
    assert "grad_checkpoint" in str(error.value.hint)
    assert not Path(settings.out).exists()


def test_a_limit_between_asks_for_a_value_that_fits(online: Callable[..., Online]) -> None:
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


def test_the_run_of_the_page_fits_a_mac_of_16_gb() -> None:
    """Lazily: no weight of the model is made."""
    import mlx.core as mx
    import mlx.nn as nn

    models: Any = pytest.importorskip("mlx_lm.models.qwen3")
    from mlx_lm.models.cache import make_prompt_cache

    shown = tomllib.loads(re.search(r"```toml\n(# rl\.toml.*?)```", PAGE.read_text("utf-8"), re.DOTALL)[1])  # type: ignore[index]
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
    memory = of_policy(policy, Online(), config)
    groups, size, tokens = (shown[name] for name in ("prompts_per_round", "group_size", "max_tokens"))
    sizes = Sizes(shown["micro_batch"], 256, size, tokens, 4096, groups, 128, whole_groups=False, turns=False)
    assert memory.need(sizes).total < 10.7e9
    assert memory.need(Sizes(32, 256, 8, 512, 4096, 8, 128, whole_groups=False, turns=False)).total > 30e9


def test_whole_groups_are_in_memory_at_a_time() -> None:
    sizes = {"draw_rows": 256, "max_tokens": 9, "max_context": 99, "groups": 4, "prompt": 5, "turns": False}
    assert Sizes(micro_batch=4, group_size=8, whole_groups=True, **sizes).learned == 8
    assert Sizes(micro_batch=20, group_size=8, whole_groups=True, **sizes).learned == 16
    assert Sizes(micro_batch=4, group_size=8, whole_groups=False, **sizes).learned == 4
    assert Sizes(micro_batch=99, group_size=8, whole_groups=False, **sizes).learned == 32
