"""Clip shares: each clip by bounds of its own, and those are where its loss changes."""

from __future__ import annotations

import numpy as np
import pytest

from karl_fast.objective.axes.clip import (
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
from karl_fast.rl.metrics import beyond

RATIOS = (0.1, 0.3, 0.5, 0.79, 0.81, 1.0, 1.19, 1.21, 1.49, 1.51, 2.9, 3.1, 9.0)


def moved(ratios: tuple[float, ...], advantage: float) -> Drift:
    """A rollout of one token for each ratio, and a token after it that does not count."""
    import mlx.core as mx

    log_ratio = np.zeros((len(ratios), 2), dtype=np.float32)
    log_ratio[:, 0] = np.log(ratios)
    mask = np.array([[True, False]] * len(ratios))
    advantages = np.full((len(ratios), 1), advantage, dtype=np.float32)
    logp = np.where(mask, np.float32(-0.5), np.float32(0))
    return Drift(*map(mx.array, (log_ratio, advantages, logp, mask)))


def shares(clip: Clipper, advantage: float) -> tuple[list[float], list[float]]:
    """Which of the ratios it counts as too low, and which as too high."""
    found = [beyond(clip, moved((ratio,), advantage)) for ratio in RATIOS]
    low, high = (beyond(clip, moved(RATIOS, advantage))[side] * len(RATIOS) for side in (0, 1))
    assert (low, high) == pytest.approx(tuple(sum(one[side] for one in found) for side in (0, 1)))
    return tuple([r for r, one in zip(RATIOS, found, strict=True) if one[side]] for side in (0, 1))  # type: ignore[return-value]


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
    ],
    ids=lambda value: str(value) if isinstance(value, Clipper) else "",
)
def test_a_clip_counts_what_is_beyond_its_own_bounds(
    clip: Clipper, gain: tuple[list[float], list[float]], loss: tuple[list[float], list[float]]
) -> None:
    assert shares(clip, 1.0) == gain
    assert shares(clip, -1.0) == loss
    assert beyond(clip, moved(RATIOS, 0.0)) == (0.0, 0.0)


def derivative(clip: Clipper, ratio: float, advantage: float) -> float:
    """Of the loss by the log ratio, with the log-probability held."""
    import mlx.core as mx

    one = moved((ratio,), advantage)
    loss = lambda log_ratio: clip(Drift(log_ratio, one.advantages, one.logp, one.mask))[0, 0]  # noqa: E731
    return float(mx.grad(loss)(one.log_ratio)[0, 0])


@pytest.mark.parametrize("clip", [Clip(0.2, 0.5), DualClip(0.2, 0.5, 3.0), TwoSided(0.2, 0.5, 3.0), NoClip()], ids=str)
@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_a_bound_on_the_ratio_is_where_the_gradient_ends(clip: Clipper, advantage: float) -> None:
    low, high = shares(clip, advantage)
    assert [ratio for ratio in RATIOS if derivative(clip, ratio, advantage) == 0.0] == low + high


def coefficient(clip: Clipper, ratio: float, advantage: float) -> float:
    """Of the log-probability in the loss, as a share of the advantage."""
    return float(clip(moved((ratio,), advantage))[0, 0]) / (0.5 * advantage)


@pytest.mark.parametrize("clip", [Cap(5.0), Cap(1.2, 0.8), Flip(0.2, 0.5, 3.0)], ids=str)
@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_a_bound_on_a_weight_is_where_the_weight_is_another(clip: Clipper, advantage: float) -> None:
    low, high = shares(clip, advantage)
    turned = isinstance(clip, Flip) and advantage > 0
    other = [
        ratio
        for ratio in RATIOS
        if coefficient(clip, ratio, advantage) != pytest.approx(1 / ratio if turned else ratio, rel=1e-5)
    ]
    assert other == low + high
