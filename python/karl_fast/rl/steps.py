"""Rollouts of a policy that draws in steps, and the log-probabilities and gradients of those steps.

```text
tokens of a rollout   prompt (P) | x_0 (L) | x_1 (L) | ... | x_S (L)
spans                 the last token of x_1, of x_2, ..., of x_S: one for each step, which is what an objective sees
```

The place of a span says which step it is, so that a batch has all that a score needs: the states before and after. Both
are scored by the law that drew them, at the temperature that drew them. The randomness of a rollout is a function of
its key alone.
"""

from __future__ import annotations

import hashlib
from collections import deque
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np

from karl_fast.diffusion.bound import Noisy
from karl_fast.modeling.chunked_logp import Traced
from karl_fast.modeling.optimizer import join_leaves
from karl_fast.rl.generate import Turn
from karl_fast.rl.logprobs import LogProbabilities

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from karl_fast.modeling.chunked_logp import Arrays, Columns
    from karl_fast.rl.generate import Answer, Draws, TurnRequest
    from karl_fast.rl.policy import StepPolicy

GREEDY = 1e4
"""Factor of the logits at temperature 0: the likeliest token wins by far, and sums stay finite in float32."""


@dataclass(frozen=True, eq=False)
class Trajectory(Turn):
    """Turn of a policy that draws in steps: all states, from x_0.

    Attributes:
        width: tokens of a state.
    """

    width: int = 0

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """Return the last token of the state after each step."""
        return tuple((end - 1, end) for end in range(2 * self.width, len(self.tokens) + 1, self.width))

    def states(self, first: str) -> tuple[str, ...]:
        """Return the state before each step: its number, and the hash of its tokens."""
        parts = self.tokens.reshape(-1, self.width)[:-1]
        return tuple(f"{number} {_hash(part)} {first}" for number, part in enumerate(parts))


def _hash(state: NDArray[np.int32]) -> str:
    return hashlib.blake2b(state.astype("<i4").tobytes(), digest_size=8).hexdigest()


@dataclass(frozen=True, eq=False)
class WholeAnswer(Turn):
    """Turn of a policy that draws in steps, of which only the last state is kept: it has one score.

    Attributes:
        width: tokens of a state.
    """

    width: int = 0

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """Return the last token."""
        return ((self.width - 1, self.width),)


class StepDecoder:
    """Draws trajectories of a policy."""

    def __init__(self, policy: StepPolicy, temperature: float, steps: int, *, bound: bool = False) -> None:
        """Set a temperature from 0 on, and the number of steps; with `bound` an answer has one score, its bound.

        At 0 each position takes its likeliest token, and log-probabilities are those of temperature 1.
        """
        self.policy, self.steps, self.bound = policy, steps, bound
        self._inverse, self._sharpness = 1 / (temperature or 1), 1.0 if temperature else GREEDY

    def draws(self, rows: int, *, overlap: bool, on_tokens: Callable[[int], None]) -> Draws:
        """Return what draws trajectories, at most so many at a time; nothing overlaps, as each has one turn."""
        return partial(self._draw_all, rows, on_tokens)

    def _draw_all(
        self, rows: int, on_tokens: Callable[[int], None], asks: Sequence[TurnRequest], answer: Answer
    ) -> None:
        waiting = deque(asks)
        while waiting:
            batch = [waiting.popleft() for _ in range(min(rows, len(waiting)))]
            for ask, turn in zip(batch, self.draw(batch, on_tokens), strict=True):
                answer(ask, turn)

    def draw(self, asks: Sequence[TurnRequest], on_tokens: Callable[[int], None] = lambda _: None) -> Sequence[Turn]:
        """Draw a trajectory for each prompt; `on_tokens` is called after each step with the number of rows."""
        policy, total = self.policy, self.steps
        generators = [np.random.default_rng(ask.key) for ask in asks]
        prompts = mx.array(np.array([ask.tokens for ask in asks], dtype=np.int32))
        states = [policy.law.start(policy.width, generators)]
        logp, entropy = [], []
        for number in range(total):
            before, numbers = mx.array(states[-1]), mx.full(len(asks), number, dtype=mx.int32)
            logits = policy.logits(prompts, before, numbers, total).astype(mx.float32) * self._inverse
            # Copied, because the buffer of the array is reused.
            states.append(policy.law.draw(np.array(logits), states[-1], number, total, generators, self._sharpness))
            logp.append(policy.law.logp(logits, before, mx.array(states[-1]), numbers, total))
            entropy.append(policy.law.entropy(logits, before, numbers, total))
            mx.eval(logp[-1], entropy[-1])
            on_tokens(len(asks))
        if self.bound:
            return self._score_answers(prompts, states[-1], entropy)
        tokens = np.concatenate(states, axis=1)
        columns = zip(tokens, np.array(mx.stack(logp, axis=1)), np.array(mx.stack(entropy, axis=1)), strict=True)
        return [Trajectory(*column, ended=True, width=policy.width) for column in columns]

    def _score_answers(
        self, prompts: mx.array, answers: NDArray[np.int32], entropy: list[mx.array]
    ) -> list[WholeAnswer]:
        """Return answers with their bound, and the sum of the entropies of their steps."""
        policy: Any = self.policy
        noisy = policy.copy_with_noise(np.array(prompts), answers)
        score = np.array(policy.bound(noisy, 1 / self._inverse))
        nats = np.array(mx.stack(entropy, axis=1).sum(axis=1))
        columns = zip(answers, score[:, None], nats[:, None], strict=True)
        return [WholeAnswer(*column, ended=True, width=policy.width) for column in columns]


