"""Files of examples/lab as modules, loaded as `rl` loads them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from karl_fast._user_code import load_function

LAB = Path(__file__).parents[3] / "examples" / "lab"


def module(file: str, name: str) -> Any:
    """Return the module of a file that has this function or class."""
    return sys.modules[load_function(f"{file}:{name}", LAB).__module__]


@pytest.fixture(scope="session")
def tasks() -> Any:
    return module("tasks.py", "Task")
