"""`karl-fast train --config`: which place counts over which, and what a file may hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from karl_fast.cli.app import app
from karl_fast.cli.commands import train as command
from karl_fast.errors import FileError, UsageError
from karl_fast.settings.toml import load as load_sampling
from karl_fast.settings.toml_text import dump_training
from karl_fast.train import Trained, Training
from karl_fast.train.config import load

FILE = """
k = 9
seed = 4

[train]
data = "data"
model = "tiny"
adapter-path = "out/adapter"
batch_size = 8
learning_rate = 1
max_seq_length = 99
lora_keys = ["self_attn.q_proj"]
epochs = 2
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "karl.toml").write_text(FILE, "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def asked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the command asks `train` for, with words and an environment; nothing is trained."""
    found: list[Any] = []

    def train(data: str, model: str, adapter_path: str, settings: Training, **how: Any) -> Trained:
        found.append((data, model, adapter_path, settings, how["resume_adapter_file"]))
        return Trained(Path(adapter_path), (1, 1), 0, None, 1, {}, 0, 2048)

    def ask(*words: str, **env: str) -> Any:
        done = CliRunner().invoke(app, ["train", "-q", *words], env=env, standalone_mode=False)
        if done.exception is not None:
            raise done.exception
        return found.pop()

    monkeypatch.setattr(command, "train", train)
    return ask


def test_flag_over_variable_over_file(asked: Any) -> None:
    env = {"KARL_FAST_MAX_SEQ_LENGTH": "50", "KARL_FAST_BATCH_SIZE": "5", "KARL_FAST_SAVE_EVERY": "7"}
    data, model, adapter_path, settings, _ = asked("--config", "there/karl.toml", "--batch-size", "3", **env)
    assert (data, model, adapter_path) == ("there/data", "tiny", "there/out/adapter")
    wanted = {"batch_size": 3, "max_seq_length": 50, "learning_rate": 1, "epochs": 2, "save_every": 7}
    assert settings == Training(**wanted, lora_keys=("self_attn.q_proj",))


def test_keys_above_the_table_are_ignored(asked: Any) -> None:
    assert asked("--config", "there/karl.toml")[3].seed == 0


def test_words_name_other_places_than_the_file(asked: Any, folder: Path) -> None:
    (folder / "there" / "tiny").mkdir()
    env = {"KARL_FAST_CONFIG": "there/karl.toml"}
    assert asked(**env)[:3] == ("there/data", "there/tiny", "there/out/adapter")
    assert asked("d", "--model", "m", "--adapter-path", "a", **env)[:3] == ("d", "m", "a")
    assert asked("d", "--model", "m")[2] == "adapters"


def test_choice_displaces_unused_weaker_settings(asked: Any, folder: Path) -> None:
    settings = asked("--config", "there/karl.toml", "--iters", "7")[3]
    assert (settings.iters, settings.epochs) == (7, None)
    (folder / "there" / "karl.toml").write_text('[train]\ndata="d"\nmodel="m"\nrecipe="awr"\ntemperature=0.1\n')
    assert asked("--config", "there/karl.toml")[3] == Training(recipe="awr", temperature=0.1)
    assert asked("--config", "there/karl.toml", "--recipe", "sft")[3] == Training()


def test_auto_length_is_accepted_everywhere(asked: Any, folder: Path) -> None:
    words = ("d", "--model", "m")
    assert asked(*words, "--max-seq-length", "auto")[3].max_seq_length == "auto"
    assert asked(*words, KARL_FAST_MAX_SEQ_LENGTH="auto")[3].max_seq_length == "auto"
    (folder / "there" / "karl.toml").write_text('[train]\nmax_seq_length = "auto"\n', "utf-8")
    assert asked(*words, "--config", "there/karl.toml")[3].max_seq_length == "auto"
    assert asked(*words, "--config", "there/karl.toml", "--max-seq-length", "64")[3].max_seq_length == 64


def test_initial_weights_may_be_in_the_file(asked: Any, folder: Path) -> None:
    (folder / "there" / "karl.toml").write_text('[train]\nresume_adapter_file = "a.safetensors"\n', "utf-8")
    words = ("d", "--model", "m", "--config", "there/karl.toml")
    assert asked(*words)[4] == "there/a.safetensors"
    assert asked(*words, "--resume-adapter-file", "b.safetensors")[4] == "b.safetensors"


WRONG = {
    "k = 3": "there/karl.toml: there is no table [train]",
    "train = 3": "there/karl.toml: there is no table [train]",
    "[train": "there/karl.toml: this is not TOML",
    "[train]\nbatch = 3": "the key [train] batch is unknown",
    "[train]\nbatch_size = 'x'": "batch_size is 'x', wanted a whole number",
    "[train]\nbatch_size = true": "batch_size is True, wanted a whole number",
    "[train]\nbatch_size = 0": "there/karl.toml: batch_size is 0, wanted a whole number from 1 on",
    "[train]\nbatch_size = 1\nbatch-size = 2": "[train] batch-size is given twice",
    "[train]\nmodel = 3": "model is 3, wanted a text",
    "[train]\nresume_adapter_file = 3": "resume_adapter_file is 3, wanted a text",
    "[train]\nmax_seq_length = 'x'": "max_seq_length is 'x', wanted a whole number from 2 on, or auto",
    "[train]\nrecipe = 'awr'": "there/karl.toml: the recipe awr needs temperature",
    "[train]\ndata = 'd'": "no model given",
    "[train]\nmodel = 'm'": "no data set given",
}


@pytest.mark.parametrize(("text", "said"), WRONG.items())
def test_forbidden_key_is_named_with_its_file(asked: Any, folder: Path, text: str, said: str) -> None:
    (folder / "there" / "karl.toml").write_text(text, "utf-8")
    with pytest.raises(UsageError) as error:
        asked("--config", "there/karl.toml")
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        (
            "seed = 1\nlearning-rate = 1\nmodel = 'm'",
            "there is no table [train]",
            "put a line [train] above learning-rate, model",
        ),
        ("seed = 1", "there is no table [train]", "the settings of train stand in it"),
        ("epochs = 1\n[train]", "epochs is outside of the table [train]", "put a line [train] above epochs"),
        ("[sample]\nk = 3\n[training]\nepochs = 1", "there is no table [train]", "the settings of train stand in it"),
    ],
)
def test_settings_outside_the_table_are_reported(asked: Any, folder: Path, text: str, said: str, hint: str) -> None:
    (folder / "there" / "karl.toml").write_text(text, "utf-8")
    with pytest.raises(UsageError) as error:
        asked("--config", "there/karl.toml")
    assert (str(error.value), error.value.hint) == (f"there/karl.toml: {said}", hint)


