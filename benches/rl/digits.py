"""Reversal of two of eight symbols for a Qwen3 of mlx-lm: the model, its tokenizer, what is asked and what it is worth.

Also a policy and a reward of `karl-fast rl`: `digits.py:policy`, `digits.py:reward`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

SYMBOLS, LENGTH, ARROW, END = 8, 2, 8, 9


def transformer() -> Any:
    """The model, with weights of the seed that MLX has."""
    import mlx.core as mx
    from mlx_lm.models import qwen3

    how = {"model_type": "qwen3", "hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 128, "head_dim": 8}
    how |= {"num_attention_heads": 4, "num_key_value_heads": 4, "rms_norm_eps": 1e-6, "vocab_size": SYMBOLS + 2}
    how |= {"max_position_embeddings": 64, "rope_theta": 10_000.0, "tie_word_embeddings": False}
    model = qwen3.Model(qwen3.ModelArgs(**how))
    mx.eval(model.parameters())
    return model


class Digits:
    """A tokenizer, as far as a loop asks for one: a symbol is its digit."""

    eos_token_ids, eos_token_id, pad_token_id = frozenset([END]), END, 0

    def encode(self, text: str, **_: Any) -> list[int]:
        """Symbols, and the arrow."""
        return [*(int(one) for one in text), ARROW] if text else []

    def decode(self, tokens: Any, **_: Any) -> str:
        """A digit a token."""
        return "".join(str(int(token)) for token in tokens)


def asked() -> list[str]:
    """Every prompt."""
    return [f"{number:0{LENGTH}o}" for number in range(SYMBOLS**LENGTH)]


def share(prompt: str, said: str) -> float:
    """The share of symbols that stand where they should, with what ends them, which is not in what is said."""
    ended = said if len(said) > LENGTH else f"{said}{END}"
    wanted = f"{prompt[::-1]}{END}"
    return sum(a == b for a, b in zip(ended, wanted, strict=False)) / max(len(ended), len(wanted))


def exact(model: Any) -> float:
    """The share of prompts that are answered exactly, greedily."""
    import mlx.core as mx

    prompts = np.array([Digits().encode(prompt) for prompt in asked()], dtype=np.int32)
    tokens = mx.array(prompts)
    for _ in range(LENGTH + 1):
        tokens = mx.concatenate([tokens, model(tokens)[:, -1:].argmax(-1).astype(mx.int32)], axis=1)
    wanted = np.concatenate([prompts[:, :LENGTH][:, ::-1], np.full((len(prompts), 1), END)], axis=1)
    return float((np.array(tokens)[:, LENGTH + 1 :] == wanted).all(1).mean())


def policy(seed: int) -> Any:
    """For `model = "digits.py:policy"`; MLX is seeded already."""
    from mlx_lm.models.cache import make_prompt_cache

    from karl_fast.rl.language_model import Snapshot

    class Qwen:
        ends, trained_head = Digits.eos_token_ids, True

        def __init__(self) -> None:
            self.model = transformer()
            self.body, self.head = self.model.model, self.model.lm_head
            self.reference = Snapshot(self.model).held

        def caches(self) -> list[Any]:
            return list(make_prompt_cache(self.model))

        def encode(self, messages: Any) -> list[int]:
            return Digits().encode(messages[-1]["content"])

        def answer(self, messages: Any, last: int | None) -> list[int]:
            return []

        def decode(self, tokens: Any) -> str:
            return Digits().decode(token for token in tokens if token != END)

    return Qwen()


def reward(prompts: Any, completions: Any, **_: Any) -> list[float]:
    """For `rewards`, of ours."""
    return [share(prompt[-1]["content"], said) for prompt, said in zip(prompts, completions, strict=True)]
