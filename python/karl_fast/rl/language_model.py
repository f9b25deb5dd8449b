"""A language model of mlx-lm as a policy."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import mlx.core as mx

from karl_fast.errors import ModelError
from karl_fast.export.template_form import ChatTemplate, calls_as_text
from karl_fast.modeling.load import position_limit
from karl_fast.modeling.model_views import Snapshot, adapters_off, are_close, split_model
from karl_fast.rl.kv_cache import group_sizes, quantize_caches, repeat, unrotated

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from karl_fast.rl.policy import Message

MARK = "\u241fkarl\u241f"
"""Placeholder for a turn of the policy when a template is asked for the text after it."""


WORDS: Message = {"role": "assistant", "content": MARK}
"""A turn of the policy when a template is asked for the text after it."""


class LanguageModel:
    """A model of mlx-lm, with adapters or without, as a policy."""

    def __init__(
        self, loaded: Any, kept: Snapshot | None = None, *, eight_bits: bool = False, longest: int = 0
    ) -> None:
        """Wrap the result of `karl_fast.modeling.load.load`, already adapted.

        `kept` is the reference; None for the model without its adapters. With `eight_bits` caches are quantised, for
        contexts of up to `longest` tokens.
        """
        self.model, self.tokenizer, self.ends = loaded.model, loaded.tokenizer, loaded.ends
        self._body, self._head = split_model(loaded.model)
        self.trained_head, self.kept = False, kept
        self.positions = position_limit(loaded.model, loaded.config)
        self._group_sizes: list[int] | None = None
        self._longest = 0
        self._shown: dict[tuple[str, ...], bool] = {}
        self._check_caches()
        if eight_bits:
            self._longest = longest
            self._group_sizes = group_sizes(self._kind, self._plain_caches(), self.body)

    @property
    def _kind(self) -> str:
        """Type of the model."""
        return str(getattr(self.model, "model_type", type(self.model).__name__))

    def _check_caches(self) -> None:
        """Raise where the model does not compute the same token by token, which drawing does, as all at once."""
        kind = self._kind
        tokens, caches = mx.array([[1, 2, 3, 4]]), self.caches()
        try:
            self.body(tokens[:, :3], cache=caches)
            repeat(caches, 1, mx.array([0, 0]))
            last = self.body(mx.array([[4], [4]]), cache=caches)
            agrees = are_close(self.body(tokens)[:, -1:], last[1:])
        except (RuntimeError, ValueError, TypeError, AttributeError, LookupError) as error:
            message = f"mlx-lm raised: {' '.join(str(error).split())[:200]}"
            raise ModelError(f"the caches of model type {kind} do not work over a group: {message}") from error
        if not agrees:
            raise ModelError(f"the model type {kind} computes other hidden states with its caches than without them")

    def caches(self) -> list[Any]:
        """Make the caches of mlx-lm for the model: keys and values, whole or rotating, recurrent states, or both."""
        from mlx_lm.models.cache import make_prompt_cache

        if self._group_sizes is not None:
            return quantize_caches(self._plain_caches(), self._group_sizes)
        caches: list[Any] = make_prompt_cache(self.model)
        return caches

    def _plain_caches(self) -> list[Any]:
        """Make caches to quantise: a window that no context leaves is one that need not rotate."""
        from mlx_lm.models.cache import make_prompt_cache

        return [unrotated(cache, self._longest) for cache in make_prompt_cache(self.model)]

    def body(self, tokens: mx.array, cache: list[Any] | None = None) -> mx.array:
        """Map tokens to hidden states. [B, T] -> [B, T, E]"""
        hidden: mx.array = self._body(tokens, cache=cache)
        return hidden

    def head(self, hidden: mx.array) -> mx.array:
        """Map hidden states to logits. [B, T, E] -> [B, T, V]"""
        logits: mx.array = self._head(hidden)
        return logits

    def encode(self, messages: Sequence[Message]) -> list[int]:
        """Return the chat template up to the start of the assistant's turn; calls of tools in a form that it takes."""
        plain = [dict(message) for message in messages]
        if any(message.get("tool_calls") or message.get("role") == "tool" for message in plain):
            plain = ChatTemplate(self.tokenizer).form(plain).messages
        tokens = self.tokenizer.apply_chat_template(plain, add_generation_prompt=True, return_dict=False)
        return [int(token) for token in tokens]

    def answer(self, messages: Sequence[Message], last: int | None) -> list[int]:
        """Return the tokens of the template after a turn: its end, the answer, and the start of the next turn.

        Results of tools stand behind a turn of words, else behind a call (gpt-oss takes them nowhere else), else they
        are a turn of the user, as `train` writes them for a template that has no place for them.
        """
        answer = [dict(message) for message in messages]
        if not any(message["role"] == "tool" for message in answer):
            return self._after_words(self._tail(WORDS, answer), last)
        if self._shows(WORDS, answer):
            return self._after_words(self._tail(WORDS, answer), last)
        call = _call(answer)
        if self._shows(call, answer) and (tokens := self._after_call(self._tail(call, answer), last)) is not None:
            return tokens
        return self._after_words(self._tail(WORDS, calls_as_text(answer)), last)

    def _tail(self, turn: Message, answer: Sequence[Message], *, asks: bool = True) -> str:
        """Return what the template writes behind the words of a turn that is answered.

        Raises:
            ModelError: it drops the turn.
        """
        text = self.tokenizer.apply_chat_template(
            [{"role": "user", "content": "."}, dict(turn), *answer], add_generation_prompt=asks, tokenize=False
        )
        _, mark, tail = text.rpartition(MARK)
        if not mark:
            raise ModelError("the chat template drops what the assistant said, so turns cannot be joined")
        return str(tail)

    def _shows(self, turn: Message, answer: Sequence[Message]) -> bool:
        """Return whether the template shows every message of an answer behind a turn; it depends on roles alone."""
        key = ("call" if "tool_calls" in turn else "words", *(message["role"] for message in answer))
        if key not in self._shown:
            self._shown[key] = self._shows_marks(turn, answer)
        return self._shown[key]

    def _shows_marks(self, turn: Message, answer: Sequence[Message]) -> bool:
        marked = [{**message, "content": f"karlanswer{at}x"} for at, message in enumerate(answer)]
        try:
            tail = self._tail(turn, marked)
        except Exception:  # of a template
            return False
        return all(message["content"] in tail for message in marked)

    def _after_words(self, tail: str, last: int | None) -> list[int]:
        """Return the tokens of a tail, without the end of the turn if the policy wrote one itself.

        The end of a turn is the text after it that is the same whether a message follows or not. It may have several
        tokens (Cohere), and others than the one that stopped the policy (gpt-oss, Kimi K2).
        """
        tokens = self._tokens(tail)
        if last is None or tokens[:1] == [last]:
            return tokens[last is not None :]
        added = set(self.tokenizer.get_added_vocab().values())
        alone = self._shared(tokens, self._tokens(self._tail(WORDS, [], asks=False)))
        followed = self._shared(tokens, self._tokens(self._tail(WORDS, [])))
        closing = alone or followed[:-1]  # the last common token is part of the next message's header
        stops = [at for at, token in enumerate(closing) if token in self.ends]
        marks = [at for at, token in enumerate(closing) if token in added]
        return tokens[stops[0] + 1 :] if stops else tokens[marks[-1] + 1 :] if marks else tokens

    def _after_call(self, tail: str, last: int | None) -> list[int] | None:
        """Return the tokens of a tail from the token that stops a call; None without one."""
        tokens = self._tokens(tail)
        stop = next((at for at, token in enumerate(tokens) if token in self.ends), None)
        return None if stop is None else tokens[stop + (last is not None) :]

    def _shared(self, tokens: list[int], other: list[int]) -> list[int]:
        """Return the tokens with which both begin."""
        differ = (at for at, (first, second) in enumerate(zip(tokens, other, strict=False)) if first != second)
        return tokens[: next(differ, min(len(tokens), len(other)))]

    def _tokens(self, text: str) -> list[int]:
        return [int(token) for token in self.tokenizer.encode(text, add_special_tokens=False)]

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of one turn, without its end token."""
        text_tokens = tokens[:-1] if len(tokens) and tokens[-1] in self.ends else tokens
        return str(self.tokenizer.decode(list(text_tokens)))

    @contextlib.contextmanager
    def reference(self) -> Iterator[None]:
        """Take the kept weights; without any, disable adapters, which gives the base model bit for bit."""
        with adapters_off(self.model) if self.kept is None else self.kept.held():
            yield


def _call(answer: Sequence[Message]) -> Message:
    """Return a turn with a call for each result of an answer."""
    results = [message for message in answer if message["role"] == "tool"]
    calls = [
        {
            "id": message.get("tool_call_id", "call"),
            "type": "function",
            "function": {"name": message.get("name") or "tool", "arguments": {"words": MARK}},
        }
        for message in results
    ]
    return {"role": "assistant", "content": "", "tool_calls": calls}
