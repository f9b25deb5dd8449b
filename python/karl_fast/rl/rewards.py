"""Rewards by functions of other people: ``fn(prompts, completions, completion_ids=None, **columns)``, one list back.

A function is called once a group, so that one that judges a group by its members can, and one that fails costs the
rewards of one group. None says that a function has nothing to say of a rollout.
"""

from __future__ import annotations

import inspect
import math
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast._safe_text import counted
from karl_fast.reward.composite import weigh_components
from karl_fast.reward.functions import call_for_rewards
from karl_fast.reward.validate import DEFECTS, INFINITE, LENGTH, RAISED, NoReward
from karl_fast.rl.environment import CallError, Guard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from karl_fast.reward.validate import Reward
    from karl_fast.rl.rollout import Rollout

ENVIRONMENT = "environment"
"""The component that an environment gives."""

SUM = "sum"
"""The name that a weighted sum which is no reward is counted by."""


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


class RewardFunctions:
    """Several reward functions: their weighted sum; the weight of one without a reward is shared by the others.

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
        """Set the weight of the environment's reward, if any, and the name of the outcome component."""
        self.functions, self.outcome = tuple(functions), outcome
        self._guards = {one.name: Guard(one.name, timeout_seconds) for one in functions}
        own = {one.name: one.weight for one in functions}
        self._weights = own if environment is None else {ENVIRONMENT: environment} | own
        self._taken = {one.name: _columns(one.function) for one in functions}

    def __call__(self, groups: Sequence[Sequence[Rollout]]) -> tuple[list[list[Rollout]], list[str]]:
        """Return the rollouts of groups with their rewards, and a sentence for each failure."""
        asked = [self._asked(one, groups) for one in self.functions]
        said = [
            sentence for one, given in zip(self.functions, asked, strict=True) for sentence in _said(one, given, groups)
        ]
        rewarded = [
            self._summed([self._with(*one) for one in zip(group, *given, strict=True)])
            for group, *given in zip(groups, *asked, strict=True)
        ]
        return rewarded, said + _beyond(rewarded)

    def _with(self, rollout: Rollout, *values: Reward) -> Rollout:
        """Return the rollout with the component of each function."""
        found, missing = dict(rollout.components), rollout.missing
        for one, value in zip(self.functions, values, strict=True):
            if isinstance(value, NoReward):
                missing = missing or f"{one.name}: {value.kind}"
            elif value is not None:
                found[one.name] = value
        return rollout.but(components=found, missing=missing)

    def _summed(self, group: Sequence[Rollout]) -> list[Rollout]:
        """Return rollouts with the reward that their components make."""
        each = [
            (weight, np.array([one.components.get(name, math.nan) for one in group]))
            for name, weight in self._weights.items()
        ]
        return [self._rewarded(*one) for one in zip(group, weigh_components(each).tolist(), strict=True)]

    def _rewarded(self, rollout: Rollout, total: float) -> Rollout:
        """Return a rollout with a weighted sum as its reward, unless that, or a component, is missing."""
        missing = rollout.missing
        if math.isnan(total) and not missing:
            applies = any(self._weights[name] for name in rollout.components)
            missing = f"{SUM}: {INFINITE}" if applies else "none: not applicable"
        number = math.nan if missing else total
        outcome = number if self.outcome is None or missing else rollout.components.get(self.outcome, math.nan)
        return rollout.but(reward=number, outcome=outcome, missing=missing)

    def _asked(self, one: Weighted, groups: Sequence[Sequence[Rollout]]) -> list[list[Reward]]:
        """Return for each group the rewards of its rollouts."""
        calls = [
            partial(call_for_rewards, partial(one.function, **_named(group, self._taken[one.name])), len(group), ())
            for group in groups
        ]
        given = self._guards[one.name].each(calls)
        return [_values(values, len(group)) for values, group in zip(given, groups, strict=True)]


def _named(group: Sequence[Rollout], taken: frozenset[str] | None) -> dict[str, Any]:
    """Return the arguments of a function: copies, because it may change them."""
    named: dict[str, Any] = {
        "prompts": [deepcopy(list(rollout.prompt.messages)) for rollout in group],
        "completions": [completion(rollout) for rollout in group],
        "completion_ids": [rollout.own(rollout.tokens).tolist() for rollout in group],
    }
    columns = {name: value for name, value in group[0].prompt.columns.items() if taken is None or name in taken}
    named |= {name: [value] * len(group) for name, value in deepcopy(columns).items() if name not in named}
    return {name: value for name, value in named.items() if taken is None or name in taken}


def _values(given: list[Reward] | CallError, count: int) -> list[Reward]:
    """Return the result of a call; after a timeout, a missing reward for each rollout."""
    return [NoReward(given.kind, str(given))] * count if isinstance(given, CallError) else given


def _said(one: Weighted, given: Sequence[Sequence[Reward]], groups: Sequence[Sequence[Rollout]]) -> Iterator[str]:
    """Yield failures: a sentence for each failed call, and one for each kind of invalid reward."""
    every = [pair for values, group in zip(given, groups, strict=True) for pair in zip(values, group, strict=True)]
    for values in given:
        if isinstance(first := values[0], NoReward) and first.kind not in DEFECTS:
            yield _failure(one.name, first)
    for kind, what in DEFECTS.items():
        wrong = [(value, rollout) for value, rollout in every if isinstance(value, NoReward) and value.kind == kind]
        if wrong:
            times = f"{len(wrong):,} of {counted(len(every), 'completion')}"
            yield f"{one.name} gave {what} for {times}, the first for rollout {wrong[0][1].id}: {wrong[0][0].said}"


def _failure(name: str, one: NoReward) -> str:
    """Return a description of a call that gave no rewards."""
    return {RAISED: f"{name} raised {one.said}", LENGTH: f"{name} gave {one.said}"}.get(one.kind, one.said)


def _beyond(groups: Sequence[Sequence[Rollout]]) -> list[str]:
    """Return that weighted sums are no rewards, where some are not."""
    wrong = [rollout for group in groups for rollout in group if (rollout.missing or "").startswith(f"{SUM}: ")]
    if not wrong:
        return []
    said = f"the weighted sum of rewards is beyond 1e100 in size for {counted(len(wrong), 'completion')}"
    return [f"{said}, the first for rollout {wrong[0].id}"]


def completion(rollout: Rollout) -> Any:
    """Return the completion for a reward function: the text of a single turn, else the messages after the prompt."""
    plain = len(rollout.messages) == 1
    return rollout.messages[0]["content"] if plain else deepcopy(list(rollout.messages))


def _columns(function: Callable[..., Any]) -> frozenset[str] | None:
    """Return the names that a function takes; None for any."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return None
    return frozenset(one.name for one in parameters)


def count_missing(rollouts: Sequence[Rollout]) -> dict[str, int]:
    """Count the missing rewards by why."""
    found: dict[str, int] = {}
    for rollout in rollouts:
        if rollout.missing:
            found[rollout.missing] = found.get(rollout.missing, 0) + 1
    return dict(sorted(found.items()))
