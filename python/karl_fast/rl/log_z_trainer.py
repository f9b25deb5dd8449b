"""The learned log Z while a policy is trained: a head over the mean hidden state of the prompt, and its optimizer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.errors import CheckpointError
from karl_fast.modeling.adapters import fit, tensors
from karl_fast.modeling.flat_gradients import parted
from karl_fast.modeling.parameters import flat

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import mlx.core as mx
    from numpy.typing import NDArray

    from karl_fast.rl.policy import Policy


class Partition:
    """A `LogZHead` without gradient to the hidden states, so that it does not affect the policy's own gradient."""

    def __init__(self, size: int, *, learning_rate: float, seed: int) -> None:
        """Make a head for hidden states of `size` numbers."""
        import mlx.core as mx
        import mlx.optimizers as optim

        from karl_fast.objective.axes.log_z_head import LogZHead

        mx.random.seed(seed)
        self.head = LogZHead(size, dropout=0.0)
        self.optimizer = optim.Adam(learning_rate, bias_correction=True)
        self._hidden: mx.array | None = None

    def __call__(self, policy: Policy, tokens: NDArray[np.int32], mask: NDArray[np.bool_]) -> mx.array:
        """Return log Z of the prompt of each rollout: all before its first own token. [B, T + 1], [B, T] -> [B]"""
        import mlx.core as mx

        first = mask.argmax(1) + 1
        width = int(first.max(initial=1))
        hidden = mx.stop_gradient(policy.body(mx.array(tokens[:, :width])).astype(mx.float32))
        before = mx.array((np.arange(width) < first[:, None]).astype(np.float32))[:, :, None]
        self._hidden = (hidden * before).sum(axis=1, keepdims=True) / before.sum(axis=1, keepdims=True)
        mx.eval(self._hidden)
        return mx.stop_gradient(self._log_z())

    def _log_z(self) -> mx.array:
        import mlx.core as mx

        assert self._hidden is not None
        found: mx.array = self.head(self._hidden, mx.ones(self._hidden.shape[:2], dtype=mx.bool_))
        return found

    def gradient(self, loss: Callable[[mx.array], mx.array]) -> Any:
        """Return the gradient in the head of a loss of log Z, for the rollouts of the last call."""
        import mlx.nn as nn

        return nn.value_and_grad(self.head, lambda: loss(self._log_z()))()[1]

    def update(self, gradient: dict[str, mx.array]) -> None:
        """Make one step of the head, with a gradient joined to vectors."""
        import mlx.core as mx

        module: Any = self.head
        self.optimizer.update(self.head, parted(gradient, module.trainable_parameters()))
        mx.eval(module.parameters(), self.optimizer.state)

    def save(self, path: Path) -> None:
        """Write the head and its optimizer, whole."""
        import mlx.core as mx
        from mlx.utils import tree_flatten

        from karl_fast import _atomic

        module: Any = self.head
        held: Any = dict(tree_flatten({"head": module.parameters(), "optimizer": self.optimizer.state}))
        _atomic.write(path, lambda file: mx.save_safetensors(file, held))

    def load(self, path: Path) -> None:
        """Take both from a file.

        Raises:
            CheckpointError: it is not there, damaged, or of another head.
        """
        from mlx.utils import tree_unflatten

        module: Any = self.head
        self.optimizer.init(module.trainable_parameters())
        held = tensors(path, CheckpointError)
        fit(held, flat({"head": module.parameters(), "optimizer": self.optimizer.state}), str(path), CheckpointError)
        tree: Any = tree_unflatten(list(held.items()))
        self.head.update(tree["head"])
        self.optimizer.state = tree["optimizer"]
