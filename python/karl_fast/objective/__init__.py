"""Exact objectives: four families, each a product of axes, and the published recipes as points in them.

| family | method | axes |
|---|---|---|
| `PolicyGradient` | credit times the log-probability | filter, advantage, ratio, clip, kl, aggregate |
| `TrajectoryBalance` | regression to the Boltzmann target | filter, reward, anchor, length, scale, log_z, ... |
| `TargetPolicy` | cross-entropy to a target over candidates | filter, target, length |
| `WeightedLikelihood` | likelihood of logged rows at their weights | filter, target, sampler, term, aggregate |

``recipe("dapo").objective`` is one. Its ``score(batch)`` runs before the gradient line, in the kernels, once a batch;
its call runs after it, in MLX, once a step. Points are frozen dataclasses, in one module for each axis; your own recipe
is a change of another: ``recipe("grpo").but("mine", "tuned", clip=(Clip(0.1, 0.3), "sweep of May"))``.

Computing needs the extra ``train``; recipes can be read, printed, compared and stored without it.
"""

from karl_fast.objective.axes.advantage import (
    Advantage,
    Anchored,
    Centre,
    Given,
    LeaveOneOut,
    MeanScaled,
    Raw,
    Whitened,
    ZScore,
)
from karl_fast.objective.axes.aggregate import Aggregate, ConstantLength, SequenceMean, SequenceSum, TokenMean
from karl_fast.objective.axes.balance import (
    AllTokens,
    Anchor,
    BehaviourPolicy,
    GeometricWeight,
    Huber,
    InverseTemperature,
    Length,
    NoAnchor,
    ProductWeight,
    ReferencePolicy,
    Regression,
    RewardUnits,
    Scale,
    Squared,
    Temperature,
    TokenChoice,
    TokenDrift,
    TokenMeanLength,
    TokenSumLength,
    Unweighted,
    Weight,
)
from karl_fast.objective.axes.clip import (
    Bounds,
    Cap,
    Clip,
    Clipper,
    Delight,
    Drift,
    DualClip,
    Flip,
    GeometricClip,
    MaskNegatives,
    NoClip,
    SoftGate,
    TwoSided,
    VariancePenalty,
)
from karl_fast.objective.axes.filter import (
    Both,
    DropConstantGroups,
    DropTruncated,
    Filter,
    KeepAll,
    MaxAge,
    MixedGroups,
)
from karl_fast.objective.axes.gate import Gated, TopGated
from karl_fast.objective.axes.kl import K1, K2, K3, Divergence, K1InReward, K1PerToken, NoKL
from karl_fast.objective.axes.likelihood import (
    Boltzmann,
    Drawn,
    EveryRow,
    Exponential,
    Logged,
    LogLikelihood,
    ProbabilityScaled,
    RowWeight,
    Sampler,
    Term,
    Uniform,
)
from karl_fast.objective.axes.log_z import GroupOptimum, Learned, LogZ, NoLogZ, SoftValue
from karl_fast.objective.axes.point import Point
from karl_fast.objective.axes.ratio import (
    OnPolicy,
    Ratio,
    SequenceProduct,
    SequenceRatio,
    SequenceTokenRatio,
    TokenRatio,
    TurnRatio,
)
from karl_fast.objective.axes.set_score import SetScore
from karl_fast.objective.base import Objective
from karl_fast.objective.batch import Batch, Scored
from karl_fast.objective.families.policy_gradient import PolicyGradient
from karl_fast.objective.families.target_policy import Target, TargetPolicy, Tilted
from karl_fast.objective.families.trajectory_balance import TrajectoryBalance
from karl_fast.objective.families.weighted_likelihood import WeightedLikelihood
from karl_fast.objective.mlx_arrays import to_mlx, to_numpy
from karl_fast.objective.named import Recipe
from karl_fast.objective.recipe_table import table
from karl_fast.objective.recipes import names, recipe
from karl_fast.objective.score import scored
from karl_fast.objective.toml import from_toml, to_toml

__all__ = [
    "K1",
    "K2",
    "K3",
    "Advantage",
    "Aggregate",
    "AllTokens",
    "Anchor",
    "Anchored",
    "Batch",
    "BehaviourPolicy",
    "Boltzmann",
    "Both",
    "Bounds",
    "Cap",
    "Centre",
    "Clip",
    "Clipper",
    "ConstantLength",
    "Delight",
    "Divergence",
    "Drawn",
    "Drift",
    "DropConstantGroups",
    "DropTruncated",
    "DualClip",
    "EveryRow",
    "Exponential",
    "Filter",
    "Flip",
    "Gated",
    "GeometricClip",
    "GeometricWeight",
    "Given",
    "GroupOptimum",
    "Huber",
    "InverseTemperature",
    "K1InReward",
    "K1PerToken",
    "KeepAll",
    "Learned",
    "LeaveOneOut",
    "Length",
    "LogLikelihood",
    "LogZ",
    "Logged",
    "MaskNegatives",
    "MaxAge",
    "MeanScaled",
    "MixedGroups",
    "NoAnchor",
    "NoClip",
    "NoKL",
    "NoLogZ",
    "Objective",
    "OnPolicy",
    "Point",
    "PolicyGradient",
    "ProbabilityScaled",
    "ProductWeight",
    "Ratio",
    "Raw",
    "Recipe",
    "ReferencePolicy",
    "Regression",
    "RewardUnits",
    "RowWeight",
    "Sampler",
    "Scale",
    "Scored",
    "SequenceMean",
    "SequenceProduct",
    "SequenceRatio",
    "SequenceSum",
    "SequenceTokenRatio",
    "SetScore",
    "SoftGate",
    "SoftValue",
    "Squared",
    "Target",
    "TargetPolicy",
    "Temperature",
    "Term",
    "Tilted",
    "TokenChoice",
    "TokenDrift",
    "TokenMean",
    "TokenMeanLength",
    "TokenRatio",
    "TokenSumLength",
    "TopGated",
    "TrajectoryBalance",
    "TurnRatio",
    "TwoSided",
    "Uniform",
    "Unweighted",
    "VariancePenalty",
    "Weight",
    "WeightedLikelihood",
    "Whitened",
    "ZScore",
    "from_toml",
    "names",
    "recipe",
    "scored",
    "table",
    "to_mlx",
    "to_numpy",
    "to_toml",
]
