"""A policy of a few thousand weights that learns to reverse symbols, and a tiny random language model."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.train.conftest import KINDS, made

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from karl_fast.rl.settings import Online

pytest.importorskip("mlx.core", reason="mlx is not installed: pip install '.[train]'")

EXAMPLES = Path(__file__).parents[3] / "examples" / "rl"


@pytest.fixture(autouse=True, scope="session")
def nothing_compiled() -> None:
    import mlx.core as mx

    mx.disable_compile()


@pytest.fixture(scope="session")
def reversal() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reversal", EXAMPLES / "reversal.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["reversal"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def online(tmp_path: Path, reversal: ModuleType) -> Callable[..., Online]:
    """Settings of a small run of the reversal task; `training` takes those of `Training`."""
    from karl_fast.rl.settings import Online
    from karl_fast.train.settings import Training

    reversal.write_prompts(tmp_path / "prompts.jsonl", length=2)

    def settings(**over: Any) -> Online:
        training = {"learning_rate": 3e-3} | over.pop("training", {})
        given = Online(
            model=f"{EXAMPLES / 'reversal.py'}:policy",
            prompts=str(tmp_path / "prompts.jsonl"),
            out=str(tmp_path / "out"),
            rewards={f"{EXAMPLES / 'reversal.py'}:reward": 1.0},
            recipe="grpo",
            rounds=4,
            prompts_per_round=4,
            group_size=4,
            max_tokens=4,
            save_every=2,
            training=Training(**training),
        )
        return replace(given, **over)

    return settings


@pytest.fixture(scope="session", params=["qwen3", "gemma3"])
def language(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A tiny random model of mlx-lm as a policy, with adapters that are not zero: whole caches, and rotating ones."""
    import mlx.core as mx
    from mlx.utils import tree_map

    from karl_fast.modeling.load import adapt, load
    from karl_fast.rl.language_model import LanguageModel
    from karl_fast.train.settings import Training

    loaded = load(str(made(tmp_path_factory.mktemp("rl") / request.param, *KINDS[request.param])))
    adapt(loaded.model, Training())
    mx.random.seed(3)
    loaded.model.update(tree_map(lambda one: one + 0.01, loaded.model.trainable_parameters()))
    return LanguageModel(loaded)


def lines(path: Path | str) -> list[dict[str, Any]]:
    return [json.loads(text) for text in Path(path).read_text("utf-8").split("\n") if text]
