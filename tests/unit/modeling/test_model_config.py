"""A model whose config has a field of a wrong type is refused by file, field, what came and what was expected."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("mlx_lm", reason="pip install '.[train]'")

from karl_fast.errors import ModelError
from karl_fast.modeling.load import load, wrong_field
from karl_fast.train.model_logprobs import Scorer
from tests.unit.modeling import model_zoo

if TYPE_CHECKING:
    from pathlib import Path

NUMBER, POSITIVE = "a number", "a whole number from 1 on"

WRONG: list[tuple[str, Any, str]] = [
    ("hidden_size", "64", NUMBER),
    ("num_hidden_layers", 2.5, POSITIVE),
    ("num_hidden_layers", -1, POSITIVE),
    ("num_attention_heads", [4], NUMBER),
    ("num_attention_heads", 0, POSITIVE),
    ("vocab_size", None, POSITIVE),
    ("rms_norm_eps", "x", NUMBER),
    ("rope_theta", "1e6", NUMBER),
    ("rope_scaling", 3, "an object"),
    ("tie_word_embeddings", "yes", "true or false"),
    ("max_position_embeddings", "512", NUMBER),
    ("eos_token_id", [1, "x"], "a number or a list"),
    ("quantization", 3, "an object"),
    ("architectures", 3, "a list"),
    ("model_type", 3, "a text"),
    ("text_config", 3, "an object"),
    ("text_config", {"vocab_size": "x", "model_type": "qwen3"}, NUMBER),
]


@pytest.fixture
def folder(tiny_model: Path, tmp_path: Path) -> Path:
    return shutil.copytree(tiny_model, tmp_path / "model")


def config(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "config.json").read_text("utf-8"))
    return found


@pytest.mark.parametrize(("name", "value", "wanted"), WRONG, ids=[f"{one[0]} {one[1]}" for one in WRONG])
def test_a_field_of_a_wrong_type_is_named(folder: Path, name: str, value: Any, wanted: str) -> None:
    changed = config(folder) | {name: value}
    if name == "text_config" and isinstance(value, dict):
        changed = {"model_type": "qwen3_vl", "text_config": config(folder) | value}
        name, value = "text_config.vocab_size", "x"
    (folder / "config.json").write_text(json.dumps(changed))
    with pytest.raises(ModelError) as error:
        load(str(folder))
    said = f"config.json has {name} as {json.dumps(value)}, wanted {wanted}"
    assert str(error.value) == f"cannot load a model from {folder}: {said}"


@pytest.mark.parametrize(("text", "says"), [("[]", "is [], wanted an object"), ("{", "cannot be read: ")])
def test_a_config_that_is_none_is_refused(folder: Path, text: str, says: str) -> None:
    (folder / "config.json").write_text(text)
    with pytest.raises(ModelError, match=r"config\.json ") as error:
        load(str(folder))
    assert says in str(error.value)


def test_unused_field_refuses_no_model(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps(config(folder) | {"architectures": "Qwen3ForCausalLM"}))
    assert wrong_field(folder) is not None
    Scorer(load(str(folder)).model)


@pytest.mark.parametrize("kind", model_zoo.types())
def test_valid_configs_have_no_wrong_field(kind: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(model_zoo.config(kind)))
    assert wrong_field(tmp_path) is None
