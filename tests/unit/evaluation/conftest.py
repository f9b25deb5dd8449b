"""Runs of the reversal task to evaluate: one before training, one after."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from karl_fast.rl.settings import Online

TASK = Path(__file__).parents[3] / "examples" / "rl" / "reversal.py"


def settings(folder: Path, **over: Any) -> Online:
    """Settings of a small run, with prompts in a file of the folder, half of which are held out."""
    from karl_fast.rl.settings import Online
    from karl_fast.train.settings import Training

    spec = importlib.util.spec_from_file_location("reversal_prompts", TASK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.write_prompts(folder / "all.jsonl", length=2)
    lines = (folder / "all.jsonl").read_text().splitlines(keepends=True)
    (folder / "prompts.jsonl").write_text("".join(lines[::2]))
    (folder / "held-out.jsonl").write_text("".join(lines[1::2]))
    given = Online(
        model=f"{TASK}:policy",
        prompts=str(folder / "prompts.jsonl"),
        out=str(folder / "run"),
        rewards={f"{TASK}:reward": 1.0},
        rounds=40,
        prompts_per_round=4,
        group_size=8,
        max_tokens=4,
        training=Training(learning_rate=1e-2),
    )
    return replace(given, **over)


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the run `run`, its prompts, and the settings of it."""
    pytest.importorskip("mlx.core", reason="pip install '.[train]'")
    import mlx.core as mx

    from karl_fast.rl import rl

    mx.disable_compile()
    folder = tmp_path_factory.mktemp("evaluated")
    rl(settings(folder))
    return folder
