"""Types of the values of settings."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

Weighting = Literal["ema", "karl"]
"""How the weight of a skill follows its rewards."""

STARTED_AT = "started_at"
"""Field of a trajectory with the time at which it began."""

Score = Literal["raw", "centre", "zscore", "leave-one-out", "advantage"]
BaselineKind = Literal["mean", "partition", "ema"]
BaselineBy = Literal["group", "domain"]
Sampler = Literal["gumbel", "weighted-reservoir", "reservoir", "systematic", "multinomial", "all"]
Shape = Literal["chat", "prompt-completion", "text", "raw"]
Rate = Literal["log", "result", "karl-v1", "karl-v2", "outcomes"]
To = Literal["trajectory", "karl"]
ToolFormat = Literal["auto", "template", "text"]


class Signal(TypedDict):
    """A component of the reward that a function makes: ``my.py:score``, or one of ``karl_fast.reward.SIGNALS``."""

    fn: str
    weight: NotRequired[float]


class Stored(str):
    """The name of a function in a manifest: it is run only if the user names it again."""

    __slots__ = ()


def weight_of(component: float | Signal) -> float:
    """Return the weight of a component, 1 for a function without one."""
    return component.get("weight", 1.0) if isinstance(component, dict) else component
