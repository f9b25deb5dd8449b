"""Estimate of the memory of a round: that of `karl_fast.train.memory`, and that of generation.

```text
weights    bytes of all parameters
adapter    trainable bytes * 6, as offline, and as much of a head of log Z; one more where the reference is a copy: of a
           custom policy, of an adapter to start from, or of a model that is trained as a whole
drawing    8 arrays of the logits of the rollouts drawn at a time, and the larger of
           their caches at their longest, and
           their caches at the longest prompt (at `max_context` with an environment), with a pass over `PREFILL` tokens
learning   activations and head of a micro-batch of the longest rollouts, whole or in segments; with `ReverseKL` or
           `ForwardKL` the hidden states of the reference, and its logits a chunk at a time; before that, where log Z is
           learned, a forward pass over the distinct prompts of a micro-batch
```

A round draws, then learns: it needs the larger of the two. The reference of adapters is the same model without them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import mlx.core as mx

from karl_fast._safe_text import in_gigabytes
from karl_fast.errors import UsageError
from karl_fast.modeling.chunked_logp import IN_FLIGHT, IN_FLIGHT_DIVERGENCE, chunk_rows
from karl_fast.modeling.memory import Activations
from karl_fast.modeling.segments import carry_states
from karl_fast.rl.generate import PREFILL
from karl_fast.rl.kv_cache import arrays
from karl_fast.rl.language_model import LanguageModel
from karl_fast.rl.log_z_trainer import head_parameters
from karl_fast.train.length_budget import SHORTEST, in_segments
from karl_fast.train.memory import largest, limit_bytes, of_model

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from karl_fast.rl.policy import Policy
    from karl_fast.rl.settings import Online
    from karl_fast.train.memory import TrainingMemory

BLOCK = 256
"""Tokens by which the caches of mlx-lm grow."""

COPIES = 1.35
"""Factor over the caches: some of their arrays are copied while rollouts are drawn."""

LOGITS = 8
"""Arrays of the logits' size that choosing a token holds at a time."""


