"""Adapters that are loaded: to begin with, to judge, and from checkpoints. What does not fit is refused by name."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("mlx_lm", reason="pip install '.[train]'")

import mlx.core as mx

from karl_fast.cli.reports.train import describe_start
from karl_fast.errors import CheckpointError, ModelError
from karl_fast.train import Training, evaluate, train
from karl_fast.train.setup import prepare
from tests.unit.modeling import parts
from tests.unit.train.test_command import chat, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ADAPTERS, CONFIG = "adapters.safetensors", "adapter_config.json"

SMALL: dict[str, Any] = {"iters": 1, "batch_size": 2, "max_seq_length": 96, "num_layers": 1, "learning_rate": 1e-2}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("adapter") / "data", [chat("q", "a"), chat("one", "two")])


@pytest.fixture(scope="session")
def made(folder: Path, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An adapter of two steps."""
    place = tmp_path_factory.mktemp("adapter") / "made"
    train(folder, tiny_model, place, Training(**SMALL))
    return place


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    shutil.copytree(made, tmp_path / "copy")
    return tmp_path / "copy"


def changed(place: Path, change: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]) -> None:
    held = change(parts.tensors(place / ADAPTERS))
    mx.save_safetensors(str(place / ADAPTERS), {name: mx.array(value) for name, value in held.items()})


def configured(place: Path, **change: Any) -> None:
    held = json.loads((place / CONFIG).read_text("utf-8"))
    lora = change.pop("lora", {})
    held |= change
    held["lora_parameters"] |= lora
    (place / CONFIG).write_text(json.dumps(held))


def renamed(held: dict[str, Any]) -> dict[str, Any]:
    return {f"base.{name}": value for name, value in held.items()}


def first_gone(held: dict[str, Any]) -> dict[str, Any]:
    return {name: held[name] for name in sorted(held)[1:]}


def one_more(held: dict[str, Any]) -> dict[str, Any]:
    return held | {"zz.lora_a": np.zeros((2, 2), np.float32)}


def other_rank(held: dict[str, Any]) -> dict[str, Any]:
    return {name: value[:, :4] if name.endswith("lora_a") else value[:4] for name, value in held.items()}


def half(held: dict[str, Any]) -> dict[str, Any]:
    return {name: value.astype(np.float16) for name, value in held.items()}


TENSORS = {
    "renamed": (renamed, "has base.model.layers.1.", "which the model does not have; 0 of the model's 14 tensors fit"),
    "gone": (first_gone, "lacks model.layers.1.", "float32 of the shape (512, 8); 13 of the model's 14 tensors fit"),
    "more": (
        one_more,
        "has zz.lora_a, float32 of the shape (2, 2), which the model does not have",
        "14 of the model's 14 tensors fit",
    ),
    "rank": (other_rank, "lora_a as float32 of the shape (", "0 of the model's 14 tensors fit"),
    "type": (half, "as float16 of the shape (", "wanted float32 of the shape ("),
    "empty": (lambda held: {}, "has no tensor", ""),
}


@pytest.mark.parametrize("case", TENSORS)
def test_a_tensor_that_does_not_fit_is_named(
    folder: Path, tiny_model: Path, copy: Path, tmp_path: Path, case: str
) -> None:
    change, *says = TENSORS[case]
    changed(copy, change)
    with pytest.raises(ModelError) as raised:
        train(folder, tiny_model, tmp_path / "out", Training(**SMALL), resume_adapter_file=copy / ADAPTERS)
    with pytest.raises(ModelError) as judged:
        evaluate(folder, tiny_model, copy, split="train")
    for error in (raised.value, judged.value):
        assert f"{copy / ADAPTERS} " in str(error)
        assert all(text.replace("(512, 8)", "(") in str(error) for text in says if case != "gone"), str(error)
        assert error.hint
    assert not (tmp_path / "out").exists()


FILES = {
    "cut": (lambda file: file.write_bytes(file.read_bytes()[:-7]), "bytes, and its header says"),
    "longer": (lambda file: file.write_bytes(file.read_bytes() + b"x"), "bytes, and its header says"),
    "nothing": (lambda file: file.write_bytes(b""), "it is not a file of safetensors: it has 0 bytes"),
    "text": (lambda file: file.write_text("not a tensor in it, and long enough"), "it is not a file of safetensors"),
    "header": (lambda file: file.write_bytes(b"\2" + b"\0" * 7 + b"[]" + b"\0" * 9), "its header is damaged"),
    "gone": (lambda file: file.unlink(), ""),
    "folder": (lambda file: (file.unlink(), file.mkdir()), ""),
}


@pytest.mark.parametrize("case", FILES)
def test_a_file_that_is_not_whole_is_refused(
    folder: Path, tiny_model: Path, copy: Path, tmp_path: Path, case: str
) -> None:
    change, says = FILES[case]
    change(copy / ADAPTERS)
    with pytest.raises(ModelError, match=r"cannot load .*adapters\.safetensors: ") as raised:
        train(folder, tiny_model, tmp_path / "out", Training(**SMALL), resume_adapter_file=copy / ADAPTERS)
    assert says in str(raised.value)
    with pytest.raises(ModelError, match="cannot load") as judged:
        evaluate(folder, tiny_model, None, against=copy, split="train")
    assert says in str(judged.value)


