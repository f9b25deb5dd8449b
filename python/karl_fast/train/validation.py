"""The loss on rows that are held out. Nothing random is drawn for it, so it leaves the training as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from karl_fast.train.batch import padded
from karl_fast.train.order import shuffled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karl_fast.train.examples import Example
    from karl_fast.train.step import Learner


def batches(examples: list[Example], rows: int, count: int, seed: int) -> list[list[int]]:
    """The batches to judge by: so many of them (-1 for all), of rows chosen by the seed, of about one length each."""
    chosen = shuffled(len(examples), seed, 0)[: None if count == -1 else count * rows].tolist()
    ordered = sorted(chosen, key=lambda row: (len(examples[row]), row))
    return [ordered[start : start + rows] for start in range(0, len(ordered), rows)]


def losses(learner: Learner, examples: list[Example], chosen: list[list[int]]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The negative log-likelihood of each example, in nats, and how many tokens it is of; 0 for those not chosen."""
    nats = np.zeros(len(examples))
    counts = np.zeros(len(examples), dtype=np.int64)
    for rows in chosen:
        batch = padded([examples[row] for row in rows])
        logp = np.array(batch.spread(learner.logp(batch)), dtype=np.float64)
        nats[rows] = -logp.sum(1)
        counts[rows] = batch.mask.sum(1)
    return nats, counts


def mean_loss(learner: Learner, examples: list[Example], chosen: list[list[int]]) -> float:
    """The negative log-likelihood a learned token, in nats."""
    nats, counts = losses(learner, examples, chosen)
    return float(nats.sum() / max(1, counts.sum()))
