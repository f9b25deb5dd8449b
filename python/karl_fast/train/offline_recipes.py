"""Offline recipes by name: points of the families, with columns of a data set in place of a rollout's record."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

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
from karl_fast.objective.recipes import recipe

if TYPE_CHECKING:
    from karl_fast.train.settings import Training

CEILING = 20.0
"""Maximum weight of a row in AWR (arXiv:1910.00177, section 5)."""


def point(settings: Training) -> Any:
    """Return the objective of a recipe by its name.

    ```text
    sft        -logp                           dft      -sg(p) logp
    boltzmann  -w logp, w of the data set      awr      -min(exp(A / t), 20) logp, A = r - mean of the group
    oapl       (t (logp - logp_ref) - (r - t log mean exp(r / t)))^2
    vargrad    (logp - logp_ref + log_z - b r)^2, log_z the optimum of the group
    ```

    logp is a token's in the first four, a row's in the last two; ``ref`` is the model before training.
    """
    found: Any = recipe("FlowRL VarGrad" if settings.recipe == "vargrad" else settings.recipe).objective
    match settings.recipe:
        case "boltzmann":
            return replace(found, target=Logged())
        case "awr":
            return replace(found, target=Exponential(Centre(), settings.temperature or 0.0, ceiling=CEILING))
        case "oapl":
            given = settings.temperature or 0.0
            return replace(found, anchor=ReferencePolicy(), scale=RewardUnits(given), log_z=SoftValue(given))
        case "vargrad":
            scale = InverseTemperature(settings.inverse_temperature or 0.0)
            return replace(found, reward=Raw(), length=TokenSumLength(), scale=scale, weight=Unweighted())
    return found
