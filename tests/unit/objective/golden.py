"""Golden files, and padded batches of what they hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from karl_fast.objective import Batch

FOLDER = Path(__file__).parents[2] / "golden"


def read(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text("utf-8"))


def cases(held: Any) -> dict[str, Any]:
    return {case["id"]: case for case in held["cases"]}


def one_token(values: Any, **more: Any) -> Batch:
    """A batch of rollouts of one token, of one group."""
    rows = len(values)
    ids = np.zeros(rows, dtype=np.int64)
    return Batch(np.ones((rows, 1), dtype=np.bool_), group_ids=ids, **more)


def column(values: Any) -> Any:
    return np.array(values, dtype=np.float64)[:, None]
