"""Clip shares: each clip by bounds of its own, and those are where its loss changes."""

from __future__ import annotations

import numpy as np
import pytest

from karl_fast.objective import Batch, Evaluation, PolicyGradient
from karl_fast.objective.axes.advantage import Given
from karl_fast.objective.axes.aggregate import TokenMean
from karl_fast.objective.axes.clip import (
    Cap,
    Clip,
    Clipper,
    Delight,
    DualClip,
    Flip,
    GeometricClip,
    GuardedDelight,
    InverseProbability,
    LogWeight,
    MaskNegatives,
    NoClip,
    SoftGate,
    TwoSided,
    VariancePenalty,
)
from karl_fast.objective.axes.filter import KeepAll
from karl_fast.objective.axes.kl import NoKL
from karl_fast.objective.axes.ratio import OnPolicy, TokenRatio

RATIOS = (0.1, 0.3, 0.5, 0.79, 0.81, 1.0, 1.19, 1.21, 1.49, 1.51, 2.9, 3.1, 9.0)


def found(clip: Clipper, ratios: tuple[float, ...], advantage: float) -> Evaluation:
    """A rollout of one token for each ratio, and a token after it that does not count."""
    mask = np.array([[True, False]] * len(ratios))
    logp = np.where(mask, -0.5, 0.0)
    old = logp - np.where(mask, np.log(np.array(ratios))[:, None], 0.0)
    ratio = OnPolicy() if isinstance(clip, Delight | LogWeight) else TokenRatio()
    objective = PolicyGradient(KeepAll(), Given(), ratio, clip, NoKL(), TokenMean())
    batch = Batch(mask, logp_old=old, advantages=np.full(len(ratios), advantage))
    return objective(logp, objective.score(batch))


def beyond(clip: Clipper, ratios: tuple[float, ...], advantage: float) -> tuple[float, float]:
    statistics = found(clip, ratios, advantage).statistics
    return statistics["clip_low"], statistics["clip_high"]


def shares(clip: Clipper, advantage: float) -> tuple[list[float], list[float]]:
    """Which of the ratios it counts as too low, and which as too high."""
    each = [beyond(clip, (ratio,), advantage) for ratio in RATIOS]
    low, high = (beyond(clip, RATIOS, advantage)[side] * len(RATIOS) for side in (0, 1))
    assert (low, high) == pytest.approx(tuple(sum(one[side] for one in each) for side in (0, 1)))
    return tuple([r for r, one in zip(RATIOS, each, strict=True) if one[side]] for side in (0, 1))  # type: ignore[return-value]


def below(bound: float) -> list[float]:
    return [ratio for ratio in RATIOS if ratio < bound]


def above(bound: float) -> list[float]:
    return [ratio for ratio in RATIOS if ratio > bound]


@pytest.mark.parametrize(
    ("clip", "gain", "loss"),
    [
        (Clip(0.2, 0.5), ([], above(1.5)), (below(0.8), [])),
        (DualClip(0.2, 0.5, 3.0), ([], above(1.5)), (below(0.8), above(3.0))),
        (TwoSided(0.2, 0.5, 3.0), ([], above(1.5)), (below(0.8), above(3.0))),
        # exp(0.4) is 1.492 and exp(-0.4) 0.670, where 1 - 0.4 is 0.6 and 1 + 0.4 is 1.4.
        (GeometricClip(0.6, 0.4), ([], above(1.4918)), (below(0.5488), [])),
        (Cap(5.0), ([], [9.0]), ([], [9.0])),
        (Cap(1.2, 0.8), (below(0.8), above(1.2)), (below(0.8), above(1.2))),
        (Flip(0.2, 0.5, 3.0), (below(1 / 3), above(1.5)), (below(0.8), above(3.0))),
        (MaskNegatives(Clip(0.2, 0.5), 0.5), ([], above(1.5)), ([0.79], [])),
        (MaskNegatives(Cap(5.0, 0.8), 0.5), (below(0.8), [9.0]), ([0.79], [9.0])),
        (SoftGate(1.0, 1.05), ([], []), ([], [])),
        (VariancePenalty(0.3), ([], []), ([], [])),
        (NoClip(), ([], []), ([], [])),
        (Delight(), ([], []), ([], [])),
        (GuardedDelight(), ([], []), ([], [])),
        (InverseProbability(), ([], []), ([], [])),
    ],
    ids=lambda value: str(value) if isinstance(value, Clipper) else "",
)
def test_clip_counts_beyond_its_own_bounds(
    clip: Clipper, gain: tuple[list[float], list[float]], loss: tuple[list[float], list[float]]
) -> None:
    assert shares(clip, 1.0) == gain
    assert shares(clip, -1.0) == loss
    assert beyond(clip, RATIOS, 0.0) == (0.0, 0.0)


@pytest.mark.parametrize("clip", [Clip(0.2, 0.5), DualClip(0.2, 0.5, 3.0), TwoSided(0.2, 0.5, 3.0), NoClip()], ids=str)
@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_ratio_bound_ends_the_gradient(clip: Clipper, advantage: float) -> None:
    low, high = shares(clip, advantage)
    assert [ratio for ratio in RATIOS if found(clip, (ratio,), advantage).coefficients[0, 0] == 0.0] == low + high


def coefficient(clip: Clipper, ratio: float, advantage: float) -> float:
    """Of the log-probability in the loss, as a share of the advantage."""
    return found(clip, (ratio,), advantage).loss / (0.5 * advantage)


@pytest.mark.parametrize("clip", [Cap(5.0), Cap(1.2, 0.8), Flip(0.2, 0.5, 3.0)], ids=str)
@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_weight_bound_changes_the_weight(clip: Clipper, advantage: float) -> None:
    low, high = shares(clip, advantage)
    turned = isinstance(clip, Flip) and advantage > 0
    other = [
        ratio
        for ratio in RATIOS
        if coefficient(clip, ratio, advantage) != pytest.approx(1 / ratio if turned else ratio, rel=1e-5)
    ]
    assert other == low + high
