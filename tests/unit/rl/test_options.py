"""`karl-fast rl`: flags over variables over the file, and the table of a file that other commands read too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import karl_fast.rl.run
from karl_fast.cli.app import app
from karl_fast.cli.commands import rl as command  # noqa: F401  (adds itself to the app)
from karl_fast.errors import UsageError
from karl_fast.rl import Alarms, Online, Replay, RunResult, load
from karl_fast.settings.toml import load as load_sampling
from karl_fast.train import Training

FILE = """
model = "tiny"
prompts = "p.jsonl"
out = "run"
group-size = 6
learning_rate = 1
seed = 4

[rewards]
"r.py:f" = 0.5

[alarms]
kl_ceiling = 2

[replay]
groups = 1
"""


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The settings that the command passes to `rl`; nothing is trained."""
    found: list[Online] = []
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "rl.toml").write_text(FILE, "utf-8")
    monkeypatch.chdir(tmp_path)

    def run(settings: Online, **_: Any) -> RunResult:
        found.append(settings)
        return RunResult(Path(settings.out), 1, 1, {})

    def ask(*words: str, **env: str) -> Online:
        done = CliRunner().invoke(app, ["rl", "-q", *words], env=env, standalone_mode=False)
        if done.exception is not None:
            raise done.exception
        return found.pop()

    monkeypatch.setattr(karl_fast.rl.run, "rl", run)
    return ask


def test_flag_over_variable_over_file(asked: Any) -> None:
    env = {"KARL_FAST_GROUP_SIZE": "5", "KARL_FAST_SEED": "7", "KARL_FAST_ALARMS_FLAT_ROUNDS": "3"}
    words = ("--config", "there/rl.toml", "--group-size", "3", "--replay-max-age", "2", "--lora-rank", "4")
    found = asked(*words, **env)
    assert (found.group_size, found.training) == (3, Training(learning_rate=1.0, seed=7, lora_rank=4))
    assert (found.alarms, found.replay) == (Alarms(kl_ceiling=2.0, flat_rounds=3), Replay(groups=1, max_age=2))
    assert (found.prompts, found.out, found.rewards) == ("there/p.jsonl", "there/run", {"there/r.py:f": 0.5})


def test_a_run_needs_no_file(asked: Any) -> None:
    words = ("--model", "tiny", "--prompts", "p.jsonl", "--out", "run", "--rewards", "r.py:f=0.5,r.py:g")
    wanted = Online(model="tiny", prompts="p.jsonl", out="run", rewards={"r.py:f": 0.5, "r.py:g": 1.0})
    assert asked(*words) == wanted


def test_a_file_and_flags_give_what_python_gives(asked: Any) -> None:
    assert asked("--config", "there/rl.toml", "--rounds", "9") == load("there/rl.toml", rounds=9)


def test_rl_reads_only_its_table(asked: Any) -> None:
    shared = "k = 9\nseed = 5\n\n[rl]\nmodel = 'tiny'\n\n[rl.rewards]\n'r.py:f' = 1\n\n[rl.alarms]\nflat_rounds = 2\n"
    Path("there/all.toml").write_text(shared)
    found = asked("--config", "there/all.toml")
    assert (found.model, found.training.seed, found.alarms.flat_rounds) == ("tiny", 0, 2)
    assert load_sampling("there/all.toml").settings == {"k": 9, "seed": 5}
    Path("there/all.toml").write_text("group_size = 3\n[rl]\nrounds = 2\n")
    with pytest.raises(UsageError, match=r"there/all.toml: group_size is outside of the table \[rl\]"):
        asked("--config", "there/all.toml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rounds = 0", "there/rl.toml: rounds is 0, wanted a whole number from 1 on"),
        ("[alarms]\nkl_ceiling = -1", "there/rl.toml: alarms.kl_ceiling is -1.0, wanted a finite number from 0 on"),
        ("[alarms]\nkl = 1", "there/rl.toml: the key alarms.kl is unknown, wanted the name of an option"),
        ("[rl]\nroundz = 1", "there/rl.toml: the key [rl] roundz is unknown, wanted the name of an option"),
        ("overlong_tokens = 999", "there/rl.toml: overlong_tokens is more than max_tokens"),
    ],
)
def test_file_error_names_the_file(asked: Any, text: str, said: str) -> None:
    Path("there/rl.toml").write_text(text)
    with pytest.raises(UsageError) as error:
        asked("--config", "there/rl.toml", "--seed", "3")
    assert str(error.value) == said
    with pytest.raises(UsageError) as error:
        load("there/rl.toml", seed=3)
    assert str(error.value) == said


def test_a_variable_is_told_with_its_name(asked: Any) -> None:
    with pytest.raises(UsageError, match=r"KARL_FAST_ALARMS_KL_CEILING: alarms\.kl_ceiling is -1"):
        asked("--config", "there/rl.toml", KARL_FAST_ALARMS_KL_CEILING="-1")
