"""Log-probabilities by the forward pass that is trained through, at the temperature that the rollouts were drawn at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.train import head as chunked

if TYPE_CHECKING:
    from collections.abc import Callable

    import mlx.core as mx
    from numpy.typing import NDArray

    from karl_fast.rl.policy import Policy
    from karl_fast.rl.rollout import Packed

    Loss = Callable[[mx.array], mx.array]


class Forward:
    """A policy's log-probabilities and their gradients, chunk by chunk where the head is not trained."""

    def __init__(self, policy: Policy, temperature: float) -> None:
        self.policy, self.temperature = policy, temperature
        self._rows: int | None = None

    def head(self, hidden: mx.array) -> mx.array:
        """Logits of softmax(logits / T), in float32."""
        import mlx.core as mx

        logits = self.policy.head(hidden)
        return logits if self.temperature == 1 else logits.astype(mx.float32) * (1 / self.temperature)

    def logp(self, packed: Packed) -> NDArray[np.float32]:
        """The log-probability of each token that the policy said, 0 elsewhere. [B, T]"""
        return self.begin(packed)()

    def begin(self, packed: Packed) -> Callable[[], NDArray[np.float32]]:
        """Let the device begin with `logp` under the weights of now; what comes back waits for it."""
        import mlx.core as mx

        tokens, places = _cut(packed.tokens, packed.mask)
        flat = chunked.forward(self.policy.body, self.head, tokens, places, self.chunk_rows())
        mx.async_eval(flat)

        def logp() -> NDArray[np.float32]:
            found = np.zeros(packed.mask.shape, dtype=np.float32)
            found[packed.mask] = np.array(flat)
            return found

        return logp

    def gradient(
        self, tokens: NDArray[np.int32], mask: NDArray[np.bool_], loss: Loss
    ) -> tuple[mx.array, mx.array, Any]:
        """The value of a loss of logp [B, T], that logp, and the gradient in the trainable parameters.

        Args:
            tokens: [B, T + 1]
            mask: which targets are computed; logp is 0 elsewhere. [B, T]
            loss: logp [B, T] to a scalar.
        """
        spread = _spread(mask)
        how = self._through if self.policy.trained_head else self._chunked
        value, logp, gradient = how(*_cut(tokens, mask), lambda flat: loss(spread(flat)))
        return value, spread(logp), gradient

    def _chunked(self, tokens: mx.array, places: mx.array, loss: Loss) -> tuple[mx.array, mx.array, Any]:
        policy = self.policy
        return chunked.backward(policy.model, policy.body, self.head, tokens, places, self.chunk_rows(), loss)

    def _through(self, tokens: mx.array, places: mx.array, loss: Loss) -> tuple[mx.array, mx.array, Any]:
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
        """Hidden states a chunk, by the size of the vocabulary."""
        import mlx.core as mx

        if self._rows is None:
            probe = self.policy.head(self.policy.body(mx.array([[0]])))
            self._rows = chunked.chunk_rows(probe.shape[-1])
        return self._rows


def _cut(tokens: NDArray[np.int32], mask: NDArray[np.bool_]) -> tuple[mx.array, mx.array]:
    """Tokens up to the last that counts, and the places of those that do, flattened."""
    import mlx.core as mx

    width = int(np.flatnonzero(mask.any(0)).max(initial=0)) + 1
    return mx.array(tokens[:, : width + 1]), mx.array(np.flatnonzero(mask[:, :width]))


def _spread(mask: NDArray[np.bool_]) -> Callable[[mx.array], mx.array]:
    """One number a token that counts, to its place; 0 elsewhere. [N] -> [B, T]"""
    import mlx.core as mx

    place = np.where(mask.ravel(), np.cumsum(mask.ravel()) - 1, int(mask.sum())).reshape(mask.shape)
    where = mx.array(place.astype(np.int32))
    return lambda flat: mx.concatenate([flat, mx.zeros(1, flat.dtype)])[where]
