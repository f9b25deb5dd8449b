"""Rewards of trajectories that are in columns already."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from karl_fast import _core
from karl_fast.errors import ArgumentError
from karl_fast.reward.engine.records import weights

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from karl_fast.reward.engine.records import Version
    from karl_fast.typing import Floats, Integers


@dataclass(frozen=True, eq=False)
class Calls:
    """The calls of many trajectories, concatenated, and facts about each trajectory.

    Yes-or-no columns are int64: 1 for yes, 0 for no, below 0 for unknown.

    Attributes:
        offsets: start of the calls of each trajectory, int64. [B + 1]
        tools: index of each call's tool in ``names``, int64. [E]
        success: whether each call succeeded. [E]
        names: names of the tools; Bash, Write, Edit and NotebookEdit have a special role in the formula.
        correction, redo, build, continued: whether the user corrected the work, had it redone, the build succeeded, and
            the session went on; None if unknown. [B]
        seconds: duration of each trajectory, float64, NaN if unknown. [B]
        files: number of the file given to each call, from 0 and below E, or below 0 for none; only for v2. [E]
        commands: index of each call's command in ``texts``, below 0 for none; only for v2. [E]
        texts: texts of the commands.
    """

    offsets: Integers
    tools: Integers
    success: Integers
    names: Sequence[str]
    correction: Integers | None = None
    redo: Integers | None = None
    build: Integers | None = None
    continued: Integers | None = None
    seconds: Floats | None = None
    files: Integers | None = None
    commands: Integers | None = None
    texts: Sequence[str] = ()


def compute_call_rewards(calls: Calls, *, version: Version = "v1") -> NDArray[np.float64]:
    """Score trajectories with calls in columns.

        v1: .40 outcome + .35 process + .25 efficiency
        v2: .25 outcome + .22 process + .13 efficiency + .13 verification + .13 consistency + .14 motion

    The result is bit for bit that of :func:`compute_reward` for a record with counts that match its events; the weights
    of v1 come from the same environment variables. Cost: one pass over the calls in v1, a few in v2, on all cores.

    Args:
        calls: the columns.
        version: version of the formula.

    Returns:
        ``reward_score`` of each trajectory. [B]

    Raises:
        ArgumentError: columns that differ in rows, a tool without a name, a repeated name, a command without a text, a
            file beyond the number of calls, infinite seconds, another version, or another type than Calls.
        DTypeError, LayoutError: a column that would have to be cast or copied, or offsets out of place.
        UsageError: as :func:`compute_reward`.

    Reference:
        Diomandeee/karl, ``karl/reward_engine.py``, commits 7d5ef32 (v1) and c41d1c5 (v2).
    """
    if not isinstance(calls, Calls):
        raise ArgumentError(f"calls is a {type(calls).__name__}, wanted a Calls")
    twice = [name for name, count in Counter(name or "unknown" for name in calls.names).items() if count > 1]
    if twice:  # KARL calls a tool without a name so
        raise ArgumentError(f"names has {twice[0]!r} twice (an empty name is 'unknown'), wanted a number for each tool")
    return _core.karl_column_rewards(calls, version, weights())
