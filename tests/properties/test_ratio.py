"""Ratios and policy losses equal their twin; and what holds between the points of their axes."""

from __future__ import annotations

import math
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from karl_fast import ratio
from karl_fast.ratio import (
    Cap,
    Clip,
    ConstantLength,
    DualClip,
    Level,
    NoClip,
    SequenceMean,
    SequenceSum,
    TokenMean,
    TwoSided,
    policy_loss,
)
from tests.properties.naive import ratio as naive
from tests.tolerances import F32_TOKENS, SLOPE, TWIN

LEVELS = get_args(Level)
CLIPS = [Clip(0.2, 0.28), DualClip(0.2, 0.2, 3.0), TwoSided(0.2, 0.2, 4.0), Cap(5.0), Cap(1.2, floor=0.8), NoClip()]
AGGREGATES = [
    *((point, None) for point in (SequenceMean(), TokenMean(), ConstantLength(7), SequenceSum())),
    *((SequenceMean(), 9), (TokenMean(), 31)),
]
"""Points, and what they divide by: None for what they count themselves."""
LENGTHS = st.lists(st.integers(0, 9), min_size=1, max_size=6)


def made(seed: int, lengths: list[int], *, spread: float = 0.3, drop: float = 0.3, per: str = "token") -> Any:
    """Sequences of these lengths in turns of up to three tokens; `drop` of the tokens masked, with garbage in them."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    size = int(offsets[-1])
    mask = rng.random(size) >= drop
    turns = sorted({*offsets.tolist(), *(np.flatnonzero(rng.random(size) < 0.4).tolist())})
    old = -rng.exponential(1.0, size)
    logp = old + rng.normal(0, spread, size)
    logp[~mask] = rng.choice([np.nan, np.inf, -np.inf, 7.0], size)[~mask]
    of = {"token": np.arange(size), "sequence": np.repeat(np.arange(len(lengths)), lengths)}
    of["turn"] = np.repeat(np.arange(len(turns) - 1), np.diff(turns))
    count = {"token": size, "sequence": len(lengths), "turn": len(turns) - 1}
    given = rng.choice([-1.5, -1.0, 0.0, 0.7, 2.0], count[per])
    return SimpleNamespace(
        logp=logp,
        old=old,
        mask=mask,
        offsets=offsets,
        turn_offsets=np.array(turns, dtype=np.int64),
        given=given,
        advantages=given[of[per]],
        per=per,
    )


def found(
    batch: Any, level: str, clip: Any, aggregate: Any, clamp: float | None = None, dtype: Any = np.float64
) -> Any:
    turns = batch.turn_offsets if "turn" in (level, batch.per) else None
    point, denominator = naive.divided(aggregate)
    return policy_loss(
        batch.logp.astype(dtype),
        batch.old.astype(dtype),
        batch.given,
        batch.offsets,
        mask=batch.mask,
        turn_offsets=turns,
        level=level,
        per=batch.per,
        clip=clip,
        aggregate=point,
        denominator=denominator,
        log_ratio_clamp=clamp,
    )


@given(
    st.integers(0, 2**32),
    LENGTHS,
    st.sampled_from(LEVELS),
    st.sampled_from(CLIPS),
    st.sampled_from(AGGREGATES),
    st.sampled_from([None, 0.1, 20.0]),
    st.sampled_from(["sequence", "turn", "token"]),
    st.sampled_from([0.3, 3.0, 40.0]),
    st.sampled_from([0.0, 0.3, 1.0]),
)
def test_policy_loss_equals_its_twin(
    seed: int,
    lengths: list[int],
    level: str,
    clip: Any,
    aggregate: Any,
    clamp: float | None,
    per: str,
    spread: float,
    drop: float,
) -> None:
    batch = made(seed, lengths, spread=spread, drop=drop, per=per)
    got, wanted = found(batch, level, clip, aggregate, clamp), naive.policy_loss(batch, level, clip, aggregate, clamp)
    size = float(np.abs(wanted["coefficient"]).max(initial=1.0))
    room = 100 * TWIN * size * max(1, len(batch.logp))
    assert math.isclose(got.loss, wanted["loss"], rel_tol=100 * TWIN, abs_tol=room)
    # The derivative of a ratio of exp(80) has the rounding of 80, 1e-14, in its exponent.
    np.testing.assert_allclose(got.coefficient, wanted["coefficient"], rtol=100 * TWIN, atol=TWIN * size)
    assert np.all(got.coefficient[~batch.mask] == 0.0)
    ratios = wanted["ratios"]
    assert (got.tokens, got.sequences) == (batch.mask.sum(), naive_sequences(batch))
    if len(ratios):
        most = float(ratios.max())
        assert math.isclose(got.ratio_mean, ratios.mean(), rel_tol=100 * TWIN, abs_tol=TWIN)  # sums distances from 1
        assert math.isclose(got.ratio_std, ratios.std(), rel_tol=1e-9, abs_tol=100 * TWIN * max(1.0, most))
        assert math.isclose(got.ratio_min, ratios.min(), rel_tol=100 * TWIN)
        assert math.isclose(got.ratio_max, most, rel_tol=100 * TWIN)
    else:
        assert got.loss == 0.0
        assert all(math.isnan(x) for x in (got.ratio_mean, got.ratio_std, got.ratio_min, got.ratio_max))


def naive_sequences(batch: Any) -> int:
    return sum(batch.mask[a:b].any() for a, b in pairwise(batch.offsets))


@given(
    st.integers(0, 2**32),
    LENGTHS,
    st.sampled_from(LEVELS),
    st.sampled_from(CLIPS),
    st.sampled_from(["sequence", "token"]),
)
def test_float32_losses_agree_to_seven_digits(seed: int, lengths: list[int], level: str, clip: Any, per: str) -> None:
    batch = made(seed, lengths, per=per)
    batch.logp, batch.old = (column.astype(np.float32).astype(np.float64) for column in (batch.logp, batch.old))
    single, double = (found(batch, level, clip, TokenMean(), dtype=d) for d in (np.float32, np.float64))
    assert single.coefficient.dtype == np.float32
    assert math.isclose(single.loss, double.loss, rel_tol=F32_TOKENS, abs_tol=10 * F32_TOKENS)
    np.testing.assert_allclose(single.coefficient, double.coefficient, rtol=10 * F32_TOKENS, atol=F32_TOKENS)


@given(st.integers(0, 2**32), LENGTHS, st.booleans())
def test_log_ratios_equal_their_twins(seed: int, lengths: list[int], product: bool) -> None:
    batch = made(seed, lengths)
    tokens = ratio.token_log_ratio(batch.logp, batch.old, mask=batch.mask)
    np.testing.assert_array_equal(tokens, np.where(batch.mask, batch.logp - batch.old, 0.0))
    for offsets in (batch.offsets, batch.turn_offsets):
        got = ratio.sequence_log_ratio(batch.logp, batch.old, offsets, mask=batch.mask, product=product)
        rows = [np.flatnonzero(batch.mask[a:b]) + a for a, b in pairwise(offsets)]
        sums = [math.fsum(tokens[row]) / (1 if product else len(row)) if len(row) else math.nan for row in rows]
        np.testing.assert_allclose(got, sums, rtol=TWIN, atol=TWIN)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("clip", [clip for clip in CLIPS if not isinstance(clip, Cap)], ids=str)
@pytest.mark.parametrize("per", ["sequence", "turn", "token"])
@pytest.mark.parametrize("clamp", [None, 0.25])
def test_coefficients_are_the_slope_of_the_loss(level: str, clip: Any, per: str, clamp: float | None) -> None:
    """GSPO-token's value does not depend on single tokens: its slope is taken where its tokens share an advantage."""
    if level == "sequence-token" and per != "sequence":
        pytest.skip("its loss is no potential of its gradient")
    batch = made(11, [5, 1, 0, 8, 3], per=per)
    coefficient = found(batch, level, clip, TokenMean(), clamp).coefficient
    for token in np.flatnonzero(batch.mask):
        ends = []
        for step in (1e-6, -1e-6):
            moved = SimpleNamespace(**vars(batch))
            moved.logp = batch.logp.copy()
            moved.logp[token] += step
            ends.append(found(moved, level, clip, TokenMean(), clamp).loss)
        assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(coefficient[token], rel=SLOPE, abs=SLOPE)


