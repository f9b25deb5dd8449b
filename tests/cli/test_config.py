"""Settings from a file, the environment and flags: who wins, what is refused, and how a data set is made again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import karl_fast
from karl_fast.errors import FileError, UsageError
from karl_fast.settings.sample import Settings
from tests import rows
from tests.cli.run import karl
from tests.cli.test_exits import refused

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

FULL = """
logs = ["tiny.jsonl"]
out = "data"
score = "zscore"
drop-constant-groups = true
as = "text"
seed = 3

[reward]
reward = 2

[sample]
k = 9
split = [0.5, 0.25, 0.25]

[inspect]
score = "centre"
"""


@pytest.fixture
def config(folder: Path) -> Path:
    (folder / "karl.toml").write_text(FULL)
    return folder / "karl.toml"


def manifest(folder: Path, name: str = "data") -> dict[str, Any]:
    return json.loads((folder / name / "manifest.json").read_text("utf-8"))


def run(folder: Path, *options: Any, **variables: str) -> subprocess.CompletedProcess[str]:
    """`sample` with variables set, which must work."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        done = karl("sample", "--config", "karl.toml", *options, "-q", folder=folder)
    assert done.returncode == 0, done.stderr
    return done


def test_a_file_says_all_that_a_run_needs(config: Path) -> None:
    run(config.parent)
    found = manifest(config.parent)
    chosen = {name: found["settings"][name] for name in ("score", "shape", "seed", "reward", "k", "split")}
    assert chosen == {
        "score": "zscore",
        "shape": "text",
        "seed": 3,
        "reward": {"reward": 2.0},
        "k": 9,
        "split": [0.5, 0.25, 0.25],
    }
    assert set(found["run"]["settings_from"].values()) == {"file"}


def test_it_draws_what_the_same_flags_draw(config: Path) -> None:
    run(config.parent)
    flags = "--score zscore --drop-constant-groups --as text --seed 3 --reward reward=2 -k 9 --split 0.5,0.25,0.25"
    karl("sample", "tiny.jsonl", "-o", "flags", *flags.split(), folder=config.parent)
    assert rows.files(config.parent / "data") == rows.files(config.parent / "flags")
    assert rows.manifest(config.parent / "data") == rows.manifest(config.parent / "flags")


def test_command_table_applies_to_it_alone(config: Path) -> None:
    done = karl("inspect", "--config", "karl.toml", "--json", folder=config.parent)
    assert json.loads(done.stdout)["settings"]["score"] == "centre"
    assert json.loads(done.stdout)["settings"]["k"] is None


def test_flag_over_environment_over_file(config: Path) -> None:
    run(config.parent, "--seed", 5, KARL_FAST_SEED="4", KARL_FAST_SCORE="raw", KARL_FAST_AS="chat")
    found = manifest(config.parent)
    assert [found["settings"][name] for name in ("seed", "score", "shape", "k")] == [5, "raw", "chat", 9]
    assert found["run"]["settings_from"] == {
        "reward": "file",
        "drop_constant_groups": "file",
        "k": "file",
        "seed": "flag",
        "split": "file",
    }, "raw and chat are the defaults: they came from nowhere"


def test_flag_turns_off_a_setting_of_file(config: Path) -> None:
    run(config.parent, "--no-drop-constant-groups")
    assert not manifest(config.parent)["settings"]["drop_constant_groups"]


@pytest.mark.parametrize(("file", "flag"), [("k = 9", "--fraction 0.5"), ("ess = 0.3", "--inverse-temperature 2 -k 3")])
def test_rival_setting_displaces_weaker_source(folder: Path, file: str, flag: str) -> None:
    (folder / "karl.toml").write_text(file)
    run(folder, "tiny.jsonl", "-o", "data", *flag.split())
    settings = manifest(folder)["settings"]
    assert (settings["k"], settings["ess"]) in {(None, None), (3, None)}


def test_where_settings_came_from_changes_nothing_else(config: Path) -> None:
    """Law 2: all but `inputs` and `run` is a function of seed, records and settings."""
    run(config.parent, "--seed", 4)
    run(config.parent, "-o", "again", KARL_FAST_SEED="4")
    assert rows.files(config.parent / "data") == rows.files(config.parent / "again")
    assert rows.manifest(config.parent / "data") == rows.manifest(config.parent / "again")
    assert manifest(config.parent)["run"]["settings_from"] != manifest(config.parent, "again")["run"]["settings_from"]


