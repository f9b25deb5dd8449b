"""Learned log Z: a small network over the policy's hidden states of the prompt."""

from __future__ import annotations

import mlx.core as mx
import mlx.nn as nn


class LogZHead(nn.Module):
    """log Z of a prompt, from the mean of its hidden states.

    ```text
    log_z = Linear(1) . [Dropout . LayerNorm . GELU . Linear(E)] x 2  (mean over prompt tokens of h)
    ```

    Give it an optimizer of its own, or a learning rate of its own; FlowRL's code has one rate for both.

    Attributes:
        detached: True to stop the gradient at the hidden states. FlowRL's code lets it into the policy.
        layers: the network.

    Reference: FlowRL (arXiv:2509.15207), ``ProjZModule`` of the released code.
    """

    def __init__(self, size: int, *, detached: bool = True, dropout: float = 0.1) -> None:
        """Make a head for hidden states of ``size`` numbers."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.detached = detached
        blocks = [
            layer
            for _ in range(2)
            for layer in (nn.Linear(size, size), nn.GELU(), nn.LayerNorm(size), nn.Dropout(dropout))
        ]
        self.layers = nn.Sequential(*blocks, nn.Linear(size, 1))

    def __call__(self, hidden: mx.array, mask: mx.array) -> mx.array:
        """Return log Z of each prompt.

        Args:
            hidden: of the last layer. [B, T, E]
            mask: which tokens are the prompt's. bool, [B, T]

        Returns:
            In nats, or the units of the residual. [B]

        Raises:
            ValueError: shapes that do not go together.

        Reference: FlowRL (arXiv:2509.15207).
        """
        if self.detached:
            hidden = mx.stop_gradient(hidden)
        counts = mask.astype(hidden.dtype)[:, :, None]
        mean = (hidden * counts).sum(axis=1) / mx.maximum(counts.sum(axis=1), 1)
        found: mx.array = self.layers(mean)[:, 0]
        return found
