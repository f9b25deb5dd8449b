"""Choice of the next token from the logits after some tokens.

```text
p = softmax(logits / T)        a token is drawn from p itself: no top-k, no top-p; T = 0 takes the likeliest
```
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from karl_fast.rl.compiled import Compiled

if TYPE_CHECKING:
    from collections.abc import Sequence

    import mlx.core as mx

    from karl_fast.rl.policy import Policy

    Chosen = tuple[mx.array, ...]
    Held = list[tuple[mx.array, mx.array]]

LEAST = -1e30
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
        self._compiled = Compiled(policy.model, on=compile)

    def logits(self, tokens: mx.array, caches: Sequence[Any]) -> mx.array:
        """Compute the logits after the last of some tokens, which are added to the caches. [B, T] -> [B, V]"""
        if not self._whole:
            return self._behind(tokens, caches)
        logits: mx.array
        logits, held = self._compiled(self._read)(tokens, _held(caches))
        _put(caches, held)
        return logits

    def choose(self, logits: mx.array, key: mx.array) -> Chosen:
        """Start the choice of tokens on the device, without waiting. [B, V] -> [B, 1] each"""
        return _begun(self._choice(logits, key))

    def follow(self, tokens: mx.array, caches: Sequence[Any], key: mx.array) -> Chosen:
        """Start the choice of tokens after some tokens, which are added to the caches. [B, 1] -> [B, 1] each"""
        if not self._whole:
            return self.choose(self._behind(tokens, caches), key)
        found, held = self._compiled(self._followed)(tokens, _held(caches), key)
        _put(caches, held)
        return _begun(found)

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

    def _followed(self, tokens: mx.array, held: Held, key: mx.array) -> tuple[Chosen, Held]:
        logits, held = self._read(tokens, held)
        return self._plain(logits, key), held

    def _read(self, tokens: mx.array, held: Held) -> tuple[mx.array, Held]:
        caches = self.policy.caches()
        _put(caches, held)
        return self._behind(tokens, caches), _held(caches)

    def _behind(self, tokens: mx.array, caches: Sequence[Any]) -> mx.array:
        hidden = self.policy.body(tokens, cache=list(caches))
        return self.policy.head(hidden[:, -1:])[:, -1]

    def _plain(self, logits: mx.array, key: mx.array) -> Chosen:
        import mlx.core as mx

        scaled = logits.astype(mx.float32)
        if self._inverse != 1:
            scaled = scaled * self._inverse
        logp = scaled - mx.logsumexp(scaled, axis=-1, keepdims=True)
        token = (mx.argmax(logp, axis=-1) if self._greedy else mx.random.categorical(logp, key=key))[:, None]
        taken = mx.take_along_axis(logp, token, axis=-1)
        negentropy = (mx.exp(logp) * mx.maximum(logp, LEAST)).sum(axis=-1, keepdims=True)
        return token, taken, negentropy


def _begun(found: Chosen) -> Chosen:
    """Start all arrays together: otherwise each would keep the logits of its position in memory."""
    import mlx.core as mx

    mx.async_eval(*found)
    return found


def _held(caches: Sequence[Any]) -> Held:
    """Return keys and values of caches; an empty list while they are empty, which all of them are together."""
    return [(cache.keys, cache.values) for cache in caches if cache.keys is not None]


def _put(caches: Sequence[Any], held: Held) -> None:
    for cache, (keys, values) in zip(caches, held, strict=False):
        cache.keys, cache.values = keys, values
