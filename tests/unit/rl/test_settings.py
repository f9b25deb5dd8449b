"""Settings from a file: what is refused by name, where paths lead, and what stands where nobody says."""

from __future__ import annotations

from pathlib import Path

import pytest

from karl_fast.errors import UsageError
from karl_fast.objective import from_toml
from karl_fast.rl import load
from karl_fast.rl.settings import Online, load_recipe
from karl_fast.train.settings import Training
from tests.unit.rl.test_parts import written


@pytest.mark.parametrize("name", ["alarms", "replay", "rewards"])
def test_a_table_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} is 3, wanted a table"):
        load(written(tmp_path, f"{name} = 3"))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('learning_rate = "x"', "learning_rate is 'x', wanted a finite number above 0"),
        ("warmup = true", "warmup is True, wanted a whole number"),
        ("grad_checkpoint = 1", "grad_checkpoint is 1, wanted true or false"),
        ("lora_keys = 3", "lora_keys is 3, wanted a list"),
    ],
)
def test_a_setting_of_the_trainer_is_named(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        load(written(tmp_path, line))


@pytest.mark.parametrize("name", ["rounds", "learning_rate", "environment_weight", "num_layers"])
def test_too_large_number_names_its_setting(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} is 10000"):
        load(written(tmp_path, f"{name} = 1{'0' * 400}"))


@pytest.mark.parametrize("text", ["rounds = " + "1" * 5000, "rounds = " + "[" * 5000])
def test_what_python_cannot_read_is_no_toml(tmp_path: Path, text: str) -> None:
    (tmp_path / "any.toml").write_text(text)
    with pytest.raises(UsageError, match="not TOML"):
        load(tmp_path / "any.toml")
    with pytest.raises(UsageError, match="not a recipe"):
        from_toml(text)


def test_hints_outlive_the_name_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="group_sise") as raised:
        load(written(tmp_path, "group_sise = 3"))
    assert raised.value.hint == "did you mean group_size?"
    with pytest.raises(UsageError, match="recipe is 'dappo'") as raised:
        load_recipe("dappo")
    assert raised.value.hint == "did you mean dapo?"


def test_only_files_are_relative_to_the_settings(tmp_path: Path) -> None:
    (tmp_path / "dapo").mkdir()
    (tmp_path / "rl.toml").write_text('recipe = "dapo"\nprompts = "gone.jsonl"\n')
    found = load(tmp_path / "rl.toml")
    assert (found.recipe, found.prompts) == ("dapo", str(tmp_path / "gone.jsonl"))
    (tmp_path / "rl.toml").write_text('recipe = "mine.toml"\n')
    assert load(tmp_path / "rl.toml").recipe == str(tmp_path / "mine.toml")


def test_run_folder_has_no_parent_references(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "rl.toml").write_text('out = "../runs/x"\n')
    assert load(tmp_path / "a" / "rl.toml").out == str(tmp_path / "runs" / "x")
    (tmp_path / "a" / "rl.toml").write_text('out = ""\n')
    assert load(tmp_path / "a" / "rl.toml").out == ""


def test_run_folder_behind_a_link_stays(tmp_path: Path) -> None:
    (tmp_path / "far" / "a").mkdir(parents=True)
    (tmp_path / "near").symlink_to(tmp_path / "far" / "a")
    (tmp_path / "near" / "rl.toml").write_text('out = "../x"\n')
    out = Path(load(tmp_path / "near" / "rl.toml").out)
    assert out.resolve() == (tmp_path / "far" / "x").resolve() != (tmp_path / "x").resolve()


def test_checkpoints_are_ten_rounds_apart(tmp_path: Path) -> None:
    (tmp_path / "rl.toml").write_text("learning_rate = 1e-4\n")
    assert Online(training=Training()).save_every == load(tmp_path / "rl.toml").save_every == 10
    assert load(tmp_path / "rl.toml", save_every=3).save_every == 3
    with pytest.raises(UsageError, match="save_every of Online counts rounds"):
        Online(training=Training(save_every=7))
