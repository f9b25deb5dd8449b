"""Trees of trajectories: a session and the sub-agents that it called have one reward, that of the session.

```text
r_row = r of the root of its tree        log f_row = -ln(rows of the tree)
```

With these factors the rows of a tree have together the weight of one row with its reward: how many sub-agents a session
called does not make it likelier to be drawn. A score within groups is that of the root among the other roots. Apart
from `pipeline` because it needs NumPy, which most runs do without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from karl_fast import _core
from karl_fast.errors import ArgumentError, LogError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from karl_fast.log.log import Log


def credit_trees(log: Log, read_names: Callable[[str], Log]) -> Log:
    """Return a log whose rows have the rewards of the roots of their trees, and factors of their weights.

    Args:
        log: the log, under settings with ``parent``.
        read_names: reads the same records with a path of them as their group.

    Returns:
        The same records, with the number of trees for the manifest. A row whose caller is not in the log is a root.

    Raises:
        UsageError: no record has the field of ``parent``.
        LogError: trajectories that call each other in a circle.
    """
    path = log.settings.parent
    assert path is not None
    own_ids = sorted({dict(file["fields"]).get("id", "id") for file in log.inputs})
    ids, callers = (_names(log, read_names, name) for name in (log.settings.id or own_ids[0], path))
    if not any(name is not None for name in callers):
        raise UsageError(f"parent is {path}, and no record has that field", "parent")
    rows: dict[str | None, int] = {}
    for row, name in enumerate(ids):
        rows.setdefault(name, row)
    parents = np.array([-1 if name is None else rows.get(name, -1) for name in callers], dtype=np.int64)
    try:
        roots = _core.tree_roots(parents)
    except ArgumentError as error:
        raise LogError(f"{path} names callers in a circle: {error}") from error
    rewards = log.rewards[roots]
    sizes = np.bincount(roots, minlength=len(roots))[roots]
    facts = {
        "path": path,
        "trees": int((np.bincount(roots, minlength=len(roots)) > 1).sum()),
        "callees": int((parents >= 0).sum()),
        "without_caller": sum(name is not None for name in callers) - int((parents >= 0).sum()),
    }
    components = [log.core.component(index) for index in range(log.core.components)]
    return log.of(_core.rewarded(log.core, components, rewards), None, facts, -np.log(sizes.astype(np.float64)), roots)


def _names(log: Log, read_names: Callable[[str], Log], path: str) -> list[str | None]:
    """Return the text of a field of each record of a log; None where it has none, or another value than a name."""
    with read_names(path) as other:
        # By their keys, because a record whose field is not a name is dropped where it is read as a group.
        known = {key: code for key, code in zip(_keys(other), other.groups.tolist(), strict=True) if code >= 0}
        names = other.group_names
    return [None if (code := known.get(key)) is None else names[code] for key in _keys(log)]


def _keys(log: Log) -> list[tuple[int, ...]]:
    return list(map(tuple, log.keys.tolist()))
