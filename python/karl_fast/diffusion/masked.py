"""Masked diffusion: positions of an answer are unmasked in steps, with the exact law of each step.

```text
step k of S, m positions masked, n = ceil(m / (S - k)):
  p_i  = softmax(logits_i / T), without the mask,   w_i = exp(max_v log p_i(v) / c)      for masked positions
  P(S) = prod_{i in S} w_i / e_n(w)                 which n positions are unmasked: the confident ones, likely
  P    = P(S) prod_{i in S} p_i(x_i)  prod_{i unmasked before} (r if masked again, else 1 - r)
```

The log-probability of a step has three parts: which positions, which tokens, and what is masked again. Public code
(``flow_llm_model.py`` of openbrowser-ai, ReFusion) has the tokens alone, so that its ratio is not that of the
transition; and it adds Gumbel noise at a temperature that its score does not know. Here one set of logits, at one
temperature, decides all of it. c is the temperature of the choice: near 0 the most confident positions are taken, at
infinity any. r is the chance to mask a position again, 0 in the last step, which unmasks all that is left.

Entropy and divergence of a step are in closed form by the probability of each position to be chosen (`inclusion`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import mlx.core as mx
import numpy as np

from karl_fast.diffusion.subsets import NEVER, draw_subsets, inclusion, log_symmetric

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True)
class MaskedDiffusion:
    """The law of a masked diffusion.

    Attributes:
        mask: the token of a masked position.
        choice_temperature: c, above 0.
        remask: r, from 0 to below 1.
    """

    mask: int
    choice_temperature: float = 0.1
    remask: float = 0.0

    def start(self, width: int, generators: Sequence[np.random.Generator]) -> NDArray[np.int32]:
        """Return x_0: everything masked. -> [N, L]"""
        return np.full((len(generators), width), self.mask, dtype=np.int32)

    def times(self, numbers: mx.array, total: int) -> mx.array:
        """Return the time that the network sees: none, the masks say how far a state is. [N]"""
        return mx.zeros(numbers.shape)

    def draw(
        self,
        logits: NDArray[np.float32],
        states: NDArray[np.int32],
        number: int,
        total: int,
        generators: Sequence[np.random.Generator],
        sharpness: float = 1.0,
    ) -> NDArray[np.int32]:
        """Draw the next state of each row, tokens by logits times the sharpness. [N, L, V], [N, L] -> [N, L]"""
        coins = np.stack([generator.random((2, states.shape[1])) for generator in generators], axis=1)
        noise = np.stack([generator.gumbel(size=logits.shape[1:]) for generator in generators])
        scores, masked = logits.astype(np.float64), states == self.mask
        scores[..., self.mask] = -np.inf
        top = scores.max(-1)
        confidence = -np.log(np.exp(scores - top[..., None]).sum(-1))
        weights = np.where(masked, confidence / self.choice_temperature, NEVER)
        sizes = -(-masked.sum(-1) // (total - number))
        chosen = draw_subsets(weights, sizes, coins[0])
        again = ~masked & (coins[1] < self._remask(number, total))
        tokens = np.where(chosen, (scores * sharpness + noise).argmax(-1), states)
        return np.where(again, self.mask, tokens).astype(np.int32)

    def _remask(self, number: int, total: int) -> float:
        return 0.0 if number == total - 1 else self.remask

    def logp(self, logits: mx.array, states: mx.array, following: mx.array, numbers: mx.array, total: int) -> mx.array:
        """Compute the log-probability of each step, minus infinity for one that cannot be. -> [N]

        [N, L, V], [N, L], [N, L], [N] -> [N]
        """
        step = _Choice.at(self, logits, states, numbers, total)
        chosen, again = step.masked & (following != self.mask), ~step.masked & (following == self.mask)
        tokens = mx.take_along_axis(step.log_p, following[..., None], axis=-1)[..., 0]
        parts = mx.where(chosen, step.weights + tokens, 0.0).sum(axis=-1) - log_symmetric(step.weights, step.sizes)
        log_again, log_keep = self._log_remask(numbers, total)
        parts = parts + mx.where(again, log_again[:, None], mx.where(step.masked, 0.0, log_keep[:, None])).sum(axis=-1)
        kept = mx.all(step.masked | again | (following == states), axis=-1)
        return mx.where(kept & (chosen.sum(axis=-1) == step.sizes), parts, -mx.inf)

    def _log_remask(self, numbers: mx.array, total: int) -> tuple[mx.array, mx.array]:
        """Return the logarithms of the chances to mask again and not to. [N], [N]"""
        last = numbers == total - 1
        again = math.log(self.remask) if self.remask else -math.inf
        return mx.where(last, -mx.inf, again), mx.where(last, 0.0, math.log1p(-self.remask))

    def entropy(self, logits: mx.array, states: mx.array, numbers: mx.array, total: int) -> mx.array:
        """Compute the entropy of each step in nats. -> [N]"""
        step = _Choice.at(self, logits, states, numbers, total)
        share = inclusion(step.weights, step.sizes)
        tokens = -(mx.exp(step.log_p) * step.log_p).sum(axis=-1)
        places = mx.where(step.masked, share * (tokens - step.weights), 0.0).sum(axis=-1)
        r = self.remask
        coin = -(r * math.log(r) + (1 - r) * math.log1p(-r)) if r else 0.0
        coins = mx.where(numbers == total - 1, 0.0, coin * (~step.masked).sum(axis=-1))
        return places + log_symmetric(step.weights, step.sizes) + coins

    def divergence(
        self,
        logits: mx.array,
        other: mx.array,
        states: mx.array,
        numbers: mx.array,
        total: int,
    ) -> mx.array:
        """Compute the divergence of each step under `logits` from that under `other`, in nats.

        ```text
        KL = sum_i P(i in S) [ln w_i - ln w'_i + sum_v p_i(v) ln(p_i(v) / p'_i(v))] - ln e_n(w) + ln e_n(w')
        ```
        """
        p, q = (_Choice.at(self, each, states, numbers, total) for each in (logits, other))
        share = inclusion(p.weights, p.sizes)
        tokens = (mx.exp(p.log_p) * (p.log_p - q.log_p)).sum(axis=-1)
        places = mx.where(p.masked, share * (p.weights - q.weights + tokens), 0.0).sum(axis=-1)
        return places - log_symmetric(p.weights, p.sizes) + log_symmetric(q.weights, q.sizes)


@dataclass(frozen=True)
class _Choice:
    """Distribution of a step.

    Attributes:
        masked: positions that can be chosen. [N, L]
        sizes: how many are. [N]
        log_p: of the tokens, `NEVER` for the mask. [N, L, V]
        weights: logarithms of the odds of each position. [N, L]
    """

    masked: mx.array
    sizes: mx.array
    log_p: mx.array
    weights: mx.array

    @classmethod
    def at(cls, law: MaskedDiffusion, logits: mx.array, states: mx.array, numbers: mx.array, total: int) -> _Choice:
        """Return the distribution of a step from each state."""
        masked = states == law.mask
        count, left = masked.sum(axis=-1).astype(mx.int32), total - numbers.astype(mx.int32)
        tokens = mx.where(mx.arange(logits.shape[-1]) == law.mask, NEVER, logits.astype(mx.float32))
        log_p = tokens - mx.logsumexp(tokens, axis=-1, keepdims=True)
        weights = mx.where(masked, log_p.max(axis=-1) / law.choice_temperature, NEVER)
        return cls(masked, (count + left - 1) // left, log_p, weights)