@dataclass(frozen=True)
class Sizes:
    """The settings of a run that its memory depends on.

    Attributes:
        micro_batch, rollouts_in_flight, group_size, max_tokens, max_context: as in `Online`.
        groups: of a round, with those that come back.
        prompt: tokens of the longest.
        turns: True if an environment answers, so that caches of two turns are in memory together.
    """

    micro_batch: int
    rollouts_in_flight: int
    group_size: int
    max_tokens: int
    max_context: int
    groups: int
    prompt: int
    turns: bool

    @property
    def tokens(self) -> int:
        """Tokens of the longest rollout: an environment may say anything up to `max_context`."""
        return self.max_context if self.turns else min(self.max_context, self.prompt + self.max_tokens)

    @property
    def contexts(self) -> tuple[int, int]:
        """Rows and tokens of the contexts that are computed at a time before a turn."""
        tokens = self.tokens if self.turns else self.prompt
        return min(self.drawn, -(-PREFILL // tokens)), tokens

    @property
    def replaced(self) -> bool:
        """True if rollouts wait for the place of others."""
        return self.rollouts_in_flight < self.groups * self.group_size

    @property
    def learned(self) -> int:
        """Rollouts in a gradient computation at a time."""
        return min(self.micro_batch, self.groups * self.group_size)

    @property
    def drawn(self) -> int:
        """Rollouts that are drawn at a time."""
        return min(self.rollouts_in_flight, self.groups * self.group_size)


@dataclass(frozen=True)
class RoundNeed:
    """Bytes of a round, by use: drawing and learning come one after the other."""

    weights: int
    adapter: int
    drawing: int
    learning: int

    @property
    def total(self) -> int:
        """The most at a time."""
        return self.weights + self.adapter + max(self.drawing, self.learning)

    def __str__(self) -> str:
        return ", ".join(f"{name} {in_gigabytes(value)}" for name, value in vars(self).items() if value)


@dataclass(frozen=True)
class RoundMemory:
    """The arithmetic of a policy.

    Attributes:
        policy: as it will be trained.
        memory: its arithmetic as `karl-fast train` has it.
        own: True if it keeps a copy of itself as its reference.
        forward: rows and tokens a row to the bytes that a forward pass holds below the head.
        divergence: True if the objective reads the divergence from the reference's full distribution.
        log_z: True if a head of log Z is learned over the prompts.
    """

    policy: Policy
    memory: TrainingMemory
    own: bool
    forward: Callable[[int, int], int]
    divergence: bool = False
    log_z: bool = False

    def need(self, sizes: Sizes) -> RoundNeed:
        """Return the memory that a round of given sizes needs."""
        shape, tokens = self.memory.shape, sizes.tokens
        part = self.memory.need(sizes.learned, max(1, tokens - 1))
        whole = LOGITS * 4 * sizes.learned * tokens * shape.vocabulary if self.policy.trained_head else 0
        adapter = shape.adapter + self.own * shape.trainable + self.log_z * 6 * head_parameters(shape.hidden) * 4
        learning = part.activations + part.head + part.states + whole + self._reference(sizes.learned * tokens)
        return RoundNeed(shape.weights, adapter, self._drawing(sizes), max(learning, self._prompts(sizes)))

    def _prompts(self, sizes: Sizes) -> int:
        """Return the bytes of the pass over the distinct prompts of a micro-batch that a learned log Z takes."""
        rows = min(sizes.learned, sizes.groups)
        return self.log_z * (self.forward(rows, sizes.prompt) + 4 * rows * sizes.prompt * self.memory.shape.hidden)

    def _reference(self, tokens: int) -> int:
        """Return the bytes of the reference beside a micro-batch: hidden states and chunks of logits, in float32."""
        if not self.divergence:
            return 0
        shape = self.memory.shape
        chunk = 4 * min(chunk_rows(shape.vocabulary), tokens) * shape.vocabulary
        return 4 * tokens * shape.hidden + (IN_FLIGHT_DIVERGENCE - IN_FLIGHT) * chunk

    def _drawing(self, sizes: Sizes) -> int:
        """Return the bytes of the contexts during prefill, or of the turns after them.

        Where rows enter a batch that goes on, its caches are copied.
        """
        before, after = (
            int(COPIES * self.cache_bytes(sizes.drawn, tokens)) * (2 if sizes.turns or sizes.replaced else 1)
            for tokens in (sizes.contexts[1], sizes.tokens)
        )
        logits = LOGITS * 4 * sizes.drawn * self.memory.shape.vocabulary
        return logits + max(before + self.forward(*sizes.contexts), after)

    def cache_bytes(self, rows: int, tokens: int) -> int:
        """Return the bytes of caches of rollouts with so many tokens: keys and values, which grow, and states."""
        first, second = self._caches
        return rows * (first + (second - first) * (-(-tokens // BLOCK) - 1))

    @cached_property
    def _caches(self) -> tuple[int, int]:
        """Bytes of the caches of one row with one token, and with a block and one. Nothing is computed.

        The largest layer counts twice: attention copies what is in use of a layer's keys and values.
        """
        found = []
        for tokens in (1, BLOCK + 1):
            caches = self.policy.caches()
            self.policy.body(mx.zeros((1, tokens), mx.int32), cache=caches)
            layers = [sum(array.nbytes for array in arrays(one)) for one in caches]
            found.append(sum(layers) + max(layers, default=0))
        return found[0], max(found)

    def settled(self, sizes: Sizes) -> RoundMemory:
        """Return the estimate with a number for the tokens of a segment: those of a rollout where it fits whole.

        Raises:
            ModelError: the settings want segments, and the policy cannot pass in them.
        """
        learned = (sizes.learned, sizes.tokens)
        whole = max(SHORTEST, sizes.tokens)

        def fits(memory: TrainingMemory) -> bool:
            return replace(self, memory=memory).need(sizes).total <= limit_bytes(memory.settings)

        return replace(self, memory=in_segments(self.memory, [learned], whole, fits))

    def check(self, sizes: Sizes, settings: Online) -> RoundNeed:
        """Return the memory that a round needs.

        Raises:
            UsageError: it exceeds the limit; the hint names sizes that fit.
        """
        what = f"a round that draws {sizes.drawn:,} rollouts and learns from {sizes.learned:,} at a time"
        names = ("micro_batch", "rollouts_in_flight", "max_tokens", "max_context", "group_size")
        less = "; grad_checkpoint = true needs less" if self.memory.saves_by_checkpoints else ""
        return _checked(self.need, sizes, settings, what, names, less)

    def generation(self, sizes: Sizes) -> RoundNeed:
        """Return the memory that rollouts need without a learner."""
        return RoundNeed(self.memory.shape.weights, 0, self._drawing(sizes), 0)

    def check_generation(self, sizes: Sizes, settings: Online) -> RoundNeed:
        """Return the memory that rollouts need without a learner.

        Raises:
            UsageError: as `check`.
        """
        what = f"an evaluation that draws {sizes.drawn:,} rollouts at a time"
        return _checked(self.generation, sizes, settings, what, ("rollouts_in_flight", "max_tokens", "max_context"), "")


def _checked(
    need_of: Callable[[Sizes], RoundNeed],
    sizes: Sizes,
    settings: Online,
    what: str,
    names: Sequence[str],
    less: str,
) -> RoundNeed:
    """Return the memory that is needed; raise if it exceeds the limit, with the settings that can be less."""
    need, limit = need_of(sizes), limit_bytes(settings.training)
    if need.total <= limit:
        return need
    filled = " (max_context, up to which an environment may answer)" if sizes.turns else ""
    error = UsageError(
        f"{what}, of up to {sizes.tokens:,} tokens{filled}, needs about {in_gigabytes(need.total)} ({need}), and there"
        f" are {in_gigabytes(limit)}"
    )

    def fits(name: str, value: int) -> bool:
        return need_of(replace(sizes, **{name: value})).total <= limit  # type: ignore[arg-type]

    ways = [(name, largest(getattr(sizes, name) - 1, partial(fits, name))) for name in names]
    error.hint = f"{_alone([f'{name} = {value}' for name, value in ways if value > least(name, sizes)])}{less}"
    error.hint += "; memory_limit says how many GB there are"
    raise error


def _alone(ways: Sequence[str]) -> str:
    """Return the settings that fit if the others stay."""
    if not ways:
        return "no setting alone makes it fit"
    return f"{', '.join(ways)}: {'each alone' if ways[1:] else 'it'} fits"


def least(name: str, sizes: Sizes) -> int:
    """Return the largest value of a setting that is too small."""
    return {"max_context": sizes.prompt, "group_size": 1}.get(name, 0)


def sizes_of(settings: Online, prompt: int) -> Sizes:
    """Return the sizes of a run, given the tokens of its longest prompt."""
    return Sizes(
        micro_batch=settings.micro_batch,
        rollouts_in_flight=settings.rollouts_in_flight,
        group_size=settings.group_size,
        max_tokens=settings.max_tokens,
        max_context=settings.max_context,
        groups=settings.prompts_per_round + settings.replay.groups,
        prompt=prompt,
        turns=settings.environment is not None,
    )


def of_policy(
    policy: Policy, settings: Online, config: dict[str, Any], *, divergence: bool = False, log_z: bool = False
) -> RoundMemory:
    """Return the estimate for a policy and the configuration of its adapter; the flags are those of `RoundMemory`."""
    vocabulary = int(policy.head(policy.body(mx.array([[0]]))).shape[-1])
    layers = config.get("num_layers") or len(getattr(policy.model, "layers", ())) or 1
    carrier = (
        partial(carry_states, policy.model, policy.body, policy.head) if isinstance(policy, LanguageModel) else None
    )
    memory = of_model(policy.model, policy.body, vocabulary, settings.training, layers, carrier)
    passes = Activations(policy.model, policy.body, layers=layers, hidden=memory.shape.hidden, checkpoint=False)
    own = "num_layers" not in config or getattr(policy, "kept", None) is not None
    return RoundMemory(policy, memory, own, passes.forward, divergence, log_z)
