"""Rewards by functions of other people: ``fn(prompts, completions, completion_ids=None, **columns)``, one list back.

A function is called once a group, so that one that judges a group by its members can, and one that fails costs the
rewards of one group. None says that a function has nothing to say of a rollout.
"""

from __future__ import annotations

import functools
import inspect
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast import words
from karl_fast.rl.guard import CallError, Guard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from karl_fast.rl.rollout import Rollout

ENVIRONMENT = "environment"
"""The component that an environment gives."""

NO_REWARD = {"nan": "NaN", "infinite": "an infinite number", "not a number": "no number"}
"""Kinds of values that are no rewards, and what each is called."""


@dataclass(frozen=True)
class Weighted:
    """A reward function.

    Attributes:
        name: of its component.
        function: what is called.
        weight: what its rewards are multiplied by.
    """

    name: str
    function: Callable[..., Any]
    weight: float = 1.0


class Jury:
    """Several reward functions: their weighted sum; what one with nothing to say would have weighed, the others share.

    ::

        r = (sum_c |w_c| / sum_{c in A} |w_c|) sum_{c in A} w_c x_c,   A = the components that say something

    None is never taken for 0. A rollout's reward is missing where a function failed, and where none of a weight other
    than 0 had anything to say. The rule is that of `karl_fast.reward.Composite`.
    """

    def __init__(
        self,
        functions: Sequence[Weighted],
        *,
        timeout_seconds: float = 60.0,
        environment: float | None = None,
        outcome: str | None = None,
    ) -> None:
        """`environment` weighs what an environment gives, where there is one; `outcome` is a component's name."""
        self.functions, self.outcome = tuple(functions), outcome
        self._guards = {one.name: Guard(one.name, timeout_seconds) for one in functions}
        own = {one.name: one.weight for one in functions}
        self._weights = own if environment is None else {ENVIRONMENT: environment} | own
        self._taken = {one.name: _columns(one.function) for one in functions}

    def __call__(self, groups: Sequence[Sequence[Rollout]]) -> tuple[list[list[Rollout]], list[str]]:
        """The rollouts of groups with their rewards, and a sentence for each function that failed on one."""
        said: list[str] = []
        rewarded: list[list[Rollout]] = []
        asked = [self._asked(one, groups) for one in self.functions]
        for one, given in zip(self.functions, asked, strict=True):
            said += [sentence for values in given for sentence in _sentences(one.name, values)]
        for group, *given in zip(groups, *asked, strict=True):
            each = zip(group, *(_each(values, group) for values in given), strict=True)
            rewarded.append([self._with(*one) for one in each])
        return rewarded, said

    def _with(self, rollout: Rollout, *values: float | str | None) -> Rollout:
        """The rollout with what each function gave it."""
        found, missing = dict(rollout.components), rollout.missing
        for one, value in zip(self.functions, values, strict=True):
            if isinstance(value, str):
                missing = missing or f"{one.name}: {value}"
            elif value is not None:
                found[one.name] = value
        reward = math.nan if missing else self._sum(found)
        if not missing and math.isnan(reward):
            missing = "none: not applicable"
        outcome = reward if self.outcome is None or missing else found.get(self.outcome, math.nan)
        return rollout.but(reward=reward, outcome=outcome, components=found, missing=missing)

    def _sum(self, found: Mapping[str, float]) -> float:
        """The weighted sum of what there is, as if it were all; NaN where nothing that weighs is there."""
        total = sum(self._weights[name] * value for name, value in found.items())
        if len(found) == len(self._weights):
            return total
        applied = sum(abs(self._weights[name]) for name in found)
        return total * (sum(map(abs, self._weights.values())) / applied) if applied else math.nan

    def _asked(self, one: Weighted, groups: Sequence[Sequence[Rollout]]) -> list[Any]:
        """For each group a failure, or for each of its rollouts a number, None, or a kind of failure."""
        calls = [functools.partial(one.function, **_named(group, self._taken[one.name])) for group in groups]
        given = self._guards[one.name].each(calls)
        return [_values(one.name, values, len(group)) for values, group in zip(given, groups, strict=True)]


def _named(group: Sequence[Rollout], taken: frozenset[str] | None) -> dict[str, Any]:
    """What a function is called with."""
    named: dict[str, Any] = {
        "prompts": [list(rollout.prompt.messages) for rollout in group],
        "completions": [completion(rollout) for rollout in group],
        "completion_ids": [rollout.own(rollout.tokens).tolist() for rollout in group],
    }
    named |= {name: [value] * len(group) for name, value in group[0].prompt.columns.items() if name not in named}
    return {name: value for name, value in named.items() if taken is None or name in taken}


def _values(name: str, values: Any, count: int) -> Any:
    if isinstance(values, CallError):
        return values
    if not isinstance(values, list | tuple | np.ndarray) or len(values) != count:
        came = words.counted(len(values), "value") if hasattr(values, "__len__") else type(values).__name__
        return CallError("length", f"{name} gave {came} for {words.counted(count, 'completion')}")
    return [_number(value) for value in values]


def _each(values: Any, group: Sequence[Rollout]) -> Sequence[float | str | None]:
    """What a function gave each rollout; the kind of its failure for all of them."""
    return [values.kind] * len(group) if isinstance(values, CallError) else values


def _sentences(name: str, values: Any) -> Iterator[str]:
    """What went wrong with the rewards of a group."""
    if isinstance(values, CallError):
        yield str(values)
        return
    for kind, what in NO_REWARD.items():
        if times := values.count(kind):
            yield f"{name} gave {what} for {times} of {words.counted(len(values), 'completion')}"


def completion(rollout: Rollout) -> Any:
    """What a reward function sees: the text of a single turn, else the messages after the prompt."""
    plain = len(rollout.messages) == 1
    return rollout.messages[0]["content"] if plain else [dict(message) for message in rollout.messages]


def _number(value: Any) -> float | str | None:
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return "not a number"
    if math.isnan(number):
        return "nan"
    return number if math.isfinite(number) else "infinite"


def _columns(function: Callable[..., Any]) -> frozenset[str] | None:
    """The names that a function takes; None for any."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return None
    return frozenset(one.name for one in parameters)


def counted(rollouts: Sequence[Rollout]) -> Mapping[str, int]:
    """How many rewards are missing, by why."""
    found: dict[str, int] = {}
    for rollout in rollouts:
        if rollout.missing:
            found[rollout.missing] = found.get(rollout.missing, 0) + 1
    return dict(sorted(found.items()))
