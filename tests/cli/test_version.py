"""The version, in one line and as facts."""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys

import karl_fast
from tests.cli.run import karl


def test_version_line_has_number_second() -> None:
    done = karl("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(
        r"karl-fast \S+ \(\S+, (release|debug), rustc \S+, abi3-py311, Python [\d.]+\w*\)\n", done.stdout
    )
    assert done.stdout.split()[1] == karl_fast.__version__


def test_version_facts_match_the_build() -> None:
    found = json.loads(karl("version", "--json").stdout)
    assert found["karl_fast"] == karl_fast.__version__
    assert set(found["build"]) == {"target", "profile", "rustc", "abi", "simd"}
    assert (found["build"]["profile"] == "debug") == karl_fast._core.DEBUG
    assert found["build"]["target"].split("-")[0] in {"x86_64", "aarch64"}
    assert re.match(r"\d+\.\d+\.\d+", found["build"]["rustc"])
    assert found["python"]["version"].split(".")[:2] == [str(part) for part in sys.version_info[:2]]
    assert found["packages"]["numpy"] == importlib.metadata.version("numpy")
    for fact in ("release", found["build"]["target"], found["packages"]["numpy"]):
        assert fact in karl("version").stdout or found["build"]["profile"] == "debug"


def test_packages_are_told_without_being_imported() -> None:
    code = (
        "import sys\nfrom karl_fast.cli.commands import version\nprint(sorted(version.version_facts()['packages']))\n"
        "print({'numpy', 'mlx', 'transformers'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    packages, loaded = done.stdout.splitlines()
    assert "'numpy'" in packages
    assert loaded == "set()"