@pytest.mark.parametrize("level", ["token", "sequence", "sequence-product", "sequence-token"])
@pytest.mark.parametrize("clip", [*CLIPS[:3], Cap(1.1), NoClip()], ids=str)
def test_coefficients_equal_autograd(level: str, clip: Any) -> None:
    torch = pytest.importorskip("torch")
    batch = made(5, [4, 7, 2, 9], drop=0.0)
    logp = torch.tensor(batch.logp, requires_grad=True)
    owner = torch.repeat_interleave(torch.arange(4), torch.tensor([4, 7, 2, 9]))
    log_ratio, advantages = logp - torch.tensor(batch.old), torch.tensor(batch.advantages)
    if level != "token":
        sums = torch.zeros(4, dtype=torch.float64).index_add(0, owner, log_ratio)
        sums = sums if level == "sequence-product" else sums / torch.tensor([4.0, 7, 2, 9])
        shared = sums[owner]
        log_ratio = shared.detach() + logp - logp.detach() if level == "sequence-token" else shared
    loss = -autograd_term(torch, clip, log_ratio.exp(), advantages, logp).mean()
    loss.backward()
    got = found(batch, level, clip, TokenMean())
    assert got.loss == pytest.approx(loss.item(), rel=1e-12)
    np.testing.assert_allclose(got.coefficient, logp.grad.numpy(), rtol=1e-11, atol=1e-15)


