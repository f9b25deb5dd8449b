"""Offline recipes: the loss of `karl-fast train` by its name, and what it requires of a data set.

```text
sft        -logp                           dft      -sg(p) logp
surprisal-gate   -sg(g / mean g) logp, g = sigmoid(4 (logp + 2.5))
boltzmann  -w logp, w of the data set      awr      -min(exp(A / t), 20) logp, A = r - mean of the group
oapl       (t (logp - logp_ref) - (r - t log mean exp(r / t)))^2
vargrad    (logp - logp_ref + log_z - b r)^2, log_z the optimum of the group

dpo        -ln sigmoid(t (D_chosen - D_rejected)), D = logp - logp_ref
ipo        (D_chosen - D_rejected - 1 / (2 t))^2, D the mean a token
simpo      -ln sigmoid(t (logp_chosen - logp_rejected) - margin), logp the mean a token
orpo       -logp_chosen - w ln sigmoid(odds_chosen - odds_rejected), of the mean a token
kto        1 - sigmoid(t (D - z)) where wanted, 1 - sigmoid(t (z - D)) elsewhere
```

logp is a token's in the first five, a row's from there on; ``ref`` is the model before training.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.errors import ArgumentError, NothingToTrainError, UsageError
from karl_fast.objective.axes.advantage import Centre, Raw
from karl_fast.objective.axes.balance import (
    InverseTemperature,
    ReferencePolicy,
    RewardUnits,
    TokenSumLength,
    Unweighted,
)
from karl_fast.objective.axes.likelihood import Exponential, Logged
from karl_fast.objective.axes.log_z import SoftValue
from karl_fast.objective.axes.preference import LogSigmoid, ScoreDifference, SquaredMargin
from karl_fast.objective.batch import Batch
from karl_fast.objective.recipes import recipe
from karl_fast.train.examples import Example, group_numbers
from karl_fast.train.settings import ANCHORED, PAIRED, PREFERENCES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karl_fast.export.training_rows import Source
    from karl_fast.objective.batch import Scored
    from karl_fast.train.batching import PaddedBatch
    from karl_fast.train.settings import Training

WEIGHTED = ("boltzmann", "awr")
"""Recipes that weigh rows themselves."""

GROUPED = ("oapl", "vargrad")
"""Recipes that compare the rows of a group by their rewards."""

NAMES = {"vargrad": "FlowRL VarGrad", "ipo": "IPO pairs"}
"""Names of recipes that the library calls otherwise: there `ipo` is the policy gradient of prime-rl."""

CEILING = 20.0
"""Maximum weight of a row in AWR (arXiv:1910.00177, section 5)."""


def build_objective(settings: Training) -> Any:
    """Return the objective of a recipe, by its name in the settings."""
    objective: Any = recipe(NAMES.get(settings.recipe, settings.recipe)).objective
    if settings.recipe in PREFERENCES:
        return _build_preference(objective, settings)
    match settings.recipe:
        case "boltzmann":
            return replace(objective, target=Logged())
        case "awr":
            return replace(objective, target=Exponential(Centre(), settings.temperature or 0.0, ceiling=CEILING))
        case "oapl":
            temperature = settings.temperature or 0.0
            return replace(
                objective, anchor=ReferencePolicy(), scale=RewardUnits(temperature), log_z=SoftValue(temperature)
            )
        case "vargrad":
            scale = InverseTemperature(settings.inverse_temperature or 0.0)
            return replace(objective, reward=Raw(), length=TokenSumLength(), scale=scale, weight=Unweighted())
    return objective


def _build_preference(objective: Any, settings: Training) -> Any:
    """Return the objective of a recipe of preferences, with the numbers of the settings in place of its source's."""
    temperature = settings.temperature
    match settings.recipe:
        case "dpo" if temperature is not None:
            return replace(objective, margin=ScoreDifference(temperature))
        case "ipo" if temperature is not None:
            return replace(objective, link=SquaredMargin(1 / (2 * temperature)))
        case "simpo":
            scale = objective.margin.scale if temperature is None else temperature
            target = scale / 2 if settings.target_margin is None else settings.target_margin
            return replace(objective, margin=ScoreDifference(scale, target))
        case "kto":
            given = (temperature, settings.desirable_weight, settings.undesirable_weight)
            names = ("scale", "desirable", "undesirable")
            known = {name: value for name, value in zip(names, given, strict=True) if value is not None}
            return replace(objective, margin=replace(objective.margin, **known))
        case "orpo" if settings.odds_weight is not None:
            return replace(objective, link=LogSigmoid(settings.odds_weight))
    return objective


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
        problem = f"the rows of {source.folder} were drawn by their rewards already ({source.sampler})"
        error = UsageError(f"the recipe {recipe} uses rewards, and {problem}: they would count twice")
    error.hint = "karl-fast sample ... --sampler all writes every row, with its weight"
    raise error


