"""An adapter says which base it was trained on, and putting it on another one is noted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from karl_fast.train import Training, evaluate, train
from tests.unit.train.conftest import made
from tests.unit.train.test_mlx_lm_defects import QUICK, chat, write

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.mlx
pytest.importorskip("mlx.core", reason="pip install '.[train]'")


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Path:
    place = tmp_path_factory.mktemp("based")
    data = write(place / "data", [chat(f"question {n}", f"answer {n}") for n in range(10)])
    (data / "test.jsonl").write_text((data / "train.jsonl").read_text())
    train(data, tiny_model, place / "adapter", Training(iters=2, **QUICK))
    return place / "adapter"


def remarks(model: Path, adapter: Path) -> list[str]:
    return [remark for remark in evaluate(adapter.parent / "data", model, adapter).remarks if "trained on" in remark]


def rebase(adapter: Path, folder: Path, **base: Any) -> Path:
    """A copy of an adapter beside its data, of another base."""
    folder.mkdir()
    (folder / "adapter").mkdir()
    (folder / "data").symlink_to(adapter.parent / "data")
    config = json.loads((adapter / "adapter_config.json").read_text())
    (folder / "adapter" / "adapter_config.json").write_text(json.dumps(config | {"base": config["base"] | base}))
    (folder / "adapter" / "adapters.safetensors").write_bytes((adapter / "adapters.safetensors").read_bytes())
    return folder / "adapter"


def test_its_own_base_and_no_record_give_no_remark(adapter: Path, tiny_model: Path, tmp_path: Path) -> None:
    base = json.loads((adapter / "adapter_config.json").read_text())["base"]
    assert (base["quantization"], base["dtype"], len(base["fingerprint"])) == (None, "float32", 32)
    assert not remarks(tiny_model, adapter)
    assert not remarks(tiny_model, rebase(adapter, tmp_path / "unknown", quantization=5))


def test_another_quantization_and_another_model_are_noted(adapter: Path, tiny_model: Path, tmp_path: Path) -> None:
    (remark,) = remarks(made(tmp_path / "4bit", "--bits", 4), adapter)
    assert "was trained on the model in float32, and this one is in 4 bits in groups of " in remark
    (remark,) = remarks(tiny_model, rebase(adapter, tmp_path / "other", fingerprint="0" * 32))
    assert "was trained on another model than this one" in remark


@pytest.mark.parametrize("resume", [True, False])
def test_training_on_from_another_base_is_noted(adapter: Path, tiny_model: Path, tmp_path: Path, resume: bool) -> None:
    noted: list[str] = []

    class Viewer:
        def on_start(self, run: Any) -> None:
            noted.extend(run.remarks)

        def on_metrics(self, values: dict[str, Any]) -> None: ...
        def on_checkpoint(self, place: Path) -> None: ...
        def on_message(self, remark: str) -> None: ...

    data, place = adapter.parent / "data", tmp_path / "adapter"
    if resume:
        train(data, tiny_model, place, Training(iters=2, **QUICK))
        config = json.loads((place / "adapter_config.json").read_text())
        config["base"]["dtype"] = "float16"
        (place / "adapter_config.json").write_text(json.dumps(config))
        train(data, tiny_model, place, Training(iters=3, **QUICK), resume=True, viewer=Viewer())
    else:
        weights = rebase(adapter, tmp_path / "from", dtype="float16") / "adapters.safetensors"
        train(data, tiny_model, place, Training(iters=2, **QUICK), resume_adapter_file=weights, viewer=Viewer())
    assert any("was trained on the model in float16, and this one is in float32" in remark for remark in noted)
