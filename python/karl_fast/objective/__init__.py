"""Exact objectives: four families, each a product of axes, and the published recipes as points in them.

| family | method | axes |
|---|---|---|
| `PolicyGradient` | credit times the log-probability | filter, advantage, ratio, clip, kl, ..., aggregate |
| `TrajectoryBalance` | regression to the Boltzmann target | filter, reward, anchor, length, scale, log_z, ... |
| `TargetPolicy` | cross-entropy to a target over candidates | filter, target, length |
| `WeightedLikelihood` | likelihood of logged rows at their weights | filter, target, sampler, term, aggregate |

``recipe("dapo")(logp, batch)`` returns the loss, its derivative by each log-probability, and statistics, as NumPy:
``(coefficients * logp).sum()`` has the right gradient in MLX, torch and JAX. Where a batch takes several steps or
micro-batches, ``objective.score(batch)`` is computed once, and the objective is called with its rows.

Points are frozen dataclasses, in one module for each axis; your own recipe is a change of another:
``recipe("grpo").but("mine", "tuned", clip=(Clip(0.1, 0.3), "sweep of May"))``.
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
    Cap,
    Clip,
    Clipper,
    Delight,
    DualClip,
    Flip,
    GeometricClip,
    MaskNegatives,
    NoClip,
    ProbabilityBand,
    ProbabilityMask,
    SoftGate,
    TwoSided,
    VariancePenalty,
)
from karl_fast.objective.axes.correction import (
    Correction,
    GeometricMask,
    NoCorrection,
    RolloutAnchor,
    SequenceMask,
    SequenceTruncate,
    TokenMask,
    TokenTruncate,
)
from karl_fast.objective.axes.empg import EntropyModulated
from karl_fast.objective.axes.entropy import Entropy, EntropyBonus, NoEntropy
from karl_fast.objective.axes.filter import (
    Both,
    DropConstantGroups,
    DropTruncated,
    Filter,
    KeepAll,
    MaxAge,
    MixedGroups,
    VarianceTopP,
)
from karl_fast.objective.axes.kl import (
    K1,
    K2,
    K3,
    Divergence,
    DriftPenalty,
    ForwardKL,
    K1InReward,
    K1PerToken,
    NoKL,
    ReverseKL,
)
from karl_fast.objective.axes.kondo_gate import Gated, TopGated
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
from karl_fast.objective.batch import Batch, Evaluation, Scored, scored
from karl_fast.objective.families.policy_gradient import PolicyGradient
from karl_fast.objective.families.target_policy import CandidateTarget, TargetPolicy, Tilted
from karl_fast.objective.families.trajectory_balance import TrajectoryBalance
from karl_fast.objective.families.weighted_likelihood import WeightedLikelihood
from karl_fast.objective.recipe_type import Recipe
from karl_fast.objective.recipes import names, recipe, table
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
    "CandidateTarget",
    "Cap",
    "Centre",
    "Clip",
    "Clipper",
    "ConstantLength",
    "Correction",
    "Delight",
    "Divergence",
    "Drawn",
    "DriftPenalty",
    "DropConstantGroups",
    "DropTruncated",
    "DualClip",
    "Entropy",
    "EntropyBonus",
    "EntropyModulated",
    "Evaluation",
    "EveryRow",
    "Exponential",
    "Filter",
    "Flip",
    "ForwardKL",
    "Gated",
    "GeometricClip",
    "GeometricMask",
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
    "NoCorrection",
    "NoEntropy",
    "NoKL",
    "NoLogZ",
    "Objective",
    "OnPolicy",
    "Point",
    "PolicyGradient",
    "ProbabilityBand",
    "ProbabilityMask",
    "ProbabilityScaled",
    "ProductWeight",
    "Ratio",
    "Raw",
    "Recipe",
    "ReferencePolicy",
    "Regression",
    "ReverseKL",
    "RewardUnits",
    "RolloutAnchor",
    "RowWeight",
    "Sampler",
    "Scale",
    "Scored",
    "SequenceMask",
    "SequenceMean",
    "SequenceProduct",
    "SequenceRatio",
    "SequenceSum",
    "SequenceTokenRatio",
    "SequenceTruncate",
    "SetScore",
    "SoftGate",
    "SoftValue",
    "Squared",
    "TargetPolicy",
    "Temperature",
    "Term",
    "Tilted",
    "TokenChoice",
    "TokenDrift",
    "TokenMask",
    "TokenMean",
    "TokenMeanLength",
    "TokenRatio",
    "TokenSumLength",
    "TokenTruncate",
    "TopGated",
    "TrajectoryBalance",
    "TurnRatio",
    "TwoSided",
    "Uniform",
    "Unweighted",
    "VariancePenalty",
    "VarianceTopP",
    "Weight",
    "WeightedLikelihood",
    "Whitened",
    "ZScore",
    "from_toml",
    "names",
    "recipe",
    "scored",
    "table",
    "to_toml",
]
