"""A model or an adapter that is in no folder: what is near by name is told, and whether the hub was asked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from karl_fast.errors import ModelError, UsageError
from karl_fast.modeling.load import load
from karl_fast.train.evaluation import evaluate

if TYPE_CHECKING:
    from pathlib import Path

mlx_lm = pytest.importorskip("mlx_lm", reason="mlx-lm is not installed: pip install '.[train]'")

NONE = "the Hugging Face hub has none of that name"
SILENT = "the Hugging Face hub could not be asked"


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tiny-model", "other"):
        (tmp_path / "at" / name).mkdir(parents=True)
        (tmp_path / "at" / name / "config.json").write_text("{}")
    (tmp_path / "at" / "tiny-modell").mkdir()
    monkeypatch.chdir(tmp_path / "at")


def refused(path: str) -> ModelError:
    with pytest.raises(ModelError) as caught:
        load(path)
    return caught.value


def of_hub(kind: str) -> Exception:
    from huggingface_hub import errors

    error: Exception = getattr(errors, kind).__new__(getattr(errors, kind))
    Exception.__init__(error, "a long story\nof links")
    return error


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("RepositoryNotFoundError", NONE),
        ("HFValidationError", NONE),
        ("LocalEntryNotFoundError", SILENT),
        ("OfflineModeIsEnabled", SILENT),
        ("GatedRepoError", "access to it on the hub has to be requested: a long story of links"),
        ("RevisionNotFoundError", "the Hugging Face hub said: a long story of links"),
    ],
)
def test_hub_errors_are_short(kind: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def hub(*_: object, **__: object) -> None:
        raise of_hub(kind)

    monkeypatch.setattr(mlx_lm, "load", hub)
    error = refused("tiny-modle")
    assert str(error) == f"cannot load a model from tiny-modle: there is no such folder, and {said}"
    assert error.hint == "did you mean tiny-model?"
    assert refused("who/tiny-modle").hint == ModelError.hint


def test_unreadable_hub_model_is_reported_as_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise ValueError("Model type foo not supported.")

    monkeypatch.setattr(mlx_lm, "load", unknown)
    assert str(refused("org/model")) == "cannot load a model from org/model: Model type foo not supported."


@pytest.mark.parametrize(
    ("path", "near"), [("./tiny-modle", "tiny-model"), ("../at/otter", "../at/other"), ("./nothing", None)]
)
def test_path_is_not_searched_on_the_hub(path: str, near: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlx_lm, "load", None)
    error = refused(path)
    assert str(error) == f"cannot load a model from {path}: no such folder"
    assert error.hint == (f"did you mean {near}?" if near else ModelError.hint)


def test_offline_there_is_no_model_and_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert str(refused("tiny-modle")).endswith(f"there is no such folder, and {SILENT}")


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    folder = tmp_path / "at" / "adapter"
    folder.mkdir()
    (folder / "adapters.safetensors").touch()
    (tmp_path / "at" / "adapterr").mkdir()
    row = {"messages": [], "karl_fast": {"domain": "web", "id": "r"}}
    (tmp_path / "at" / "test.jsonl").write_text(json.dumps(row) + "\n", "utf-8")
    return folder


MADE = "--adapter-path takes a folder that karl-fast train or mlx_lm lora wrote, and so does --against"


@pytest.mark.parametrize(
    ("path", "why", "hint"),
    [
        ("adaptre", "no such folder", "did you mean adapter?"),
        ("nothing", "no such folder", MADE),
        ("other", "it has no adapters.safetensors", MADE),
    ],
)
@pytest.mark.usefixtures("adapter")
def test_an_adapter_that_is_nowhere(path: str, why: str, hint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlx_lm, "load", None)  # it is looked for before the model
    for settings in ({"adapter_path": path}, {"against": path}):
        with pytest.raises(ModelError) as caught:
            evaluate(".", "tiny-model", **settings)
        assert str(caught.value) == f"cannot load an adapter from {path}: {why}"
        assert caught.value.hint == hint


@pytest.mark.usefixtures("adapter")
def test_the_model_alone_is_meant() -> None:
    with pytest.raises(ModelError) as caught:
        evaluate(".", "tiny-model", against="bsae")
    assert caught.value.hint == "did you mean base?"


@pytest.mark.parametrize(
    ("by", "hint"),
    [("karl_fast.domian", "did you mean karl_fast.domain?"), ("domain", "did you mean karl_fast.domain?"), ("x", None)],
)
@pytest.mark.usefixtures("adapter")
def test_a_field_that_no_row_has(by: str, hint: str | None) -> None:
    with pytest.raises(UsageError, match=f"by is {by}, a field that no row of test.jsonl has") as caught:
        evaluate(".", "tiny-model", by=by)
    assert caught.value.hint == hint
