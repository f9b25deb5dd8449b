"""Rows of the page of model types are those that its script gives; the script checks all of them nightly."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mlx_lm", reason="pip install '.[train]'")

from tests.unit.modeling import model_zoo

SCRIPT = Path(__file__).parents[3] / "benches" / "training" / "model_table.py"

KINDS = [
    kind
    for kind in ("qwen3", "llama4", "deepseek_v3", "gemma3n", "qwen3_5", "mamba2", "afm7")
    if kind in model_zoo.types()
]


@pytest.fixture(scope="module")
def table() -> Any:
    found = importlib.util.spec_from_file_location("model_table", SCRIPT)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.mark.parametrize("kind", KINDS)
def test_page_row_matches_the_script(table: Any, kind: str) -> None:
    assert table.row(kind) == table.committed()[kind]
