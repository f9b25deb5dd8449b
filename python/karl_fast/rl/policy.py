"""Interface of a policy: a model that is sampled from and trained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    import mlx.core as mx

    Message = Mapping[str, Any]


class Policy(Protocol):
    """Interface of a model that is sampled from and trained; a custom transformer has to implement it.

    Attributes:
        model: what is trained: an `mlx.nn.Module`, with all that is frozen frozen.
        ends: the tokens that end a turn.
        trained_head: True if the head has trainable parameters; a head without is computed in chunks.
    """

    model: Any
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

    def encode(self, messages: Sequence[Message]) -> list[int]:
        """Return the tokens before the first turn of the policy."""

    def answer(self, messages: Sequence[Message], last: int | None) -> list[int]:
        """Return the tokens between two turns of the policy: the answering messages, and the start of the next turn.

        ``last`` is the last token of the policy, if it ended its turn.
        """

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of the tokens of one turn, without its end token."""

    def reference(self) -> AbstractContextManager[None]:
        """Turn the model into the reference policy within this context."""
