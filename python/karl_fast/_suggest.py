"""Names that are nearly the same as one that is not there, for the hints of errors."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MOST = 10_000
"""Maximum names of a folder or keys of a record that are compared."""

BEGINNING = 3
"""Letters from which on a name is taken for the beginning of another: `tau` for `tau-bench`."""


def nearest(name: object, known: Iterable[str], most: int = 1) -> list[str]:
    """Return the most similar names, best first; empty if none is similar, or the name itself is among them.

    First of all that in which two neighbours have changed places, and last those that it is the beginning of.
    """
    from difflib import get_close_matches  # most runs lack nothing

    if not isinstance(name, str):
        return []
    names = list(known)
    near = get_close_matches(name, names, n=most + 2)
    near += [one for one in names if len(name) >= BEGINNING and one.startswith(name) and one not in near]
    swapped = {name[:at] + name[at + 1] + name[at] + name[at + 2 :] for at in range(len(name) - 1)}
    return sorted(near, key=lambda one: one not in swapped)[:most]


def question(meant: Iterable[str]) -> str | None:
    """Return `did you mean a or b?`; None without suggestions."""
    words = " or ".join(meant)
    return f"did you mean {words}?" if words else None


def beside(path: str | Path, fits: Callable[[Path], bool] = Path.exists, most: int = 1) -> str | None:
    """Return a question that suggests paths with a similar name in the same folder, or None.

    Only the part before the first dot is compared: all logs have similar suffixes.
    """
    folder = Path(path).parent
    try:
        there = sorted(one.name for one in islice(folder.expanduser().iterdir(), MOST) if fits(one))
    except (OSError, RuntimeError, ValueError):  # no such folder, no such home, no such name
        return None
    name = Path(path).name
    stems = nearest(_stem(name), sorted({_stem(one) for one in there}), most)
    found = [one for one in there if _stem(one) in stems]
    return question(str(folder / one) for one in nearest(name, found, most) or found[:most])


def _stem(name: str) -> str:
    return name.partition(".")[0] or name
