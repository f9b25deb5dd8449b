"""What a run will need, by arithmetic on shapes, before it needs it.

```text
weights      bytes of all parameters
adapter      trainable bytes * 6: the value, its successor, the gradient and its sum, two moments of Adam
activations  B * T * bytes a token, over the layers from the first that is trained on
head         12 chunks of logits, and B * T * E * 8 of slopes
```

A token of a layer leaves behind its four norms and residuals, queries, keys, values and what attention makes of them,
four times the width of the feed-forward part, and a row of attention of each head; three more such rows are there for
the layer that is being gone back through. With gradient checkpoints it leaves its input, and two layers at a time the
rest: the next may be computed before the last is let go.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from karl_fast.errors import UsageError
from karl_fast.train.batch import MULTIPLE
from karl_fast.train.head import IN_FLIGHT, chunk_rows
from karl_fast.train.settings import GB

if TYPE_CHECKING:
    from karl_fast.train.settings import Training


@dataclass(frozen=True)
class Shape:
    """What the arithmetic takes from a model's config; `bytes_` is of one activation."""

    hidden: int
    feed_forward: int
    heads: int
    head_size: int
    vocabulary: int
    bytes_: int


@dataclass(frozen=True)
class Need:
    """Bytes, by what they are for."""

    weights: int
    adapter: int
    activations: int
    head: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.adapter + self.activations + self.head

    def __str__(self) -> str:
        parts = {name.replace("_", " "): value / GB for name, value in vars(self).items()}
        return ", ".join(f"{name} {value:.2f}" for name, value in parts.items())


@dataclass(frozen=True)
class Memory:
    """The arithmetic of one model and one way to train it.

    Attributes:
        shape: of the model.
        weights: bytes of all parameters.
        trainable: bytes of those that are trained.
        layers: those whose activations are kept.
        settings: the limit, and whether layers are computed again.
    """

    shape: Shape
    weights: int
    trainable: int
    layers: int
    settings: Training

    def need(self, rows: int, tokens: int) -> Need:
        """What a batch of so many rows of so many tokens needs."""
        shape = self.shape
        per_layer = 6 * shape.hidden + 4 * shape.heads * shape.head_size + 4 * shape.feed_forward
        per_layer += shape.heads * tokens
        kept = shape.hidden * self.layers + 2 * per_layer if self.settings.grad_checkpoint else per_layer * self.layers
        kept += 3 * shape.heads * tokens
        chunk = IN_FLIGHT * 4 * min(chunk_rows(shape.vocabulary), rows * tokens) * shape.vocabulary
        return Need(
            self.weights,
            6 * self.trainable,
            rows * tokens * kept * shape.bytes_,
            chunk + rows * tokens * shape.hidden * 8,
        )

    def longest(self, rows: int, limit: int) -> int:
        """How many tokens a row may have where so many stand in a batch; 0 where not even one multiple fits."""
        fits = range(MULTIPLE, self.settings.limit_tokens + MULTIPLE, MULTIPLE)
        return max((tokens for tokens in fits if self.need(rows, tokens).total <= limit), default=0)

    def check(self, rows: int, tokens: int) -> Need:
        """What the largest batch of a run needs.

        Raises:
            UsageError: more than there is; the hint says what would fit.
        """
        need, limit = self.need(rows, tokens), limit_bytes(self.settings)
        if need.total <= limit:
            return need
        error = UsageError(
            f"the largest batch, {rows} rows of {tokens:,} tokens, needs about {need.total / GB:.1f} GB ({need}), and"
            f" there are {limit / GB:.1f} GB"
        )
        error.hint = self._hint(rows, limit)
        raise error

    def _hint(self, rows: int, limit: int) -> str:
        ways = [] if self.settings.grad_checkpoint else ["--grad-checkpoint"]
        ways += [f"--batch-size {rows // 2} (with more --grad-accumulation-steps)"] if rows > 1 else []
        if longest := self.longest(rows, limit):
            ways.append(f"--max-seq-length {longest} (which fits)")
        return f"{', '.join([*ways, '--memory-limit GB'])}: each is a way"


def shape_of(config: dict[str, Any], bytes_: int) -> Shape:
    """The shape of a language model, which may stand below that of one with eyes."""
    config = config.get("text_config") or config
    hidden, heads = int(config["hidden_size"]), int(config.get("num_attention_heads", 8))
    feed_forward = int(config.get("intermediate_size") or 4 * hidden)
    head_size = int(config.get("head_dim") or hidden // heads)
    return Shape(hidden, feed_forward, heads, head_size, int(config.get("vocab_size", 1 << 18)), bytes_)


def limit_bytes(settings: Training) -> int:
    """The memory that may be used: what was said, what the GPU recommends, or four fifths of the machine's."""
    if settings.memory_limit is not None:
        return int(settings.memory_limit * GB)
    import mlx.core as mx

    recommended = mx.device_info().get("max_recommended_working_set_size") if mx.metal.is_available() else None
    return int(recommended or 0.8 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
