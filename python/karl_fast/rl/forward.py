"""Log-probabilities by the forward pass that is trained through, at the temperature that the rollouts were drawn at."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.modeling import chunked_logp as chunked
from karl_fast.modeling.flat_gradients import joined
from karl_fast.modeling.views import training
from karl_fast.rl.compiled import Compiled, rounded
from karl_fast.rl.policy import LanguageModel

if TYPE_CHECKING:
    from collections.abc import Callable

    import mlx.core as mx
    from numpy.typing import NDArray

    from karl_fast.rl.policy import Policy
    from karl_fast.rl.rollout import Packed

    Flat = Callable[[mx.array], mx.array]
    Loss = Callable[[mx.array, Any], mx.array]


class Forward:
    """A policy's log-probabilities and their gradients, chunk by chunk where the head is not trained."""

    def __init__(self, policy: Policy, temperature: float, *, compile: bool = False) -> None:
        self.policy, self.temperature = policy, temperature
        self._compiled = Compiled(policy.model, on=compile)
        self._shape = Shape(rounded if compile else int)
        self._rows: int | None = None

    def head(self, hidden: mx.array) -> mx.array:
        """Compute logits of softmax(logits / T), in float32."""
        import mlx.core as mx

        logits = self.policy.head(hidden)
        return logits if self.temperature == 1 else logits.astype(mx.float32) * (1 / self.temperature)

    def logp(self, packed: Packed, *, reference: bool = False) -> NDArray[np.float32]:
        """Return the log-probability of each token of the policy, 0 elsewhere. [B, T]"""
        return self.begin(packed, reference=reference)()

    def begin(self, packed: Packed, *, reference: bool = False) -> Callable[[], NDArray[np.float32]]:
        """Start `logp` on the device, under the current weights or the reference; the result waits for it."""
        import mlx.core as mx

        with self.policy.reference() if reference else nullcontext():
            flat = self._compiled(self._logp, reference)(*self._shape.cut(packed.tokens, packed.mask))
            mx.async_eval(flat)

        def logp() -> NDArray[np.float32]:
            found = np.zeros(packed.mask.shape, dtype=np.float32)
            found[packed.mask] = np.array(flat)[: packed.mask.sum()]
            return found

        return logp

    def _logp(self, reference: bool, tokens: mx.array, places: mx.array) -> mx.array:
        """Compute log-probabilities; each policy has its own trace, because adapters are not an array argument."""
        return chunked.forward(self.policy.body, self.head, tokens, places, self.chunk_rows())

    def gradient(
        self, tokens: NDArray[np.int32], mask: NDArray[np.bool_], loss: Loss, known: Any
    ) -> tuple[mx.array, mx.array, dict[str, mx.array]]:
        """Return a loss of logp [B, T], that logp, and the gradient in the trainable parameters, joined.

        Args:
            tokens: [B, T + 1]
            mask: which targets are computed; logp is 0 elsewhere. [B, T]
            loss: logp [B, T] and `known` to a scalar: one and the same function each time, which is compiled once.
            known: a tree of arrays.
        """
        found: tuple[mx.array, mx.array, dict[str, mx.array]]
        found = self._compiled(self._gradient, loss)(*self._shape.cut(tokens, mask), self._shape.seats(mask), known)
        return found

    def _gradient(
        self, loss: Loss, tokens: mx.array, places: mx.array, seats: mx.array, known: Any
    ) -> tuple[mx.array, mx.array, dict[str, mx.array]]:
        how = self._through if self.policy.trained_head else self._chunked
        with training(self.policy.model) if isinstance(self.policy, LanguageModel) else nullcontext():
            value, logp, gradient = how(tokens, places, lambda flat: loss(_spread(flat, seats), known))
        return value, _spread(logp, seats), joined(gradient)

    def _chunked(self, tokens: mx.array, places: mx.array, loss: Flat) -> tuple[mx.array, mx.array, Any]:
        policy = self.policy
        return chunked.backward(policy.model, policy.body, self.head, tokens, places, self.chunk_rows(), loss)

    def _through(self, tokens: mx.array, places: mx.array, loss: Flat) -> tuple[mx.array, mx.array, Any]:
        import mlx.nn as nn

        def whole() -> tuple[mx.array, mx.array]:
            hidden = self.policy.body(tokens[:, :-1])
            hidden = hidden.reshape(-1, hidden.shape[-1])[places]
            logits = self.head(hidden[None])[0]
            logp = chunked.log_probabilities(logits, tokens[:, 1:].reshape(-1)[places])
            return loss(logp), logp

        (value, logp), gradient = nn.value_and_grad(self.policy.model, whole)()
        return value, logp, gradient

    def chunk_rows(self) -> int:
        """Return the hidden states of a chunk, by the size of the vocabulary."""
        import mlx.core as mx

        if self._rows is None:
            probe = self.policy.head(self.policy.body(mx.array([[0]])))
            self._rows = chunked.chunk_rows(probe.shape[-1])
        return self._rows


@dataclass(frozen=True)
class Shape:
    """Layout of the targets of a mask for a pass: concatenated at places, with the seats that map them back.

    Attributes:
        size: size for a given count. If rounded up, the first target fills the surplus places, which have no seat.
    """

    size: Callable[[int], int]

    def cut(self, tokens: NDArray[np.int32], mask: NDArray[np.bool_]) -> tuple[mx.array, mx.array]:
        """Return tokens to the last that counts, and places of those that do. [B, T + 1], [B, T] -> [B, T' + 1], [N]"""
        import mlx.core as mx

        width = min(self.size(int(np.flatnonzero(mask.any(0)).max(initial=0)) + 1), mask.shape[1])
        there = np.flatnonzero(mask[:, :width])
        places = np.zeros(self.size(there.size), dtype=np.int32)
        places[: there.size] = there
        return mx.array(tokens[:, : width + 1]), mx.array(places)

    def seats(self, mask: NDArray[np.bool_]) -> mx.array:
        """Return the place of each target that counts; one after the last for others. [B, T]"""
        import mlx.core as mx

        seats = np.where(mask.ravel(), np.cumsum(mask.ravel()) - 1, self.size(int(mask.sum())))
        return mx.array(seats.reshape(mask.shape).astype(np.int32))


def _spread(flat: mx.array, seats: mx.array) -> mx.array:
    """Scatter one number a place to its seats; 0 after the end. [N] -> [B, T]"""
    import mlx.core as mx

    return mx.concatenate([flat, mx.zeros(1, flat.dtype)])[seats]
