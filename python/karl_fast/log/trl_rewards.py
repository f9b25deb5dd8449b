"""Rewards in the completions that TRL logs as Parquet: which columns are rewards, and their sum.

```text
step  prompt  completion  accuracy_reward  format_reward  entropy  advantage
                          '---- rewards, summed ----'     '- logged beside them -'
```

Nothing in the table tells rewards from other numbers, so names and places have to: a sum of the wrong columns would
train on them without a word.
"""

from __future__ import annotations

import json
import re
import shlex
from typing import Any, NamedTuple

from pyarrow import types

from karl_fast._safe_text import clean
from karl_fast.errors import RewardError

TRL = ("step", "prompt", "completion", "advantage")
"""The columns of TRL's completions that are not rewards."""

TRL_REWARD = "trl_reward"
"""The column that the sum of TRL's reward functions is put in."""


class SummedReward(NamedTuple):
    """A reward that is not a column of a table, and the columns that it is the sum of."""

    name: str
    columns: list[str]


def reward_columns(path: str, schema: Any, *, rewarded: bool) -> list[str] | None:
    """Return the columns of TRL's reward functions, none where rewards come from elsewhere; None for other tables.

    TRL writes one column a reward function after the completion, then those that functions log beside the rewards,
    then the advantage, and nothing in the table tells the first two apart. A number is a reward where its place or its
    name says so and it is the only one, or where the names of all say so and none may be made of the others.
    """
    if not set(TRL) <= set(schema.names) or TRL_REWARD in schema.names:
        return None
    numbers = [field.name for field in schema if field.name not in TRL and types.is_floating(field.type)]
    if rewarded:
        return []
    if not numbers or _are_rewards(numbers, schema.names):
        return numbers
    raise _unclear_error(path, numbers)


MEASURES = {
    *("entropy", "kl", "loss", "logp", "logprob", "logps", "logprobs", "perplexity", "ratio", "epsilon", "rate", "lr"),
    *("length", "len", "tokens", "time", "seconds", "latency", "cost", "temperature", "step", "grad", "norm", "count"),
}
"""Words in the names of columns that are hardly rewards; a reward named after one says so: `length_reward`."""

STATISTICS = {
    *("std", "stdev", "stddev", "var", "variance", "min", "max", "median", "quantile", "baseline", "count", "time"),
    *("seconds", "latency", "norm", "normed", "normalized", "normalised", "weight", "coef", "coefficient", "scale"),
}
"""Words in the names of columns that are computed from rewards or describe them, and are not rewards: `reward_std`."""

TOTALS = {"total", "sum", "mean", "avg", "average", "overall", "final", "combined", "weighted", "aggregate", "all"}
"""Words in the names of rewards that may be sums of the others."""


def _are_rewards(numbers: list[str], names: list[str]) -> bool:
    """Return whether all numbers of a table of TRL are rewards to be summed."""
    if len(numbers) == 1:
        in_place = names.index("completion") + 1 == names.index(numbers[0]) < names.index("advantage")
        return _is_reward(numbers[0], ("reward", "score")) or (in_place and not _is_measure(numbers[0]))
    return all(_is_reward(name) and not _is_total(name) for name in numbers)


def _is_reward(name: str, marks: tuple[str, ...] = ("reward",)) -> bool:
    """Return whether a name says that a column holds rewards, and not what is made of them."""
    return any(word in name.lower() for word in marks) and not STATISTICS & _words(name)


def _is_total(name: str) -> bool:
    """Return whether a reward may be made of the others beside it."""
    words = _words(name)
    return bool(TOTALS & words) or words <= {"reward", "rewards", "score", "scores"}


def _is_measure(name: str) -> bool:
    """Return whether a name is that of a measure of the text or of the training, or of what is made of rewards."""
    return bool((MEASURES | STATISTICS) & _words(name))


def _words(name: str) -> set[str]:
    """Return the words of a name, in whatever way they are joined: `rewardStd`, `reward/std`."""
    snake_case = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return {*re.split(r"[^a-z0-9]+", snake_case.lower())} - {""}


def _unclear_error(path: str, numbers: list[str]) -> RewardError:
    """Return the error for a table of TRL with numbers that may be rewards or not."""
    error = RewardError(
        f"{path}: TRL's completions do not say which of their numbers are rewards: {', '.join(map(clean, numbers))}"
    )
    rewards = [name for name in numbers if _is_reward(name)]
    total = next(([name] for name in rewards if _is_total(name)), [])
    likely = total or rewards or [name for name in numbers if not _is_measure(name)]
    if len(total) == 1 < len(rewards):
        error.hint = (
            f"{clean(total[0])} may be made of the others: --reward {shlex.quote(clean(total[0]))} takes it alone"
        )
    elif likely:
        error.hint = f"name those that are, which are then summed: --reward {shlex.quote(','.join(map(clean, likely)))}"
    else:
        error.hint = "none has the name of a reward: name the column that is one with --reward NAME"
    return error


def sum_rewards(rewards: list[list[float | None]], rows: int) -> list[str]:
    """Return the sum of each row's rewards.

    A function that does not apply to a row does not enter its sum, and a row to which none applies has no reward.
    """
    if not rewards:
        return ["null"] * rows
    # A number differs from itself where it is NaN, which stands for missing.
    present = [[value for value in row if value is not None and value == value] for row in zip(*rewards, strict=True)]
    return [json.dumps(sum(row) if row else None) for row in present]
