"""`karl-fast doctor`: a quick run from end to end, its files and exit codes, and what never is in a report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from karl_fast.doctor import CHECKS
from karl_fast.doctor.report import describe_report
from tests.cli import run

if TYPE_CHECKING:
    from pathlib import Path

NO_NETWORK = """\
import socket

class Offline(socket.socket):
    def connect(self, address):
        raise AssertionError(f"a connection to {address}")

    connect_ex = connect

socket.socket = Offline
def no_name(*_, **__):
    raise AssertionError("a name was looked up")
socket.getaddrinfo = no_name
"""
"""`sitecustomize` of every process of a run: a connection ends the check that makes it."""


def doctor(folder: Path, *arguments: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    home = folder / "homes" / "janedoe"
    home.mkdir(parents=True, exist_ok=True)
    (folder / "site").mkdir(exist_ok=True)
    (folder / "site" / "sitecustomize.py").write_text(NO_NETWORK)
    path = os.pathsep.join([str(folder / "site"), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = run.environment() | {"HOME": str(home), "USER": "janedoe", "LOGNAME": "janedoe", "PYTHONPATH": path}
    return subprocess.run(
        [*run.COMMAND, "doctor", "--quick", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


@pytest.mark.mlx
def test_a_quick_run_reports_every_check_and_nothing_private(tmp_path: Path) -> None:
    pytest.importorskip("mlx_lm")
    done = doctor(tmp_path, "--json", "--report", "report.md")
    assert done.returncode == 0, done.stdout + done.stderr
    report, page = json.loads(done.stdout), (tmp_path / "report.md").read_text("utf-8")
    assert {check["name"]: check["status"] for check in report["checks"]} == {check.name: "ok" for check in CHECKS}
    assert describe_report(report) == page
    for head in ("# karl-fast doctor", "## Log: 2.0 MB", "**Model:**", "**Kernels**", "## Training:", "## 64 rollouts"):
        assert head in page
    assert max(map(len, page.splitlines())) <= 80
    for text in (done.stdout, page, done.stderr):
        assert "janedoe" not in text
        assert str(tmp_path) not in text
    assert [line.split("  ")[0] for line in done.stderr.splitlines()[:-1]] == [check.name for check in CHECKS]
    results = {check["name"]: check["result"] for check in report["checks"]}
    assert all(row["peak_bytes"] <= row["planned_bytes"] for row in results["training"]["steps"])
    assert results["training"]["steps"][0]["loss"] == pytest.approx(
        results["training by mlx_lm"]["steps"][0]["loss"], abs=2e-3
    )
    assert results["rollouts by mlx_lm"]["texts"] == 64


@pytest.mark.mlx
def test_a_model_that_is_not_there_is_a_failure_in_the_report(tmp_path: Path) -> None:
    pytest.importorskip("mlx_lm")
    model = tmp_path / "homes" / "janedoe" / "nowhere"
    done = doctor(tmp_path, "--model", str(model), "-q")
    assert (done.returncode, done.stderr) == (1, "")
    assert "## model failed after" in done.stdout
    assert "ModelError: cannot load a model from <model>: no such folder" in done.stdout
    assert "Traceback (most recent call last):" in done.stdout
    assert "**training** skipped: the check of model: failed." in done.stdout
    assert "janedoe" not in done.stdout


def test_without_mlx_the_log_is_read_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(MISSING)
    done = subprocess.run(
        [*run.COMMAND, "doctor", "--quick", "--json", "-q"],
        env=run.environment() | {"PYTHONPATH": os.pathsep.join([str(tmp_path / "site"), *_path()])},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    states = {check["name"]: check["status"] for check in json.loads(done.stdout)["checks"]}
    assert (states["machine"], states["log"]) == ("ok", "ok")
    assert {states["mlx"], states["model"], states["kernels"]} == {"not installed"}
    assert {states["training"], states["rollouts by mlx_lm"]} == {"skipped"}


MISSING = """\
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("mlx", "mlx_lm", "transformers", "tokenizers"):
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)

sys.meta_path.insert(0, Missing())
"""


def _path() -> list[str]:
    return [*filter(None, [os.environ.get("PYTHONPATH")])]


def test_a_report_is_not_replaced_unasked_and_that_is_known_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "report.md").write_text("mine")
    done = doctor(tmp_path, "--report", "report.md", timeout=20)
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr == "error: report.md exists already\nhint: --force replaces it\n"
    done = doctor(tmp_path, "--report", "report.md", "--force", "--budget", "1", timeout=20)
    assert done.returncode == 0, done.stderr
    assert "**log** skipped: no time was left." in (tmp_path / "report.md").read_text("utf-8")


@pytest.mark.parametrize("budget", ["0", "-3", "nan", "inf"])
def test_a_budget_is_above_zero(tmp_path: Path, budget: str) -> None:
    done = doctor(tmp_path, "--budget", budget, timeout=20)
    assert done.returncode == 2
    assert "--budget" in done.stderr


def test_the_command_starts_without_mlx_or_numpy(tmp_path: Path) -> None:
    code = (
        "import sys; from karl_fast.cli.commands import doctor\n"
        "print({'numpy', 'mlx', 'mlx_lm', 'transformers'} & sys.modules.keys() or 'none')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "none\n", done.stderr
