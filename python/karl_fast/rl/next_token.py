"""Choice of the next token from the logits after some tokens.

```text
p = softmax(logits / T)        a token is drawn from p itself: no top-k, no top-p; T = 0 takes the likeliest
token = argmax(log p + g)      g of Gumbel's distribution, by the key of the row and the number of its token
```

The noise of a row does not depend on the rows beside it, so that a rollout is the same in every batch, unless rounding
decides between two tokens.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.rl.compiled import CompiledModel
from karl_fast.rl.kv_cache import accepts_ragged_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import mlx.core as mx
    from numpy.typing import NDArray

    from karl_fast.rl.policy import Policy

    Chosen = tuple[mx.array, ...]
    Held = list[tuple[mx.array, mx.array]]

SMALLEST = -1e30
"""Replacement for the logarithm of 0, which times 0 is NaN."""


class Decoder:
    """Sampler of a token a row, with its log-probability and the entropy of its distribution."""

    def __init__(self, policy: Policy, temperature: float, *, compile: bool = False, places: bool = False) -> None:
        """Set a temperature from 0 on; `compile` fuses each choice, and whole `places` if asked to.

        At 0 the likeliest token is taken, and log-probabilities are those of temperature 1. A place is traced for
        each number of rows and of tokens before it.
        """
        import mlx.core as mx

        self.policy, self._inverse, self._places = policy, 1 / (temperature or 1), compile and places
        self._greedy = temperature == 0
        self._choice = mx.compile(self._plain) if compile else self._plain
        self._compiled = CompiledModel(policy.model, on=compile)

    @cached_property
    def ragged(self) -> bool:
        """True if contexts of different lengths go together."""
        return accepts_ragged_rows(self.policy)

    def logits(self, tokens: mx.array, caches: Sequence[Any], last: Sequence[int] | None = None) -> mx.array:
        """Compute the logits after some tokens, which are added to the caches. [B, T] -> [B, V]

        `last` has the place of the last token of each row, where rows are padded.
        """
        if last is not None or not self._whole:
            return self._behind(tokens, caches, last)
        logits: mx.array
        logits, held = self._compiled(self._read)(tokens, _cache_arrays(caches))
        _store_arrays(caches, held)
        return logits

    def choose(self, logits: mx.array, keys: NDArray[np.uint64]) -> Chosen:
        """Start the choice of tokens on the device, without waiting. [B, V], [B] -> [B, 1] each"""
        return _start_together(self._choice(logits, _key_words(keys)))

    def follow(self, tokens: mx.array, caches: Sequence[Any], keys: NDArray[np.uint64]) -> Chosen:
        """Start the choice of tokens after some tokens, which are added to the caches. [B, 1], [B] -> [B, 1] each"""
        if not self._whole:
            return self.choose(self._behind(tokens, caches), keys)
        found, held = self._compiled(self._followed)(tokens, _cache_arrays(caches), _key_words(keys))
        _store_arrays(caches, held)
        return _start_together(found)

    @cached_property
    def _whole(self) -> bool:
        """True if a position is one compiled function, which needs caches with keys and values only.

        Caches of mlx-lm count their tokens in a Python number, which a trace would freeze.
        """
        import mlx.core as mx

        if not self._places:
            return False
        caches = self.policy.caches()
        self.policy.body(mx.array([[0]]), cache=caches)
        held = [getattr(cache, "__dict__", {}) for cache in caches]
        return all(one.keys() == {"keys", "values"} and one["keys"] is not None for one in held)

    def _followed(self, tokens: mx.array, held: Held, keys: mx.array) -> tuple[Chosen, Held]:
        logits, held = self._read(tokens, held)
        return self._plain(logits, keys), held

    def _read(self, tokens: mx.array, held: Held) -> tuple[mx.array, Held]:
        caches = self.policy.caches()
        _store_arrays(caches, held)
        return self._behind(tokens, caches), _cache_arrays(caches)

    def _behind(self, tokens: mx.array, caches: Sequence[Any], last: Sequence[int] | None = None) -> mx.array:
        import mlx.core as mx

        hidden = self.policy.body(tokens, cache=list(caches))
        if last is None:
            return self.policy.head(hidden[:, -1:])[:, -1]
        return self.policy.head(mx.take_along_axis(hidden, mx.array(list(last))[:, None, None], axis=1))[:, -1]

    def _plain(self, logits: mx.array, keys: mx.array) -> Chosen:
        import mlx.core as mx

        scaled = logits.astype(mx.float32)
        if self._inverse != 1:
            scaled = scaled * self._inverse
        logp = scaled - mx.logsumexp(scaled, axis=-1, keepdims=True)
        noisy = logp if self._greedy else logp + _gumbel_noise(keys, logp.shape[-1])
        token = mx.argmax(noisy, axis=-1)[:, None]
        taken = mx.take_along_axis(logp, token, axis=-1)
        negentropy = (mx.exp(logp) * mx.maximum(logp, SMALLEST)).sum(axis=-1, keepdims=True)
        return token, taken, negentropy


def _key_words(keys: NDArray[np.uint64]) -> mx.array:
    """Return keys as the pairs of words that MLX takes. [B] -> [B, 2]"""
    import mlx.core as mx

    return mx.array(np.ascontiguousarray(keys, dtype=np.uint64).view(np.uint32).reshape(-1, 2))


def _gumbel_noise(keys: mx.array, size: int) -> mx.array:
    """Draw a row of noise by each key. [B, 2] -> [B, V]"""
    import mlx.core as mx

    noise: mx.array = mx.vmap(lambda key: mx.random.gumbel((size,), key=key))(keys)
    return noise


def _start_together(found: Chosen) -> Chosen:
    """Start all arrays together: otherwise each would keep the logits of its position in memory."""
    import mlx.core as mx

    mx.async_eval(*found)
    return found


def _cache_arrays(caches: Sequence[Any]) -> Held:
    """Return keys and values of caches; an empty list while they are empty, which all of them are together."""
    return [(cache.keys, cache.values) for cache in caches if cache.keys is not None]


def _store_arrays(caches: Sequence[Any], held: Held) -> None:
    for cache, (keys, values) in zip(caches, held, strict=False):
        cache.keys, cache.values = keys, values
