"""A small experiment on the reversal task."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

pytest.importorskip("mlx.core", reason="mlx is not installed: pip install '.[train]'")

REVERSAL = Path(__file__).parents[3] / "examples" / "rl" / "reversal.py"

RUN = f"""
[run]
model = "{REVERSAL}:policy"
prompts = "{REVERSAL}:prompts"
rewards = {{ "{REVERSAL}:reward" = 1.0 }}
recipe = "grpo"
rounds = 3
prompts_per_round = 4
group_size = 4
max_tokens = 4
save_every = 1
learning_rate = 3e-3
"""

ARMS = """
[arms.GRPO]
[arms."no KL"]
axes.kl = { point = "NoKL" }
"""


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Write an experiment, and return its file."""

    def write(text: str = "seeds = [0, 1]\n" + RUN + ARMS, name: str = "small.toml") -> Path:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path / name

    return write
