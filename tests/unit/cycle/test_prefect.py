"""The example of a Prefect flow, where Prefect is installed."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.run import environment

EXAMPLE = Path(__file__).parents[3] / "examples"


@pytest.mark.skipif(importlib.util.find_spec("prefect") is None, reason="pip install prefect")
@pytest.mark.slow
def test_each_step_is_a_task_of_the_flow(tmp_path: Path) -> None:
    for name in ("cycle", "claude-code"):
        shutil.copytree(EXAMPLE / name, tmp_path / "examples" / name)
    file = tmp_path / "examples" / "cycle" / "cycle.toml"
    file.write_text(file.read_text().partition("[train]")[0])
    quiet = {
        "PREFECT_HOME": str(tmp_path / "prefect"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "200",
        "PYTHONWARNINGS": "ignore",
    }
    done = subprocess.run(
        [sys.executable, "examples/cycle/prefect_flow.py", str(file)],
        cwd=tmp_path,
        env=environment() | quiet,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "ran convert, outcomes, sample" in done.stdout
    assert len(list((tmp_path / "my-cycle" / "data").iterdir())) == 1
