"""A log that has something missing in each of its columns."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

import karl_fast
from tests.rows import records, write
from tests.unit.boundary.engines import ROWS

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    rows = [row | {"domain": None if n % 5 == 0 else f"d{n % 3}"} for n, row in enumerate(records(ROWS))]
    rows[3]["reward"] = None
    rows[7]["reward"] = math.nan
    rows[9]["group"] = None
    return write(tmp_path / "log.jsonl", rows)


@pytest.fixture
def log(path: Path) -> karl_fast.Log:
    return karl_fast.read(path)
