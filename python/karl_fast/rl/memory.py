"""The memory plan of a round of `karl-fast rl`: that of learning, and that of generation.

```text
weights    bytes of all parameters
adapter    trainable bytes * 6, as offline, and as much of a head of log Z; one more where the reference is a copy: of a
           custom policy, of an adapter to start from, or of a model that is trained as a whole
drawing    8 arrays of the logits of the rollouts drawn at a time, and the larger of
           their caches at their longest, and
           their caches at the longest prompt (at `max_context` with an environment), with a pass over `PREFILL` tokens
learning   activations and head of a micro-batch of the longest rollouts, whole or in segments; with `ReverseKL` or
           `ForwardKL` the hidden states of the reference, and its logits a chunk at a time; before that, where log Z is
           learned, a forward pass over the distinct prompts of a micro-batch; with a teacher a forward pass of it over
           its view of a micro-batch, `PREFILL` tokens at a time
teacher    its weights, where it is another model
```

A round draws, then learns: it needs the larger of the two. The reference of adapters is the same model without them.
The plan of a gradient is that of `karl_fast.modeling.memory`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import mlx.core as mx
from mlx.utils import tree_flatten

from karl_fast._safe_text import in_gigabytes
from karl_fast.modeling.chunked_logp import IN_FLIGHT, IN_FLIGHT_DIVERGENCE
from karl_fast.modeling.graph_memory import trace_memory
from karl_fast.modeling.memory import (
    SHORTEST,
    Activations,
    choose_segments,
    chunk_bytes,
    estimate_training,
    largest,
    limit_bytes,
    refuse_excess,
)
from karl_fast.modeling.parameters import flatten_tree, locate_leaf
from karl_fast.modeling.segments import carry_states
from karl_fast.rl.generate import PREFILL
from karl_fast.rl.kv_cache import arrays
from karl_fast.rl.language_model import LanguageModel
from karl_fast.rl.log_z import head_parameters
from karl_fast.rl.policy import is_step_policy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from karl_fast.modeling.memory import TrainingMemory
    from karl_fast.rl.policy import StepPolicy, TokenPolicy
    from karl_fast.rl.settings import Online
    from karl_fast.rl.steps import StepForward

BLOCK = 256
"""Tokens by which the caches of mlx-lm grow (`KVCache.step`)."""

COPIES = 1.35
"""Factor over the caches: some of their arrays are copied while rollouts are drawn."""

LOGITS = 8
"""Arrays of the logits' size that choosing a token holds at a time."""


