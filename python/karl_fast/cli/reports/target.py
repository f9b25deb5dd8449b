"""Description of a target in reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from karl_fast.export.manifest import Manifest


def describe_target(target: Manifest) -> str:
    """Return the kind of scores, such as `raw scores`, and their source if not the plain reward."""
    baseline, shaping = target.get("baseline"), target.get("shaping")
    over = "" if baseline is None else f" over the {baseline['kind']} of each {baseline['by']}"
    recency = target.get("recency")
    aged = "" if recency is None else f", halved with each {recency['half_life']} of age by {recency['order_by']}"
    if shaping is None:
        return f"{target['score']} scores{over}{aged}"
    numbers = ", ".join(f"{name} {shaping[name]:g}" for name in ("up", "down", "centre"))
    return f"{target['score']} scores{over} of shaped rewards ({numbers}){aged}"