def autograd_term(torch: Any, clip: Any, r: Any, advantages: Any, logp: Any) -> Any:
    """What is maximised, as trainers write it."""
    if isinstance(clip, Cap):
        return r.clamp(clip.floor, clip.ceiling).detach() * advantages * logp
    if isinstance(clip, NoClip):
        return r * advantages
    free = (r.clamp(max=clip.delta) if isinstance(clip, TwoSided) else r) * advantages
    least = torch.minimum(free, r.clamp(1 - clip.low, 1 + clip.high) * advantages)
    if isinstance(clip, DualClip):
        return torch.where(advantages < 0, torch.maximum(least, clip.bound * advantages), least)
    return least


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("clip", CLIPS, ids=str)
@pytest.mark.parametrize("aggregate", AGGREGATES, ids=str)
def test_on_policy_every_clip_is_reinforce(level: str, clip: Any, aggregate: Any) -> None:
    batch = made(3, [5, 1, 0, 8, 3], per="sequence")
    batch.logp = np.where(batch.mask, batch.old, np.nan)
    lengths = [int(batch.mask[a:b].sum()) for a, b in pairwise(batch.offsets)]
    weight = np.repeat(naive.weights(aggregate, lengths), np.diff(batch.offsets))
    # The product of a sequence's ratios has the gradient of all its terms in each token.
    summed = level == "sequence-product" and not isinstance(clip, Cap)
    times = np.repeat(lengths, np.diff(batch.offsets)) if summed else 1
    wanted = np.where(batch.mask, -weight * batch.advantages * times, 0.0)
    got = found(batch, level, clip, aggregate)
    np.testing.assert_allclose(got.coefficient, wanted, rtol=1e-14)
    assert (got.ratio_mean, got.ratio_std, got.clip_fraction_low, got.clip_fraction_high) == (1.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("clip", CLIPS, ids=str)
def test_at_one_length_the_three_means_are_one(level: str, clip: Any) -> None:
    batch = made(7, [6] * 5, drop=0.0)
    means = [found(batch, level, clip, how) for how in (TokenMean(), SequenceMean(), ConstantLength(6))]
    for other in means[1:]:
        assert math.isclose(other.loss, means[0].loss, rel_tol=1e-14)
        np.testing.assert_allclose(other.coefficient, means[0].coefficient, rtol=1e-14)
    assert math.isclose(found(batch, level, clip, SequenceSum()).loss, 6 * means[0].loss, rel_tol=1e-14)


def test_at_other_lengths_no_two_aggregates_are_one() -> None:
    batch = made(7, [6, 2, 9], drop=0.0)
    losses = [found(batch, "token", NoClip(), how).loss for how in (*AGGREGATES[:4], ConstantLength(9))]
    assert len({round(loss, 9) for loss in losses}) == len(losses)


@pytest.mark.parametrize("clip", CLIPS, ids=str)
@pytest.mark.parametrize("aggregate", AGGREGATES, ids=str)
def test_single_token_rollouts_have_one_ratio(clip: Any, aggregate: Any) -> None:
    batch = made(2, [1] * 40)
    first = found(batch, "token", clip, aggregate)
    for level in LEVELS[1:]:
        other = found(batch, level, clip, aggregate)
        assert math.isclose(other.loss, first.loss, rel_tol=1e-13)
        np.testing.assert_allclose(other.coefficient, first.coefficient, rtol=1e-13)


@pytest.mark.parametrize("clip", CLIPS, ids=str)
def test_gspo_token_equals_gspo_for_shared_advantages(clip: Any) -> None:
    for per, same in (("sequence", True), ("token", False)):
        batch = made(9, [5, 3, 8], per=per, spread=0.1, drop=0.0)
        sequence, token = (found(batch, level, clip, TokenMean()) for level in ("sequence", "sequence-token"))
        assert math.isclose(sequence.loss, token.loss, rel_tol=1e-13)
        equal = np.allclose(sequence.coefficient, token.coefficient, rtol=1e-13, atol=0)
        assert equal == (same or isinstance(clip, Cap))


def test_a_two_sided_clip_is_the_dual_clip() -> None:
    batch = made(4, [30, 20], spread=1.5)
    clips = (TwoSided(0.2, 0.2, 2.0), DualClip(0.2, 0.2, 2.0))
    two, dual = (found(batch, "token", clip, TokenMean()) for clip in clips)
    assert two.loss == dual.loss
    np.testing.assert_array_equal(two.coefficient, dual.coefficient)
    assert two.clip_fraction_bound > 0.0


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("aggregate", AGGREGATES[:4], ids=str)
@pytest.mark.parametrize("clip", [Clip(0.2, 0.2), Cap(1.3)], ids=str)
def test_parts_add_up_to_the_batch(level: str, aggregate: Any, clip: Any) -> None:
    whole = made(6, [5, 0, 3, 8, 1], per="sequence")
    total = found(whole, level, clip, aggregate)
    point, _ = aggregate
    count = total.tokens if isinstance(point, TokenMean) else total.sequences
    loss, pieces = 0.0, []
    for rows in (slice(0, 2), slice(2, 3), slice(3, 5)):
        begin, end = whole.offsets[rows.start], whole.offsets[rows.stop]
        part = SimpleNamespace(**vars(whole))
        part.logp, part.old, part.mask = (c[begin:end].copy() for c in (whole.logp, whole.old, whole.mask))
        part.offsets = whole.offsets[rows.start : rows.stop + 1] - begin
        inside = (whole.turn_offsets >= begin) & (whole.turn_offsets <= end)
        part.turn_offsets, part.given = whole.turn_offsets[inside] - begin, whole.given[rows].copy()
        found_part = found(part, level, clip, (point, count))
        loss += found_part.loss
        pieces.append(found_part.coefficient)
    assert math.isclose(loss, total.loss, rel_tol=1e-13)
    np.testing.assert_array_equal(np.concatenate(pieces), total.coefficient)


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_an_empty_sequence_enters_no_mean_by_default(level: str) -> None:
    batch = made(8, [4, 3], drop=0.0, per="sequence")
    longer = SimpleNamespace(**vars(batch))
    longer.offsets = np.array([0, 4, 4, 7])
    longer.given = np.array([batch.given[0], np.nan, batch.given[1]])
    for aggregate in (SequenceMean(), SequenceSum(), ConstantLength(5)):
        alone = found(batch, level, NoClip(), aggregate)
        assert found(longer, level, NoClip(), aggregate).loss == alone.loss
        assert found(longer, level, NoClip(), (aggregate, 3)).loss == pytest.approx(alone.loss * 2 / 3)


def test_a_batch_of_blocks_equals_its_twin() -> None:
    """Blocks are of 32768 tokens: this one has three, and a sequence longer than one."""
    rng = np.random.default_rng(1)
    lengths = [40_000, *rng.integers(0, 4000, 15).tolist()]
    batch = made(1, lengths, drop=0.1, per="sequence")
    for level in ("token", "sequence"):
        got = found(batch, level, Clip(0.2, 0.2), TokenMean())
        wanted = naive.policy_loss(batch, level, Clip(0.2, 0.2), TokenMean())
        assert math.isclose(got.loss, wanted["loss"], rel_tol=1e-10)
        assert math.isclose(got.ratio_std, wanted["ratios"].std(), rel_tol=1e-10)
        np.testing.assert_allclose(got.coefficient, wanted["coefficient"], rtol=1e-10, atol=1e-20)


@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("tokens", [300, 5000])
def test_the_spread_of_far_ratios_keeps_digits(level: Any, tokens: int) -> None:
    """Ratios near 1e8 with a deviation of 0.05: their squares have no digit of it left."""
    wanted = 1e8 + np.random.default_rng(3).normal(0, 0.05, tokens)
    logp, mask = np.log(wanted), np.arange(tokens) % 5 != 0
    offsets = np.arange(tokens + 1) if level == "sequence" else np.array([0, tokens])
    how: Any = {"level": level, "clip": NoClip(), "aggregate": TokenMean(), "per": "token", "mask": mask}
    got = policy_loss(logp, np.zeros(tokens), np.ones(tokens), offsets, **how)
    assert math.isclose(got.ratio_std, np.exp(logp)[mask].std(), rel_tol=1e-6)


@given(st.integers(0, 2**32), LENGTHS, st.sampled_from(AGGREGATES), st.sampled_from([0.0, 0.3, 1.0]))
def test_token_weights_are_those_of_the_loss(seed: int, lengths: list[int], aggregate: Any, drop: float) -> None:
    """Without a clip and on policy the coefficient of an advantage of -1 is the weight."""
    batch = made(seed, lengths, drop=drop)
    point, denominator = aggregate
    divided: Any = {"aggregate": point, "denominator": denominator}
    got = ratio.token_weights(batch.offsets, mask=batch.mask, **divided)
    how: Any = {"clip": NoClip(), "mask": batch.mask, **divided}
    flat = np.zeros(len(batch.mask))
    wanted = policy_loss(flat, flat, np.full(len(lengths), -1.0), batch.offsets, **how).coefficient
    np.testing.assert_allclose(got, wanted, rtol=1e-15)
    rows = np.repeat(
        naive.weights(aggregate, [int(batch.mask[a:b].sum()) for a, b in pairwise(batch.offsets)]), lengths
    )
    np.testing.assert_allclose(got, np.where(batch.mask, rows, 0.0), rtol=1e-15)
    if drop == 0.0:
        np.testing.assert_array_equal(ratio.token_weights(batch.offsets, **divided), got)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("log_ratio", "advantage", "at"),
    [
        (0.4, 1.0, lambda r: Clip(0.2, r - 1)),
        (-0.4, -1.0, lambda r: Clip(1 - r, 0.2)),
        (1.5, -1.0, lambda r: DualClip(0.2, 0.2, r)),
        (1.5, -1.0, lambda r: TwoSided(0.2, 0.2, r)),
    ],
)
def test_the_gradient_stops_past_the_bound(log_ratio: float, advantage: float, at: Any, level: str) -> None:
    def once(clip: Any) -> Any:
        column, one = np.array([log_ratio]), np.array([0, 1])
        turns = one if level == "turn" else None
        how: Any = {"clip": clip, "aggregate": TokenMean(), "level": level, "turn_offsets": turns}
        return policy_loss(column, np.zeros(1), np.array([advantage]), one, **how)

    edge = once(NoClip()).ratio_max
    held = once(at(edge))
    assert held.coefficient[0] == -advantage * edge
    assert held.clip_fraction_low + held.clip_fraction_high + held.clip_fraction_bound == 0.0
    inside = once(at(float(np.nextafter(edge, 1.0))))
    assert inside.coefficient[0] == 0.0
    assert inside.clip_fraction_low + inside.clip_fraction_high + inside.clip_fraction_bound == 1.0


