"""Log-probabilities by the forward pass of training, at the temperature that rollouts were drawn at, and gradients."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np

from karl_fast.errors import ModelError
from karl_fast.modeling import chunked_logp as chunked
from karl_fast.modeling.chunked_logp import Traced, scatter_tokens
from karl_fast.modeling.model_views import training_mode
from karl_fast.modeling.optimizer import join_leaves
from karl_fast.modeling.segments import (
    LEAST_SAVED,
    LEAST_TOKENS,
    PrefixSharing,
    ReferenceModel,
    carry_states,
    pass_segments,
    used_width,
)
from karl_fast.rl.compiled import CompiledModel, round_size
from karl_fast.rl.generate import gumbel_noise, key_words
from karl_fast.rl.language_model import LanguageModel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from karl_fast.modeling.chunked_logp import Arrays, Columns, Trace
    from karl_fast.modeling.segments import SegmentPass, StatefulModel
    from karl_fast.rl.policy import TokenPolicy
    from karl_fast.rl.rollout import Packed
    from karl_fast.rl.teacher import Teacher, TeacherView


class LogProbabilities:
    """The log-probabilities of what a policy drew, from the quantities that a subclass computes by `flat`."""

    flat: Callable[..., Callable[[], Columns]]

    def logp(self, packed: Packed, *, reference: bool = False) -> NDArray[np.float32]:
        """Return the log-probability of each token of the policy, or of each step; 0 elsewhere. [B, T]"""
        return self.begin(packed, reference=reference)()

    def begin(self, packed: Packed, *, reference: bool = False) -> Callable[[], NDArray[np.float32]]:
        """Start `logp` on the device, under the current weights or the reference; the result waits for it."""
        flat = self.flat(packed.tokens, packed.mask, reference=reference)
        return lambda: scatter_tokens(flat()["logp"], packed.mask)


class Forward(LogProbabilities):
    """A policy's log-probabilities and their gradients, chunk by chunk where the head is not trained."""

    def __init__(
        self,
        policy: TokenPolicy,
        temperature: float,
        *,
        compile: bool = False,
        divergence: str | None = None,
        segment_length: int | None = None,
        teacher: Teacher | None = None,
    ) -> None:
        """Set how quantities of tokens are computed.

        Args:
            policy: of the tokens.
            temperature: that of rollouts.
            compile: True to compile passes.
            divergence: direction of the divergence from the reference; None for none, or for one from a teacher.
            segment_length: tokens that pass at a time; None for whole rows.
            teacher: that a divergence is from, in the place of the reference.
        """
        self.policy, self.temperature, self.divergence = policy, temperature, divergence
        self.teacher = teacher
        self.segment_length = segment_length
        self._compiled = CompiledModel(policy.model, on=compile)
        self._shape = TargetLayout(round_size if compile else int)
        self.sharing = PrefixSharing(self._obstacle)

    def head(self, hidden: mx.array) -> mx.array:
        """Compute logits of softmax(logits / T), in float32."""
        logits = self.policy.head(hidden)
        return logits if self.temperature == 1 else logits.astype(mx.float32) * (1 / self.temperature)

    def flat(
        self,
        tokens: NDArray[np.int32],
        mask: NDArray[np.bool_],
        names: tuple[str, ...] = ("logp",),
        *,
        reference: bool = False,
        others: NDArray[np.int64] | None = None,
        view: TeacherView | None = None,
    ) -> Callable[[], Columns]:
        """Start quantities of the targets of a mask, by name. [B, T + 1], [B, T] -> [N]

        The others are tokens in the place of each target whose log-probabilities are among the names. [B, T, C]
        The view is that of the teacher, where the divergence is from it.
        """
        if others is None and (segments := self._segment_pass(tokens, mask, names, view)) is not None:
            with self.policy.reference() if reference else nullcontext():
                columns = segments.outputs(keep=False)
            return lambda: columns
        with self.policy.reference() if reference else nullcontext():
            cut = self._shape.cut(tokens, mask, others)
            values = self._compiled(self._values, names, reference)(*cut, *self._teacher_states(view, cut[1].size))
            mx.async_eval(values)
        return lambda: {name: np.array(value)[: np.count_nonzero(mask)] for name, value in values.items()}

    def draw(self, packed: Packed, keys: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Draw other tokens in the place of each target, by a key each.

        Args:
            packed: the rollouts.
            keys: of the random numbers. [B, T, K]

        Returns:
            The tokens, 0 outside the mask, and their log-probabilities. [B, T, K]
        """
        targets, inputs = np.flatnonzero(packed.mask), mx.array(packed.tokens)
        hidden, _ = chunked.select_targets(self.policy.body(inputs[:, :-1]), inputs, mx.array(targets))
        own_keys = keys.reshape(-1, keys.shape[2])[targets]
        tokens = np.zeros(keys.shape, dtype=np.int64)
        logp = np.zeros(keys.shape, dtype=np.float32)
        rows, columns = np.nonzero(packed.mask)
        for start in range(0, targets.size, self.chunk_rows()):
            part = slice(start, start + self.chunk_rows())
            logits = self.head(hidden[part][None])[0].astype(mx.float32)
            scores = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
            for number in range(keys.shape[2]):  # one at a time: noise is as large as the logits
                noise = gumbel_noise(key_words(own_keys[part, number]), scores.shape[-1])
                choice = mx.argmax(scores + noise, axis=-1, keepdims=True)
                place = (rows[part], columns[part], number)
                tokens[place] = np.array(choice[:, 0])
                logp[place] = np.array(mx.take_along_axis(scores, choice, axis=-1)[:, 0])
        return tokens, logp

    def _values(
        self, names: tuple[str, ...], reference: bool, tokens: mx.array, places: mx.array, *more: mx.array
    ) -> Arrays:
        """Compute quantities; each policy has its own trace, because adapters are not an array argument."""
        others, taught = self._split(names, more)
        other = self._reference(tokens, places, names, taught)
        return chunked.forward(self.policy.body, self.head, tokens, places, self.chunk_rows(), names, other, others)

    def _split(self, names: Iterable[str], more: Sequence[mx.array]) -> tuple[mx.array | None, mx.array | None]:
        """Return the other tokens and the hidden states of the teacher, of the arrays behind tokens and places."""
        taught = more[-1] if "divergence" in names and self.teacher is not None else None
        return more[0] if chunked.other_names(names) else None, taught

    def _teacher_states(self, view: TeacherView | None, size: int) -> list[mx.array]:
        """Return the hidden states of the teacher at so many targets, as the one array; empty without a teacher."""
        if view is None or self.teacher is None:
            return []
        return [self.teacher.hidden(view, surplus=size - int(view.mask.sum()))]

    def _reference(
        self, tokens: mx.array, places: mx.array, names: Iterable[str], taught: mx.array | None
    ) -> chunked.ReferenceLogits | None:
        """Return the teacher or the reference at the targets, if the divergence from it is wanted."""
        if "divergence" not in names:
            return None
        if taught is not None and self.teacher is not None:
            return self.teacher.at(taught)
        if self.divergence is None:
            return None
        with self.policy.reference():
            hidden, _ = chunked.select_targets(self.policy.body(tokens[:, :-1]), tokens, places)
        return chunked.ReferenceLogits(mx.stop_gradient(hidden), self._reference_head, self.divergence)

    def _reference_head(self, hidden: mx.array) -> mx.array:
        with self.policy.reference():
            return self.head(hidden)

    @cached_property
    def carrier(self) -> StatefulModel:
        """The policy with the states that segments carry on.

        Raises:
            ModelError: it has none that can be carried.
        """
        return carry_states(self.policy.model, self.policy.body, self.policy.head)

    def _segment_pass(
        self,
        tokens: NDArray[np.int32],
        mask: NDArray[np.bool_],
        names: tuple[str, ...],
        view: TeacherView | None = None,
    ) -> SegmentPass | None:
        """Return the pass of rollouts in segments, or with common prefixes; None where they pass whole."""
        other: Any = None
        if view is not None and self.teacher is not None:
            other = partial(self._teacher_reference, self.teacher, view)
        elif "divergence" in names and self.divergence is not None:
            other = ReferenceModel(self.policy.reference, self._reference_head, self.divergence)
        shared = (lambda: self.carrier, self.head, self.chunk_rows(), tokens, mask)
        how: Any = {"length": self.segment_length, "sharing": self.sharing, "names": names, "reference": other}
        return pass_segments(*shared, **how)

    def _teacher_reference(self, teacher: Teacher, view: TeacherView) -> chunked.ReferenceLogits:
        hidden = teacher.hidden(view)
        mx.eval(hidden)
        return teacher.at(hidden)

    def _obstacle(self) -> str | None:
        """Return why rollouts with a common prefix compute it each; None if they share it."""
        if self.teacher is not None and self.teacher.hides_prompts:
            return "the teacher has several prompts for one of the policy"
        if self.policy.trained_head:
            return "the head of the policy is trained"
        return "compile is true" if self._compiled.on else self._carry_obstacle

    @cached_property
    def _carry_obstacle(self) -> str | None:
        """The reason why the states of the policy cannot be carried on; None if they can."""
        try:
            _ = self.carrier
        except ModelError as error:
            return str(error)
        return None

    def trace(
        self,
        tokens: NDArray[np.int32],
        mask: NDArray[np.bool_],
        names: tuple[str, ...] = ("logp",),
        others: NDArray[np.int64] | None = None,
        view: TeacherView | None = None,
    ) -> Trace:
        """Prepare quantities of tokens, and their gradient in the trainable parameters, joined.

        Args:
            tokens: [B, T + 1]
            mask: which targets are computed. [B, T]
            names: of the quantities: ``logp``, and ``entropy``, ``divergence`` or those of other tokens in the place of
                each, where they are wanted.
            others: these tokens; rollouts that have them pass whole. [B, T, C]
            view: the rollouts as the teacher sees them, where the divergence is from it.
        """
        if others is None and (segments := self._segment_pass(tokens, mask, names, view)) is not None:
            return _PolicySegments(self, segments)
        cut = self._shape.cut(tokens, mask, others)
        taught = self._teacher_states(view, cut[1].size)
        return Traced(names, cut[1].size, partial(self._compiled(self._gradient), *cut, *taught), int(mask.sum()))

    def training(self) -> AbstractContextManager[None]:
        """Use the code paths of layers of mlx-lm that have a gradient, without dropout, within this context."""
        return training_mode(self.policy.model) if isinstance(self.policy, LanguageModel) else nullcontext()

    def _gradient(self, tokens: mx.array, places: mx.array, *more: Any) -> tuple[Arrays, Arrays]:
        """Return quantities and the gradient; `more` is other tokens, the teacher, if any, and the coefficients."""
        *arrays, coefficients = more
        others, taught = self._split(coefficients, arrays)
        how = self._whole_gradient if self.policy.trained_head else self._chunked_gradient
        with self.training():
            other = self._reference(tokens, places, coefficients, taught)
            values, gradient = how(tokens, places, coefficients, other, others)
        return values, join_leaves(gradient)

    def _chunked_gradient(
        self,
        tokens: mx.array,
        places: mx.array,
        coefficients: Arrays,
        other: chunked.ReferenceLogits | None,
        others: mx.array | None,
    ) -> tuple[Arrays, Any]:
        policy = self.policy
        shared = (policy.body, self.head, tokens, places, self.chunk_rows())
        return chunked.backward(policy.model, *shared, coefficients, other, others)

    def _whole_gradient(
        self,
        tokens: mx.array,
        places: mx.array,
        coefficients: Arrays,
        other: chunked.ReferenceLogits | None,
        others: mx.array | None,
    ) -> tuple[Arrays, Any]:
        def whole() -> tuple[mx.array, Arrays]:
            hidden, targets = chunked.select_targets(self.policy.body(tokens[:, :-1]), tokens, places, others)
            values = chunked.quantities(self.head(hidden[None])[0], targets, list(coefficients), other)
            terms = [(slope * values[name]).sum() for name, slope in coefficients.items()]
            return sum(terms[1:], start=terms[0]), values

        (_, values), gradient = nn.value_and_grad(self.policy.model, whole)()
        return values, gradient

    def chunk_rows(self) -> int:
        """Return the hidden states of a chunk, by the size of the vocabulary."""
        return chunked.chunk_rows(self.vocabulary)

    @cached_property
    def vocabulary(self) -> int:
        """Number of tokens that the head has logits of."""
        return int(self.policy.head(self.policy.body(mx.array([[0]]))).shape[-1])


@dataclass(frozen=True)
class _PolicySegments:
    """Pass of a policy over segments, in training mode: with the code paths of layers that have a gradient."""

    forward: Forward
    sweep: SegmentPass

    def outputs(self) -> Columns:
        with self.forward.training():
            return self.sweep.outputs()

    def pull(self, coefficients: Columns) -> Arrays:
        with self.forward.training():
            return self.sweep.pull(coefficients)


@dataclass(frozen=True)
class RolloutPass:
    """Pass of rollouts through the policy.

    Attributes:
        tokens: [B, T + 1]
        mask: which targets are computed. [B, T]
        names: of what is computed of them.
        others: other tokens in the place of the targets; None if they are not read. [B, T, C]
        view: the rollouts as the teacher sees them, where the divergence is from it.
    """

    policy: Forward
    tokens: NDArray[np.int32]
    mask: NDArray[np.bool_]
    names: tuple[str, ...] = ("logp",)
    others: NDArray[np.int64] | None = None
    view: TeacherView | None = None

    def forward(self) -> Columns:
        """Compute the quantities alone. [N]"""
        return self.policy.flat(self.tokens, self.mask, self.names, others=self.others, view=self.view)()

    def trace(self) -> Trace:
        """Prepare the quantities and their gradient."""
        return self.policy.trace(self.tokens, self.mask, self.names, self.others, self.view)


@dataclass(frozen=True)
class TargetLayout:
    """Layout of the targets of a mask for a pass.

    Attributes:
        size: size for a given count. If rounded up, the first target fills the surplus places, whose coefficient is 0.
    """

    size: Callable[[int], int]

    def cut(
        self, tokens: NDArray[np.int32], mask: NDArray[np.bool_], others: NDArray[np.int64] | None = None
    ) -> tuple[mx.array, ...]:
        """Return tokens to the last that counts, and places of those that do, and others in these, if there are any.

        [B, T + 1], [B, T], [B, T, C] -> [B, T' + 1], [N], [N, C]
        """
        size = min(self.size(max(1, used_width(mask))), mask.shape[1])
        targets = np.flatnonzero(mask[:, :size])
        places = np.zeros(self.size(targets.size), dtype=np.int32)
        places[: targets.size] = targets
        cut = mx.array(tokens[:, : size + 1]), mx.array(places)
        if others is None:
            return cut
        chosen = others[:, :size].reshape(-1, others.shape[2])[places]
        return *cut, mx.array(chosen.astype(np.int32))


def unshared_prompt_remark(micro_batch: int, prompt: int, group_size: int) -> str | None:
    """Return a remark if micro-batches of one are too small for a group to share a prompt of so many tokens."""
    least = 1 + -(-LEAST_SAVED // max(1, prompt))
    if micro_batch > 1 or prompt < LEAST_TOKENS or least > group_size:
        return None
    return f"micro_batch is 1, so that each rollout computes its prompt by itself; of {least} or more, they share it"
