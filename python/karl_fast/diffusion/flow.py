"""Discrete flow: a continuous-time Markov chain over sequences, in Euler steps, with the exact law of each step.

From a uniform x_0 at time 0, every position jumps on its own to a token that the model expects at time 1:

```text
a(t) = t^2,   rate(t) = a'(t) / (1 - a(t)) = 2 t / (1 - t^2),   p_i = softmax(logits_i / T) at (x_t, t)
step k of S at t = k / S, dt = 1 / S:
  y_i      = rate(t) dt (1 - p_i(x_i))
  P(stay)  = exp(-y_i)
  P(i -> j) = (1 - exp(-y_i)) p_i(j) / (1 - p_i(x_i)),   j other than x_i
last step:  P(i -> j) = p_i(j) for every j, x_i included
```

Schedule and rate are those of FS-DFM as openbrowser-ai runs it (``fsdfm_model.py`` at 168d43e). Three things differ.
A step's log-probability is the sum over positions, where that code has the mean: exp of a difference of means is a
geometric mean of ratios, not the ratio. Nothing is clamped: at t = 0 the rate is 0 and a jump has probability 0, where
that code has ln 1e-4. And the last step, at t = 1 - dt where the rate has no bound, draws each position from the
model's distribution, and is scored by that distribution; that code takes the likeliest tokens there, and scores the
result as if it had been drawn by an Euler step.

The distributions factor over positions, so entropy and divergence of a step are sums over positions, in closed form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np

from karl_fast.diffusion.subsets import NEVER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

SMALL = 1e-4
"""y below which log((1 - exp(-y)) / y) is -y / 2 to the last bit of float32."""


def rate_times_dt(numbers: Any, total: int) -> Any:
    """Return rate(t) dt of steps at t = k / S; that of the last step is not used."""
    t = numbers / total
    return 2 * t / (1 - t * t) / total


@dataclass(frozen=True)
class _Jumps:
    """Distribution of a step, by position.

    Attributes:
        last: True in the last step. [N, 1]
        moves: True where the rate is above 0. [N, 1]
        log_p: log softmax of the logits. [N, L, V]
        log_q: of the tokens that a jump can go to. [N, L, V]
        y: minus the logarithm of the probability to stay. [N, L]
        log_jump: logarithm of the probability to jump, where the rate is above 0. [N, L]
        log_rate: logarithm of rate(t) dt. [N, 1]
        factor: log((1 - exp(-y)) / y). [N, L]
    """

    last: mx.array
    moves: mx.array
    log_p: mx.array
    log_q: mx.array
    y: mx.array
    log_jump: mx.array
    log_rate: mx.array
    factor: mx.array

    @classmethod
    def at(cls, logits: mx.array, states: mx.array, numbers: mx.array, total: int) -> _Jumps:
        """Return the distribution of a step from each state."""
        logits, last = logits.astype(mx.float32), (numbers == total - 1)[:, None]
        whole = mx.logsumexp(logits, axis=-1)
        others = mx.where(states[..., None] == mx.arange(logits.shape[-1]), NEVER, logits)
        rest = mx.logsumexp(others, axis=-1)
        # The last step does not read the rate, which has no bound there.
        rate = rate_times_dt(mx.where(last[:, 0], 0, numbers).astype(mx.float32), total)[:, None]
        log_rate, log_other = mx.log(mx.maximum(rate, 1e-30)), rest - whole
        y = rate * mx.exp(log_other)
        large = mx.maximum(y, SMALL)
        factor = mx.where(y < SMALL, -y / 2, mx.log(-mx.expm1(-large) / large))
        log_jump = log_rate + log_other + factor
        return cls(last, rate > 0, logits - whole[..., None], others - rest[..., None], y, log_jump, log_rate, factor)


@dataclass(frozen=True)
class DiscreteFlow:
    """The law of a discrete flow.

    Attributes:
        tokens: number of tokens, all of which x_0 is drawn from.
    """

    tokens: int

    def start(self, width: int, generators: Sequence[np.random.Generator]) -> NDArray[np.int32]:
        """Draw x_0: uniform tokens. -> [N, L]"""
        tokens = [generator.integers(self.tokens, size=width, dtype=np.int32) for generator in generators]
        return np.stack(tokens)

    def times(self, numbers: mx.array, total: int) -> mx.array:
        """Return the time that the network sees, t = k / S. [N]"""
        return numbers.astype(mx.float32) / total

    def draw(
        self,
        logits: NDArray[np.float32],
        states: NDArray[np.int32],
        number: int,
        total: int,
        generators: Sequence[np.random.Generator],
        sharpness: float = 1.0,
    ) -> NDArray[np.int32]:
        """Draw the next state of each row, by logits times the sharpness. [N, L, V], [N, L] -> [N, L]"""
        coins = np.stack([generator.random(states.shape[1]) for generator in generators])
        noise = np.stack([generator.gumbel(size=logits.shape[1:]) for generator in generators])
        scores = logits.astype(np.float64) * sharpness
        if number == total - 1:
            return np.asarray((scores + noise).argmax(-1), dtype=np.int32)
        if number == 0:  # rate 0
            return states
        p = np.exp(scores - scores.max(-1, keepdims=True))
        current = np.arange(p.shape[-1]) == states[..., None]
        other = np.where(current, 0.0, p).sum(-1) / p.sum(-1)
        jumps = coins < -np.expm1(-rate_times_dt(number, total) * other)
        targets = np.where(current, -np.inf, scores + noise).argmax(-1)
        return np.where(jumps, targets, states).astype(np.int32)

    def logp(self, logits: mx.array, states: mx.array, following: mx.array, numbers: mx.array, total: int) -> mx.array:
        """Compute the log-probability of each step. [N, L, V], [N, L], [N, L], [N] -> [N]"""
        step = _Jumps.at(logits, states, numbers, total)
        expected = mx.take_along_axis(step.log_p, following[..., None], axis=-1)[..., 0]
        jump = mx.where(step.moves, step.log_rate + step.factor + expected, -mx.inf)
        euler = mx.where(following == states, -step.y, jump)
        return mx.where(step.last, expected, euler).sum(axis=-1)

    def entropy(self, logits: mx.array, states: mx.array, numbers: mx.array, total: int) -> mx.array:
        """Compute the entropy of each step in nats. -> [N]"""
        step = _Jumps.at(logits, states, numbers, total)
        stay, jump = mx.exp(-step.y), -mx.expm1(-step.y)
        euler = stay * step.y + jump * (_entropy(step.log_q) - step.log_jump)
        values = mx.where(step.last, _entropy(step.log_p), mx.where(step.moves, euler, 0.0))
        return values.sum(axis=-1)

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
        KL = s ln(s / s') + (1 - s) [ln((1 - s) / (1 - s')) + sum_{j != x} q_j ln(q_j / q'_j)],   s = P(stay)
        ```
        """
        p, q = _Jumps.at(logits, states, numbers, total), _Jumps.at(other, states, numbers, total)
        stay, jump = mx.exp(-p.y), -mx.expm1(-p.y)
        euler = stay * (q.y - p.y) + jump * (p.log_jump - q.log_jump + _divergence(p.log_q, q.log_q))
        values = mx.where(p.last, _divergence(p.log_p, q.log_p), mx.where(p.moves, euler, 0.0))
        return values.sum(axis=-1)


def _entropy(log_p: mx.array) -> mx.array:
    return -(mx.exp(log_p) * log_p).sum(axis=-1)


def _divergence(log_p: mx.array, log_q: mx.array) -> mx.array:
    return (mx.exp(log_p) * (log_p - log_q)).sum(axis=-1)
