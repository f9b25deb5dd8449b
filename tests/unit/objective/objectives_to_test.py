"""Every point of every axis, each in an objective: join the list to be tested."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from karl_fast.objective import (
    Distillation,
    DrawnTokens,
    Objective,
    PolicyGradient,
    Preference,
    TargetPolicy,
    TokenGradients,
    TokenTargets,
    TrajectoryBalance,
    WeightedLikelihood,
    recipe,
)
from karl_fast.objective.axes.advantage import (
    AllActions,
    Anchored,
    BestOfK,
    Centre,
    Damped,
    ExpectedBaseline,
    Given,
    GroupDecoupled,
    LeaveOneOut,
    MeanScaled,
    PrefixTree,
    Raw,
    RemainingMean,
    TokenCentre,
    Whitened,
    ZScore,
)
from karl_fast.objective.axes.aggregate import ConstantLength, SequenceMean, SequenceSum, TokenMean
from karl_fast.objective.axes.balance import (
    AllTokens,
    BehaviourPolicy,
    GeometricWeight,
    Huber,
    InverseTemperature,
    NoAnchor,
    ProductWeight,
    ReferencePolicy,
    RewardUnits,
    Squared,
    Temperature,
    TokenDrift,
    TokenMeanLength,
    TokenSumLength,
    Unweighted,
)
from karl_fast.objective.axes.clip import (
    Cap,
    Clip,
    Delight,
    DualClip,
    Flip,
    FreshDelight,
    GeometricClip,
    GuardedDelight,
    InverseProbability,
    MaskNegatives,
    NoClip,
    ProbabilityBand,
    ProbabilityMask,
    SoftGate,
    TwoSided,
    UncertainDelight,
    VariancePenalty,
)
from karl_fast.objective.axes.correction import (
    GeometricMask,
    NoCorrection,
    RolloutAnchor,
    SequenceMask,
    SequenceTruncate,
    TokenMask,
    TokenTruncate,
)
from karl_fast.objective.axes.empg import EntropyModulated
from karl_fast.objective.axes.entropy import EntropyBonus, NoEntropy
from karl_fast.objective.axes.filter import (
    Both,
    DropConstantGroups,
    DropTruncated,
    KeepAll,
    MaxAge,
    MaxDeviation,
    MixedGroups,
    VarianceTopP,
)
from karl_fast.objective.axes.kl import K2, K3, DriftPenalty, ForwardKL, K1InReward, K1PerToken, NoKL, ReverseKL
from karl_fast.objective.axes.kondo_gate import Gated, TopGated
from karl_fast.objective.axes.labels import GatedLabels, NoLabels, SuffixLabels
from karl_fast.objective.axes.likelihood import (
    Boltzmann,
    Exponential,
    Logged,
    LogLikelihood,
    ProbabilityScaled,
    SurprisalGated,
    Uniform,
)
from karl_fast.objective.axes.log_z import GroupOptimum, Learned, NoLogZ, SoftValue
from karl_fast.objective.axes.preference import (
    ChosenLikelihood,
    DivergenceBaseline,
    LogOddsDifference,
    LogSigmoid,
    NoLikelihood,
    ScoreDifference,
    Sigmoid,
    SquaredMargin,
)
from karl_fast.objective.axes.ratio import (
    OnPolicy,
    SequenceProduct,
    SequenceRatio,
    SequenceTokenRatio,
    TokenRatio,
    TurnRatio,
)
from karl_fast.objective.axes.set_score import BestCandidate, SetScore
from karl_fast.objective.axes.teacher import (
    NoReward,
    TeacherForward,
    TeacherReverse,
    TeacherSampled,
    TeacherTopK,
)
from karl_fast.objective.axes.tree import RootOnly, TreeCalls, TreeTokens
from karl_fast.objective.families.target_policy import Tilted

PG = recipe("grpo").objective
AXES: dict[tuple[type[Objective], str], list[Any]] = {
    (PolicyGradient, "filter"): [
        KeepAll(),
        DropConstantGroups(),
        MixedGroups(0.4),
        DropTruncated(),
        MaxAge(1),
        VarianceTopP(0.3),
        MaxDeviation(0.3),
        Both(DropConstantGroups(), DropTruncated()),
    ],
    (PolicyGradient, "advantage"): [
        Given(),
        Raw(),
        Centre(),
        AllActions(Centre()),
        ZScore(1, 1e-6),
        LeaveOneOut(),
        MeanScaled(),
        Whitened(),
        Anchored(),
        SetScore(Centre(), 4),
        BestCandidate(Centre()),
        GroupDecoupled(),
        BestOfK(3),
        Gated(Centre(), 0.4),
        TopGated(Centre(), 0.3),
        EntropyModulated(Centre()),
        Damped(Centre(), 0.7),
        RemainingMean(),
        TokenCentre(),
        ExpectedBaseline(),
        PrefixTree(),
    ],
    (PolicyGradient, "ratio"): [TokenRatio(), TurnRatio(), SequenceRatio(), SequenceProduct(), SequenceTokenRatio()],
    (PolicyGradient, "clip"): [
        NoClip(),
        Clip(0.2, 0.28),
        DualClip(0.2, 0.28, 1.5),
        TwoSided(0.2, 0.28, 1.6),
        Cap(1.4),
        GeometricClip(0.2, 0.3),
        VariancePenalty(0.3),
        SoftGate(1.0, 1.05),
        Flip(0.2, 0.28, 1.5),
        MaskNegatives(Clip(0.2, 0.28), 0.05),
        ProbabilityMask(0.05, 0.1, 2.0),
        ProbabilityBand(0.1),
    ],
    (PolicyGradient, "kl"): [
        NoKL(),
        K1InReward(0.3),
        K2(0.1),
        K2(0.1, True),
        K3(0.1),
        K3(0.1, True),
        ReverseKL(0.1),
        DriftPenalty(0.1),
    ],
    (PolicyGradient, "correction"): [
        NoCorrection(),
        TokenTruncate(1.5),
        TokenMask(0.5, 2.0),
        SequenceTruncate(1.5),
        SequenceMask(0.1, 3.0),
        GeometricMask(0.5, 1.5),
        RolloutAnchor(),
    ],
    (PolicyGradient, "entropy"): [NoEntropy(), EntropyBonus(0.01)],
    (PolicyGradient, "labels"): [NoLabels(), GatedLabels(0.5), SuffixLabels(0.5)],
    (PolicyGradient, "tree"): [TreeTokens(), TreeCalls(), RootOnly()],
    (PolicyGradient, "aggregate"): [SequenceMean(), TokenMean(), ConstantLength(7), SequenceSum()],
    (TrajectoryBalance, "filter"): [KeepAll(), DropTruncated()],
    (TrajectoryBalance, "reward"): [Raw(), Centre(), ZScore(1), Gated(Centre(), 0.4)],
    (TrajectoryBalance, "anchor"): [ReferencePolicy(), BehaviourPolicy(), NoAnchor()],
    (TrajectoryBalance, "length"): [TokenMeanLength(), TokenSumLength()],
    (TrajectoryBalance, "scale"): [InverseTemperature(2.0), Temperature(0.2), RewardUnits(0.5)],
    (TrajectoryBalance, "log_z"): [Learned(), GroupOptimum(), SoftValue(0.5), SoftValue(float("inf")), NoLogZ()],
    (TrajectoryBalance, "regression"): [Squared(), Huber(0.5)],
    (TrajectoryBalance, "tokens"): [AllTokens(), TokenDrift(0.2, 0.28)],
    (TrajectoryBalance, "weight"): [
        Unweighted(),
        ProductWeight(),
        ProductWeight(0.8, 1.2),
        GeometricWeight(),
        GeometricWeight(0.8, 1.2),
    ],
    (TargetPolicy, "filter"): [KeepAll(), DropTruncated()],
    (TargetPolicy, "target"): [Tilted(), Tilted(0.5), Tilted(1.0, False)],
    (TargetPolicy, "length"): [TokenMeanLength(), TokenSumLength()],
    (TokenTargets, "filter"): [KeepAll(), DropTruncated()],
    (TokenTargets, "draw"): [DrawnTokens(8)],
    (TokenTargets, "target"): [Tilted(), Tilted(0.5), Tilted(1.0, False)],
    (TokenGradients, "filter"): [KeepAll(), DropTruncated()],
    (TokenGradients, "draw"): [DrawnTokens(8)],
    (TokenGradients, "advantage"): [Raw(), Centre(), ZScore(0, 1e-8)],
    (TokenGradients, "clip"): [NoClip(), Clip(0.2, 0.28), Cap(1.4)],
    (TokenGradients, "kl"): [NoKL(), K2(0.1), K3(0.1)],
    (WeightedLikelihood, "filter"): [KeepAll(), DropTruncated()],
    (WeightedLikelihood, "target"): [Uniform(), Logged(), Boltzmann(2.0), Exponential(Centre(), 0.5)],
    (WeightedLikelihood, "term"): [LogLikelihood(), ProbabilityScaled(), SurprisalGated(2.0, -1.0)],
    (WeightedLikelihood, "aggregate"): [SequenceMean(), TokenMean(), ConstantLength(7), SequenceSum()],
    (Distillation, "filter"): [KeepAll(), DropTruncated()],
    (Distillation, "divergence"): [
        TeacherReverse(),
        TeacherReverse(0.5),
        TeacherForward(),
        TeacherTopK(k=3),
        TeacherTopK(k=3, support="student"),
        TeacherTopK(k=3, support="intersection", direction="forward"),
        TeacherTopK(k=3, renormalise=True),
        TeacherSampled(),
        TeacherSampled(0.5),
        TeacherSampled(limit=0.4),
    ],
    (Distillation, "advantage"): [NoReward(), Centre(), ZScore(1, 1e-6)],
    (Distillation, "ratio"): [TokenRatio(), SequenceRatio()],
    (Distillation, "clip"): [NoClip(), Clip(0.2, 0.28), Cap(1.4)],
    (Distillation, "aggregate"): [SequenceMean(), TokenMean(), ConstantLength(7), SequenceSum()],
    (Preference, "anchor"): [ReferencePolicy(), NoAnchor()],
    (Preference, "length"): [TokenMeanLength(), TokenSumLength()],
    (Preference, "margin"): [
        ScoreDifference(0.5),
        ScoreDifference(0.5, 1.0),
        DivergenceBaseline(0.5),
        DivergenceBaseline(0.5, 1.2, 0.3),
    ],
    (Preference, "link"): [LogSigmoid(), LogSigmoid(0.3), LogSigmoid(1.0, 0.2), SquaredMargin(0.5), Sigmoid()],
    (Preference, "likelihood"): [NoLikelihood(), ChosenLikelihood(0.7)],
}
"""Every point that a neighbour may be put in place of."""

BASES: dict[type[Objective], Objective] = {
    PolicyGradient: replace(PG, advantage=Centre(), kl=NoKL()),
    TrajectoryBalance: replace(recipe("flowrl-released").objective, reward=Raw(), log_z=NoLogZ()),
    TargetPolicy: recipe("tpo").objective,
    TokenTargets: recipe("tpo-token").objective,
    TokenGradients: recipe("grpo-token").objective,
    WeightedLikelihood: recipe("boltzmann").objective,
    Distillation: recipe("opd-grpo").objective,
    Preference: recipe("dpo").objective,
}

ALONE: list[Objective] = [
    replace(PG, ratio=OnPolicy(), clip=Delight(), kl=NoKL()),
    *(
        replace(PG, ratio=OnPolicy(), clip=clip, kl=NoKL())
        for clip in (FreshDelight(), GuardedDelight(), UncertainDelight(), InverseProbability())
    ),
    replace(PG, ratio=OnPolicy(), clip=NoClip(), kl=NoKL()),
    replace(PG, advantage=Whitened(), kl=K1PerToken(0.2)),
    replace(PG, kl=ForwardKL(0.2)),
    replace(recipe("orpo").objective, margin=LogOddsDifference(), link=LogSigmoid(0.8)),
]
"""Points that go with some others only."""


def neighbours() -> list[Objective]:
    """Each point of each axis, in an objective that is otherwise the base of its family."""
    found = [replace(BASES[family], **{axis: point}) for (family, axis), points in AXES.items() for point in points]
    return list(dict.fromkeys([*found, *ALONE]))