@dataclass(frozen=True)
class Sizes:
    """The settings of a run that its memory depends on.

    Attributes:
        micro_batch, rollouts_in_flight, group_size, max_tokens, max_context: as in `Online`.
        groups: of a round, with replayed ones.
        tree: rollouts of a tree at most: 1 where none calls others.
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
    tree: int = 1

    @classmethod
    def of_run(cls, settings: Online, prompt: int, policy: TokenPolicy | StepPolicy | None = None) -> Sizes:
        """Return the sizes of a run, given the tokens of its longest prompt; of a policy that draws in steps, too."""
        if policy is not None and is_step_policy(policy):
            states = policy.width * (1 + (settings.steps or policy.steps))
            settings = replace(settings, max_tokens=states, max_context=prompt + states, environment=None)
        return cls(
            micro_batch=settings.micro_batch,
            rollouts_in_flight=settings.rollouts_in_flight,
            group_size=settings.group_size,
            max_tokens=settings.max_tokens,
            max_context=settings.max_context,
            groups=settings.prompts_per_round + settings.replay.groups,
            prompt=prompt,
            turns=settings.environment is not None,
            tree=sum(settings.max_children**depth for depth in range(settings.max_depth + 1)),
        )

    @property
    def rollouts(self) -> int:
        """Rollouts of a round at most."""
        return self.groups * self.group_size * self.tree

    @property
    def tokens(self) -> int:
        """Tokens of the longest rollout: an environment may answer with anything up to `max_context`."""
        return self.max_context if self.turns else min(self.max_context, self.prompt + self.max_tokens)

    @property
    def contexts(self) -> tuple[int, int]:
        """Rows and tokens of the contexts that are computed at a time before a turn."""
        tokens = self.tokens if self.turns else self.prompt
        return min(self.drawn, -(-PREFILL // tokens)), tokens

    @property
    def replaced(self) -> bool:
        """True if rollouts wait for the place of others."""
        return self.rollouts_in_flight < self.rollouts

    @property
    def learned(self) -> int:
        """Rollouts in a gradient computation at a time."""
        return min(self.micro_batch, self.rollouts)

    @property
    def drawn(self) -> int:
        """Rollouts that are drawn at a time."""
        return min(self.rollouts_in_flight, self.rollouts)

    def least(self, name: str) -> int:
        """Return the largest value of a setting that is too small for any round."""
        return {"max_context": self.prompt, "group_size": 1}.get(name, 0)


@dataclass(frozen=True)
class RoundNeed:
    """Bytes of a round, by use: drawing and learning come one after the other."""

    weights: int
    adapter: int
    drawing: int
    learning: int
    teacher: int = 0

    @property
    def total(self) -> int:
        """Maximum bytes at a time."""
        return self.weights + self.adapter + self.teacher + max(self.drawing, self.learning)

    def __str__(self) -> str:
        return ", ".join(f"{name} {in_gigabytes(value)}" for name, value in vars(self).items() if value)


@dataclass(frozen=True)
class TeacherMemory:
    """Memory plan of a teacher.

    Attributes:
        weights: bytes of its weights; 0 where it is the policy itself.
        hidden: size of its hidden states.
        longer: tokens by which its prompts may be longer than those of the policy; may be negative.
        forward: rows and tokens a row to the bytes that a forward pass holds below the head.
        cache_bytes: rows and tokens to the bytes of its caches.
    """

    weights: int
    hidden: int
    longer: int
    forward: Callable[[int, int], int]
    cache_bytes: Callable[[int, int], int]

    def need(self, rows: int, tokens: int) -> tuple[int, int]:
        """Return the bytes of its pass over rollouts, and of the hidden states that it leaves."""
        width = max(1, tokens + self.longer)
        if width > PREFILL:
            taken = self.forward(1, PREFILL) + int(COPIES * self.cache_bytes(1, width))
        else:
            taken = self.forward(min(rows, PREFILL // width), width)
        return taken, 4 * rows * tokens * self.hidden


@dataclass(frozen=True)
class RoundMemory:
    """Memory plan of the rounds of a policy.

    Attributes:
        policy: as it will be trained.
        memory: the plan of its gradient.
        own: True if it keeps a copy of itself as its reference.
        forward: rows and tokens a row to the bytes that a forward pass holds below the head.
        divergence: True if the objective reads the divergence from the reference's full distribution.
        log_z: True if a head of log Z is learned over the prompts.
        teacher: the plan of the teacher; None without one.
    """

    policy: TokenPolicy
    memory: TrainingMemory
    own: bool
    forward: Callable[[int, int], int]
    divergence: bool = False
    log_z: bool = False
    teacher: TeacherMemory | None = None

    def need(self, sizes: Sizes) -> RoundNeed:
        """Return the memory that a round of given sizes needs."""
        shape, tokens = self.memory.shape, sizes.tokens
        gradient = self.memory.need(sizes.learned, max(1, tokens - 1))
        # The gradient of a trained head takes all logits at once.
        logits = LOGITS * 4 * sizes.learned * tokens * shape.vocabulary if self.policy.trained_head else 0
        adapter = shape.adapter + self.own * shape.trainable + self.log_z * 6 * head_parameters(shape.hidden) * 4
        learning = gradient.activations + gradient.head + gradient.states + logits
        learning += self._reference_bytes(sizes.learned * tokens)
        before = self._prompt_bytes(sizes)
        if self.teacher is not None:
            taken, left = self.teacher.need(sizes.learned, tokens)
            learning, before = learning + self.divergence * left, max(before, taken + left)
        weights = 0 if self.teacher is None else self.teacher.weights
        return RoundNeed(shape.weights, adapter, self._drawing_bytes(sizes), max(learning, before), weights)

    def _prompt_bytes(self, sizes: Sizes) -> int:
        """Return the bytes of the pass over the distinct prompts of a micro-batch, for a learned log Z."""
        rows = min(sizes.learned, sizes.groups)
        return self.log_z * (self.forward(rows, sizes.prompt) + 4 * rows * sizes.prompt * self.memory.shape.hidden)

    def _reference_bytes(self, tokens: int) -> int:
        """Return the bytes of the reference for a micro-batch: hidden states and chunks of logits, in float32."""
        if not self.divergence:
            return 0
        shape = self.memory.shape
        states = 0 if self.teacher is not None else 4 * tokens * shape.hidden
        return states + (IN_FLIGHT_DIVERGENCE - IN_FLIGHT) * chunk_bytes(shape, tokens)

    def _drawing_bytes(self, sizes: Sizes) -> int:
        """Return the bytes of the contexts during prefill, or of the turns after them.

        Where rows enter a running batch, its caches are copied.
        """
        copies = 2 if sizes.turns or sizes.replaced else 1
        prefill, turns = (
            copies * int(COPIES * self.cache_bytes(sizes.drawn, tokens)) for tokens in (sizes.contexts[1], sizes.tokens)
        )
        logits = LOGITS * 4 * sizes.drawn * self.memory.shape.vocabulary
        return logits + max(prefill + self.forward(*sizes.contexts), turns)

    def cache_bytes(self, rows: int, tokens: int) -> int:
        """Return the bytes of caches of rollouts with so many tokens: keys and values, which grow, and states."""
        return _cache_bytes(self._caches, rows, tokens)

    @cached_property
    def _caches(self) -> tuple[int, int]:
        return measure_caches(self.policy)

    def settle_segments(self, sizes: Sizes) -> RoundMemory:
        """Return the plan with a number for the tokens of a segment: those of a rollout where it fits whole.

        Raises:
            ModelError: the settings want segments, and the policy cannot pass in them.
        """

        def fits(memory: TrainingMemory) -> bool:
            return replace(self, memory=memory).need(sizes).total <= memory.limit

        whole = max(SHORTEST, sizes.tokens)
        return replace(self, memory=choose_segments(self.memory, [(sizes.learned, sizes.tokens)], whole, fits))

    def check(self, sizes: Sizes, settings: Online) -> RoundNeed:
        """Return the memory that a round needs.

        Raises:
            UsageError: it exceeds the limit; the hint names sizes that fit.
        """
        what = f"a round that draws {sizes.drawn:,} rollouts and learns from {sizes.learned:,} at a time"
        names = ("micro_batch", "rollouts_in_flight", "max_tokens", "max_context", "group_size")
        less = "; grad_checkpoint = true needs less" if self.memory.saves_by_checkpoints else ""
        return _check_round(self.need, sizes, settings, what, names, less)

    def generation_need(self, sizes: Sizes) -> RoundNeed:
        """Return the memory that rollouts need without a learner."""
        return RoundNeed(self.memory.shape.weights, 0, self._drawing_bytes(sizes), 0)

    def check_generation(self, sizes: Sizes, settings: Online) -> RoundNeed:
        """Return the memory that rollouts need without a learner.

        Raises:
            UsageError: as `check`.
        """
        what = f"an evaluation that draws {sizes.drawn:,} rollouts at a time"
        names = ("rollouts_in_flight", "max_tokens", "max_context")
        return _check_round(self.generation_need, sizes, settings, what, names, "")


def measure_caches(policy: TokenPolicy) -> tuple[int, int]:
    """Return the bytes of the caches of one row with one token, and with a block and one. Nothing is computed.

    The largest layer counts twice: attention copies what is in use of a layer's keys and values.
    """
    sizes = []
    for tokens in (1, BLOCK + 1):
        caches = policy.caches()
        policy.body(mx.zeros((1, tokens), mx.int32), cache=caches)
        layers = [sum(array.nbytes for array in arrays(cache)) for cache in caches]
        sizes.append(sum(layers) + max(layers, default=0))
    return sizes[0], max(sizes)


def _cache_bytes(measured: tuple[int, int], rows: int, tokens: int) -> int:
    first, second = measured
    return rows * (first + (second - first) * (-(-tokens // BLOCK) - 1))


def _check_round(
    need_of: Callable[[Sizes], RoundNeed],
    sizes: Sizes,
    settings: Online,
    what: str,
    names: Sequence[str],
    less: str,
) -> RoundNeed:
    """Return the memory that is needed; raise if it exceeds the limit, with the settings that can be less."""
    need, limit = need_of(sizes), limit_bytes(settings.training)
    filled = " (max_context, up to which an environment may answer)" if sizes.turns else ""

    def fits(name: str, value: int) -> bool:
        return need_of(replace(sizes, **{name: value})).total <= limit  # type: ignore[arg-type]

    def hint() -> str:
        values = {name: largest(getattr(sizes, name) - 1, partial(fits, name)) for name in names}
        alone = [f"{name} = {value}" for name, value in values.items() if value > sizes.least(name)]
        ways = f"{', '.join(alone)}: {'each alone' if alone[1:] else 'it'} fits"
        return f"{ways if alone else 'no setting alone makes it fit'}{less}; memory_limit says how many GB there are"

    refuse_excess(f"{what}, of up to {sizes.tokens:,} tokens{filled}", need, limit, hint)
    return need


def estimate_teacher(policy: TokenPolicy, longer: int, *, own: bool) -> TeacherMemory:
    """Return the plan of a teacher whose prompts are so many tokens longer; `own` for the policy itself."""
    hidden = int(policy.body(mx.array([[0]])).shape[-1])
    layers = len(getattr(policy.model, "layers", ())) or 1
    passes = Activations(policy.model, policy.body, layers=layers, hidden=hidden, checkpoint=False)
    leaves: Any = tree_flatten(policy.model.parameters())
    weights = 0 if own else sum(array.nbytes for _, array in leaves)
    return TeacherMemory(weights, hidden, longer, passes.forward, partial(_cache_bytes, measure_caches(policy)))


def estimate_student(policy: TokenPolicy, config: dict[str, Any], settings: Online) -> TeacherMemory:
    """Return the plan of a student: its weights and its optimizer stay beside those of the policy.

    Its steps come after those of the policy, and take what these have given back.
    """
    plan = estimate_teacher(policy, 0, own=False)
    shape = estimate_round(policy, settings, config).memory.shape
    return replace(plan, weights=plan.weights + shape.adapter)


def estimate_round(
    policy: TokenPolicy,
    settings: Online,
    config: dict[str, Any],
    *,
    divergence: bool = False,
    log_z: bool = False,
    teacher: TeacherMemory | None = None,
) -> RoundMemory:
    """Return the plan for a policy and the configuration of its adapter; the flags are those of `RoundMemory`."""
    vocabulary = int(policy.head(policy.body(mx.array([[0]]))).shape[-1])
    layers = config.get("num_layers") or len(getattr(policy.model, "layers", ())) or 1
    carrier = (
        partial(carry_states, policy.model, policy.body, policy.head) if isinstance(policy, LanguageModel) else None
    )
    memory = estimate_training(policy.model, policy.body, vocabulary, settings.training, layers, carrier)
    passes = Activations(policy.model, policy.body, layers=layers, hidden=memory.shape.hidden, checkpoint=False)
    own = "num_layers" not in config or getattr(policy, "kept", None) is not None
    return RoundMemory(policy, memory, own, passes.forward, divergence, log_z, teacher)


@dataclass(frozen=True)
class StepMemory:
    """Memory plan of the rounds of a policy that draws in steps.

    Each step of a rollout is a row of the network: a micro-batch has as many rows as its rollouts have steps.

    Attributes:
        forward: that is trained.
        weights: bytes of all parameters.
        adapter: bytes of trained parameters, of their gradients and of the optimizer, and of a copy as the reference.
        limit: in bytes.
    """

    forward: StepForward
    weights: int
    adapter: int
    limit: int

    def need(self, sizes: Sizes) -> RoundNeed:
        """Return the memory that a round of given sizes needs."""
        return replace(self.generation_need(sizes), adapter=self.adapter, learning=self._gradient_bytes * sizes.learned)

    def generation_need(self, sizes: Sizes) -> RoundNeed:
        """Return the memory that rollouts need without a learner."""
        states = 4 * sizes.drawn * sizes.tokens
        return RoundNeed(self.weights, 0, self._forward_bytes * sizes.drawn + states, 0)

    def check(self, sizes: Sizes, settings: Online) -> RoundNeed:
        """Return the memory that a round needs.

        Raises:
            UsageError: it exceeds the limit; the hint names sizes that fit.
        """
        what = f"a round that draws {sizes.drawn:,} rollouts and learns from {sizes.learned:,} at a time"
        return _check_round(self.need, sizes, settings, what, ("micro_batch", "rollouts_in_flight", "group_size"), "")

    def check_generation(self, sizes: Sizes, settings: Online) -> RoundNeed:
        """Return the memory that rollouts need without a learner.

        Raises:
            UsageError: as `check`.
        """
        what = f"an evaluation that draws {sizes.drawn:,} rollouts at a time"
        return _check_round(self.generation_need, sizes, settings, what, ("rollouts_in_flight",), "")

    @cached_property
    def _forward_bytes(self) -> int:
        """Bytes of the score of one rollout, by the graph, and of the noise and scores of a step in float64."""
        policy = self.forward.policy
        names = self.forward.quantities[:2]
        peak = self._rollout_bytes(lambda *batch: [*self.forward.compute(names, None, *batch).values()])
        return peak + 4 * 8 * policy.width * self.forward.vocabulary

    @cached_property
    def _gradient_bytes(self) -> int:
        """Bytes of the gradient of one rollout."""

        def gradient(*batch: mx.array) -> list[mx.array]:
            ones = {name: mx.ones(1) for name in self.forward.quantities}
            values, vectors = self.forward.gradient(batch, ones)
            return [*values.values(), *vectors.values()]

        return self._rollout_bytes(gradient)

    def _rollout_bytes(self, function: Callable[..., list[mx.array]]) -> int:
        """Return the bytes that one more rollout takes, by the graphs of a few and of twice as many."""
        policy, few = self.forward.policy, 2
        parameters = [
            (*locate_leaf(policy.model, name), array) for name, array in flatten_tree(policy.model.parameters()).items()
        ]
        peaks = []
        try:
            for rows in (few, 2 * few):
                peaks.append(trace_memory(function, *self.forward.blank(rows))[0])
        finally:  # tracing a gradient replaces the parameters
            for holder, key, array in parameters:
                holder[key] = array
        return -(-(peaks[1] - peaks[0]) // few)


def estimate_steps(forward: StepForward, settings: Online, config: dict[str, Any]) -> StepMemory:
    """Return the plan for a policy that draws in steps, and the configuration of its adapter."""
    model = forward.policy.model
    weights = sum(array.nbytes for array in flatten_tree(model.parameters()).values())
    trainable = sum(array.nbytes for array in flatten_tree(model.trainable_parameters()).values())
    own = "num_layers" not in config or getattr(forward.policy, "kept", None) is not None
    return StepMemory(forward, weights, (6 + own) * trainable, limit_bytes(settings.training))