@pytest.mark.parametrize(
    ("change", "says", "hint"),
    [
        ({"fine_tune_type": "dora"}, "has fine_tune_type dora, and the run has lora", "--fine-tune-type dora"),
        ({"num_layers": 2}, "has num_layers 2, and the run has 1", "--num-layers 2"),
        ({"num_layers": -1}, "has num_layers 2, and the run has 1", "--num-layers 2"),
        ({"lora": {"rank": 4}}, "has lora_rank 4, and the run has 8", "--lora-rank 4"),
        ({"lora": {"scale": 10.0}}, "has lora_scale 10.0, and the run has 20.0", "--lora-scale 10.0"),
        ({"lora": {"keys": ["mlp.up_proj"]}}, "has lora_keys mlp.up_proj, and the run has ", "--lora-keys mlp.up_proj"),
    ],
)
def test_a_configuration_of_another_adapter_is_named(
    folder: Path, tiny_model: Path, copy: Path, tmp_path: Path, change: Any, says: str, hint: str
) -> None:
    configured(copy, **change)
    with pytest.raises(ModelError) as raised:
        train(folder, tiny_model, tmp_path / "out", Training(**SMALL), resume_adapter_file=copy / ADAPTERS)
    assert f"{copy / CONFIG} {says}" in str(raised.value)
    assert str(raised.value.hint) == f"{hint} goes on with that adapter"


@pytest.mark.parametrize("text", ["", "[]", "{", '{"lora_parameters": 3}'])
def test_a_configuration_that_is_none_is_refused(
    folder: Path, tiny_model: Path, copy: Path, tmp_path: Path, text: str
) -> None:
    (copy / CONFIG).write_text(text)
    with pytest.raises(ModelError, match=r"adapter_config.json "):
        train(folder, tiny_model, tmp_path / "out", Training(**SMALL), resume_adapter_file=copy / ADAPTERS)
    with pytest.raises(ModelError, match=r"adapter_config.json "):
        evaluate(folder, tiny_model, copy, split="train")


@pytest.mark.parametrize(
    ("lora", "says"),
    [
        ({"scale": None}, "has no scale in lora_parameters, wanted a number"),
        ({"rank": None}, "has no rank in lora_parameters, wanted a whole number"),
        ({"scale": None, "alpha": 16}, "has no scale in lora_parameters, wanted a number"),
        ({"scale": "20.0"}, 'has the scale "20.0" in lora_parameters, wanted a number'),
        ({"rank": 8.0}, "has the rank 8.0 in lora_parameters, wanted a whole number"),
        ({"rank": True}, "has the rank true in lora_parameters, wanted a whole number"),
    ],
)
def test_adapter_without_parameters_is_refused(
    folder: Path, tiny_model: Path, copy: Path, tmp_path: Path, lora: Any, says: str
) -> None:
    configured(copy, lora=lora)
    with pytest.raises(ModelError) as raised:
        train(folder, tiny_model, tmp_path / "out", Training(**SMALL), resume_adapter_file=copy / ADAPTERS)
    with pytest.raises(ModelError) as judged:
        evaluate(folder, tiny_model, copy, split="train")
    assert str(raised.value) == str(judged.value) == f"{copy / CONFIG} {says}"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["lora", "dora", "full"])
def test_fitting_adapter_starts_a_run(folder: Path, tiny_model: Path, tmp_path: Path, kind: str) -> None:
    settings = Training(**(SMALL | {"fine_tune_type": kind, "learning_rate": 1e-3}))
    train(folder, tiny_model, tmp_path / "one", settings)
    still = Training(**(SMALL | {"fine_tune_type": kind, "learning_rate": 1e-30, "optimizer": "sgd"}))
    train(folder, tiny_model, tmp_path / "two", still, resume_adapter_file=tmp_path / "one" / ADAPTERS)
    one, two = (parts.tensors(tmp_path / name / ADAPTERS) for name in ("one", "two"))
    assert one.keys() == two.keys()
    assert all(np.array_equal(one[name], two[name]) for name in one)
    found = evaluate(folder, tiny_model, tmp_path / "one", against="base", split="train")
    assert found.whole.loss < (found.whole.against or 0.0)


def test_weights_without_config_load_where_fitting(folder: Path, tiny_model: Path, copy: Path, tmp_path: Path) -> None:
    (copy / CONFIG).unlink()
    run = prepare(
        folder, str(tiny_model), tmp_path / "out", Training(**SMALL), resume_adapter_file=str(copy / ADAPTERS)
    )
    said = f"there is no {CONFIG} beside {copy / ADAPTERS}: lora_scale 20 of this run is taken for that of the weights"
    assert run.remarks == [said]
    assert f"warning   {said}" in list(describe_start(run))
    for tracker in run.trackers:
        tracker.finish()
    with pytest.raises(ModelError, match=r"adapter_config.json is not there"):
        evaluate(folder, tiny_model, copy, split="train")


@pytest.mark.parametrize("name", [ADAPTERS, "optimizer.safetensors"])
@pytest.mark.parametrize("damage", ["cut", "nothing", "text", "gone"])
def test_damaged_checkpoint_is_named(folder: Path, tiny_model: Path, copy: Path, name: str, damage: str) -> None:
    (place,) = (copy / "checkpoints").iterdir()
    FILES[damage][0](place / name)
    with pytest.raises(CheckpointError, match=f"cannot load {place / name}: "):
        train(folder, tiny_model, copy, Training(**(SMALL | {"iters": 2})), resume=True)


def test_unfitting_checkpoint_is_refused(folder: Path, tiny_model: Path, copy: Path) -> None:
    (place,) = (copy / "checkpoints").iterdir()
    changed(place, half)
    with pytest.raises(CheckpointError, match=r"as float16 of the shape .* wanted float32"):
        train(folder, tiny_model, copy, Training(**(SMALL | {"iters": 2})), resume=True)
