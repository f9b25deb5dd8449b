"""Exact objectives: four families, each a product of axes, and the published recipes as points in them.

| family | what it does | axes |
|---|---|---|
| `PolicyGradient` | credit times the log-probability | filter, advantage, ratio, clip, kl, aggregate |
| `TrajectoryBalance` | regression to the Boltzmann target | filter, reward, anchor, length, scale, log_z, ... |
| `TargetPolicy` | cross-entropy to a target over candidates | filter, target, length |
| `WeightedLikelihood` | likelihood of logged rows at their weights | filter, target, sampler, term, aggregate |

``recipe("dapo").objective`` is one. Its ``score(batch)`` stands before the gradient line, in the kernels, once a batch;
its call behind it, in MLX, once a step. Points are frozen dataclasses in the module of their axis (`filter`,
`advantage`, `gate`, `candidates`, `ratio`, `clip`, `kl`, `aggregate`, `balance`, `log_z`, `likelihood`); a recipe of
one's own is a neighbour of another: ``recipe("grpo").but("mine", "tuned", clip=(Clip(0.1, 0.3), "sweep of May"))``.

What computes needs the extra ``train``; recipes can be read, printed, compared and stored without it.
"""

from karl_fast.objective.batch import Batch, Scored, scored
from karl_fast.objective.family import Objective
from karl_fast.objective.interop import to_mlx, to_numpy
from karl_fast.objective.point import Point
from karl_fast.objective.policy_gradient import PolicyGradient
from karl_fast.objective.recipe import Recipe
from karl_fast.objective.recipes import RECIPES, recipe
from karl_fast.objective.store import from_toml, to_toml
from karl_fast.objective.table import table
from karl_fast.objective.target_policy import TargetPolicy
from karl_fast.objective.trajectory_balance import TrajectoryBalance
from karl_fast.objective.weighted_likelihood import WeightedLikelihood

__all__ = [
    "RECIPES",
    "Batch",
    "Objective",
    "Point",
    "PolicyGradient",
    "Recipe",
    "Scored",
    "TargetPolicy",
    "TrajectoryBalance",
    "WeightedLikelihood",
    "from_toml",
    "recipe",
    "scored",
    "table",
    "to_mlx",
    "to_numpy",
    "to_toml",
]
