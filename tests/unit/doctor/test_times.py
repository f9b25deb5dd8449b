"""How checks fit into their time, and how two generators are compared."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from karl_fast.doctor import Job, Sizes
from karl_fast.doctor.rollouts import compare_texts
from karl_fast.doctor.training import MARGIN, Clock
from karl_fast.errors import KarlError

LOADED = SimpleNamespace(ends=frozenset({9}), tokenizer=SimpleNamespace(decode=str))


def clock_after(length: int, seconds: float, left: float) -> Clock:
    clock = Clock(Job("", None, Sizes(), left + MARGIN))
    clock._length, clock._seconds = length, seconds
    return clock


@pytest.mark.parametrize(
    ("seconds", "length"),
    [(0.01, 8192), (1.0, 8192), (5.0, 4096), (20.0, 2048), (1000.0, 1024)],
)
def test_a_slow_machine_gets_shorter_rows_but_longer_than_the_last(seconds: float, length: int) -> None:
    assert clock_after(512, seconds, 400).shorten(8192) == length


def test_a_step_that_does_not_fit_says_how_long_it_would_take() -> None:
    assert clock_after(512, 10, 100).refusal(2048) == "it would take 160 s"
    assert clock_after(512, 1, 100).refusal(2048) is None
    assert Clock(Job("", None, Sizes(), 60)).refusal(1 << 20) is None


def test_a_loss_that_is_not_finite_is_a_failure() -> None:
    with pytest.raises(KarlError, match="the loss of a row of 512 tokens is nan"):
        clock_after(512, 1, 100).stop(float("nan"))


def test_texts_are_compared_up_to_what_ends_them_and_to_the_shorter() -> None:
    ours = [[1, 2, 9, 4], [1, 2, 3, 4], [1, 2, 3, 4]]
    theirs = [[1, 2, 9], [1, 2, 3], [1, 5, 3]]
    assert compare_texts(ours, theirs, LOADED) == {
        "equal_texts": 2,
        "texts": 3,
        "equal_tokens": 2 + 3 + 1,
        "compared_tokens": 2 + 3 + 3,
    }
