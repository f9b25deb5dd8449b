"""What of a text says whose machine it was written on, and that nothing of it stays."""

from __future__ import annotations

import socket
import sys
import tempfile
from pathlib import Path

import pytest

from karl_fast.doctor.private import PrivateWords


@pytest.fixture(autouse=True)
def jane(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/Users/janedoe")
    monkeypatch.setenv("USER", "janedoe")
    monkeypatch.setenv("LOGNAME", "janedoe")
    monkeypatch.setattr(socket, "gethostname", lambda: "Janes-MacBook-Pro.local")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('File "/Users/janedoe/src/a.py", line 3', 'File "~/src/a.py", line 3'),
        ("/Users/janedoe", "~"),
        ("/Users/someone.else/x and /home/other/y", "~/x and ~/y"),
        ("/Volumes/Janes disk/models/x", "<volume>/models/x"),
        ("by janedoe on Janes-MacBook-Pro.local", "by <user> on <host>"),
        ("by JaneDoe on janes-macbook-pro", "by <user> on <host>"),
        ("janedoes", "janedoes"),
        ("first\nsecond of janedoe", "first\nsecond of <user>"),
        ("key AKIAQ3EGRXAMZLDPE5WN of it", "key [REDACTED:aws-access-key] of it"),
        ("\x1b[31mred", "\\x1b[31mred"),
    ],
)
def test_private_words_are_replaced(text: str, wanted: str) -> None:
    assert PrivateWords().replace(text) == wanted


def test_folders_of_this_process_are_named_by_what_they_are() -> None:
    words = PrivateWords()
    assert words.replace(f"{tempfile.gettempdir()}/x") == "<tmp>/x"
    assert words.replace(f"{sys.prefix}/lib/y") == "<python>/lib/y"
    assert words.replace(f"{Path.cwd()}/z") == "<folder>/z"


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("mlx-community/Qwen3-0.6B-4bit", "mlx-community/Qwen3-0.6B-4bit"),
        ("/Users/janedoe/models/gemma", "gemma"),
        ("./models/janedoe", "<user>"),
        ("janedoe/Qwen3-mine", "<user>/Qwen3-mine"),
        (None, None),
    ],
)
def test_a_model_is_named_without_the_path_to_it(model: str | None, name: str | None) -> None:
    assert PrivateWords(model).model == name


def test_the_folder_of_a_model_is_replaced() -> None:
    assert PrivateWords("/data/jobs/gemma").replace("no /data/jobs/gemma/config.json") == "no <model>/config.json"


def test_names_that_say_nothing_of_a_person_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "root")
    monkeypatch.setenv("LOGNAME", "root")
    monkeypatch.setenv("HOME", "/root")
    assert PrivateWords().replace("the root mean square in /root/x") == "the root mean square in ~/x"
