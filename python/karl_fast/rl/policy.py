"""Interfaces of a policy: a model that is sampled from and trained, token by token or in steps.

```text
Policy        what both have: a model, text to tokens and back, a reference
TokenPolicy   draws one token after the other           -> rl.generate draws, rl.logprobs scores and differentiates
StepPolicy    draws states, each from the one before    -> rl.steps does both
```

An objective sees one log-probability for each token of the first and for each step of the second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    import mlx.core as mx
    import numpy as np
    from numpy.typing import NDArray
    from typing_extensions import TypeIs

    Message = Mapping[str, Any]


class Policy(Protocol):
    """Interface of a model that is sampled from and trained.

    Attributes:
        model: what is trained: an `mlx.nn.Module`, with all that is frozen frozen.
    """

    model: Any

    def encode(self, messages: Sequence[Message]) -> list[int]:
        """Return the tokens before the first turn of the policy."""

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of the tokens of one turn, without its end token."""

    def reference(self) -> AbstractContextManager[None]:
        """Turn the model into the reference policy within this context."""


class TokenPolicy(Policy, Protocol):
    """Interface of a model that draws one token after the other; a custom transformer has to implement it.

    Attributes:
        ends: the tokens that end a turn.
        trained_head: True if the head has trainable parameters; a head without is computed in chunks.
    """

    ends: frozenset[int]
    trained_head: bool

    def caches(self) -> list[Any]:
        """Return empty caches, one a layer, with a row a context: ``keys`` and ``values``, or states. [B, ...]

        A cache like those of mlx-lm, [B, H, T, E] with an ``offset``, is kept from turn to turn.
        """

    def body(self, tokens: mx.array, cache: list[Any] | None = None) -> mx.array:
        """Map tokens to hidden states. [B, T] -> [B, T, E]"""

    def head(self, hidden: mx.array) -> mx.array:
        """Map hidden states to logits, before any temperature. [B, T, E] -> [B, T, V]"""

    def answer(self, messages: Sequence[Message], last: int | None) -> list[int]:
        """Return the tokens between two turns of the policy: the answering messages, and the start of the next turn.

        ``last`` is the last token of the policy, if it ended its turn.
        """


class StepLaw(Protocol):
    """Interface of the distribution of a step, given logits of the positions of a state.

    S is the number of steps of a rollout, k that of a step, from 0.
    """

    def start(self, width: int, generators: Sequence[np.random.Generator]) -> NDArray[np.int32]:
        """Draw the state before the first step, of a distribution without parameters, a row a generator. -> [N, L]"""

    def draw(
        self,
        logits: NDArray[np.float32],
        states: NDArray[np.int32],
        number: int,
        total: int,
        generators: Sequence[np.random.Generator],
        sharpness: float = 1.0,
    ) -> NDArray[np.int32]:
        """Draw the states after step `number` of `total`. [N, L, V], [N, L] -> [N, L]

        Tokens are drawn by the logits times the sharpness: with a large one each is the likeliest.
        """

    def logp(self, logits: mx.array, states: mx.array, following: mx.array, numbers: mx.array, total: int) -> mx.array:
        """Compute the log-probability of each step, exactly. [N, L, V], [N, L], [N, L], [N] -> [N]"""

    def entropy(self, logits: mx.array, states: mx.array, numbers: mx.array, total: int) -> mx.array:
        """Compute the entropy of the distribution of each step, in nats. -> [N]"""

    def divergence(
        self, logits: mx.array, other: mx.array, states: mx.array, numbers: mx.array, total: int
    ) -> mx.array:
        """Compute the divergence of each step's distribution from that by other logits, in nats. -> [N]"""


class StepPolicy(Policy, Protocol):
    """Interface of a model that draws states of a fixed width in steps, any position of which may change in each.

    Prompts all have `prompt_width` tokens, `encode` pads them; `decode` returns the text of the last `width` tokens.

    Attributes:
        prompt_width, width: tokens of a prompt, and of a state.
        steps: of a rollout, where the settings name no other number.
    """

    prompt_width: int
    width: int
    steps: int

    @property
    def law(self) -> StepLaw:
        """Distribution of a step."""

    def logits(self, prompts: mx.array, states: mx.array, numbers: mx.array, total: int) -> mx.array:
        """Return logits of the positions of states, before any temperature. [N, P], [N, L], [N] -> [N, L, V]"""


def is_step_policy(policy: TokenPolicy | StepPolicy) -> TypeIs[StepPolicy]:
    """Return whether a policy draws in steps."""
    return hasattr(policy, "law")