class OfflineObjective:
    """A recipe over the examples of a data set, with the scores of each batch.

    Attributes:
        grouped: True if the rows of a group stay together: those of one prompt, or the two answers of a pair.
        anchored: True if rows are compared with the model before training.
        whole: True if a row may not be cut.
        most_rows: of a batch that are in memory at a time; None where no batch has more.
        kept: which examples count: those that have what the recipe needs. [B]
    """

    def __init__(self, settings: Training, examples: list[Example]) -> None:
        self.family = build_objective(settings)
        self.preferences = settings.recipe in PREFERENCES
        self.grouped = settings.recipe in (*GROUPED, *PAIRED)
        self.anchored = settings.recipe in ANCHORED
        self.whole = self.grouped or self.preferences
        self.most_rows = settings.batch_size if settings.recipe in GROUPED else None
        self.rewards = np.array([example.reward for example in examples])
        self.groups = group_numbers(examples)
        self.preferred = np.array([bool(example.preferred) for example in examples])
        self.weights = None if self.whole else self._weights(settings, examples)
        self.kept = self._kept()
        if not self.kept.any():
            what = "a reward and a group" if self.grouped else "a weight"
            raise NothingToTrainError(f"no row has {what}, which the recipe {settings.recipe} needs")

    def _weights(self, settings: Training, examples: list[Example]) -> NDArray[np.float64]:
        """Return the weight of each example: its row's; NaN for a row that does not count. [B]"""
        first = {example.row: at for at, example in reversed(list(enumerate(examples)))}
        rows = np.array(sorted(first.values()))
        batch = Batch(
            mask=np.ones((len(rows), 1), dtype=np.bool_),
            rewards=self.rewards[rows],
            group_ids=self.groups[rows],
            weights=_mean_one_weights(np.array([examples[at].log_weight for at in rows])),
        )
        try:
            weights = self.family.weights(batch)
        except ArgumentError as error:
            raise NothingToTrainError(f"rows lack what the recipe {settings.recipe} needs: {error}") from error
        self.family = self.family.weighed()
        by_row = dict(zip((examples[at].row for at in rows), weights.tolist(), strict=True))
        return np.array([by_row[example.row] for example in examples])

    def _kept(self) -> NDArray[np.bool_]:
        if self.preferences:
            return np.ones(len(self.preferred), dtype=np.bool_)
        if self.weights is not None:
            return np.asarray(~np.isnan(self.weights))
        return np.asarray(~np.isnan(self.rewards) & (self.groups >= 0))

    def scored(
        self,
        rows: list[int],
        padded: PaddedBatch,
        reference: NDArray[np.float32] | None,
        mismatched: float = np.nan,
    ) -> Scored:
        """Return the inputs of the loss of a batch beyond log-probabilities.

        Args:
            rows: the batch, as numbers of examples. [B]
            padded: its tokens.
            reference: log-probabilities under the model before training, if the recipe compares with it. [B, T]
            mismatched: mean log ratio of answers to other prompts, for `kto`; NaN for none.
        """
        weights = None if self.weights is None else self.weights[rows]
        batch = Batch(
            mask=padded.mask,
            rewards=self.rewards[rows],
            group_ids=self.groups[rows],
            weights=weights,
            logp_ref=reference,
            pair_ids=self.groups[rows],
            preferred=self.preferred[rows],
            mismatched=np.full(len(rows), mismatched),
        )
        scored: Scored = self.family.score(batch)
        return scored


def _mean_one_weights(log_weights: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return weights of mean 1 from their logarithms; None if no row has one."""
    present = ~np.isnan(log_weights)
    if not present.any():
        return None
    weights = np.exp(log_weights - log_weights[present].max())
    return np.asarray(weights / weights[present].mean())
