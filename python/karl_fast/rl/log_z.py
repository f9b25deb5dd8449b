"""The learned log Z of a prompt: a head over the mean hidden state of the prompt, its gradient and its optimizer.

```text
prompt --> policy body --> mean hidden state --> LogZHead --> log Z --> objective (FlowRL, PACED)
              ^                                     |                      |
              +---- only if not detached -----------+<---- d loss / d log Z
```
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
from mlx.utils import tree_flatten, tree_unflatten

from karl_fast import _atomic
from karl_fast.errors import CheckpointError
from karl_fast.modeling.adapters import check_fit, load_tensors
from karl_fast.modeling.chunked_logp import Traced
from karl_fast.modeling.optimizer import join_leaves, split_leaves
from karl_fast.modeling.parameters import flatten_tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from karl_fast.objective import Recipe
    from karl_fast.rl.logprobs import Forward
    from karl_fast.rl.policy import TokenPolicy


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
        log_z: mx.array = self.layers(mean)[:, 0]
        return log_z


class Partition:
    """A `LogZHead` and its optimizer.

    Detached, it does not affect the gradient of the policy; else the gradient of log Z goes on into the hidden states
    of the prompt.
    """

    def __init__(self, size: int, *, learning_rate: float, seed: int, detached: bool = True) -> None:
        """Make a head for hidden states of `size` numbers."""
        mx.random.seed(seed)
        self.head = LogZHead(size, detached=detached, dropout=0.0)
        self.optimizer = optim.Adam(learning_rate, bias_correction=True)

    def trace(self, forward: Forward, tokens: NDArray[np.int32], mask: NDArray[np.bool_]) -> Traced:
        """Build the graph of log Z of each rollout's prompt, and of its gradient in the head and the policy, joined.

        A prompt passes through the policy once for all of its rollouts.

        Args:
            forward: of the policy with the hidden states.
            tokens: [B, T + 1]
            mask: the prompt is all before the first token of it. [B, T]
        """
        ends = mask.argmax(1) + 1
        rows, which = _distinct_prompts(tokens, ends)
        width = int(ends.max(initial=1))
        prompt = mx.array(np.arange(width) < ends[rows, None])
        # A product, because gradients of rows taken by number would add up in any order on a GPU.
        copies = mx.array((which[:, None] == np.arange(len(rows))).astype(np.float32))
        trained: Any = nn.Module()
        trained.log_z = self.head
        if not self.head.detached:
            trained.model = forward.policy.model

        def gradient(coefficients: dict[str, mx.array]) -> tuple[dict[str, mx.array], Any]:
            def surrogate() -> tuple[mx.array, mx.array]:
                hidden = forward.policy.body(mx.array(tokens[rows, :width])).astype(mx.float32)
                log_z = copies @ self.head(hidden, prompt)
                return (coefficients["log_z"] * log_z).sum(), log_z

            with nullcontext() if self.head.detached else forward.training():
                (_, log_z), tree = nn.value_and_grad(trained, surrogate)()
            return {"log_z": log_z}, {name: join_leaves(part) for name, part in tree.items()}

        return Traced(["log_z"], len(mask), gradient)

    def log_z(self, policy: TokenPolicy, prompts: Iterable[Sequence[int]]) -> NDArray[np.float64]:
        """Return log Z of prompts, given as tokens, one forward pass each. [P]"""

        def of(tokens: Sequence[int]) -> float:
            hidden = policy.body(mx.array([tokens])).astype(mx.float32)
            return float(np.array(self.head(hidden, mx.ones((1, len(tokens)), dtype=mx.bool_)))[0])

        return np.array([of(tokens) for tokens in prompts], dtype=np.float64)

    def update(self, gradient: dict[str, mx.array]) -> None:
        """Make one step of the head, by a gradient in joined vectors."""
        module: Any = self.head
        self.optimizer.update(self.head, split_leaves(gradient, module.trainable_parameters()))
        mx.eval(module.parameters(), self.optimizer.state)

    def save(self, path: Path) -> None:
        """Write the head and its optimizer, whole."""
        module: Any = self.head
        arrays: Any = dict(tree_flatten({"head": module.parameters(), "optimizer": self.optimizer.state}))
        _atomic.write_file(path, lambda file: mx.save_safetensors(file, arrays))

    def load(self, path: Path) -> None:
        """Load both from a file.

        Raises:
            CheckpointError: the file is missing, damaged, or of another head.
        """
        module: Any = self.head
        self.optimizer.init(module.trainable_parameters())
        arrays = load_tensors(path, CheckpointError)
        check_fit(
            arrays,
            flatten_tree({"head": module.parameters(), "optimizer": self.optimizer.state}),
            str(path),
            CheckpointError,
        )
        tree: Any = tree_unflatten(list(arrays.items()))
        self.head.update(tree["head"])
        self.optimizer.state = tree["optimizer"]


def learns_log_z(recipe: Recipe) -> bool:
    """Return whether a recipe learns log Z of each prompt."""
    return bool(getattr(getattr(recipe.objective, "log_z", None), "learned", False))


def head_parameters(hidden: int) -> int:
    """Return the number of parameters of `LogZHead`: two layers with a norm each, and one output."""
    return 2 * (hidden * hidden + 3 * hidden) + hidden + 1


def _distinct_prompts(
    tokens: NDArray[np.int32], ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return a row of each distinct prompt, and for each row the number of its prompt. [U], [B]"""
    numbers: dict[bytes, int] = {}
    prompts = (row[:end].tobytes() for row, end in zip(tokens, ends, strict=True))
    which = np.array([numbers.setdefault(prompt, len(numbers)) for prompt in prompts], dtype=np.int64)
    return np.unique(which, return_index=True)[1], which
