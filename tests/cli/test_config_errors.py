"""Configurations that nobody can mean: one sentence with the file, the key, what came and what was wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from karl_fast.errors import UsageError
from karl_fast.settings.sample import Settings
from tests.cli.run import karl
from tests.cli.test_exits import refused

if TYPE_CHECKING:
    from pathlib import Path

BAD = {
    'scor = "raw"': ("the key scor is unknown", "did you mean score?"),
    "tokens = 3": ("the key tokens is unknown", "--help"),
    "quiet = true": ("the key quiet is unknown", "--help"),
    "[sample]\nfractoin = 1": ("the key [sample] fractoin is unknown", "did you mean fraction?"),
    "[inspect]\nk = 3": ("[inspect] k is not an option of inspect", None),
    "[target]\nb = 3": ("the key target is unknown", "--help"),
    'k = "many"': ("k is 'many', wanted a whole number", None),
    "k = 2.5": ("k is 2.5, wanted a whole number", None),
    "k = true": ("k is True, wanted a whole number", None),
    "k = 0": ("k is 0, wanted a whole number from 1 on", None),
    "k = 3\nfraction = 0.5": ("k and fraction", None),
    "dedup = 1": ("dedup is 1, wanted true or false", None),
    "eps = 'x'": ("eps is 'x', wanted a finite number", None),
    "ess = nan": ("ess is nan", None),
    "id = ['a']": ("id is ['a'], wanted a text", None),
    "score = 'no'": ("score is 'no', wanted raw, centre", None),
    "score = ['raw']": ("score is ['raw'], wanted raw, centre", None),
    "format = 'no'": ("format is 'no', wanted", None),
    "split = [1, 0]": ("split is [1, 0], wanted three shares", None),
    "split = '1,x,0'": ("split is '1,x,0', wanted three numbers", None),
    "split = [0.5, 0.4, 0.3]": ("split is 0.5,0.4,0.3", None),
    "reward = 'a=x'": ("reward is 'a=x', wanted a path", None),
    "reward = 3": ("reward is 3, wanted a path, or a table", None),
    "[reward]\na = 'x'": ("reward is {'a': 'x'}, wanted a number", None),
    "[reward]": ("reward is {}, wanted", None),
    "logs = [3]": ("logs is [3], wanted a path", None),
    'logs = ""': ("logs is '', wanted a path, or a list of them", None),
    'logs = ["", "log.jsonl"]': ("logs is ['', 'log.jsonl'], wanted a path, or a list of them", None),
    'out = ""': ("out is '', wanted the name of a folder", None),
    "out = 3": ("out is 3, wanted the name of a folder", None),
    "max-tokens = 5": ("max_tokens and tokenizer go together", None),
    "max-tokens = 5\nmax_tokens = 6": ("max_tokens is given twice", None),
    "sample = 3": ("sample is 3, wanted a table [sample]", None),
    "k = ": ("this is not TOML", None),
    "k = 1\nk = 2": ("this is not TOML", None),
}


@pytest.mark.parametrize("text", BAD)
def test_2_for_invalid_values_in_a_file(folder: Path, text: str) -> None:
    (folder / "bad.toml").write_text(text)
    command = "inspect" if "[inspect]" in text else "sample"
    out = [] if command == "inspect" else ["-o", "data"]
    done = karl(command, "tiny.jsonl", "--config", "bad.toml", *out, folder=folder)
    sentence, hint = BAD[text]
    assert refused(done, 2).startswith(f"bad.toml: {sentence}")
    assert (hint or "") in done.stderr
    assert ("hint: " in done.stderr) == (hint is not None)
    assert not (folder / "data").exists()


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("KARL_FAST_K", "x", "KARL_FAST_K is 'x', wanted a whole number"),
        ("KARL_FAST_K", "0", "KARL_FAST_K: k is 0, wanted a whole number from 1 on and below 2**32"),
        ("KARL_FAST_SCORE", "no", "KARL_FAST_SCORE is 'no', wanted raw, centre, zscore, leave-one-out, advantage"),
        ("KARL_FAST_DEDUP", "no!", "KARL_FAST_DEDUP is 'no!', wanted true or false"),
        ("KARL_FAST_REWARD", "a=x", "KARL_FAST_REWARD is 'a=x', wanted a path, or a list of path=weight"),
    ],
)
def test_2_where_a_variable_says_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, sentence: str
) -> None:
    monkeypatch.setenv(variable, value)
    assert refused(karl("sample", "tiny.jsonl", "--dry-run", folder=folder), 2) == sentence


def test_1_where_there_is_no_such_file(folder: Path) -> None:
    done = karl("sample", "tiny.jsonl", "-k", 3, "--dry-run", "--config", "nowhere.toml", folder=folder)
    assert refused(done, 1) == "cannot open nowhere.toml: no such file or folder"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "3", '{"settings": 3, "inputs": []}', '{"settings": {}, "inputs": [3]}']
)
def test_2_where_a_json_file_is_no_manifest(folder: Path, text: str) -> None:
    (folder / "x.json").write_text(text)
    with pytest.raises(UsageError, match=r"x\.json: this is not the manifest"):
        Settings.load(folder / "x.json")


def test_nothing_of_a_file_steers_a_terminal(folder: Path) -> None:
    (folder / "bad.toml").write_text('score = "\\u001b[31mred"\n')
    done = karl("sample", "tiny.jsonl", "--dry-run", "--config", "bad.toml", folder=folder)
    assert "\x1b" not in refused(done, 2)
