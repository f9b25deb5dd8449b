"""What all tests share: real data, where there is some; hypothesis profiles; no leak of the caller's environment."""

from __future__ import annotations

import os
import platform
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Iterator

DATA_VARIABLE = "KARL_FAST_TEST_DATA"
MLX_FOLDERS = ("train", "rl", "objective")
"""Packages of tests/unit whose tests all need MLX."""

# On GPUs with units for it, MLX rounds the factors of float32 products to 10 bits, 8,000 times what the tolerances of
# float32 allow for; a test compares arithmetic in float32.
os.environ.setdefault("MLX_ENABLE_TF32", "0")

# A shell that starts these tests in the background has them ignore Ctrl-C, and so would every process they interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "fast", max_examples=50, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("slow", settings.get_profile("fast"), max_examples=2000)
settings.load_profile(os.environ.get("KARL_FAST_HYPOTHESIS", "fast"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need MLX, so that `-m "not mlx"` leaves them out."""
    folders = [Path(__file__).parent / "unit" / name for name in MLX_FOLDERS]
    for item in items:
        if any(folder in item.path.parents for folder in folders):
            item.add_marker("mlx")


@pytest.fixture(scope="session")
def metal() -> None:
    """For the tests with the marker `mac`: a GPU of Apple silicon that MLX uses."""
    if (platform.system(), platform.machine()) != ("Darwin", "arm64"):
        pytest.skip(f"needs Apple silicon, and this is {platform.system()} {platform.machine()}")
    import mlx.core as mx

    if not mx.metal.is_available():
        pytest.skip("needs a GPU, and Metal is not available in this process")


@pytest.fixture
def compile_restored() -> Iterator[None]:
    """For a test that turns `mx.compile` on: off again where the run wants it off."""
    yield
    if os.environ.get("MLX_DISABLE_COMPILE"):
        import mlx.core as mx

        mx.disable_compile()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """A folder that has data/, golden/ and bench/: real logs, which are not part of the repository."""
    where = os.environ.get(DATA_VARIABLE)
    if not where:
        pytest.skip(f"no real logs: {DATA_VARIABLE} is not set")
    folder = Path(where)
    if not (folder / "data").is_dir():
        pytest.skip(f"no real logs: {DATA_VARIABLE} names {folder}, which has no folder data")
    return folder / "data"


@pytest.fixture(scope="session")
def tau_bench(shared_data: Path) -> Path:
    """200 trajectories of 50 tasks, one JSON array."""
    return shared_data / "tau-bench-gpt4o-airline" / "gpt-4o-airline.json"