def test_paths_are_relative_to_the_file(config: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    assert karl("sample", "--config", config, "-q", folder=elsewhere).returncode == 0
    assert (config.parent / "data" / "manifest.json").is_file()
    assert list(elsewhere.iterdir()) == []


def test_logs_of_command_line_replace_those_of_file(config: Path) -> None:
    rows.write(config.parent / "other.jsonl", rows.records(40))
    run(config.parent, "other.jsonl")
    assert [file["path"] for file in manifest(config.parent)["inputs"]] == ["other.jsonl"]


MAKES = {
    "plain": "-k 12",
    "group": "--score zscore --partition-by group --drop-constant-groups -k 9 --seed 18446744073709551615",
    "temperature": "--inverse-temperature 1.5 --fraction 0.3 --as prompt-completion --dedup",
    "components": "--reward reward=0.75 -k 5",
    "all": "--sampler all --as raw --split 0.6,0.2,0.2 --ess 0.7",
    "cap": "-k 20 --max-per-group 2 --min-reward 0.25 --hash-inputs --score leave-one-out",
}


@pytest.mark.parametrize("name", MAKES)
def test_manifest_reproduces_data_set_bytes(folder: Path, name: str) -> None:
    assert karl("sample", "tiny.jsonl", "-o", "data", *MAKES[name].split(), folder=folder).returncode == 0
    done = karl("sample", "--config", "data/manifest.json", "-o", "again", folder=folder)
    assert done.returncode == 0, done.stderr
    assert "not what it was" not in done.stderr
    assert rows.files(folder / "data") == rows.files(folder / "again")
    assert rows.manifest(folder / "data") == rows.manifest(folder / "again")


def test_a_log_that_changed_since_is_named(folder: Path) -> None:
    karl("sample", "tiny.jsonl", "-o", "data", "-k", 5, folder=folder)
    with (folder / "tiny.jsonl").open("a") as log:
        log.write(rows.dumps([rows.record(900)]))
    done = karl("sample", "--config", "data", "-o", "again", folder=folder)
    assert "warning: tiny.jsonl has changed since data/manifest.json was written" in done.stderr
    done = karl("sample", "tiny.jsonl", "--config", "data", "-o", "third", folder=folder)
    assert "not what it was" not in done.stderr, "who names a log means that log"


def test_manifest_of_caller_rows_is_refused(folder: Path) -> None:
    import numpy as np

    with karl_fast.read(folder / "tiny.jsonl") as log:
        karl_fast.export(log, np.arange(5), folder / "data")
    done = karl("sample", "--config", "data", "-o", "again", folder=folder)
    assert "came from a caller" in refused(done, 2)


def test_the_file_itself_may_stand_in_a_variable(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KARL_FAST_CONFIG", "karl.toml")
    assert karl("sample", "-q", folder=config.parent).returncode == 0
    assert manifest(config.parent)["settings"]["k"] == 9


def test_a_library_loads_what_the_command_loads(config: Path) -> None:
    settings = Settings.load(config)
    assert (settings.k, settings.score, settings.shape, settings.reward) == (9, "zscore", "text", {"reward": 2.0})
    assert Settings.load(config, "inspect").score == "centre"
    drawn = karl_fast.sample(config.parent / "tiny.jsonl", None, settings, seed=8)
    assert drawn.manifest["run"]["settings_from"]["seed"] == "call"
    assert drawn.manifest["run"]["settings_from"]["k"] == "file"
    with pytest.raises(FileError):
        Settings.load(config.parent / "nowhere.toml")


def test_the_settings_of_a_manifest_are_settings(config: Path) -> None:
    run(config.parent)
    found = manifest(config.parent)["settings"]
    assert Settings.from_dict(found).to_dict() == found
    with pytest.raises(UsageError, match="the key kk is unknown"):
        Settings.from_dict({"kk": 3})


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
NUMBERS = st.floats(-1e9, 1e9)
SHARES = st.floats(1e-9, 1)
CHOICES = st.fixed_dictionaries(
    {},
    optional={
        "id": TEXTS,
        "group": TEXTS,
        "reward": st.dictionaries(TEXTS, NUMBERS, min_size=1, max_size=3),
        "score": st.sampled_from(["raw", "centre", "zscore", "leave-one-out", "advantage"]),
        "eps": st.floats(0, 1e300),
        "ess": SHARES,
        "min_reward": NUMBERS,
        "dedup": st.booleans(),
        "k": st.integers(1, (1 << 32) - 1),
        "seed": st.integers(0, (1 << 64) - 1),
        "shape": st.sampled_from(["chat", "text", "raw"]),
        "split": st.sampled_from([(1.0, 0.0, 0.0), (0.25, 0.5, 0.25)]),
    },
)


@given(CHOICES)
def test_toml_round_trip(tmp_path_factory: Any, choices: dict[str, Any]) -> None:
    settings = Settings(**choices)
    file = tmp_path_factory.getbasetemp() / "round.toml"
    file.write_text(settings.to_toml(), encoding="utf-8")
    assert Settings.load(file) == settings
    assert Settings.from_dict(settings.to_dict()).to_dict() == settings.to_dict()


def test_manifest_with_caller_columns_is_refused(tmp_path: Path) -> None:
    log = karl_fast.read("examples/agent-log.jsonl")
    handed = log.with_columns(pl.DataFrame({"mine": log.rewards}), reward="mine")
    karl_fast.sample(handed, tmp_path / "data", k=8)
    done = karl("sample", "--config", "data/manifest.json", "-o", "again", folder=tmp_path)
    assert "came from a caller" in refused(done, 2)
    assert not (tmp_path / "again").exists()


def test_weights_beyond_what_sums_hold_are_refused(tmp_path: Path) -> None:
    rows.write(tmp_path / "log.jsonl", [rows.record(n, "g", 1e20 * n) for n in range(9)])
    options = ("--inverse-temperature", 1, "--sampler", "weighted-reservoir", "-k", 3, "-o", "data")
    done = karl("sample", "log.jsonl", *options, folder=tmp_path)
    assert "beyond 1e14" in refused(done, 2)
    assert not (tmp_path / "data").exists()
