"""What only Apple silicon shows: Metal kernels, plans and peaks on the GPU, wired and unified memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from karl_fast.doctor import QUICK, Job, machine, model, rollouts, training
from karl_fast.doctor import kernels as operations_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.mac, pytest.mark.mlx, pytest.mark.usefixtures("metal", "compile_restored")]

OPERATIONS = (
    "rms_norm",
    "rope",
    "matmul in 4 bits",
    "attention",
    "attention, gradient",
    "attention by blocks, gradient",
    "gated delta",
    "gated delta, gradient",
    "log-probabilities",
    "random integers",
    "mx.fast.metal_kernel",
    "gated delta of mlx-lm",
    "mx.compile",
)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A job with the random model in its folder."""
    job = Job(str(tmp_path), None, QUICK, 120)
    model.check_model(job, lambda _: None)
    return job


def test_every_operation_has_a_test() -> None:
    assert set(operations_of.operations()) == set(OPERATIONS)


@pytest.mark.parametrize("name", OPERATIONS)
def test_metal_computes_what_the_cpu_does(name: str) -> None:
    import mlx.core as mx

    mx.enable_compile()
    row = operations_of.compare_with_cpu(*operations_of.operations()[name])
    assert row["difference"] <= operations_of.TOLERANCE, row


def test_the_device_is_the_gpu_and_plans_stay_within_what_metal_recommends() -> None:
    facts = machine.describe_device(Job("", None, QUICK, 60), lambda _: None)
    assert (facts["device"], facts["metal"]) == ("gpu", True)
    assert 0 < facts["plan_limit_bytes"] == facts["max_recommended_working_set_size"] <= facts["memory_size"]


def test_the_wired_limit_is_as_it_was_after_it_is_read() -> None:
    import mlx.core as mx

    wanted = int(mx.device_info()["max_recommended_working_set_size"]) // 2
    before = mx.set_wired_limit(wanted)
    try:
        assert machine.describe_device(Job("", None, QUICK, 60), lambda _: None)["wired_limit_bytes"] == wanted
    finally:
        assert mx.set_wired_limit(before) == wanted


def test_numpy_reads_what_the_gpu_wrote_without_a_copy() -> None:
    import mlx.core as mx

    array = mx.arange(1 << 20, dtype=mx.float32) * 2
    mx.eval(array)
    before = mx.get_active_memory()
    seen = np.array(array, copy=False)
    assert mx.get_active_memory() == before
    assert seen[-1] == 2 * ((1 << 20) - 1)


def test_a_step_on_the_gpu_stays_within_its_plan_and_has_the_loss_of_mlx_lm(job: Job) -> None:
    ours = training.check_training(job, lambda _: None)["steps"]
    theirs = training.check_mlx_lm(job, lambda _: None)["steps"]
    for row in ours:
        assert row["peak_bytes"] <= 1.1 * row["planned_bytes"], row
    assert ours[0]["loss"] == pytest.approx(theirs[0]["loss"], rel=0.02)


def test_the_likeliest_tokens_are_those_of_mlx_lm(job: Job) -> None:
    rollouts.check_rollouts(job, lambda _: None)
    found: dict[str, Any] = rollouts.check_mlx_lm(job, lambda _: None)
    assert found["equal_tokens"] >= 0.5 * found["compared_tokens"], found
