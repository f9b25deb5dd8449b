"""Names that are nearly the same as one that is not there, for the hints of errors."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MOST = 10_000
"""Maximum names of a folder or keys of a record that are compared."""

SHORT = 4
"""Letters of a name for each slip that it may have, and one slip at least."""

FAR = 64
"""The distance from which on names are just different."""

BEGINNING = 3
"""Letters from which on a name is taken for the beginning of another: `tau` for `tau-bench`."""


def nearest(name: object, known: Iterable[str], most: int = 1) -> list[str]:
    """Return the names that a name was most likely meant for, by edit distance; empty if none is that near.

    First of equally distant ones is that in which two neighbours have changed places; last of all are those that the
    name is the beginning of. The name itself is its nearest.
    """
    if not isinstance(name, str):
        return []
    near = [
        (distance, at, candidate)
        for at, candidate in enumerate(known)
        if (distance := _slip(name, candidate)) is not None
    ]
    return [candidate for _, _, candidate in sorted(near)[:most]]


def _slip(name: str, other: str) -> tuple[int, int] | None:
    """Return how far a name is from the one that may have been meant, None if it is too far.

    Only what differs counts: a long common beginning of two paths says nothing about their ends.
    """
    mistyped, meant = _ends(_fold(name), _fold(other))
    distance, swapped = _distance(mistyped, meant), sorted(mistyped) == sorted(meant)
    if len(mistyped) < SHORT and len(mistyped) == len(meant) and not swapped:
        distance = SHORT  # of three letters a wrong one leaves another word: `ppo` is not `vpo`
    if distance <= max(1, len(mistyped) // SHORT):
        return distance, 0 if swapped else 1
    begins = len(mistyped) >= BEGINNING and meant.startswith(mistyped)
    return (len(meant) + SHORT, 1) if begins else None


def _fold(name: str) -> str:
    """Return a name in the spelling that is compared: case, and `_` or `-`, make no difference."""
    return name.lstrip("-").lower().replace("_", "-")


def _ends(name: str, other: str) -> tuple[str, str]:
    """Return two paths without the keys that they have in common at the beginning."""
    one, two = name.split("."), other.split(".")
    while len(one) > 1 and len(two) > 1 and one[0] == two[0]:
        one, two = one[1:], two[1:]
    return ".".join(one), ".".join(two)


def _distance(name: str, other: str) -> int:
    """Return the edit distance of two names, at most `FAR`: letters added, left out, replaced or swapped."""
    if abs(len(name) - len(other)) >= FAR:
        return FAR
    before, row = list[int](), list(range(len(other) + 1))
    for at, letter in enumerate(name, 1):
        before, above, row = row, before, [at]
        for column, wanted in enumerate(other, 1):
            cost = min(before[column] + 1, row[-1] + 1, before[column - 1] + (letter != wanted))
            if at > 1 < column and letter == other[column - 2] and wanted == name[at - 2]:
                cost = min(cost, above[column - 2] + 1)
            row.append(cost)
    return min(row[-1], FAR)


def ask_whether(meant: Iterable[str]) -> str | None:
    """Return `did you mean a or b?`; None without suggestions."""
    words = " or ".join(meant)
    return f"did you mean {words}?" if words else None


def suggest_path(path: str | Path, fits: Callable[[Path], bool] = Path.exists, most: int = 1) -> str | None:
    """Return a question that suggests paths with a similar name in the same folder, or None.

    Only the part before the first dot is compared: all logs have similar suffixes.
    """
    folder = Path(path).parent
    try:
        entries = sorted(entry.name for entry in islice(folder.expanduser().iterdir(), MOST) if fits(entry))
    except (OSError, RuntimeError, ValueError):  # no such folder, no such home, no such name
        return None
    name = Path(path).name
    stems = nearest(_stem(name), sorted({_stem(entry) for entry in entries}), most)
    similar = [entry for entry in entries if _stem(entry) in stems]
    return ask_whether(str(folder / entry) for entry in nearest(name, similar, most) or similar[:most])


def _stem(name: str) -> str:
    return name.partition(".")[0] or name
