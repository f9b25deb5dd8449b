"""Rewards by user functions: ``fn(prompts, completions, completion_ids=None, **columns)`` returns one list.

A function is called once a group, so that it can compare the members of a group, and one that fails costs the rewards
of one group only. None means that a function does not apply to a rollout. In the place of a number a function
may give a vector, as a dictionary of numbers by name: each is a component of its own, ``FUNCTION.NAME``, and the
function's reward is their mean.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast._safe_text import counted
from karl_fast.reward.composite import weigh_components
from karl_fast.reward.functions import call_for_rewards
from karl_fast.reward.validate import DEFECTS, INFINITE, LENGTH, RAISED, NoReward, parse_reward
from karl_fast.rl.environment import CallError, Guard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from karl_fast.reward.validate import Reward
    from karl_fast.rl.rollout import Rollout

ENVIRONMENT = "environment"
"""The component that an environment gives."""

SUM = "sum"
"""The name of missing rewards whose weighted sum is not a valid reward."""


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

        r = (sum_c |w_c| / sum_{c in A} |w_c|) sum_{c in A} w_c x_c,   A = the components that apply

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
        self._guards = {function.name: Guard(function.name, timeout_seconds) for function in functions}
        own = {function.name: function.weight for function in functions}
        self.weights = own if environment is None else {ENVIRONMENT: environment} | own
        self._parameters = {function.name: column_names(function.function) for function in functions}

    def __call__(self, groups: Sequence[Sequence[Rollout]]) -> tuple[list[list[Rollout]], list[str]]:
        """Return the rollouts of groups with their rewards, and a sentence for each failure."""
        rewards_by_function = [self._call(function, groups) for function in self.functions]
        failures = [
            sentence
            for function, rewards in zip(self.functions, rewards_by_function, strict=True)
            for sentence in _describe_failures(function, rewards, groups)
        ]
        rewarded = [
            self._sum_components([self._add_components(*row) for row in zip(group, *rewards, strict=True)])
            for group, *rewards in zip(groups, *rewards_by_function, strict=True)
        ]
        return rewarded, failures + _describe_excess(rewarded)

    def _add_components(self, rollout: Rollout, *values: Reward) -> Rollout:
        """Return the rollout with the component of each function."""
        components, missing = dict(rollout.components), rollout.missing
        for function, value in zip(self.functions, values, strict=True):
            parts = value if isinstance(value, dict) else {"": value}
            for key, part in parts.items():
                if isinstance(part, NoReward):
                    missing = missing or f"{function.name}: {part.kind}"
                elif part is not None:
                    components[f"{function.name}.{key}" if key else function.name] = part
        return rollout.but(components=components, missing=missing)

    def _sum_components(self, group: Sequence[Rollout]) -> list[Rollout]:
        """Return rollouts with the reward that their components make; none where nothing is rewarded."""
        if not self.weights:
            return list(group)
        columns = [
            (weight, np.array([rollout.components.get(name, math.nan) for rollout in group]))
            for name, weight in component_weights(group, self.weights).items()
        ]
        return [self._set_reward(*row) for row in zip(group, weigh_components(columns).tolist(), strict=True)]

    def _set_reward(self, rollout: Rollout, total: float) -> Rollout:
        """Return a rollout with a weighted sum as its reward, unless that, or a component, is missing."""
        missing = rollout.missing
        if math.isnan(total) and not missing:
            applies = any(component_weights([rollout], self.weights).get(name) for name in rollout.components)
            missing = f"{SUM}: {INFINITE}" if applies else "none: not applicable"
        number = math.nan if missing else total
        outcome = number if self.outcome is None or missing else rollout.components.get(self.outcome, math.nan)
        return rollout.but(reward=number, outcome=outcome, missing=missing)

    def _call(self, function: Weighted, groups: Sequence[Sequence[Rollout]]) -> list[list[Reward]]:
        """Return for each group the rewards of its rollouts."""
        calls = [
            partial(
                call_for_rewards,
                partial(function.function, **rollout_arguments(group, self._parameters[function.name])),
                len(group),
                (),
                parse_vector,
            )
            for group in groups
        ]
        results = self._guards[function.name].run_all(calls)
        return [_values(values, len(group)) for values, group in zip(results, groups, strict=True)]


def parse_vector(value: Any) -> Any:
    """Return a vector of rewards by name, or a reward."""
    if isinstance(value, Mapping):
        return {str(key): parse_reward(part) for key, part in value.items()}
    return parse_reward(value)


def component_weights(rollouts: Sequence[Rollout], weights: Mapping[str, float]) -> dict[str, float]:
    """Return the weight of each component that some rollouts have, and of the functions that gave them none.

    The entries of a vector share the weight of its function.

    Args:
        rollouts: with components.
        weights: of functions, and of the environment.
    """
    names = dict.fromkeys(name for rollout in rollouts for name in rollout.components)
    entry_weights = dict[str, float]()
    for name, weight in weights.items():
        entries = [each for each in names if each.startswith(f"{name}.") and each not in weights]
        entry_weights |= {each: weight / len(entries) for each in entries} if entries else {name: weight}
    return entry_weights


def reward_vectors(
    rollouts: Sequence[Rollout], weights: Mapping[str, float]
) -> tuple[list[str], NDArray[np.float64], NDArray[np.float64]]:
    """Return the components of a weight other than 0 by name, their values, NaN for none, and weights. [B, D], [D]"""
    counted_weights = {name: weight for name, weight in component_weights(rollouts, weights).items() if weight}
    columns = [[rollout.components.get(name, math.nan) for name in counted_weights] for rollout in rollouts]
    vectors = np.array(columns, dtype=np.float64).reshape(len(rollouts), len(counted_weights))
    return list(counted_weights), vectors, np.array(list(counted_weights.values()), dtype=np.float64)


def rollout_arguments(group: Sequence[Rollout], parameters: frozenset[str] | None) -> dict[str, Any]:
    """Return the arguments of a function: copies, because it may change them."""
    arguments: dict[str, Any] = {
        "prompts": [deepcopy(list(rollout.prompt.messages)) for rollout in group],
        "completions": [completion(rollout) for rollout in group],
        "completion_ids": [rollout.answer.tolist() for rollout in group],
    }
    columns = {
        name: value for name, value in group[0].prompt.columns.items() if parameters is None or name in parameters
    }
    arguments |= {name: [value] * len(group) for name, value in deepcopy(columns).items() if name not in arguments}
    return {name: value for name, value in arguments.items() if parameters is None or name in parameters}


def _values(result: list[Reward] | CallError, count: int) -> list[Reward]:
    """Return the result of a call; after a timeout, a missing reward for each rollout."""
    return [NoReward(result.kind, str(result))] * count if isinstance(result, CallError) else result


def _describe_failures(
    function: Weighted, rewards: Sequence[Sequence[Reward]], groups: Sequence[Sequence[Rollout]]
) -> Iterator[str]:
    """Yield failures: a sentence for each failed call, and one for each kind of invalid reward."""
    every = [
        (part, rollout)
        for values, group in zip(rewards, groups, strict=True)
        for value, rollout in zip(values, group, strict=True)
        for part in (value.values() if isinstance(value, dict) else [value])
    ]
    for values in rewards:
        if isinstance(first := values[0], NoReward) and first.kind not in DEFECTS:
            yield _failure(function.name, first)
    for kind, what in DEFECTS.items():
        wrong = [(value, rollout) for value, rollout in every if isinstance(value, NoReward) and value.kind == kind]
        if wrong:
            times = f"{len(wrong):,} of {counted(len(every), 'completion')}"
            yield f"{function.name} gave {what} for {times}, the first for rollout {wrong[0][1].id}: {wrong[0][0].said}"


def _failure(name: str, reward: NoReward) -> str:
    """Return a description of a call that gave no rewards."""
    return {RAISED: f"{name} raised {reward.said}", LENGTH: f"{name} gave {reward.said}"}.get(reward.kind, reward.said)


def _describe_excess(groups: Sequence[Sequence[Rollout]]) -> list[str]:
    """Return a warning if some weighted sums are not rewards."""
    wrong = [rollout for group in groups for rollout in group if (rollout.missing or "").startswith(f"{SUM}: ")]
    if not wrong:
        return []
    problem = f"the weighted sum of rewards is beyond 1e100 in size for {counted(len(wrong), 'completion')}"
    return [f"{problem}, the first for rollout {wrong[0].id}"]


def completion(rollout: Rollout) -> Any:
    """Return the completion for a reward function: the text of a single turn, else the messages after the prompt."""
    plain = len(rollout.messages) == 1
    return rollout.messages[0]["content"] if plain else deepcopy(list(rollout.messages))


def column_names(function: Callable[..., Any]) -> frozenset[str] | None:
    """Return the names that a function takes; None for any."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return frozenset(parameter.name for parameter in parameters)


def count_missing(rollouts: Sequence[Rollout]) -> dict[str, int]:
    """Count the missing rewards by why."""
    counts: dict[str, int] = {}
    for rollout in rollouts:
        if rollout.missing:
            counts[rollout.missing] = counts.get(rollout.missing, 0) + 1
    return dict(sorted(counts.items()))
