"""The memory plan of `karl-fast train`: whether its largest batch fits, and the longest rows that do.

The plan of one batch is in `karl_fast.modeling.memory`. A run with ``max_seq_length = "auto"`` takes the longest of
these lengths that fits, whole or in segments:

```text
16  24  32  48  64  96 ...  powers of two, the midpoints between them, and the length of the longest row
```
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from karl_fast.modeling.load import adapt, load, require_mlx_lm
from karl_fast.modeling.memory import SEGMENTS, SHORTEST, estimate_training, largest, limit_bytes, refuse_excess
from karl_fast.train.batching import MULTIPLE
from karl_fast.train.model_logprobs import Scorer
from karl_fast.train.settings import AUTO, PAIRED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karl_fast.modeling.memory import Need, TrainingMemory
    from karl_fast.train.settings import Training


def check_batch(memory: TrainingMemory, rows: int, tokens: int) -> Need:
    """Return the memory for the largest batch of a run.

    Raises:
        UsageError: it exceeds the limit; the hint names sizes that fit.
    """
    need, limit = memory.need(rows, tokens), memory.limit

    def hint() -> str:
        ways = ["--grad-checkpoint"] if memory.saves_by_checkpoints else []
        fewer = rows // 2 // answers_per_row(memory.settings)
        ways += [f"--batch-size {fewer} (with more --grad-accumulation-steps)"] if fewer else []
        if longest := longest_row(memory, rows, limit):
            ways.append(f"--max-seq-length {longest} (which fits)")
        return f"{', '.join([*ways, '--memory-limit GB'])}: each is a way"

    refuse_excess(f"the largest batch, {rows} rows of {tokens:,} tokens", need, limit, hint)
    return need


def longest_row(memory: TrainingMemory, rows: int, limit: int) -> int:
    """Return the maximum tokens of a row in a batch of so many rows; 0 if not even one multiple fits."""
    most = -(-memory.settings.limit_tokens // MULTIPLE)
    return MULTIPLE * largest(most, lambda count: memory.need(rows, count * MULTIPLE).total <= limit)


def largest_batch(memory: TrainingMemory, batches: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return the batch that needs the most memory: the largest, of those that pass whole and of the others.

    Args:
        memory: the plan.
        batches: rows and tokens a row of each.
    """
    length = memory.settings.segment_tokens
    whole = [size for size in batches if length is None or size[1] <= length]
    segmented = [size for size in batches if size not in whole]
    candidates = [max(sizes, key=lambda size: size[0] * size[1]) for sizes in (whole, segmented) if sizes]
    return max(candidates, key=lambda size: memory.need(*size).total)


@dataclass(frozen=True)
class LengthBudget:
    """A length that was chosen, and why not a longer one.

    Attributes:
        tokens: a row may have.
        rows: of a batch that it was chosen for.
        beyond: the next length, and what such a batch of it needs; None where the longest row fits.
    """

    tokens: int
    rows: int
    beyond: tuple[int, Need] | None


def settle_length(memory: TrainingMemory, longest: int) -> tuple[TrainingMemory, LengthBudget | None]:
    """Return the plan with a number for ``max_seq_length``, and its choice; None if the settings have a number."""
    settings = memory.settings
    if settings.max_seq_length != AUTO:
        return memory, None
    budget = choose_length(memory, longest, memory.limit)
    tokens = max(2, budget.tokens)  # the least that a length may be; of a shorter row nothing is learned
    return replace(memory, settings=replace(settings, max_seq_length=tokens)), budget


def choose_length(memory: TrainingMemory, longest: int, limit: int) -> LengthBudget:
    """Return the longest candidate length with a largest batch that fits in memory, whole or in segments.

    Args:
        memory: the plan; its settings give the rows of a batch.
        longest: tokens of the longest row.
        limit: bytes available.

    Returns:
        The budget; that of the shortest length if none fits, which `check_batch` then refuses.
    """
    rows = memory.settings.batch_size * answers_per_row(memory.settings)
    lengths = candidate_lengths(longest)
    count = largest(len(lengths), lambda count: _least_need(memory, rows, lengths[count - 1]).total <= limit)
    index = max(0, count - 1)
    longer = lengths[index + 1 : index + 2]
    return LengthBudget(lengths[index], rows, (longer[0], _least_need(memory, rows, longer[0])) if longer else None)


def answers_per_row(settings: Training) -> int:
    """Return how many sequences a row of a data set is: 2 for a pair of answers."""
    return 2 if settings.recipe in PAIRED else 1


def candidate_lengths(longest: int) -> list[int]:
    """Return the candidate lengths up to that of the longest row."""
    powers = [SHORTEST << number for number in range(longest.bit_length())]
    below = [length for power in powers for length in (power, power + power // 2) if length < longest]
    return [*below, longest]


def _least_need(memory: TrainingMemory, rows: int, tokens: int) -> Need:
    """Return the memory for a batch, whole or in the segments that the settings allow, whichever is least.

    The shortest segments need not be the least: recurrent layers leave a state at every border.
    """
    whole = memory.need(rows, tokens)
    fixed, fits = memory.settings.segment_tokens is not None, whole.total <= memory.limit
    if fixed or fits or tokens <= SEGMENTS[0] or memory.segment_obstacle is not None:
        return whole
    segmented = [memory.need_in_segments(rows, tokens, length) for length in SEGMENTS if length < tokens]
    return min([whole, *segmented], key=lambda need: need.total)


def estimate_memory(model: str, settings: Training) -> dict[str, int]:
    """Return the bytes of a batch of ``batch_size`` rows of ``max_seq_length`` tokens, and the limit.

    It is known before there is a data set. With ``auto`` for the length, a run takes what is below the limit: the
    estimate is then the limit.

    Raises:
        ModelError: the model is missing or cannot be trained.
    """
    require_mlx_lm()
    limit = limit_bytes(settings)
    if settings.max_seq_length == AUTO:
        return {"memory_bytes": limit, "memory_limit_bytes": limit}
    loaded = load(model)
    config, scorer = adapt(loaded.model, settings), Scorer(loaded.model)
    loaded.model.train()
    memory = estimate_training(loaded.model, scorer.body, scorer.vocabulary, settings, config["num_layers"])
    need = memory.need(settings.batch_size * answers_per_row(settings), settings.limit_tokens)
    return {"memory_bytes": need.total, "memory_limit_bytes": limit}
