"""Loss of a run: a recipe of `karl_fast.objective`, and its requirements on a data set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from karl_fast.errors import ArgumentError, NothingToTrainError, UsageError
from karl_fast.train.examples import Example, group_numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karl_fast.export.training_rows import Source
    from karl_fast.objective.batch import Scored
    from karl_fast.train.batching import PaddedBatch
    from karl_fast.train.settings import Training

WEIGHTED = ("boltzmann", "awr")
"""Recipes that weigh rows by their own account."""

GROUPED = ("oapl", "vargrad")
"""Recipes that compare the rows of a group, and need the model before training."""


def check_source(recipe: str, source: Source) -> None:
    """Raise if a data set does not meet the requirements of a recipe.

    Raises:
        UsageError: rows that were drawn at their weights would be weighted a second time.
    """
    if recipe not in (*WEIGHTED, *GROUPED) or source.sampler == "all":
        return
    if source.sampler is None:
        error = UsageError(f"the recipe {recipe} needs rewards of every row, and {source.folder} has no manifest.json")
    else:
        drawn = f"the rows of {source.folder} were drawn by their rewards already ({source.sampler})"
        error = UsageError(f"the recipe {recipe} uses rewards, and {drawn}: they would count twice")
    error.hint = "karl-fast sample ... --sampler all writes every row, with its weight"
    raise error


class OfflineObjective:
    """A recipe over the examples of a data set, with the scores of each batch.

    Attributes:
        grouped: True if the rows of a group stay together, and are compared with the model before training.
        most_rows: of a batch that are in memory at a time; None where no batch has more.
        kept: which examples count: those that have what the recipe needs. [B]
    """

    def __init__(self, settings: Training, examples: list[Example]) -> None:
        from karl_fast.train.offline_recipes import point

        self.family = point(settings)
        self.grouped = settings.recipe in GROUPED
        self.most_rows = settings.batch_size if self.grouped else None
        self.rewards = np.array([one.reward for one in examples])
        self.groups = group_numbers(examples)
        self.weights = None if self.grouped else self._weights(settings, examples)
        self.kept = self._kept()
        if not self.kept.any():
            what = "a reward and a group" if self.grouped else "a weight"
            raise NothingToTrainError(f"no row has {what}, which the recipe {settings.recipe} needs")

    def _weights(self, settings: Training, examples: list[Example]) -> NDArray[np.float64]:
        """Return the weight of each example: its row's; NaN for a row that does not count. [B]"""
        from karl_fast.objective.batch import Batch

        first = {one.row: at for at, one in reversed(list(enumerate(examples)))}
        rows = np.array(sorted(first.values()))
        batch = Batch(
            mask=np.ones((len(rows), 1), dtype=np.bool_),
            rewards=self.rewards[rows],
            group_ids=self.groups[rows],
            weights=_logged(np.array([examples[at].log_weight for at in rows])),
        )
        try:
            weights = self.family.weights(batch)
        except ArgumentError as error:
            raise NothingToTrainError(f"rows lack what the recipe {settings.recipe} needs: {error}") from error
        self.family = self.family.weighed()
        by_row = dict(zip((examples[at].row for at in rows), weights.tolist(), strict=True))
        return np.array([by_row[one.row] for one in examples])

    def _kept(self) -> NDArray[np.bool_]:
        if self.weights is not None:
            return np.asarray(~np.isnan(self.weights))
        return np.asarray(~np.isnan(self.rewards) & (self.groups >= 0))

    def scored(self, rows: list[int], padded: PaddedBatch, reference: NDArray[np.float32] | None) -> Scored:
        """Return the inputs of the loss of a batch beyond log-probabilities.

        Args:
            rows: the batch, as numbers of examples. [B]
            padded: its tokens.
            reference: log-probabilities under the model before training, if the recipe is by groups. [B, T]
        """
        from karl_fast.objective.batch import Batch

        weights = None if self.weights is None else self.weights[rows]
        batch = Batch(
            mask=padded.mask,
            rewards=self.rewards[rows],
            group_ids=self.groups[rows],
            weights=weights,
            logp_ref=reference,
        )
        found: Scored = self.family.score(batch)
        return found


def _logged(log_weights: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return weights of mean 1 from their logarithms; None if no row has one."""
    there = ~np.isnan(log_weights)
    if not there.any():
        return None
    weights = np.exp(log_weights - log_weights[there].max())
    return np.asarray(weights / weights[there].mean())
