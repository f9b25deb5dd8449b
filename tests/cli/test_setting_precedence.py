"""What a stronger place displaces in a weaker one, and settings on their way into a file and back."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import pytest

from karl_fast.errors import UsageError
from karl_fast.settings.sample import Settings
from karl_fast.settings.toml import load
from tests.cli.run import karl
from tests.cli.test_config import manifest, run

if TYPE_CHECKING:
    from pathlib import Path

USELESS = {
    "k = 9": "--sampler all",
    "fraction = 0.5": "--sampler all",
    "per = 'group=equal'\nk = 9": "--sampler all",
    "ess = 0.3": "--sampler reservoir -k 3",
    "inverse_temperature = 2.0\nscore = 'centre'\npartition_by = 'group'": "--sampler reservoir -k 3",
    "partition_by = 'group'": "--sampler weighted-reservoir -k 3",
    "max_per_group = 2": "--sampler systematic -k 3",
    "max_tokens = 90\ntokenizer = 'nowhere'": "--as raw -k 3",
}


@pytest.mark.parametrize(("file", "flag"), USELESS.items())
def test_choice_displaces_settings_of_weaker_sources(folder: Path, file: str, flag: str) -> None:
    (folder / "karl.toml").write_text(file)
    run(folder, "tiny.jsonl", "-o", "data", *flag.split())
    plain, said = Settings(), Settings.load(folder / "karl.toml").chosen()
    settings = Settings.from_dict(manifest(folder)["settings"])
    left = [name for name in said if name != "k" and getattr(settings, name) != getattr(plain, name)]
    assert (left, settings.k) == ([], None if "all" in flag else 3)


def test_manifest_with_sampler_all_ignores_its_budget(folder: Path) -> None:
    assert karl("sample", "tiny.jsonl", "-o", "first", "-k", 9, folder=folder).returncode == 0
    done = karl("sample", "--config", "first", "--sampler", "all", "-o", "data", folder=folder)
    assert done.returncode == 0, done.stderr
    drawn = manifest(folder)["draw"]
    assert drawn["rows_wanted"] == manifest(folder)["accounting"]["rows_kept"] > 9


def test_settings_survive_dictionary_and_file(folder: Path) -> None:
    chosen = [
        Settings(),
        Settings(ess=0.5, threads=3),
        Settings(k=3, inverse_temperature=2.0, reward={"a.b": 1.0, "c": -0.5}, per={"domain": "sqrt"}),
        Settings(sampler="reservoir", fraction=0.5, split=(1.0, 0.0, 0.0), shape="text", max_tokens=9, tokenizer="/t"),
    ]
    for settings in chosen:
        assert Settings.from_dict(settings.to_dict()) == settings
        (folder / "back.toml").write_text(settings.to_toml(), encoding="utf-8")
        assert Settings.load(folder / "back.toml") == settings
    assert Settings(ess=0.5).to_dict()["ess"] == 0.5
    assert Settings().to_dict()["ess"] is None


def test_paths_in_written_toml_resolve_to_originals(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "runs").mkdir()
    (folder / "runs/karl.toml").write_text("logs = ['*.jsonl', '-']\nout = 'data'\nmax_tokens = 9\ntokenizer = 'model'")
    monkeypatch.chdir(folder)
    found, settings = load("runs/karl.toml"), Settings.load("runs/karl.toml")
    (folder / "else").mkdir()
    for text in (
        settings.to_toml("else", logs=found.logs or (), out=found.out),
        settings.to_toml(logs=found.logs or (), out=found.out),
    ):
        (folder / "else/karl.toml").write_text(text, encoding="utf-8")
        again = load(folder / "else/karl.toml")
        paths = [again.settings["tokenizer"], *(again.logs or ()), again.out]
        assert [os.path.normpath(folder / path) if path != "-" else path for path in paths if path] == [
            str(folder / "runs/model"),
            str(folder / "runs/*.jsonl"),
            "-",
            str(folder / "runs/data"),
        ]


@pytest.mark.parametrize("command", ["sample", "inspect", "train"])
def test_a_help_names_variables_of_its_own_options(command: str) -> None:
    text = karl(command, "--help", "all").stdout
    [name] = re.findall("KARL_FAST_([A-Z_]+)", text)
    assert re.search(rf"^  --{name.lower().replace('_', '-')} ", text, re.MULTILINE)


@pytest.mark.parametrize("name", ["id", "group", "messages", "domain", "partition_by", "tokenizer", "reward"])
def test_empty_text_is_usage_error(name: str) -> None:
    value = {"": 1.0} if name == "reward" else ""
    with pytest.raises(UsageError, match=f"{name} is empty, wanted"):
        Settings(**{name: value}, max_tokens=9 if name == "tokenizer" else None)  # type: ignore[arg-type]


def test_the_folder_of_a_file_is_no_pattern(folder: Path) -> None:
    odd = folder / "runs [a-z]*"
    odd.mkdir()
    for name in ("log.jsonl", "log[1].jsonl"):
        (odd / name).write_text((folder / "tiny.jsonl").read_text())
    for logs in ("log*.jsonl", "log.jsonl", "log[1].jsonl"):
        (odd / "karl.toml").write_text(f"logs = '{logs}'\nout = 'data'\nk = 9")
        done = karl("sample", "--config", odd / "karl.toml", "--force", folder=folder)
        assert done.returncode == 0, done.stderr
        assert len(manifest(odd)["inputs"]) == (2 if "*" in logs else 1)