def test_a_variable_is_told_with_its_name(asked: Any) -> None:
    with pytest.raises(UsageError, match="KARL_FAST_BATCH_SIZE: batch_size is 0"):
        asked("--config", "there/karl.toml", KARL_FAST_BATCH_SIZE="0")
    with pytest.raises(FileError, match=r"cannot open nowhere.toml: no such file or folder"):
        asked("--config", "nowhere.toml")


def test_sample_leaves_the_table_of_train_alone(folder: Path) -> None:
    assert load_sampling("there/karl.toml").settings == {"k": 9, "seed": 4}
    (folder / "there" / "karl.toml").write_text("train = 3", "utf-8")
    with pytest.raises(UsageError, match=r"train is 3, wanted a table \[train\]"):
        load_sampling("there/karl.toml")


def test_every_setting_round_trips_through_the_file(folder: Path) -> None:
    settings = Training(recipe="oapl", temperature=0.5, epochs=1.5, lora_keys=("a", "b"), report_to=("wandb",))
    (folder / "tiny").mkdir()
    for model, back in (("tiny", "there/../tiny"), ("hub/name", "hub/name")):
        text = dump_training(settings, "data", model, folder / "there", "../a.safetensors")
        (folder / "there" / "train.toml").write_text(text, "utf-8")
        found = load("there")
        assert (found.data, found.model, found.adapter_path) == ("there/../data", back, None)
        assert found.resume_adapter_file == "there/../a.safetensors"
        assert Training(**found.settings) == settings