@dataclass
class NoSharing:
    """Sharing of prefixes, which steps do not have."""

    def remark(self) -> None:
        """Return no remark."""


@dataclass
class StepForward(LogProbabilities):
    """A policy's log-probabilities of steps, and their gradients; to a learner as `karl_fast.rl.logprobs.Forward`.

    Attributes:
        policy: of the steps.
        temperature: that of rollouts.
        steps: S, of a rollout.
        divergence: direction of the divergence from the reference; None for none.
    """

    policy: StepPolicy
    temperature: float
    steps: int
    divergence: str | None = None
    teacher: None = None
    sharing: NoSharing = field(default_factory=NoSharing)

    @cached_property
    def vocabulary(self) -> int:
        """Number of tokens that the network has logits of."""
        prompt, state = (mx.zeros((1, width), mx.int32) for width in (self.policy.prompt_width, self.policy.width))
        return int(self.policy.logits(prompt, state, mx.zeros(1, mx.int32), self.steps).shape[-1])

    def flat(
        self,
        tokens: NDArray[np.int32],
        mask: NDArray[np.bool_],
        names: tuple[str, ...] = ("logp",),
        *,
        reference: bool = False,
        others: None = None,
        view: None = None,
    ) -> Callable[[], Columns]:
        """Start quantities of the steps of a mask, by name. [B, T + 1], [B, T] -> [N]

        Other tokens and the view of a teacher are of policies that draw tokens.
        """
        batch = self.cut(tokens, mask)
        with self.policy.reference() if reference else nullcontext():
            values = self.compute(names, self._reference_logits(names, batch), *batch)
            mx.async_eval(values)
        return lambda: {name: np.array(value) for name, value in values.items()}

    def trace(
        self,
        tokens: NDArray[np.int32],
        mask: NDArray[np.bool_],
        names: tuple[str, ...] = ("logp",),
        others: None = None,
        view: None = None,
    ) -> Traced:
        """Prepare quantities of steps, and their gradient in the trainable parameters, joined."""
        batch = self.cut(tokens, mask)
        return Traced(names, int(mask.sum()), partial(self.gradient, batch))

    def training(self) -> AbstractContextManager[None]:
        """Return an empty context: there are no other code paths for a gradient."""
        return nullcontext()

    @property
    def quantities(self) -> tuple[str, ...]:
        """Names of what can be computed."""
        return ("logp", "entropy") if self.divergence is None else ("logp", "entropy", "divergence")

    def blank(self, rollouts: int) -> tuple[mx.array, ...]:
        """Return a batch of so many rollouts, of zeros."""
        rows, policy = rollouts * self.steps, self.policy
        widths = (policy.prompt_width, policy.width, policy.width)
        states = [mx.zeros((rows, width), mx.int32) for width in widths]
        return (*states, mx.zeros(rows, mx.int32))

    def cut(self, tokens: NDArray[np.int32], mask: NDArray[np.bool_]) -> tuple[mx.array, ...]:
        """Return prompts, states before and after each step of a mask, and the numbers of the steps.

        [B, T + 1], [B, T] -> [N, P], [N, L], [N, L], [N]
        """
        width, prompt = self.policy.width, self.policy.prompt_width
        rows, places = np.nonzero(mask)
        ends = places + 2  # a place of the mask is that of the token before
        columns = ends[:, None] + np.arange(-2 * width, 0)
        states = tokens[rows[:, None], columns]
        numbers = (ends - prompt) // width - 2
        parts = (tokens[rows, :prompt], states[:, :width], states[:, width:], numbers.astype(np.int32))
        return tuple(map(mx.array, parts))

    def _logits(self, prompts: mx.array, states: mx.array, numbers: mx.array) -> mx.array:
        logits = self.policy.logits(prompts, states, numbers, self.steps).astype(mx.float32)
        return logits * (1 / self.temperature)

    def _reference_logits(self, names: tuple[str, ...], batch: tuple[mx.array, ...]) -> mx.array | None:
        if "divergence" not in names:
            return None
        with self.policy.reference():
            return mx.stop_gradient(self._logits(batch[0], batch[1], batch[3]))

    def compute(self, names: tuple[str, ...], other: mx.array | None, *batch: mx.array) -> Arrays:
        """Compute quantities of steps; `other` are the logits of the reference, for the divergence. -> [N]"""
        law, (prompts, states, following, numbers) = self.policy.law, batch
        logits = self._logits(prompts, states, numbers)
        values = {"logp": law.logp(logits, states, following, numbers, self.steps)}
        if "entropy" in names:
            values["entropy"] = law.entropy(logits, states, numbers, self.steps)
        if other is not None:
            pair = (other, logits) if self.divergence == "forward" else (logits, other)
            values["divergence"] = law.divergence(*pair, states, numbers, self.steps)
        return values

    def gradient(self, batch: tuple[mx.array, ...], coefficients: Arrays) -> tuple[Arrays, Arrays]:
        """Return quantities of steps, and the gradient of ``sum(coefficient * quantity)``, joined."""
        names = tuple(coefficients)
        other = self._reference_logits(names, batch)

        def weighed() -> tuple[mx.array, Arrays]:
            values = self.compute(names, other, *batch)
            terms: Any = [(slope * values[name]).sum() for name, slope in coefficients.items()]
            return sum(terms[1:], start=terms[0]), values

        (_, values), gradient = nn.value_and_grad(self.policy.model, weighed)()
        return values, join_leaves(gradient)


