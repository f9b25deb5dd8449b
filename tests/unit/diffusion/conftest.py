"""Random diffusion models of a few thousand weights, over the words of the forms of examples/lab."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from karl_fast.rl.settings import Online

pytest.importorskip("mlx.core", reason="mlx is not installed: pip install '.[train]'")

FORMS = Path(__file__).parents[3] / "examples" / "lab" / "forms.py"


@pytest.fixture(autouse=True, scope="session")
def nothing_compiled() -> None:
    import mlx.core as mx

    mx.disable_compile()


@pytest.fixture(scope="session", params=["discrete-flow", "masked-diffusion"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def folder(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model after a few steps of pre-training."""
    from karl_fast.diffusion.pretrain import pretrain
    from karl_fast.diffusion.settings import Pretraining

    out = tmp_path_factory.mktemp(kind) / "model"
    how: Any = {"size": 16, "heads": 2, "layers": 1, "iters": 60, "batch_size": 16, "learning_rate": 1e-2}
    pretrain(Pretraining(data=f"{FORMS}:rows", out=str(out), kind=kind, steps=6, remask=0.1, **how))
    return out


@pytest.fixture
def online(folder: Path, tmp_path: Path) -> Callable[..., Online]:
    """Settings of a small run; `training` takes those of `Training`."""
    from karl_fast.rl.settings import Online
    from karl_fast.train.settings import Training

    sys.modules.pop("forms", None)

    def settings(**over: Any) -> Online:
        training: Any = {"learning_rate": 1e-3} | over.pop("training", {})
        run = Online(
            model=str(folder),
            prompts=f"{FORMS}:prompts",
            environment=f"{FORMS}:Form",
            out=str(tmp_path / "out"),
            recipe="grpo",
            rounds=4,
            steps=3,
            prompts_per_round=2,
            group_size=4,
            rewards={f"{FORMS}:words": 0.1},
            save_every=2,
            training=Training(**training),
        )
        return replace(run, **over)

    return settings
