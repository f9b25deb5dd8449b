"""Loss on held-out rows. It draws no random numbers, so it does not change the training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karl_fast.train.data_order import shuffle_numbers

if TYPE_CHECKING:
    from karl_fast.train.examples import Example
    from karl_fast.train.model_logprobs import Scorer


def validation_batches(examples: list[Example], rows: int, count: int, seed: int) -> list[list[int]]:
    """Return the validation batches: so many (-1 for all), of rows chosen by the seed, with similar lengths in each."""
    chosen = shuffle_numbers(len(examples), seed, 0)[: None if count == -1 else count * rows].tolist()
    ordered = sorted(chosen, key=lambda row: (len(examples[row]), row))
    return [ordered[start : start + rows] for start in range(0, len(ordered), rows)]


def mean_loss(scorer: Scorer, examples: list[Example], chosen: list[list[int]]) -> float:
    """Compute the negative log-likelihood a learned token, in nats."""
    nats, counts = scorer.losses(examples, chosen)
    return float(nats.sum() / max(1, counts.sum()))