@dataclass
class BoundForward(StepForward):
    """The evidence bound of whole answers, in the place of the log-probabilities of their steps."""

    def cut(self, tokens: NDArray[np.int32], mask: NDArray[np.bool_]) -> tuple[mx.array, ...]:
        """Return noisy copies of the answers of a mask, the same in each pass."""
        policy: Any = self.policy
        rows, places = np.nonzero(mask)
        answers = tokens[rows[:, None], places[:, None] + np.arange(2 - policy.width, 2)]
        return tuple(policy.copy_with_noise(tokens[rows, : policy.prompt_width], answers))

    def compute(self, names: tuple[str, ...], other: mx.array | None, *batch: mx.array) -> Arrays:
        """Compute the bound of each answer, in nats a position. -> [N]"""
        policy: Any = self.policy
        return {"logp": policy.bound(Noisy(*batch), self.temperature)}

    def blank(self, rollouts: int) -> tuple[mx.array, ...]:
        """Return a batch of so many rollouts, of zeros."""
        policy: Any = self.policy
        zeros = (np.zeros((rollouts, width), np.int32) for width in (policy.prompt_width, policy.width))
        return tuple(policy.copy_with_noise(*zeros))

    @property
    def quantities(self) -> tuple[str, ...]:
        """Names of what can be computed."""
        return ("logp",)
