"""The learned log Z while a policy is trained: a head over the mean hidden state of the prompt, and its optimizer."""

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
from karl_fast.modeling.adapters import fit, tensors
from karl_fast.modeling.chunked_logp import Traced, join_leaves, split_leaves
from karl_fast.modeling.log_z_head import LogZHead
from karl_fast.modeling.parameters import flatten_tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from karl_fast.objective import Recipe
    from karl_fast.rl.logprobs import Forward
    from karl_fast.rl.policy import Policy


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
        rows, which = _distinct(tokens, ends)
        width = int(ends.max(initial=1))
        prompt = mx.array(np.arange(width) < ends[rows, None])
        # A product, because gradients of rows taken by number would add up in any order on a GPU.
        each = mx.array((which[:, None] == np.arange(len(rows))).astype(np.float32))
        trained: Any = nn.Module()
        trained.log_z = self.head
        if not self.head.detached:
            trained.policy = forward.policy.model

        def gradient(coefficients: dict[str, mx.array]) -> tuple[dict[str, mx.array], Any]:
            def surrogate() -> tuple[mx.array, mx.array]:
                hidden = forward.policy.body(mx.array(tokens[rows, :width])).astype(mx.float32)
                log_z = each @ self.head(hidden, prompt)
                return (coefficients["log_z"] * log_z).sum(), log_z

            with nullcontext() if self.head.detached else forward.training():
                (_, log_z), tree = nn.value_and_grad(trained, surrogate)()
            return {"log_z": log_z}, {name: join_leaves(part) for name, part in tree.items()}

        return Traced(["log_z"], len(mask), gradient)

    def log_z(self, policy: Policy, prompts: Iterable[Sequence[int]]) -> NDArray[np.float64]:
        """Return log Z of prompts, given as tokens, one forward pass each. [P]"""

        def of(tokens: Sequence[int]) -> float:
            hidden = policy.body(mx.array([tokens])).astype(mx.float32)
            return float(np.array(self.head(hidden, mx.ones((1, len(tokens)), dtype=mx.bool_)))[0])

        return np.array([of(tokens) for tokens in prompts], dtype=np.float64)

    def update(self, gradient: dict[str, mx.array]) -> None:
        """Make one step of the head, with a gradient joined to vectors."""
        module: Any = self.head
        self.optimizer.update(self.head, split_leaves(gradient, module.trainable_parameters()))
        mx.eval(module.parameters(), self.optimizer.state)

    def save(self, path: Path) -> None:
        """Write the head and its optimizer, whole."""
        module: Any = self.head
        held: Any = dict(tree_flatten({"head": module.parameters(), "optimizer": self.optimizer.state}))
        _atomic.write(path, lambda file: mx.save_safetensors(file, held))

    def load(self, path: Path) -> None:
        """Take both from a file.

        Raises:
            CheckpointError: it is not there, damaged, or of another head.
        """
        module: Any = self.head
        self.optimizer.init(module.trainable_parameters())
        held = tensors(path, CheckpointError)
        fit(
            held,
            flatten_tree({"head": module.parameters(), "optimizer": self.optimizer.state}),
            str(path),
            CheckpointError,
        )
        tree: Any = tree_unflatten(list(held.items()))
        self.head.update(tree["head"])
        self.optimizer.state = tree["optimizer"]


def learns_log_z(recipe: Recipe) -> bool:
    """Return whether a recipe learns log Z of each prompt."""
    return bool(getattr(getattr(recipe.objective, "log_z", None), "learned", False))


def head_parameters(hidden: int) -> int:
    """Return the number of parameters of `LogZHead`: two layers with a norm each, and one output."""
    return 2 * (hidden * hidden + 3 * hidden) + hidden + 1


def _distinct(tokens: NDArray[np.int32], ends: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return a row of each distinct prompt, and for each row the number of its prompt. [U], [B]"""
    numbers: dict[bytes, int] = {}
    prompts = (row[:end].tobytes() for row, end in zip(tokens, ends, strict=True))
    which = np.array([numbers.setdefault(prompt, len(numbers)) for prompt in prompts], dtype=np.int64)
    return np.unique(which, return_index=True)[1], which
