"""The file of a cycle: tables, keys and paths, and errors before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from karl_fast.cycle.checks import check
from karl_fast.cycle.config import load
from karl_fast.cycle.run import plan_run
from karl_fast.errors import KarlError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

CONVERT = '[convert]\nsources = ["sessions"]\n'
TRAIN = f'{CONVERT}[sample]\n[train]\nmodel = "m"\n'
EVAL = f'{TRAIN}[eval]\nby = "likelihood"\n'


def written(folder: Path, text: str) -> Path:
    file = folder / "loop.toml"
    file.write_text(text)
    return file


def test_steps_have_tables_and_paths_are_relative(tmp_path: Path) -> None:
    found = load(
        written(
            tmp_path, f'{EVAL}[promote]\nmargin = 1\n[outcomes]\nrepo = "r"\nafter-days = 3\n'.replace('"r"', '["r"]')
        )
    )
    assert found.steps == ("convert", "outcomes", "sample", "train", "eval", "promote")
    assert found.folder == tmp_path / "loop"
    assert found.metrics == tmp_path / "loop" / "metrics.prom"
    assert found.tables["convert"] == {"sources": [str(tmp_path / "sessions")]}
    assert found.tables["outcomes"] == {"repo": [str(tmp_path / "r")], "after_days": 3}
    assert (found.model, found.by) == ("m", "likelihood")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", r"there is no table \[convert\]"),
        ("[convert]\n", r"\[convert\] has no sources"),
        (f"{CONVERT}[train]\nmodel = 'm'\n", r"the table \[train\] needs a table \[sample\]"),
        (f"{CONVERT}[sample]\n[eval]\n", r"the table \[eval\] needs a table \[train\]"),
        ("[convert]\nsources = 'sessions'\n", r"\[convert\] sources is 'sessions', wanted a list of texts"),
        ("[convert]\nsources = []\n", r"sources is \[\], wanted a list of texts"),
        (f"{CONVERT}rates = 'log'\n", r"the key \[convert\] rates is unknown"),
        (f"{CONVERT}threads = true\n", r"\[convert\] threads is True, wanted a whole number"),
        ("convert = 3\n", r"convert is 3, wanted a table \[convert\]"),
        (f"{CONVERT}[sample]\nkk = 3\n", "kk"),
        (f"{CONVERT}[sample]\n[train]\nmodel = 'm'\nitters = 3\n", "itters"),
        (f"{CONVERT}[sample]\n[train]\n", r"\[train\] has no model"),
        (f"{TRAIN}[eval]\nby = 'taste'\n", r"\[eval\] by is 'taste', wanted rollouts or likelihood"),
        (f"{TRAIN}[eval]\n", r"by is rollouts, and there is no table \[rl\]"),
        (f"{TRAIN}[eval]\n[rl]\n", r"\[eval\] has no data"),
        (f"{EVAL}attempts = 3\n", r"\[eval\] attempts has no effect: by is likelihood"),
        ("[convert\n", "not TOML"),
    ],
)
def test_unrunnable_file_is_refused_by_name(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(UsageError, match=rf"loop\.toml: .*{says}"):
        load(written(tmp_path, text))


def test_a_misspelled_key_has_a_hint(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load(written(tmp_path, f"{CONVERT}rates = 'log'\n"))
    assert caught.value.hint == "did you mean rate?"


SOUND = """\
[convert]
sources = ["sessions"]

[outcomes]
repo = ["repo"]

[sample]
k = 4
split = "1,0,0"

[sample.reward]
style = { weight = 0.3, fn = "rewards.py:score" }

[train]
model = "model"

[eval]
data = "held-out.jsonl"

[rl]
max_tokens = 5

[rl.rewards]
"rewards.py:score" = 1.0

