"""A batch on which every axis matters, and every point of every axis."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np

from karl_fast.objective import (
    Batch,
    Objective,
    PolicyGradient,
    Recipe,
    Scored,
    TargetPolicy,
    TrajectoryBalance,
    WeightedLikelihood,
    recipe,
)
from karl_fast.objective.advantage import (
    Anchored,
    Centre,
    Given,
    LeaveOneOut,
    MeanScaled,
    Raw,
    Whitened,
    ZScore,
)
from karl_fast.objective.aggregate import ConstantLength, SequenceMean, SequenceSum, TokenMean
from karl_fast.objective.balance import (
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
from karl_fast.objective.candidates import SetScore
from karl_fast.objective.clip import (
    Cap,
    Clip,
    Delight,
    DualClip,
    Flip,
    GeometricClip,
    MaskNegatives,
    NoClip,
    SoftGate,
    TwoSided,
    VariancePenalty,
)
from karl_fast.objective.filter import Both, DropConstantGroups, DropTruncated, KeepAll, MaxAge, MixedGroups
from karl_fast.objective.gate import Gated, TopGated
from karl_fast.objective.kl import K2, K3, K1InReward, K1PerToken, NoKL
from karl_fast.objective.likelihood import (
    Boltzmann,
    Exponential,
    Logged,
    LogLikelihood,
    ProbabilityScaled,
    Uniform,
)
from karl_fast.objective.log_z import GroupOptimum, Learned, NoLogZ, SoftValue
from karl_fast.objective.ratio import (
    OnPolicy,
    SequenceProduct,
    SequenceRatio,
    SequenceTokenRatio,
    TokenRatio,
    TurnRatio,
)
from karl_fast.objective.target_policy import Tilted

if TYPE_CHECKING:
    from numpy.typing import NDArray

LENGTHS = [6, 3, 5, 2, 6, 4, 1, 3, 4, 5, 2, 3, 2, 4, 3, 6]
"""Of four groups of four; one token of the first rollout is a tool's."""


