"""The teacher of a distillation: a frozen model, or the policy itself with more in its prompt.

```text
student:  prompt          turn  answer  turn ...       a rollout
teacher:  teacher_prompt  turn  answer  turn ...       the same tokens after another prompt
```

A row of the prompts may have a `teacher_prompt`, text or messages: a demonstration, the output of a test, what the user
corrected. The teacher sees it in the place of the prompt; the student never does. The hidden states of the teacher in
front of the student's tokens are computed before the gradient, some rows at a time, and its logits a chunk at a time
beside those of the student (`karl_fast.modeling.chunked_logp`).
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np

from karl_fast._safe_text import describe_exception
from karl_fast.errors import ModelError, TemplateError, UsageError
from karl_fast.modeling import chunked_logp as chunked
from karl_fast.modeling.chunked_logp import ReferenceLogits, Support, scatter_tokens
from karl_fast.objective.axes.teacher import TeacherTopK
from karl_fast.objective.families.distillation import Distillation
from karl_fast.rl.generate import PREFILL
from karl_fast.rl.rollout import is_message, pack
from karl_fast.rl.settings import SELF_TEACHERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from karl_fast.objective.base import Objective
    from karl_fast.rl.policy import Message, TokenPolicy
    from karl_fast.rl.rollout import Packed, Prompt, Rollout

COLUMN = "teacher_prompt"
"""Field of a prompt with what the teacher sees in its place."""


@dataclass(frozen=True, eq=False)
class TeacherView:
    """Rollouts as the teacher sees them. Index t of the mask scores token t + 1.

    Attributes:
        tokens: padded on the right. int32, [B, T' + 1]
        mask: the targets of the student's mask, in the same order. [B, T']
    """

    tokens: NDArray[np.int32]
    mask: NDArray[np.bool_]

    def rows(self, rows: Sequence[int]) -> TeacherView:
        """Return some rows."""
        return TeacherView(self.tokens[rows], self.mask[rows])


class Teacher:
    """A policy whose distributions another one is pulled to."""

    def __init__(
        self,
        policy: TokenPolicy,
        temperature: float,
        *,
        direction: str | None = None,
        support: Support | None = None,
        reference: bool = False,
        hides_prompts: bool = False,
    ) -> None:
        """Take a policy, frozen.

        Args:
            policy: the teacher; may be the policy that is trained.
            temperature: that of rollouts, by which the logits of both are divided.
            direction: of the divergence of whole distributions; None where sampled tokens suffice.
            support: the tokens that the divergence is summed over; None for all.
            reference: True to take the reference of the policy.
            hides_prompts: True if it has several prompts for one of the student.
        """
        self.policy, self.temperature = policy, temperature
        self.direction, self.support, self._reference = direction, support, reference
        self.hides_prompts = hides_prompts
        self._prompts: dict[int, list[int]] = {}

    def _weights(self) -> AbstractContextManager[None]:
        return self.policy.reference() if self._reference else nullcontext()

    def head(self, hidden: mx.array) -> mx.array:
        """Compute logits of softmax(logits / T), in float32. [1, N, E] -> [1, N, V]"""
        with self._weights():
            return self.policy.head(hidden).astype(mx.float32) * (1 / self.temperature)

    def prompt_tokens(self, prompt: Prompt) -> list[int]:
        """Return the tokens of a prompt as the teacher sees it.

        Raises:
            TemplateError: the chat template does not take it.
        """
        if prompt.number not in self._prompts:
            try:
                self._prompts[prompt.number] = self.policy.encode(teacher_messages(prompt))
            except Exception as error:  # of a template
                raise TemplateError(
                    f"the chat template does not take the {COLUMN} of prompt {prompt.id}: {describe_exception(error)}"
                ) from error
        return self._prompts[prompt.number]

    def view(self, rollouts: Sequence[Rollout], packed: Packed, mask: NDArray[np.bool_]) -> TeacherView:
        """Return rollouts as the teacher sees them.

        Args:
            rollouts: of the batch.
            packed: the same, padded, as the student sees them.
            mask: which of its targets are computed. [B, T]
        """
        shown = pack([self._shown(rollout) for rollout in rollouts])
        chosen = np.zeros_like(shown.mask)
        chosen[shown.mask] = mask[packed.mask]  # each row has the same targets in the same order
        return TeacherView(shown.tokens, chosen)

    def _shown(self, rollout: Rollout) -> Rollout:
        """Return a rollout behind the prompt of the teacher."""
        if COLUMN not in rollout.prompt.columns or not rollout.spans:
            return rollout
        prompt, first = self.prompt_tokens(rollout.prompt), rollout.spans[0][0]
        tokens = np.concatenate([np.array(prompt, dtype=np.int32), rollout.tokens[first:]])
        spans = tuple((start + len(prompt) - first, end + len(prompt) - first) for start, end in rollout.spans)
        return rollout.but(tokens=tokens, spans=spans)

    def hidden(self, view: TeacherView, surplus: int = 0) -> mx.array:
        """Compute the hidden states in front of the targets, without a gradient.

        Args:
            view: the rollouts.
            surplus: further copies of the first, where a compiled pass has a rounded number of targets.

        Returns:
            Those of each target, in order. [N + surplus, E]
        """
        parts: list[mx.array] = []
        with self._weights():
            for rows in _blocks(view.mask):
                parts.append(self._block_states(view.rows(rows)))
                if len(rows) < len(view.mask):
                    mx.eval(parts)
        states = mx.concatenate(parts) if len(parts) > 1 else parts[0]
        if surplus:
            states = mx.concatenate([states, mx.repeat(states[:1], surplus, axis=0)])
        return mx.stop_gradient(states)

    def _block_states(self, view: TeacherView) -> mx.array:
        """Compute the hidden states of few rows, `PREFILL` tokens at a time where they are longer."""
        width = 1 + int(np.flatnonzero(view.mask.any(0)).max(initial=0))
        tokens, mask = mx.array(view.tokens[:, :width]), view.mask[:, :width]
        if width <= PREFILL:
            return _select(self.policy.body(tokens), mask)
        caches, parts = self.policy.caches(), list[mx.array]()
        for start in range(0, width, PREFILL):
            states = self.policy.body(tokens[:, start : start + PREFILL], cache=caches)
            parts.append(_select(states, mask[:, start : start + PREFILL]))
            mx.eval(parts)
        order = np.concatenate([np.flatnonzero(_columns(mask, start)) for start in range(0, width, PREFILL)])
        return mx.concatenate(parts)[mx.array(np.argsort(order, kind="stable"))]

    def at(self, hidden: mx.array) -> ReferenceLogits:
        """Return the teacher at targets with these hidden states, for the divergence."""
        assert self.direction is not None
        return ReferenceLogits(hidden, self.head, self.direction, self.support)

    def logp(self, view: TeacherView, mask: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Return the teacher's log-probability of each target, at the places of the student's mask. [B, T]"""
        columns = []
        for rows in _blocks(view.mask):
            part = view.rows(rows)
            if not part.mask.any():
                continue
            drawn = part.tokens[:, 1:][part.mask]
            if drawn.max() >= (size := self._vocabulary):
                raise ModelError(f"the policy drew the token {drawn.max()}, and the teacher has {size:,} of them")
            targets = mx.array(drawn)
            with self._weights():
                hidden = self._block_states(part)
            values, _ = chunked.score_tokens(self.head, hidden, targets, self.chunk_rows(), ["logp"], slopes=False)
            columns.append(np.array(values["logp"]))
        return scatter_tokens(np.concatenate(columns) if columns else np.zeros(0, dtype=np.float32), mask)

    def chunk_rows(self) -> int:
        """Return the hidden states of a chunk, by the size of the vocabulary."""
        return chunked.chunk_rows(self._vocabulary)

    @cached_property
    def _vocabulary(self) -> int:
        return vocabulary(self.policy)


