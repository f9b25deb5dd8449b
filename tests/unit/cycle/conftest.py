"""A tiny model for the cycles of all tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.train.conftest import made

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("model") / "tiny-qwen3")
