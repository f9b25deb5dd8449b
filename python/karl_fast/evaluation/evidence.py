"""Paired evidence that one adapter is better than another: a difference for each independent unit of held-out data.

```text
value = sum of differences / sum of weights
p     = share of the 2^U sign patterns with a mean of at least that of the differences, less the margin
limit = the largest margin that the test at alpha excludes
```

Reference: Fisher 1935, The Design of Experiments, section 21 (the sign-flip test).
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast import _core
from karl_fast.errors import (
    DataSetError,
    FileError,
    NothingToTrainError,
)
from karl_fast.evaluation.rollouts import SIDES
from karl_fast.resampling import FEW
from karl_fast.reward.validate import parse_reward

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    Column = NDArray[np.float64]


DRAWS = 999_999
"""Drawn sign patterns for more units than can be counted: p-values down to one in a million."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """Paired differences in favour of the new adapter.

    Attributes:
        differences: new less old of each unit, a prompt or a group; for likelihoods in nats gained. [U]
        weights: of each unit: 1, or its tokens. [U]
        unit: of the value: ``reward`` or ``nats a token``.
    """

    differences: Column
    weights: Column
    unit: str

    @property
    def value(self) -> float:
        """Weighted mean difference."""
        return float(self.differences.sum() / self.weights.sum())

    @property
    def least_p(self) -> float:
        """Smallest p-value that so many units can have."""
        return smallest_p(len(self.differences))

    def p(self, margin: float) -> float:
        """Return the one-sided p-value of a mean difference of at most a margin."""
        ends = np.array([0, len(self.differences)], dtype=np.int64)
        return float(_core.sign_flip(self.differences - margin * self.weights, ends, draws=DRAWS)[0])

    def limit(self, alpha: float) -> float | None:
        """Return the lower confidence limit of the mean difference; None where nothing is excluded."""
        limit = _core.sign_flip_limit(self.differences, self.weights, alpha=alpha, draws=DRAWS)
        return limit if math.isfinite(limit) else None


def smallest_p(units: int) -> float:
    """Return the smallest p-value of the test of so many units."""
    return 2.0**-units if units <= FEW else 1 / (DRAWS + 1)


def compare_logs(folder: Path) -> Evidence:
    """Return the evidence of two logs of attempts at the same prompts, as `karl-fast eval --rollouts` writes them.

    Raises:
        FileError, DataSetError: as `read_rows`.
        NothingToTrainError: no prompt has a reward in both.
    """
    evidence = compare_means(*(mean_by_prompt(folder / name) for name in SIDES))
    if not len(evidence.differences):
        raise NothingToTrainError(f"no prompt has a reward in both {folder / SIDES[0]} and {folder / SIDES[1]}")
    return evidence


def compare_columns(new: Mapping[str, Column], old: Mapping[str, Column]) -> Evidence:
    """Return the evidence of two evaluations of the same prompts."""
    difference = new["reward"] - old["reward"]
    difference = np.ascontiguousarray(difference[~np.isnan(difference)])
    return Evidence(difference, np.ones(len(difference)), "reward")


def compare_means(new: Mapping[str, float], old: Mapping[str, float]) -> Evidence:
    """Return the evidence of mean rewards by prompt; a prompt without one on either side is left out."""
    names = sorted(name for name in new.keys() & old.keys() if not math.isnan(new[name] - old[name]))
    return Evidence(np.array([new[name] - old[name] for name in names]), np.ones(len(names)), "reward")


def mean_by_prompt(file: Path) -> dict[str, float]:
    """Return the mean reward of each prompt of a log; NaN where all of its rewards are missing."""
    rewards: dict[str, list[float]] = {}
    for row in read_rows(file):
        value = parse_reward(row["reward"])
        group = rewards.setdefault(str(row.get("prompt_id", row["group"])), [])
        group += [value] if isinstance(value, float) else []
    return {name: sum(values) / len(values) if values else math.nan for name, values in rewards.items()}


def read_rows(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a log of trajectories.

    Raises:
        FileError: it cannot be read.
        DataSetError: a line is not a trajectory with a group, a reward and messages.
    """
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise FileError(f"cannot read {file}: {error.strerror}", error.errno, str(file)) from error
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataSetError(f"{file}, line {number:,}: the row is not JSON") from error
        if not isinstance(row, dict) or not {"group", "reward", "messages"} <= row.keys():
            raise DataSetError(f"{file}, line {number:,}: wanted an object with group, reward and messages")
        yield row


def compare_likelihoods(
    data: str | Path,
    model: str,
    new: str | Path,
    old: str | Path | None,
    split: str,
    on_tokens: Callable[[int, int], object] | None = None,
    on_remark: Callable[[str], object] | None = None,
) -> Evidence:
    """Return the evidence of the likelihood of held-out rows: nats gained by each group, weighted by its tokens.

    Raises:
        KarlError: as `evaluate`.
    """
    from karl_fast.train.evaluation import paired_nats  # with MLX, which evidence from logs does not need

    gained, tokens = paired_nats(data, model, new, old, split=split, on_tokens=on_tokens, on_remark=on_remark)
    return Evidence(gained, tokens, "nats a token")
