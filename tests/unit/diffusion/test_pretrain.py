"""Pre-training: the same settings give the same bytes, and bad rows are named."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("mlx.core", reason="mlx is not installed: pip install '.[train]'")

from karl_fast.diffusion.policy import DiffusionModel, load_model
from karl_fast.diffusion.pretrain import pretrain
from karl_fast.diffusion.settings import Pretraining, read_config
from karl_fast.errors import OutputExistsError, OutputForeignError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.mlx


@pytest.fixture
def settings(tmp_path: Path, kind: str) -> Pretraining:
    rows = [{"prompt": f"say {word}", "answer": f"{word} {word} ."} for word in ("ann", "bob", "eve")]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return Pretraining(
        data=str(tmp_path / "rows.jsonl"),
        out=str(tmp_path / "model"),
        kind=kind,  # type: ignore[arg-type]
        size=16,
        layers=1,
        heads=2,
        iters=150,
        batch_size=8,
        learning_rate=1e-2,
    )


def test_a_model_learns_and_has_the_same_bytes_again(settings: Pretraining, tmp_path: Path) -> None:
    losses: list[float] = []
    result = pretrain(settings, on_steps=lambda step, loss: losses.append(loss))
    assert result.rows == 3
    assert result.loss < 0.8
    assert losses[0] > result.loss
    pretrain(replace(settings, out=str(tmp_path / "again")))
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "model" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    policy = DiffusionModel(*load_model(settings.out))
    assert policy.decode(policy.encode_answer("eve bob .")) == "eve bob ."


def test_a_model_that_is_there_is_not_replaced_unasked(settings: Pretraining) -> None:
    short = replace(settings, iters=1)
    pretrain(short)
    with pytest.raises(OutputExistsError):
        pretrain(short)
    pretrain(short, force=True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"prompt": "a"}', "line 1: wanted an object"),
        ('{"prompt": "a", "answer": ""}', "line 1: wanted an object"),
        ("[]", "line 1: wanted an object"),
        ('{"prompt": "a", "answer": "b"}\nnope', "line 2: this is not JSON"),
        ('{"prompt": "a", "answer": "<pad>"}', "<pad>"),
        ("", "no row"),
    ],
)
def test_rows_that_are_none_are_named(settings: Pretraining, tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "rows.jsonl").write_text(text, "utf-8")
    with pytest.raises(UsageError, match=words):
        pretrain(settings)


def test_a_file_of_settings_is_read_with_its_folder(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text('data = "rows.jsonl"\nkind = "discrete-flow"\n', "utf-8")
    assert read_config(str(tmp_path / "p.toml")).settings == {
        "data": str(tmp_path / "rows.jsonl"),
        "kind": "discrete-flow",
    }
    (tmp_path / "p.toml").write_text("kinds = 1\n", "utf-8")
    with pytest.raises(UsageError, match="kinds"):
        read_config(str(tmp_path / "p.toml"))


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_model_of_somebody_else_is_not_replaced(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('{"model_type": "qwen3"}')
    with pytest.raises(OutputForeignError, match=name):
        pretrain(Pretraining(data="rows.jsonl", out=str(tmp_path)), force=True)
    assert [file.name for file in tmp_path.iterdir()] == [name]