def _select(states: mx.array, mask: NDArray[np.bool_]) -> mx.array:
    """Return the hidden states at the places of a mask, row after row. [B, T, E], [B, T] -> [N, E]"""
    return states.reshape(-1, states.shape[-1])[mx.array(np.flatnonzero(mask).astype(np.int32))]


def _columns(mask: NDArray[np.bool_], start: int) -> NDArray[np.bool_]:
    """Return a mask without the places outside of `PREFILL` columns."""
    part = np.zeros_like(mask)
    part[:, start : start + PREFILL] = mask[:, start : start + PREFILL]
    return part


def _blocks(mask: NDArray[np.bool_]) -> Iterator[list[int]]:
    """Yield rows that pass through the teacher at a time: `PREFILL` tokens, or one row."""
    size = max(1, PREFILL // mask.shape[1])
    yield from (list(range(start, min(start + size, len(mask)))) for start in range(0, len(mask), size))


def vocabulary(policy: TokenPolicy) -> int:
    """Return the number of logits of a policy."""
    return int(policy.head(policy.body(mx.array([[0]]))).shape[-1])


def teacher_messages(prompt: Prompt) -> tuple[Message, ...]:
    """Return the messages that the teacher sees: those of the prompt where it has no own.

    Raises:
        UsageError: the field is neither text nor messages.
    """
    content: Any = prompt.columns.get(COLUMN)
    if content is None:
        return prompt.messages
    if isinstance(content, str):
        return ({"role": "user", "content": content},)
    if isinstance(content, list) and content and all(map(is_message, content)):
        return tuple(content)
    raise UsageError(f"the {COLUMN} of prompt {prompt.id} is neither a text nor messages with a role and a content")


def teacher_support(objective: Objective) -> Support | None:
    """Return the tokens that the divergence from a teacher is summed over; None for all."""
    point = objective.divergence if isinstance(objective, Distillation) else None
    return Support(point.k, point.support, point.renormalise) if isinstance(point, TeacherTopK) else None


def check_teacher_prompts(prompts: Iterable[Prompt], word: str) -> None:
    """Raise where the policy is its own teacher and sees no more than the student.

    Raises:
        UsageError: a prompt without a field for the teacher.
    """
    for prompt in prompts:
        teacher_messages(prompt)
        if word in SELF_TEACHERS and prompt.columns.get(COLUMN) is None:
            raise UsageError(
                f"teacher is {word}, and the prompt {prompt.id} has no {COLUMN}: the policy would teach itself what it "
                "does already",
                "teacher",
                hint=f"give each line of the prompts a {COLUMN}, such as the prompt with a demonstration or a "
                "correction, or name another model as the teacher",
            )


def hides_prompts(prompts: Sequence[Prompt]) -> bool:
    """Return whether the same prompt of the student has different ones of the teacher."""
    seen: dict[str, str] = {}
    return any(
        seen.setdefault(repr(prompt.messages), repr(prompt.columns.get(COLUMN))) != repr(prompt.columns.get(COLUMN))
        for prompt in prompts
    )


def check_same_vocabulary(student: TokenPolicy, teacher: TokenPolicy, name: str) -> None:
    """Raise where a token of the student is another text for the teacher.

    Models of one family may pad their logits to different sizes beyond the tokens that they have.

    Raises:
        UsageError: it is; the message names a token.
    """
    ours, theirs = _token_numbers(student), _token_numbers(teacher)
    if ours is None or theirs is None:
        if (mine := vocabulary(student)) != (other := vocabulary(teacher)):
            raise _vocabulary_error(name, f"it has {other:,} tokens, and the policy {mine:,}")
        return
    different = next((token for token in sorted(ours) if theirs.get(token) != ours[token]), None)
    if different is not None:
        there = theirs.get(different)
        said = "not there" if there is None else f"number {there}"
        raise _vocabulary_error(name, f"the token {different!r} is number {ours[different]} of the policy and {said}")


def _token_numbers(policy: TokenPolicy) -> Mapping[str, int] | None:
    """Return the number of each token of a policy with a tokenizer; None of another."""
    tokenizer = getattr(policy, "tokenizer", None)
    if tokenizer is None:
        return None
    numbers: Mapping[str, int] = tokenizer.get_vocab()
    return numbers


def _vocabulary_error(name: str, why: str) -> UsageError:
    return UsageError(
        f"the teacher {name} has another vocabulary: {why}",
        "teacher",
        hint="take a teacher of the same family as the policy, such as a larger model of the series; or let the "
        "teacher answer the prompts, and train on its answers: karl-fast sample, then karl-fast train",
    )


def freeze(policy: TokenPolicy) -> TokenPolicy:
    """Return a teacher that nothing trains."""
    policy.model.freeze()
    policy.model.eval()
    mx.eval(policy.model.parameters())
    return policy
