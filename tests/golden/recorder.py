"""A plugin of pytest that records which cases of golden files a session reads.

    python -m pytest -p tests.golden.recorder ...

writes a line for each case whose outputs were read to the file that ``KARL_FAST_CASES`` names.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

READ: set[str] = set()


class Case(dict[str, Any]):
    """A JSON object that records its id when its outputs are read."""

    def __getitem__(self, key: str) -> Any:
        if key == "outputs" and "id" in self:
            READ.add(super().__getitem__("id"))
        return super().__getitem__(key)


PARSE = json.loads


def parse(text: Any, **options: Any) -> Any:
    """Parse JSON; objects of golden files are cases."""
    return PARSE(text, **{"object_hook": Case} | options)


def pytest_collection_finish() -> None:
    """Forget what collecting the tests has read: it compares nothing."""
    READ.clear()


def pytest_configure() -> None:
    """Record from here on."""
    json.loads = parse


def pytest_sessionfinish() -> None:
    """Write the ids."""
    Path(os.environ["KARL_FAST_CASES"]).write_text("".join(f"{id}\n" for id in sorted(READ)), encoding="utf-8")