[promote]
"""


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    for name in ("sessions", "repo/.git", "model"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    (tmp_path / "sessions" / "session.jsonl").write_text("{}\n")
    (tmp_path / "model" / "config.json").write_text("{}")
    (tmp_path / "rewards.py").write_text("def score(prompts, completions, **columns):\n    return [0] * len(prompts)\n")
    (tmp_path / "held-out.jsonl").write_text("".join(f'{{"prompt": "question {n}"}}\n' for n in range(8)))
    return tmp_path


def checked(folder: Path, text: str) -> None:
    config = load(written(folder, text))
    check(config, config.steps)


@pytest.mark.mlx
def test_checks_pass_and_write_nothing(sound: Path) -> None:
    before = sorted(sound.rglob("*"))
    checked(sound, SOUND)
    assert sorted(sound.rglob("*")) == sorted([*before, sound / "loop.toml"])


@pytest.mark.mlx
@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ('["sessions"]', '["sesions"]', r"\[convert\] sources names .*/sesions: there is no such file or folder"),
        ('["sessions"]', '["empty"]', r"\[convert\] sources names .*/empty: the folder .* holds no file that ends in"),
        (
            '["sessions"]',
            '["sessions"]\npseudonyms = "nodir/x"',
            r"\[convert\] pseudonyms is .*/nodir/x: there is no folder .*/nodir",
        ),
        ("k = 4", 'k = 4\npseudonyms = "nodir/x"', r"\[sample\] pseudonyms is .*nodir/x: there is no folder .*nodir"),
        (
            "k = 4",
            'k = 4\nmax_tokens = 100\ntokenizer = "nope"',
            r"\[sample\] tokenizer is .*nope: .*no such folder",
        ),
        (
            "k = 4",
            'k = 4\nmax_tokens = 100\ntokenizer = "empty"',
            r"\[sample\] tokenizer is .*empty: .*no tokenizer is in it",
        ),
        (
            '[sample.reward]\nstyle = { weight = 0.3, fn = "rewards.py:score" }\n',
            'reward = "missing.py:f"\n',
            r"\[sample\] reward is missing.py:f, wanted the path of a field",
        ),
        ('["sessions"]', '["sessions"]\nrate = "karl-v3"', r"\[convert\] rate is 'karl-v3', wanted log, result"),
        ('["sessions"]', '["sessions"]\nformat = "cluade-code"', r"\[convert\] format is 'cluade-code'"),
        ('["sessions"]', '["sessions"]\nthreads = 0', r"\[convert\] threads is 0"),
        ('["sessions"]', '["sessions"]\nmax_line_bytes = 0', r"\[convert\] max_line_bytes is 0"),
        ('["repo"]', '["gone"]', r"\[outcomes\] repo names .*/gone: there is no such"),
        ('["repo"]', '["sessions"]', r"\[outcomes\] repo names .*/sessions, which is in no git repository"),
        ('["repo"]', '["repo"]\nreport = ["none.json"]', r"\[outcomes\] report names .*/none.json"),
        ('["repo"]', '["repo"]\nafter_days = 0', r"\[outcomes\] after_days is 0"),
        ("k = 4", "k = 0", r"k is 0"),
        ("k = 4", 'k = 4\nscore = "zscore"\npartition_by = "global"\ntemperature = -1', r"temperature"),
        ('fn = "rewards.py:score"', 'fn = "rewards.py:scor"', r"\[sample\] .*has no function scor"),
        ('fn = "rewards.py:score"', 'fn = "gone.py:score"', r"\[sample\] .*gone.py"),
        ('model = "model"', 'model = "./modle"', r"\[train\] model is ./modle: wanted the folder of a model"),
        ('model = "model"', 'model = "sessions"', r"\[train\] model is .*sessions: it has no config.json"),
        (
            'model = "model"',
            'model = "model"\nrecipe = "boltzmann"',
            r"\[train\] the recipe boltzmann looks at rewards",
        ),
        ('model = "model"', 'model = "model"\nbatch_size = 0', r"batch_size is 0"),
        ('model = "model"', 'model = "model"\nrecipe = "awr"', r"recipe awr needs temperature"),
        (
            'model = "model"',
            'model = "model"\nresume_adapter_file = "a.safetensors"',
            r"\[train\] resume_adapter_file is .*a.safetensors: no such file",
        ),
        ('"held-out.jsonl"', '"held-in.jsonl"', r"\[eval\] cannot open .*/held-in.jsonl"),
        ('"held-out.jsonl"', '"rewards.py"', r"\[eval\] .*rewards.py, line 1: this is not JSON"),
        ('"held-out.jsonl"', '"held-out.jsonl"\nattempts = 0', r"\[eval\] attempts is 0, wanted 1 or more"),
        ('"held-out.jsonl"', '"held-out.jsonl"\ntemperature = -1', r"\[eval\] temperature is -1"),
        ('"held-out.jsonl"', '"held-out.jsonl"\nconfidence = 1.95', r"\[eval\] confidence is 1.95"),
        ('"rewards.py:score" = 1.0', '"rewards.py:solved" = 1.0', r"\[eval\] .*has no function solved"),
        ('"rewards.py:score" = 1.0', "", r"\[eval\] rewards names no function"),
        ("max_tokens = 5", "max_tokens = 0", r"max_tokens is 0"),
        (
            "[promote]",
            "[promote]\nconfidence = 1.95",
            r"\[promote\] confidence is 1.95, wanted a number between 0 and 1",
        ),
        ("[promote]", "[promote]\nmargin = -1", r"\[promote\] margin is -1, wanted a number from 0 on"),
        ("[convert]", '[cycle]\nfolder = "rewards.py"\n[convert]', r"\[cycle\] folder is .*rewards.py is a file"),
        (
            'data = "held-out.jsonl"',
            'by = "likelihood"',
            r"\[sample\] split deals no rows to test, which \[eval\] judges by",
        ),
    ],
)
def test_invalid_later_step_is_refused_first(sound: Path, before: str, after: str, says: str) -> None:
    text = SOUND.replace(before, after)
    assert text != SOUND
    with pytest.raises(KarlError, match=rf"loop\.toml: .*{says}"):
        checked(sound, text)


def test_a_plan_is_refused_too(sound: Path) -> None:
    with pytest.raises(KarlError, match="wanted log, result"):
        plan_run(load(written(sound, SOUND.replace('["sessions"]', '["sessions"]\nrate = "unknown"'))))
