"""Knowledge of a task about rollouts besides their rewards: a reward of each token, right tokens, and expected rewards.

```text
token_rewards   fn(prompts, completions, completion_ids=None, **columns)   for each completion a list: the reward of
                                                                           each of its tokens, or None
labels          the same                                                   for each completion a list: the id of the
                                                                           token that is right in the place of each,
                                                                           or None
baseline        fn(policy, prompt)                                         mean reward of the policy on a prompt, a
                                                                           line as an environment gets it
```

The first two are called as reward functions are, once a group, and see what these see; a rollout for which one fails
has no reward. The baseline is called once a group, before the step, with the policy that drew the rollouts.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast._safe_text import counted
from karl_fast._user_code import describe_user_error
from karl_fast.reward.validate import LENGTH, NOT_A_NUMBER, RAISED, NoReward, as_row_values, parse_reward, show_value
from karl_fast.rl.environment import CallError, Guard
from karl_fast.rl.rewards import column_names, rollout_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from karl_fast.rl.policy import Policy
    from karl_fast.rl.rollout import Rollout

TOKEN_REWARDS, LABELS, BASELINE = "token_rewards", "labels", "baseline"
"""Settings, and fields of a rollout."""

NO_LABEL = -1


@dataclass(frozen=True)
class TaskFunctions:
    """Functions by the setting that names them.

    Attributes:
        functions: by setting.
        timeout_seconds: of each call, but of the baseline, which computes with the policy.
    """

    functions: dict[str, Callable[..., Any]]
    timeout_seconds: float = 60.0

    def __call__(self, policy: Policy, groups: Sequence[Sequence[Rollout]]) -> tuple[list[list[Rollout]], list[str]]:
        """Return rollouts with what the functions know of them, and a sentence for each failure."""
        known, failures = [list(group) for group in groups], list[str]()
        for setting, function in self.functions.items():
            values: list[list[Any]]
            if setting == BASELINE:
                values = [_expect(function, policy, group) for group in known]
            else:
                values = self._call(setting, function, known)
            failures += _describe(setting, values)
            known = [_add(setting, *pair) for pair in zip(known, values, strict=True)]
        return known, failures

    def _call(self, setting: str, function: Callable[..., Any], groups: Sequence[Sequence[Rollout]]) -> list[list[Any]]:
        """Return for each group the values of each rollout's tokens."""
        names = column_names(function)
        calls = [partial(function, **rollout_arguments(group, names)) for group in groups]
        results = Guard(setting, self.timeout_seconds).run_all(calls)
        return [_parse(setting, result, group) for result, group in zip(results, groups, strict=True)]


def _parse(setting: str, result: Any, group: Sequence[Rollout]) -> list[Any]:
    """Return the values of a call, an array for each rollout."""
    if isinstance(result, CallError):
        return [NoReward(result.kind, str(result))] * len(group)
    rows = as_row_values(result, len(group))
    if isinstance(rows, str):
        return [NoReward(LENGTH, f"{setting} gave {rows}, wanted a list for each of {len(group)} completions")] * len(
            group
        )
    return [_parse_tokens(setting, row, rollout.length) for row, rollout in zip(rows, group, strict=True)]


def _parse_tokens(setting: str, row: Any, length: int) -> NDArray[Any] | NoReward:
    """Return the values of one rollout's tokens. [length]"""
    values = as_row_values(row, length)
    if isinstance(values, str):
        return NoReward(LENGTH, f"{setting} gave {values} for a completion of {counted(length, 'token')}")
    parse = _parse_label if setting == LABELS else _parse_number
    parsed = [parse(value) for value in values]
    if wrong := next((value for value in parsed if isinstance(value, NoReward)), None):
        return NoReward(wrong.kind, f"{setting} gave {wrong.said} for a token")
    return np.array(parsed, dtype=np.int64 if setting == LABELS else np.float64)


def _parse_number(value: Any) -> float | NoReward:
    number = parse_reward(value)
    return np.nan if number is None else number


def _parse_label(value: Any) -> int | NoReward:
    if value is None:
        return NO_LABEL
    try:
        label = operator.index(value)
    except TypeError:
        label = NO_LABEL
    return label if 0 <= label < 1 << 31 else NoReward(NOT_A_NUMBER, f"{show_value(value)}, wanted the id of a token,")


def _expect(function: Callable[..., Any], policy: Policy, group: Sequence[Rollout]) -> list[Any]:
    """Return the expected reward of a group's prompt, for each of its rollouts."""
    prompt = group[0].prompt
    try:
        value = parse_reward(function(policy, {"id": prompt.id, **prompt.columns, "prompt": list(prompt.messages)}))
    except Exception as error:
        return [NoReward(RAISED, f"{BASELINE} raised {describe_user_error(error)}")] * len(group)
    if value is None or isinstance(value, NoReward):
        said = value.said if value is not None else "None"
        return [NoReward(NOT_A_NUMBER, f"{BASELINE} gave {said}, wanted the mean reward of the policy")] * len(group)
    return [value] * len(group)


def _add(setting: str, group: Sequence[Rollout], values: Sequence[Any]) -> list[Rollout]:
    """Return rollouts with a field more; those of which nothing is known have no reward."""
    return [
        rollout.but(
            missing=rollout.missing or f"{setting}: {value.kind}",
            reward=np.nan,
            outcome=np.nan,
            **_nothing(setting, rollout.length),
        )
        if isinstance(value, NoReward)
        else rollout.but(**{setting: value})
        for rollout, value in zip(group, values, strict=True)
    ]


def _nothing(setting: str, length: int) -> dict[str, Any]:
    """Return the field of a rollout of which a function knows nothing: the objective needs the column all the same."""
    values = {TOKEN_REWARDS: np.full(length, np.nan), LABELS: np.full(length, NO_LABEL, dtype=np.int64)}
    return {setting: values[setting]} if setting in values else {}


def _describe(setting: str, values: Sequence[Sequence[Any]]) -> list[str]:
    """Return one sentence on what failed: the first of it, and how often it did."""
    wrong = [value for group in values for value in group if isinstance(value, NoReward)]
    if not wrong:
        return []
    total = sum(map(len, values))
    return [f"{wrong[0].said} ({setting} is missing for {len(wrong):,} of {counted(total, 'completion')})"]
