"""Rewards of trajectories that are in columns already."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from karl_fast import _core
from karl_fast.errors import ArgumentError
from karl_fast.reward.engine import weights

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from karl_fast.protocols import Floats, Integers


@dataclass(frozen=True, eq=False)
class Calls:
    """The calls of many trajectories end to end, and what is known of each trajectory.

    A question is answered by an int64: 1 for yes, 0 for no, below 0 where nothing is said.

    Attributes:
        offsets: where the calls of each trajectory begin, int64. [B + 1]
        tools: the place of each call's tool in ``names``, int64. [E]
        success: whether each call went well. [E]
        names: the names of the tools; Bash, Write, Edit and NotebookEdit have a part of their own in the formula.
        correction, redo, build, continued: whether the user corrected the work, had it done again, it built, and the
            session went on; None where nobody knows. [B]
        seconds: how long each trajectory took, float64, NaN where that is not known. [B]
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


def compute_call_rewards(calls: Calls) -> NDArray[np.float64]:
    """Score trajectories whose calls are in columns, by v1.

        r = .40 outcome + .35 process + .25 efficiency

    To the bit what :func:`compute_reward` gives a record whose counts are those of its events; weights come from the
    same variables. Cost: one pass over the calls, on all cores.

    Args:
        calls: the columns.

    Returns:
        ``reward_score`` of each trajectory. [B]

    Raises:
        ArgumentError: columns that differ in rows, a tool without a name, infinite seconds, or what is no Calls.
        DTypeError, LayoutError: a column that would have to be cast or copied, or offsets out of place.
        UsageError: as :func:`compute_reward`.

    Reference:
        Diomandeee/karl, ``karl/reward_engine.py``, commit 7d5ef32.
    """
    if not isinstance(calls, Calls):
        raise ArgumentError(f"calls is a {type(calls).__name__}, wanted a Calls")
    flags = [calls.correction, calls.redo, calls.build, calls.continued]
    columns = [calls.offsets, calls.tools, calls.success]
    return _core.karl_column_rewards(columns, list(calls.names), flags, calls.seconds, weights())
