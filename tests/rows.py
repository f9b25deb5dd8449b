"""Small logs made on the spot."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def record(number: int, group: str | None = "g", reward: float | None = 1.0, **more: Any) -> dict[str, Any]:
    """One plain trajectory."""
    messages = [
        {"role": "user", "content": f"question {number}"},
        {"role": "assistant", "content": f"answer {number}"},
    ]
    return {"id": f"r{number}", "group": group, "reward": reward, "messages": messages} | more


def records(count: int, groups: int = 8, seed: int = 0) -> list[dict[str, Any]]:
    """Trajectories whose rewards are quarters from 0 to 1."""
    random_ = random.Random(seed)
    return [record(n, f"g{n % groups}", random_.randrange(5) / 4) for n in range(count)]


def dumps(rows: Iterable[dict[str, Any]]) -> str:
    """One JSON object a line."""
    return "".join(json.dumps(row) + "\n" for row in rows)


def write(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    """A log of these records."""
    path.write_text(dumps(rows), encoding="utf-8")
    return path


def files(folder: Path) -> dict[str, bytes]:
    """Every file of an output but its manifest, whose `inputs` and `run` may differ, and its card."""
    names = ("manifest.json", "README.md")
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name not in names}


def manifest(folder: Path) -> dict[str, Any]:
    """The part of a manifest that is a function of (seed, records, settings)."""
    whole = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    whole["export"]["files"].pop("README.md", None)  # the card tells of the inputs
    return {key: value for key, value in whole.items() if key not in ("inputs", "run")}


def lines(folder: Path) -> list[dict[str, Any]]:
    """The rows of all splits."""
    texts = (text for name, text in sorted(files(folder).items()) if name.endswith(".jsonl"))
    return [json.loads(line) for text in texts for line in text.splitlines()]
