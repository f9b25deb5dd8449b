"""Online reinforcement learning with MLX: rollouts, rewards, scores, steps, with any recipe of `karl_fast.objective`.

| name | what it does |
|---|---|
| :func:`rl` | trains a policy on the rewards of its rollouts, or resumes a run |
| :class:`Online`, :class:`Alarms`, :class:`Replay` | every choice of a run |
| :func:`load` | the settings of an ``rl.toml`` |
| :class:`Policy`, :class:`Environment` | what a model of one's own, and a world to act in, have to have |
| :func:`ablate` | the five ablations, each one axis away from the first |

Needs the extra ``train``; MLX is imported when it is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karl_fast.rl.settings import Alarms, Online, Replay

if TYPE_CHECKING:
    from karl_fast.rl.ablation import ablate
    from karl_fast.rl.environment import Environment
    from karl_fast.rl.policy import Policy
    from karl_fast.rl.run import RunResult, rl
    from karl_fast.rl.settings import load

__all__ = ["Alarms", "Environment", "Online", "Policy", "Replay", "RunResult", "ablate", "load", "rl"]

HOMES = {
    "Environment": "environment",
    "RunResult": "run",
    "Policy": "policy",
    "ablate": "ablation",
    "load": "settings",
    "rl": "run",
}
"""Home modules of public names that need NumPy; loaded on first use."""


def __getattr__(name: str) -> object:
    from importlib import import_module

    from karl_fast._extras import mlx_needed

    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with mlx_needed():
        return getattr(import_module(f"karl_fast.rl.{HOMES[name]}"), name)
