"""Commands of an installation without an extra: one sentence, and a hint that installs it."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata
from typing import TYPE_CHECKING, Any

import pytest

from karl_fast import _extras
from karl_fast.errors import MissingExtraError
from tests.cli import run

if TYPE_CHECKING:
    from pathlib import Path

BASE_INSTALL = """\
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("mlx", "mlx_lm", "transformers", "pyarrow"):
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)

sys.meta_path.insert(0, Missing())
"""
"""A process in which no module of an extra can be imported, whatever is installed."""

ONLINE = 'model = "m"\nprompts = "p.jsonl"\nout = "run"\n[rewards]\n"r.py:one" = 1.0\n'
CYCLE = 'folder = "work"\nmodel = "m"\n[sample]\nk = 4\n[train]\niters = 1\n'


def base_install(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    program = BASE_INSTALL + "from karl_fast.entrypoint import main; main()"
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(
        command, cwd=folder, env=run.environment(), capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    "command",
    [
        "train data --model m --adapter-path a",
        "eval data --model m",
        "eval p.jsonl --rollouts --config rl.toml --out e",
        "rl --config rl.toml",
        "ablate rl.toml --out ablations",
        "promote a --over base --data data --by likelihood --model m",
        "promote a --over base --data p.jsonl --config rl.toml",
    ],
)
def test_commands_without_mlx_say_how_to_install(command: str, folder: Path) -> None:
    (folder / "rl.toml").write_text(ONLINE)
    before = sorted(folder.iterdir())
    done = base_install(*command.split(), folder=folder)
    assert done.returncode == 1
    assert done.stderr == (
        f"error: training needs mlx and mlx-lm, which are not installed\nhint: {_extras.installation('train')}\n"
    )
    assert sorted(folder.iterdir()) == before


def test_commands_that_need_no_model_run_without_mlx(folder: Path) -> None:
    for command in ("sample tiny.jsonl -o data -k 4", "rl --print --recipe dapo", "train --help", "version"):
        done = base_install(*command.split(), folder=folder)
        assert done.returncode == 0, done.stderr
    by_logs = base_install("promote", "a", "--over", "base", "--by", "rewards", "--data", ".", folder=folder)
    assert by_logs.stderr.startswith("error: cannot load an adapter from a: no such folder\n")


def test_functions_that_need_mlx_raise_the_same_error() -> None:
    for use in (
        "from karl_fast.train import evaluate",
        "from karl_fast.ablation import ablate",
        "from karl_fast.train import train; train('data', 'm', 'a')",
        "from karl_fast.rl import Online, rl; rl(Online(model='m', prompts='p', out='o'))",
    ):
        steps = f"try:\n    {use}\nexcept ImportError as error:\n    print(type(error).__name__)"
        program = BASE_INSTALL + steps
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
        assert done.stdout == "MissingExtraError\n", (use, done.stderr)


class Installed:
    """A distribution with a record of where it came from."""

    def __init__(self, record: dict[str, Any] | None) -> None:
        self.record = record

    def read_text(self, _: str) -> str | None:
        return None if self.record is None else json.dumps(self.record)


def test_the_hint_names_where_karl_fast_came_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout = tmp_path / "a checkout"
    checkout.mkdir()
    url = checkout.as_uri()
    monkeypatch.setattr(sys, "executable", "/venv/bin/python")
    for record, command in [
        ({"url": url, "dir_info": {}}, f"/venv/bin/python -m pip install '{checkout}[train]'"),
        ({"url": url, "dir_info": {"editable": True}}, f"/venv/bin/python -m pip install -e '{checkout}[train]'"),
        ({"url": f"{url}-gone"}, "in a checkout of karl-fast: /venv/bin/python -m pip install '.[train]'"),
        (
            {"url": "https://example.org/k.whl"},
            "in a checkout of karl-fast: /venv/bin/python -m pip install '.[train]'",
        ),
        (None, "in a checkout of karl-fast: /venv/bin/python -m pip install '.[train]'"),
    ]:
        monkeypatch.setattr(metadata, "distribution", lambda _, record=record: Installed(record))
        assert _extras.installation("train") == command


def test_uv_environment_gets_uv_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/venv/bin/python")
    monkeypatch.setattr(_extras.util, "find_spec", lambda _: None)
    monkeypatch.setattr(metadata, "distribution", lambda _: Installed(None))
    assert _extras.installation("train").endswith("uv pip install --python /venv/bin/python '.[train]'")
    with pytest.raises(MissingExtraError) as error:
        raise _extras.missing_package("needs wandb", "wandb")
    assert error.value.hint == "uv pip install --python /venv/bin/python wandb"
