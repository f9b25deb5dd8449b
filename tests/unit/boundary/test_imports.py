"""What starting up costs: the package and the command load neither NumPy nor a trainer."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = ("numpy", "mlx", "mlx_lm", "transformers", "rich", "pandas", "polars", "pyarrow", "duckdb")

CODE = {
    "package": "import karl_fast",
    "command": "from karl_fast.cli.commands import compare, inspect, sample",
    "help": "import sys; sys.argv = ['karl-fast', '--version']\nfrom karl_fast.cli import main\n"
    "try:\n    main()\nexcept SystemExit:\n    pass",
}


def test_names_load_lazily_and_are_listed() -> None:
    code = (
        "import sys, karl_fast\n"
        "assert set(karl_fast.__all__) <= set(dir(karl_fast))\n"
        "later = {'karl_fast.log', 'karl_fast.pipeline.sample', 'karl_fast.export.compare'}\n"
        "later |= {'karl_fast.settings.sample', 'dataclasses'}\n"
        "assert later.isdisjoint(sys.modules), later & set(sys.modules)\n"
        "assert karl_fast.sample.__module__ == 'karl_fast.pipeline.sample'\n"
        "assert 'karl_fast.export.compare' not in sys.modules\n"
        "assert karl_fast.sample is karl_fast.sample and not hasattr(karl_fast, 'nothing')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_command_loads_no_other() -> None:
    code = (
        "import sys; sys.argv = ['karl-fast', 'sample', '--help']\n"
        "from karl_fast.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "later = {'karl_fast.export.compare', 'karl_fast.cli.commands.inspect', 'rich'}\n"
        "assert later.isdisjoint(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", CODE)
def test_starting_up_loads_nothing_heavy(name: str) -> None:
    code = f"{CODE[name]}\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {module.partition(".")[0] for module in json.loads(done.stdout.splitlines()[-1])}
    assert "karl_fast" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_a_small_sample_loads_neither_numpy_nor_typer(tmp_path: object) -> None:
    code = (
        "import sys, json, pathlib, tempfile\n"
        "folder = pathlib.Path(tempfile.mkdtemp()); log = folder / 'log.jsonl'\n"
        "row = {'id': 'a', 'group': 'g', 'reward': 1, 'prompt': 'p', 'completion': 'c'}\n"
        "log.write_text(json.dumps(row) + '\\n')\n"
        "sys.argv = ['karl-fast', 'sample', str(log), '-k', '1', '--dry-run', '-q']\n"
        "from karl_fast.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "print({'numpy', 'typer', 'karl_fast.cli.reports.sample'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "set()"), done.stderr
