"""Every test here needs MLX, and runs on the CPU, where it has float64."""

from __future__ import annotations

import pytest

mx = pytest.importorskip("mlx.core")


@pytest.fixture(autouse=True)
def on_the_cpu() -> None:
    mx.set_default_device(mx.cpu)
