"""Description of a target in reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from karl_fast.export.manifest import Manifest


def scores(target: Manifest) -> str:
    """Return the kind of scores, such as `raw scores`, and their source if not the plain reward."""
    shaping = target.get("shaping")
    if shaping is None:
        return f"{target['score']} scores"
    numbers = ", ".join(f"{name} {shaping[name]:g}" for name in ("up", "down", "centre"))
    return f"{target['score']} scores of shaped rewards ({numbers})"
