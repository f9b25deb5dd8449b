"""Transcripts to a trained adapter: converted, rated by KARL, sampled, and a step of `mlx_lm lora`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from tests.slow import nightly
from tests.unit.train.test_mlx_lora import healthy

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.train.conftest import Trained

    Train = Callable[..., Trained]

EXAMPLE = Path(__file__).parents[3] / "examples" / "claude-code"


def trains(train: Train, transcripts: Path, folder: Path, rate: Any, k: int) -> None:
    """The loss of a step on what was drawn by these rewards is a number."""
    trajectories = folder / "trajectories.jsonl"
    account = karl_fast.convert(transcripts, trajectories, rate=rate)
    sample = karl_fast.sample(trajectories, folder / "data", k=k, split=(0.5, 0.5, 0.0))
    assert sample.manifest["accounting"]["dropped"] == {}
    assert sample.manifest["reward"]["before"]["count"] == account.trajectories
    assert sample.manifest["draw"]["rows"] == k
    healthy(train(folder / "data", iters=3, length=256))


@pytest.mark.parametrize("rate", nightly(["karl-v1", "karl-v2"]))
def test_mlx_lm_trains_on_transcripts(train: Train, tmp_path: Path, rate: Any) -> None:
    trains(train, EXAMPLE, tmp_path, rate, 8)


@pytest.mark.parametrize("rate", nightly(["karl-v1", "karl-v2"]))
def test_mlx_lm_trains_on_real_transcripts(train: Train, shared_data: Path, tmp_path: Path, rate: Any) -> None:
    trains(train, shared_data / "claude-code", tmp_path, rate, 16)