def logps(seed: int, spread: float = 0.5, around: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    drawn = np.random.default_rng(seed).normal(size=(len(LENGTHS), max(LENGTHS))) * spread
    return np.asarray(-np.exp(drawn) if around is None else np.minimum(around + drawn, -0.01))


def make_mask() -> NDArray[np.bool_]:
    mask = np.arange(max(LENGTHS))[None, :] < np.array(LENGTHS)[:, None]
    mask[0, 2] = False
    return np.asarray(mask)


MASK = make_mask()
OLD = logps(1)
OLD[4] = -1.5
REF = logps(2, 0.4, OLD)
NEW = logps(3, 0.6, OLD)
NEW[4] = -0.9
"""Far enough from the behaviour policy that every bound is crossed both ways; the fifth rollout 36 times as likely."""

REWARDS = np.array([1.0, 0.0, 1.0, 0.5, 1.0, 1.0, 0.0, 0.0, 0.7, 0.7, 0.7, 0.7, 0.1, 0.3, 0.2, 0.2])
OUTCOMES = np.array([1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.1, 0.2, 0.1, 0.1, 0.0, 0.0, 0.0, 0.0])
"""The third group differs and is all wrong; the fourth differs in shape alone, and its outcomes are constant."""

TURNS = np.where(MASK, np.arange(6)[None, :] // 2, -1)
TURN_OFFSETS = np.concatenate([[0], np.cumsum(TURNS.max(1) + 1)])
LOG_Z = np.linspace(-0.5, 0.7, len(LENGTHS))

BATCH = Batch(
    mask=MASK,
    rewards=REWARDS,
    group_ids=np.repeat(np.array([7, 3, 5, 9]), 4),
    logp_old=OLD,
    logp_ref=REF,
    outcomes=OUTCOMES,
    advantages=np.linspace(-1.2, 1.5, 16),
    token_rewards=0.1 * logps(4),
    truncated=np.arange(16) % 5 == 4,
    ages=np.arange(16) % 3,
    turns=TURNS,
    turn_rewards=np.random.default_rng(5).normal(size=TURN_OFFSETS[-1]),
    turn_offsets=TURN_OFFSETS,
    state_ids=np.arange(TURN_OFFSETS[-1]) % 3,
    set_ids=np.repeat(np.arange(12), [2, 1, 1] * 4),
    reward_vectors=np.random.default_rng(6).uniform(size=(16, 2)),
    weights=np.random.default_rng(7).uniform(0.2, 2, size=16),
    seed=3,
)

PG = recipe("grpo").objective
AXES: dict[tuple[type[Objective], str], list[Any]] = {
    (PolicyGradient, "filter"): [
        KeepAll(),
        DropConstantGroups(),
        MixedGroups(0.4),
        DropTruncated(),
        MaxAge(1),
        Both(DropConstantGroups(), DropTruncated()),
    ],
    (PolicyGradient, "advantage"): [
        Given(),
        Raw(),
        Centre(),
        ZScore(1, 1e-6),
        LeaveOneOut(),
        MeanScaled(),
        Whitened(),
        Anchored(),
        SetScore(Centre(), 4),
        Gated(Centre(), 0.4),
        TopGated(Centre(), 0.3),
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
    ],
    (PolicyGradient, "kl"): [NoKL(), K1InReward(0.3), K2(0.1), K2(0.1, True), K3(0.1), K3(0.1, True)],
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
    (WeightedLikelihood, "filter"): [KeepAll(), DropTruncated()],
    (WeightedLikelihood, "target"): [Uniform(), Logged(), Boltzmann(2.0), Exponential(Centre(), 0.5)],
    (WeightedLikelihood, "term"): [LogLikelihood(), ProbabilityScaled()],
    (WeightedLikelihood, "aggregate"): [SequenceMean(), TokenMean(), ConstantLength(7), SequenceSum()],
}
"""Every point that a neighbour may be put in place of."""

BASES: dict[type[Objective], Objective] = {
    PolicyGradient: replace(PG, advantage=Centre(), kl=NoKL()),
    TrajectoryBalance: replace(recipe("flowrl-released").objective, reward=Raw(), log_z=NoLogZ()),
    TargetPolicy: recipe("tpo").objective,
    WeightedLikelihood: recipe("boltzmann").objective,
}

ALONE: list[Objective] = [
    replace(PG, ratio=OnPolicy(), clip=Delight(), kl=NoKL()),
    replace(PG, ratio=OnPolicy(), clip=NoClip(), kl=NoKL()),
    replace(PG, advantage=Whitened(), kl=K1PerToken(0.2)),
]
"""Points that go with some others only."""


def neighbours() -> list[Objective]:
    """Each point of each axis, in an objective that is otherwise the base of its family."""
    found = [replace(BASES[family], **{axis: point}) for (family, axis), points in AXES.items() for point in points]
    return list(dict.fromkeys([*found, *ALONE]))


def f64(array: Any) -> mx.array:
    return mx.array(np.asarray(array, dtype=np.float64), dtype=mx.float64)


def extra(objective: Objective, rows: Any = slice(None)) -> dict[str, Any]:
    """log Z, where it is learned."""
    learned = isinstance(objective, TrajectoryBalance) and objective.log_z.learned
    return {"log_z": f64(LOG_Z[rows])} if learned else {}


def as_float64(scored: Scored) -> Scored:
    """A likelihood has no log-probability in its batch that would say float64."""
    return Scored(
        **{n: a.astype(mx.float64) if a is not None and a.dtype == mx.float32 else a for n, a in vars(scored).items()}
    )


def loss_of(
    objective: Objective, batch: Batch = BATCH, logp: Any = NEW, **more: Any
) -> tuple[float, NDArray[np.float64]]:
    """The loss and its gradient by the log-probabilities."""
    scored, more = as_float64(objective.score(batch)), {**extra(objective), **more}
    loss, gradient = mx.value_and_grad(lambda values: objective(values, scored, **more))(f64(logp))
    return float(np.asarray(loss)), np.array(gradient)


def differs(one: tuple[float, Any], other: tuple[float, Any], by: float = 1e-9) -> bool:
    return abs(one[0] - other[0]) > by or bool(np.abs(one[1] - other[1]).max() > by)


def numbers(point: Any, path: str = "") -> list[tuple[str, float]]:
    """Every number inside a point, however deep."""
    found: list[tuple[str, float]] = []
    for field in fields(point) if is_dataclass(point) else ():
        value = getattr(point, field.name)
        found += numbers(value, f"{path}{field.name}.") if is_dataclass(value) else [(path + field.name, value)]
    return found


def changed(point: Any, path: str, value: float) -> Any:
    """A point with one of its numbers replaced."""
    name, _, rest = path.partition(".")
    return replace(point, **{name: changed(getattr(point, name), rest, value) if rest else value})


def title(thing: Any) -> str:
    return thing.name if isinstance(thing, Recipe) else repr(thing)
