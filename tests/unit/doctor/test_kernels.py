"""Operations beside the CPU: on a Mac Metal kernels; elsewhere that a wrong one is found."""

from __future__ import annotations

from typing import Any

import pytest

from karl_fast.doctor import QUICK, Job
from karl_fast.doctor import kernels as part
from karl_fast.errors import KarlError

pytestmark = [pytest.mark.mlx, pytest.mark.usefixtures("compile_restored")]

pytest.importorskip("mlx.core")


def test_a_wrong_kernel_is_named_and_the_others_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    import mlx.core as mx

    def broken() -> list[Any]:
        raise RuntimeError("no such kernel")

    one = lambda value: lambda: [mx.array([1.0, value])]  # noqa: E731
    operations = {"right": (one(2.0), one(2.0)), "far": (one(2.0), one(3.0)), "broken": (broken, broken)}
    monkeypatch.setattr(part, "operations", lambda: operations)
    saved: list[dict[str, Any]] = []
    with pytest.raises(KarlError, match=r"^far: differs from the CPU; broken: RuntimeError: no such kernel$"):
        part.check_kernels(Job("", None, QUICK, 60), saved.append)
    found = saved[-1]["operations"]
    assert found["right"]["difference"] == 0
    assert found["far"]["difference"] == pytest.approx(1 / 3, rel=0.01)
    assert "in broken" in found["broken"]["traceback"]


def test_operations_run_here() -> None:
    found = part.check_kernels(Job("", None, QUICK, 60), lambda _: None)["operations"]
    assert {"attention by blocks, gradient", "gated delta, gradient", "log-probabilities"} <= found.keys()
    assert all(row["difference"] <= part.TOLERANCE for row in found.values())
