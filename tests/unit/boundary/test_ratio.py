"""What `karl_fast.ratio` refuses, and how it says so."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from karl_fast import ratio
from karl_fast.errors import ArgumentError, DTypeError, LayoutError, UsageError
from karl_fast.ratio import Cap, Clip, ConstantLength, DualClip, NoClip, SequenceMean, TokenMean, TwoSided

LOGP = np.array([-1.0, -0.5, -2.0, -0.1])
OFFSETS = np.array([0, 2, 4])
ADVANTAGES = np.array([1.0, -1.0])
CROSSING = np.array([0, 3, 4])


def loss(**changed: Any) -> ratio.PolicyLoss:
    given: dict[str, Any] = {
        "logp": LOGP,
        "logp_old": LOGP,
        "advantages": ADVANTAGES,
        "offsets": OFFSETS,
        "clip": Clip(0.2, 0.2),
        "aggregate": TokenMean(),
    }
    return ratio.policy_loss(**(given | changed))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Clip(-0.1, 0.2), r"^low is -0.1, wanted a number in \[0, 1\]$"),
        (lambda: Clip(1.1, 0.2), r"^low is 1.1, wanted a number in \[0, 1\]$"),
        (lambda: Clip(math.nan, 0.2), r"^low is NaN"),
        (lambda: Clip(0.2, -0.2), r"^high is -0.2, wanted zero or more$"),
        (lambda: DualClip(0.2, 0.5, 1.5), r"^bound is 1.5, wanted a number above 1.5$"),
        (lambda: TwoSided(0.2, 0.5, 0.5), r"^delta is 0.5, wanted a number above 1.5$"),
        (lambda: Cap(0.28), r"^ceiling is 0.28, wanted a number in \[1, inf\]$"),
        (lambda: Cap(2.0, floor=1.5), r"^floor is 1.5, wanted a number in \[0, 1\]$"),
        (lambda: ConstantLength(0), r"^tokens is 0, wanted a number in \[1, inf\]$"),
        (lambda: loss(denominator=0.5), r"^denominator is 0.5, wanted a finite number, 1 or more$"),
        (lambda: loss(aggregate=SequenceMean(), denominator=math.inf), r"^denominator is inf"),
    ],
)
def test_an_invalid_ratio_point_is_refused_when_built(build: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        build()


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"logp": LOGP.astype(np.float32)}, DTypeError, r"^logp_old has dtype float64, wanted float32 as logp$"),
        ({"logp_old": LOGP.astype(np.float32)}, DTypeError, r"^logp_old has dtype float32, wanted float64 as logp$"),
        ({"logp": LOGP.astype(np.float16)}, DTypeError, "^logp has dtype float16"),
        ({"logp_old": LOGP[:3].copy()}, ArgumentError, "^logp_old has length 3, wanted 4$"),
        ({"mask": np.ones(3, dtype=bool)}, ArgumentError, "^mask has length 3, wanted 4$"),
        ({"mask": np.ones(4)}, DTypeError, "^mask has dtype float64"),
        ({"advantages": np.ones(4)}, ArgumentError, "^advantages has length 4, wanted 2$"),
        ({"advantages": np.ones(2), "per": "token"}, ArgumentError, "^advantages has length 2, wanted 4$"),
        ({"offsets": np.array([0, 2, 5])}, LayoutError, "^offsets at index 2 is 5, wanted 4$"),
        ({"offsets": OFFSETS.astype(np.float32)}, DTypeError, "^offsets has dtype float32"),
        ({"level": "turn"}, UsageError, "^turn_offsets are not given"),
        ({"per": "turn"}, UsageError, "^turn_offsets are not given"),
        ({"turn_offsets": OFFSETS}, UsageError, "^turn_offsets are given"),
        (
            {"level": "turn", "turn_offsets": np.array([0, 3, 4])},
            LayoutError,
            "^turn_offsets at index 1 is 3, wanted 0 to 2$",
        ),
        ({"level": "word"}, UsageError, '^level is "word", wanted token'),
        ({"per": "word"}, UsageError, '^per is "word", wanted sequence'),
        ({"clip": 0.2}, UsageError, "^clip is a float, wanted a point of Bound$"),
        ({"clip": NoClip}, UsageError, "^clip is the class NoClip, wanted an instance of one$"),
        ({"clip": SimpleNamespace(kind="none")}, UsageError, "^clip is a SimpleNamespace, wanted a point of"),
        ({"aggregate": Clip(0.2, 0.2)}, UsageError, "^aggregate is a Clip, wanted a point of Aggregate$"),
        ({"aggregate": TokenMean}, UsageError, "^aggregate is the class TokenMean, wanted an instance"),
        ({"mask": [1] * 4}, DTypeError, "^mask is a list, wanted a NumPy array of bool$"),
        ({"log_ratio_clamp": -1.0}, ArgumentError, "^log_ratio_clamp is -1, wanted zero or more$"),
    ],
)
def test_an_argument_is_refused_by_name(changed: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        loss(**changed)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"aggregate": SequenceMean}, UsageError, "^aggregate is the class SequenceMean"),
        ({"aggregate": NoClip()}, UsageError, "^aggregate is a NoClip"),
        ({"mask": np.ones(3, bool)}, LayoutError, "^offsets at index 2 is 4, wanted 3$"),
        ({"offsets": np.array([0, 3, 1])}, LayoutError, "^offsets at index 2 is 1, wanted"),
        ({"offsets": np.array([-2, -1])}, LayoutError, "^offsets at index 0 is -2, wanted 0$"),
        ({"offsets": np.array([], np.int64)}, ArgumentError, "^offsets has length 0"),
    ],
)
def test_invalid_arguments_of_token_weights_are_refused(changed: Any, error: type[Exception], message: str) -> None:
    given: dict[str, Any] = {"offsets": OFFSETS, "aggregate": TokenMean()}
    with pytest.raises(error, match=message):
        ratio.token_weights(**(given | changed))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("level", ["token", "sequence", "sequence-product", "sequence-token"])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ["logp", "logp_old"])
def test_odd_numbers_fail_unless_masked(dtype: Any, level: str, bad: float, name: str) -> None:
    columns = {"logp": LOGP.astype(dtype), "logp_old": LOGP.astype(dtype)}
    columns[name][2] = bad
    with pytest.raises(ArgumentError, match=rf"^{name} at index 2 is "):
        loss(level=level, **columns)
    found = loss(level=level, mask=np.array([True, True, False, True]), **columns)
    assert found.coefficient[2] == 0.0
    assert math.isfinite(found.loss)
    assert found.tokens == 3


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_a_missing_advantage_fails_unless_masked(level: str) -> None:
    with pytest.raises(ArgumentError, match=r"^advantages at index 1 is NaN, wanted a finite number$"):
        loss(level=level, advantages=np.array([1.0, math.nan]))
    mask = np.array([True, True, False, False])
    assert loss(level=level, advantages=np.array([1.0, math.nan]), mask=mask).sequences == 1


def test_an_overflowing_ratio_fails_unless_clipped() -> None:
    logp = LOGP.copy()
    logp[0] = 900.0
    assert loss(logp=logp).coefficient[0] == 0.0
    with pytest.raises(ArgumentError, match=r"^coefficient at index 0 is -inf"):
        loss(logp=logp, clip=NoClip())
    assert math.isfinite(loss(logp=logp, clip=NoClip(), log_ratio_clamp=20.0).loss)


def test_nothing_has_no_loss() -> None:
    nothing = np.array([])
    found = loss(logp=nothing, logp_old=nothing, advantages=nothing, offsets=np.array([0]))
    assert (found.loss, found.tokens, found.sequences, len(found.coefficient)) == (0.0, 0, 0, 0)
    assert math.isnan(found.ratio_mean)
