"""The memory that a run will need, before it needs it.

```text
weights      bytes of all parameters
adapter      trainable bytes * 6: the value, its successor, the gradient and its sum, two moments of Adam; the sum is in
             float32
activations  by the graph of the gradient: what it holds at its peak, with what MLX allocates ahead
head         12 chunks of logits, and B * T * E * 8 of slopes
```

Rows that pass in segments take activations and head of one segment, and the states of all of them with their
cotangents (`karl_fast.modeling.memory`).

Activations come from `karl_fast.modeling.memory`, which has MLX build the graph of a batch without
computing it. The graph holds the states that a recurrent layer leaves for each token, attention's scores and the width
of a feed-forward part, for any architecture.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import mlx.core as mx

from karl_fast._safe_text import in_gigabytes
from karl_fast.errors import ModelError, UsageError
from karl_fast.modeling.chunked_logp import IN_FLIGHT, chunk_rows
from karl_fast.modeling.load import adapt, load, require
from karl_fast.modeling.memory import Activations, SweepMemory
from karl_fast.modeling.parameters import flatten_tree
from karl_fast.train.batching import MULTIPLE
from karl_fast.train.model_logprobs import Scorer
from karl_fast.train.settings import AUTO, GB

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from karl_fast.modeling.memory import SweepNeed
    from karl_fast.modeling.segments import StatefulModel
    from karl_fast.train.settings import Training

    Sweeps = Callable[[int, int, int], SweepNeed]


@dataclass(frozen=True)
class ModelSizes:
    """Sizes of a model that the arithmetic takes.

    Attributes:
        hidden: size of a hidden state.
        vocabulary: logits a token.
        weights: bytes of all parameters.
        trainable: bytes of those that are trained.
        wider: bytes that a sum of gradients in float32 takes beyond those.
    """

    hidden: int
    vocabulary: int
    weights: int
    trainable: int
    wider: int = 0

    @property
    def adapter(self) -> int:
        """Bytes of trained parameters, of their gradients and of the optimizer."""
        return 6 * self.trainable + self.wider


@dataclass(frozen=True)
class Need:
    """Bytes, by use."""

    weights: int
    adapter: int
    activations: int
    head: int
    states: int = 0

    @property
    def total(self) -> int:
        """Sum of all parts."""
        return sum(vars(self).values())

    def __str__(self) -> str:
        return ", ".join(f"{name} {in_gigabytes(value)}" for name, value in vars(self).items() if value)


@dataclass(frozen=True)
class TrainingMemory:
    """The arithmetic of one model and one way to train it.

    Attributes:
        shape: of the model.
        activations: rows and tokens a row to the bytes that a gradient holds below the head.
        settings: the limit, and the maximum tokens of a row.
        checkpoints: True if layers can be recomputed in the backward pass.
        sweeps: the arithmetic of segments; it raises a ModelError where the model cannot pass in segments.
    """

    shape: ModelSizes
    activations: Callable[[int, int], int]
    settings: Training
    checkpoints: bool = True
    sweeps: Callable[[], Sweeps] | None = None

    def carried(self) -> Sweeps:
        """Return the arithmetic of segments.

        Raises:
            ModelError: the model cannot pass in segments.
        """
        if self.sweeps is None:
            raise ModelError("the policy is not a model of mlx-lm: its rows cannot pass in segments")
        return self.sweeps()

    @cached_property
    def segments(self) -> str | None:
        """The reason why rows cannot pass in segments; None where they can."""
        try:
            self.carried()
        except ModelError as error:
            return str(error)
        return None

    @property
    def saves_by_checkpoints(self) -> bool:
        """True if `grad_checkpoint` is off and would save memory."""
        return self.checkpoints and not self.settings.grad_checkpoint

    def need(self, rows: int, tokens: int) -> Need:
        """Return the memory for a batch of so many rows of so many tokens, in segments where the settings say so."""
        length = self.settings.segment_tokens or tokens
        return self._whole(rows, tokens) if tokens <= length else self.swept(rows, tokens, length)

    def _whole(self, rows: int, tokens: int) -> Need:
        shape = self.shape
        head = head_bytes(shape, rows * tokens) + rows * tokens * shape.hidden * 8
        return Need(shape.weights, shape.adapter, self.activations(rows, tokens), head)

    def swept(self, rows: int, tokens: int, length: int) -> Need:
        """Return the memory for a batch in segments of so many tokens.

        Raises:
            ModelError: the model cannot pass in segments.
        """
        shape, sweep = self.shape, self.carried()(rows, tokens, length)
        head = head_bytes(shape, rows * length) + rows * length * shape.hidden * 8
        states = sweep.states + sweep.cotangents
        return Need(shape.weights, shape.adapter, sweep.inputs + sweep.layer, head, states)

    def longest(self, rows: int, limit: int) -> int:
        """Return the maximum tokens of a row in a batch of so many rows; 0 if not even one multiple fits."""
        most = -(-self.settings.limit_tokens // MULTIPLE)
        return MULTIPLE * largest(most, lambda count: self.need(rows, count * MULTIPLE).total <= limit)

    def most(self, batches: Sequence[tuple[int, int]]) -> tuple[int, int]:
        """Return the batch that needs the most memory: the largest, of those that pass whole and of the others.

        Args:
            batches: rows and tokens a row of each.
        """
        length = self.settings.segment_tokens
        whole = [size for size in batches if length is None or size[1] <= length]
        parts = [size for size in batches if size not in whole]
        found = [max(some, key=lambda size: size[0] * size[1]) for some in (whole, parts) if some]
        return max(found, key=lambda size: self.need(*size).total)

    def check(self, rows: int, tokens: int) -> Need:
        """Return the memory for the largest batch of a run.

        Raises:
            UsageError: it exceeds the limit; the hint names sizes that fit.
        """
        need, limit = self.need(rows, tokens), limit_bytes(self.settings)
        if need.total <= limit:
            return need
        raise UsageError(
            f"the largest batch, {rows} rows of {tokens:,} tokens, needs about {in_gigabytes(need.total)} ({need}),"
            f" and there are {in_gigabytes(limit)}",
            hint=self._hint(rows, limit),
        )

    def _hint(self, rows: int, limit: int) -> str:
        ways = ["--grad-checkpoint"] if self.saves_by_checkpoints else []
        ways += [f"--batch-size {rows // 2} (with more --grad-accumulation-steps)"] if rows > 1 else []
        if longest := self.longest(rows, limit):
            ways.append(f"--max-seq-length {longest} (which fits)")
        return f"{', '.join([*ways, '--memory-limit GB'])}: each is a way"


def of_model(
    model: Any,
    body: Any,
    vocabulary: int,
    settings: Training,
    layers: int,
    carrier: Callable[[], StatefulModel] | None = None,
) -> TrainingMemory:
    """Return the estimate for a model with gradients through `layers`, adapted as in training.

    Args:
        model, body: the model, and its tokens to hidden states.
        vocabulary: logits a token.
        settings: of the run.
        layers: that are trained.
        carrier: the model with the states of segments; None where rows pass whole.
    """
    if settings.grad_checkpoint and (why := no_checkpoints(model)):
        raise UsageError(f"grad_checkpoint is true, and {why}", "grad_checkpoint")
    size = int(body(mx.array([[1]])).shape[-1])  # a shape is known without computing
    trained = flatten_tree(model.trainable_parameters()).values()
    weights, trainable = (
        sum(value.nbytes for value in some) for some in (flatten_tree(model.parameters()).values(), trained)
    )
    activations = Activations(model, body, layers=layers, hidden=size, checkpoint=settings.grad_checkpoint)
    shape = ModelSizes(size, vocabulary, weights, trainable, sum(4 * value.size for value in trained) - trainable)
    sweeps = None if carrier is None else cache(lambda: SweepMemory(carrier()))
    return TrainingMemory(shape, activations, settings, no_checkpoints(model) is None, sweeps)


def no_checkpoints(model: Any) -> str | None:
    """Return why the layers of a model cannot be computed again going back; None where they can."""
    kind = getattr(model, "model_type", type(model).__name__)
    if getattr(model, "shares_caches", False):
        return f"layers of model type {kind} share keys and values: they cannot be computed one by one"
    if not isinstance(getattr(model, "layers", None), list | tuple):
        return f"{kind} has no list `layers` of the modules that would be computed again"
    return None


def head_bytes(shape: ModelSizes, tokens: int) -> int:
    """Return the bytes of the logits of the chunks computed at a time, in float32."""
    return IN_FLIGHT * 4 * min(chunk_rows(shape.vocabulary), tokens) * shape.vocabulary


def largest(most: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number up to `most` that fits, by bisection; 0 if 1 does not."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def limit_bytes(settings: Training) -> int:
    """Return the memory limit: that of the settings, or what the GPU recommends, or four fifths of the machine's."""
    if settings.memory_limit is not None:
        return int(settings.memory_limit * GB)
    recommended = mx.device_info().get("max_recommended_working_set_size") if mx.metal.is_available() else None
    return int(recommended or 0.8 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


# The memory that training may take at most, known before there is a data set.


def estimate_memory(model: str, settings: Training) -> dict[str, int]:
    """Return the bytes of a batch of ``batch_size`` rows of ``max_seq_length`` tokens, and the limit.

    With ``auto`` for the length, a run takes what is below the limit: the estimate is then the limit.

    Raises:
        ModelError: the model is missing or cannot be trained.
    """
    require()
    limit = limit_bytes(settings)
    if settings.max_seq_length == AUTO:
        return {"memory_bytes": limit, "memory_limit_bytes": limit}
    loaded = load(model)
    config, scorer = adapt(loaded.model, settings), Scorer(loaded.model)
    loaded.model.train()
    memory = of_model(loaded.model, scorer.body, scorer.vocabulary, settings, config["num_layers"])
    need = memory.need(settings.batch_size, settings.limit_tokens)
    return {"memory_bytes": need.total, "memory_limit_bytes": limit}
