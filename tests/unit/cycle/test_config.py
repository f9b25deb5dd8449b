"""The file of a cycle: tables, keys and paths, and errors before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from karl_fast.cycle.config import load
from karl_fast.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

CONVERT = '[convert]\nsources = ["sessions"]\n'
TRAIN = f'{CONVERT}[sample]\n[train]\nmodel = "m"\n'
EVAL = f'{TRAIN}[eval]\nby = "likelihood"\n'


def written(folder: Path, text: str) -> Path:
    file = folder / "loop.toml"
    file.write_text(text)
    return file


def test_steps_are_those_with_a_table_and_paths_are_relative_to_the_file(tmp_path: Path) -> None:
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
def test_a_file_that_cannot_run_is_refused_with_its_name(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(UsageError, match=rf"loop\.toml: .*{says}"):
        load(written(tmp_path, text))


def test_a_misspelled_key_has_a_hint(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load(written(tmp_path, f"{CONVERT}rates = 'log'\n"))
    assert caught.value.hint == "did you mean rate?"
