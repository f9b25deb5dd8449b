"""The rule that keeps the groups with the most variance of reward: one rule for `sample` and for recipes of `rl`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from karl_fast import filter as filters
from karl_fast.errors import UsageError
from tests import rows

if TYPE_CHECKING:
    from pathlib import Path


def log(tmp_path: Path) -> Path:
    """40 groups of 8: ten constant, ten of little variance, twenty of much; and a group of one."""
    records = []
    for group in range(40):
        spread = 0.0 if group < 10 else (0.01 if group < 20 else 1.0) * (1 + group / 100)
        records += [rows.record(8 * group + n, f"g{group}", 0.5 + spread * (5 * n % 8) / 8) for n in range(8)]
    return rows.write(tmp_path / "log.jsonl", [*records, rows.record(320, "alone", 0.9)])


@pytest.mark.parametrize("share", [0.5, 0.99, 1.0])
def test_the_rows_kept_equal_the_recipes_filter(tmp_path: Path, share: float) -> None:
    read = karl_fast.read(log(tmp_path))
    made = karl_fast.sample(read, None, sampler="all", variance_top_p=share, split=(1.0, 0.0, 0.0))
    found = filters.variance_top_p(read.rewards, read.groups, p=share)
    kept = {json.loads(line)["karl_fast"]["group"] for line in made.lines()}
    assert kept == {read.group_names[code] for code in {*read.groups[found.keep].tolist()}}
    dropped = made.manifest["accounting"]["dropped"]
    low = found.counts.get("low_variance", 0)
    assert dropped == {"constant_group": 80, "group_of_one": 1} | ({"low_variance": low} if low else {})
    assert (share < 1.0) == (low > 0)
    assert made.manifest["accounting"]["rows_read"] == 321 == len(kept) * 8 + sum(dropped.values())


def test_the_dapo_rule_equals_the_recipes_filter(tmp_path: Path) -> None:
    read = karl_fast.read(log(tmp_path))
    made = karl_fast.sample(read, None, sampler="all", drop_constant_groups=True, split=(1.0, 0.0, 0.0))
    keep = filters.constant_groups(read.rewards, read.groups).keep
    assert sum(1 for _ in made.lines()) == int(keep.sum()) == 240


def test_a_log_without_groups_is_refused(tmp_path: Path) -> None:
    path = rows.write(tmp_path / "log.jsonl", [rows.record(n, None, n / 4) for n in range(4)])
    with pytest.raises(UsageError, match="variance_top_p is a rule of groups, but no record has a group"):
        karl_fast.sample(path, None, k=2, variance_top_p=0.9)


@pytest.mark.parametrize("share", [0.0, 1.5])
def test_a_share_is_within_0_and_1(share: Any) -> None:
    with pytest.raises(UsageError, match="variance_top_p is"):
        karl_fast.Settings(variance_top_p=share)
