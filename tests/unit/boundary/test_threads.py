"""Kernels run outside the interpreter lock, and many at once give what one gives."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import karl_fast
from karl_fast import sampling

RANDOM = np.random.default_rng(0)
REWARDS = RANDOM.random(40_000)
GROUPS = RANDOM.integers(0, 500, 40_000)

KERNELS: dict[str, Any] = {
    "centre": lambda: karl_fast.centre(REWARDS, GROUPS),
    "zscore": lambda: karl_fast.zscore(REWARDS, GROUPS),
    "leave_one_out": lambda: karl_fast.leave_one_out(REWARDS, GROUPS),
    "log_sum_exp": lambda: karl_fast.log_sum_exp(REWARDS),
    "boltzmann": lambda: karl_fast.boltzmann(REWARDS, GROUPS, ess=0.5).log_weights,
    "draw": lambda: karl_fast.draw(REWARDS, 1000, seed=3),
    "draw_priority": lambda: sampling.draw_priority(REWARDS, 1000, seed=3).estimates,
    "inclusion": lambda: sampling.inclusion(REWARDS[:60].copy(), 7),
    "alias": lambda: sampling.Alias(REWARDS).draw(1000, seed=3),
    "uniforms": lambda: karl_fast.uniforms(40_000, seed=3, purpose="draw"),
}


@pytest.mark.parametrize("name", KERNELS)
def test_eight_threads_at_once_get_what_one_gets(name: str) -> None:
    wanted = KERNELS[name]()
    barrier = threading.Barrier(8)

    def run(_: int) -> Any:
        barrier.wait()
        return [KERNELS[name]() for _ in range(3)]

    with ThreadPoolExecutor(8) as pool:
        for results in pool.map(run, range(8)):
            for found in results:
                np.testing.assert_array_equal(found, wanted)


def test_the_interpreter_lock_is_released() -> None:
    """While a long kernel runs, another thread counts. With the lock held, it could not take a step: the lock only
    changes hands between two instructions of Python, and the call is one.
    """
    large = np.random.default_rng(1).random(1_000_000)
    steps, done = 0, threading.Event()
    started = threading.Event()

    def count() -> None:
        nonlocal steps
        started.set()
        while not done.wait(0.001):
            steps += 1

    counter = threading.Thread(target=count)
    counter.start()
    started.wait()
    before = steps
    karl_fast.boltzmann(large, ess=0.5)
    after = steps
    done.set()
    counter.join()
    assert after - before >= 10