def test_clip_fractions_count_tokens_by_bound() -> None:
    logp = np.log(np.array([0.5, 0.5, 2.0, 2.0, 5.0, 1.0, 9.0]))
    advantages = np.array([-1.0, 1.0, 1.0, -1.0, -1.0, 1.0, 0.0])
    how: Any = {"per": "token", "aggregate": TokenMean()}
    got = policy_loss(logp, np.zeros(7), advantages, np.array([0, 7]), clip=DualClip(0.2, 0.2, 3.0), **how)
    fractions = (got.clip_fraction_low, got.clip_fraction_high, got.clip_fraction_bound)
    assert fractions == (1 / 7, 1 / 7, 1 / 7)
    assert (got.coefficient == 0).tolist() == [True, False, True, False, True, False, True]
    capped = policy_loss(logp, np.zeros(7), advantages, np.array([0, 7]), clip=Cap(3.0, floor=0.8), **how)
    assert (capped.clip_fraction_low, capped.clip_fraction_high, capped.clip_fraction_bound) == (2 / 7, 1 / 7, 0.0)


def test_an_overflowing_ratio_makes_moments_infinite() -> None:
    logp = np.array([100.0, 0.0, 0.0], dtype=np.float32)
    for column in (logp, logp[::-1].copy()):
        got = policy_loss(column, logp * 0, np.ones(1), np.array([0, 3]), clip=Clip(0.2, 0.2), aggregate=TokenMean())
        assert (got.ratio_min, got.ratio_max, got.ratio_mean) == (1.0, math.inf, math.inf)
