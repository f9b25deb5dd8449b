"""A tiny random qwen3 that `mlx_lm` loads, made on the spot: nothing is downloaded and nothing is committed."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.forked import ForkServer

if TYPE_CHECKING:
    from collections.abc import Callable

MAKER = Path(__file__).parents[3] / "examples" / "make_tiny_model.py"

KINDS = {
    "qwen3": (),
    "gemma3": ("--kind", "gemma3_text"),
    "qwen3-4bit": ("--bits", 4),
    "gemma3-4bit": ("--kind", "gemma3_text", "--bits", 4),
}


def made(folder: Path, *how: object) -> Path:
    """In a process of its own: importing mlx_lm brings a thousand modules, and warnings of theirs."""
    if importlib.util.find_spec("mlx_lm") is None:
        pytest.skip("mlx_lm is not installed: pip install '.[train]'")
    command = [sys.executable, MAKER, folder, *how]
    done = subprocess.run(
        [str(part) for part in command], env=quiet(), capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("model") / "tiny-qwen3")


@pytest.fixture(scope="session", params=KINDS)
def any_model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("model") / request.param, *KINDS[request.param])


def quiet() -> dict[str, str]:
    """The environment of a training run: offline, and without kernels to compile."""
    return os.environ | {
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_VERBOSITY": "error",
        "MLX_DISABLE_COMPILE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }


def forks() -> bool:
    """Return whether a process that has loaded MLX can fork: MLX 0.30 starts threads then, which a fork lacks."""
    spec = importlib.util.find_spec("mlx")
    return spec is not None and tuple(map(int, version("mlx").split(".")[:2])) >= (0, 32)


SERVER = ForkServer(*["karl_fast.rl", "mlx_lm"] if forks() else [])


def ran(
    words: list[str], folder: Path | None = None, *, variables: dict[str, str] | None = None, timeout: float = 180
) -> subprocess.CompletedProcess[str]:
    """Run a command that trains in a process that has MLX loaded; nothing is raised, whatever the exit code is."""
    return SERVER.run(words, folder, variables or quiet(), timeout, None)


@dataclass(frozen=True)
class Trained:
    """What `mlx_lm lora --train` left."""

    losses: list[float]
    adapters: Path


@pytest.fixture
def train(tiny_model: Path, tmp_path: Path) -> Callable[..., Trained]:
    """Runs `mlx_lm lora --train` on a data set; asserts exit 0."""

    def run(data: Path, *more: str, iters: int = 6, length: int = 128) -> Trained:
        adapters = tmp_path / f"adapters-{data.name}"
        command = [sys.executable, "-m", "mlx_lm", "lora", "--train", "--model", tiny_model, "--data", data]
        command += ["--iters", iters, "--batch-size", 4, "--num-layers", 1, "--max-seq-length", length]
        command += ["--steps-per-report", 1, "--steps-per-eval", 100, "--val-batches", 1]
        command += ["--save-every", 1000, "--learning-rate", "1e-3", "--adapter-path", adapters, *more]
        done = subprocess.run(
            [str(part) for part in command], env=quiet(), capture_output=True, text=True, check=False, timeout=180
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return Trained(_losses(done.stdout), adapters / "adapters.safetensors")

    return run


STEERING = re.compile(r"\x1b\[[0-9;]*m")
LOSS = re.compile(r"^\s*\d+\s+(?:val\s+)?(nan|inf|[0-9.]+)|(?:Train|Val) loss (nan|inf|[0-9.]+)", re.MULTILINE)
"""The table of mlx-lm 0.32 and the sentences of the versions before it."""


def _losses(log: str) -> list[float]:
    return [float(table or sentence) for table, sentence in LOSS.findall(STEERING.sub("", log))]
