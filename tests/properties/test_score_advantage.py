"""The score advantage: the reward less a baseline of its group or domain, beside a naive twin."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import karl_fast
from karl_fast.errors import UsageError
from tests import rows

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

LOG = "examples/agent-log.jsonl"
B = 3.0


def written(log: Any = LOG, **choices: Any) -> dict[str, dict[str, Any]]:
    """The `karl_fast` object of each row of the whole draw, by id."""
    drawn = karl_fast.sample(log, None, sampler="all", inverse_temperature=B, split=(1.0, 0.0, 0.0), **choices)
    found = [json.loads(line)["karl_fast"] for line in drawn.lines()]
    return {one["id"]: one for one in found}


def less(rewards: NDArray[np.float64], codes: NDArray[np.int64], kind: str) -> NDArray[np.float64]:
    """The naive twin."""
    found = np.full(len(rewards), np.nan)
    for code in {*codes.tolist()}:
        own = rewards[(codes == code) & ~np.isnan(rewards)]
        baseline = own.mean() if kind == "mean" else np.log(np.exp(B * own).mean()) / B
        found[codes == code] = rewards[codes == code] - baseline
    return found


@pytest.mark.parametrize("kind", ["mean", "partition"])
@pytest.mark.parametrize("by", ["group", "domain"])
def test_the_score_is_the_reward_less_the_baseline(kind: str, by: str) -> None:
    log = karl_fast.read(LOG)
    codes = log.groups if by == "group" else log.domains
    wanted = less(log.rewards, codes, kind)
    found = written(score="advantage", baseline=kind, baseline_by=by)
    scores = sorted(one["score"] for one in found.values())
    assert scores == pytest.approx(sorted(wanted[~np.isnan(wanted)]), abs=1e-12)
    weights = np.array([one["log_weight"] for one in found.values()])
    tempered = B * np.array([one["score"] for one in found.values()])
    assert weights == pytest.approx(tempered - np.log(np.exp(tempered).sum()), abs=1e-9)


def test_the_group_mean_is_the_score_centre() -> None:
    assert written(score="advantage") == written(score="centre")
    assert written(score="advantage", baseline_by="domain") != written(score="centre")
    assert written(score="advantage", baseline="partition") != written(score="centre")


def test_the_shaped_reward_is_scored() -> None:
    shaping = karl_fast.reward.AsymmetricScale(up=2.0, centre=0.25)
    log = karl_fast.read(LOG)
    wanted = less(shaping(log.rewards), log.domains, "mean")
    found = written(score="advantage", baseline_by="domain", shaping=shaping)
    assert sorted(one["score"] for one in found.values()) == pytest.approx(sorted(wanted[~np.isnan(wanted)]))


def test_rows_without_group_drop_without_domain_score_0(tmp_path: Path) -> None:
    records = [rows.record(n, "g", n / 8) | {"domain": "d"} for n in range(8)]
    for by in ("group", "domain"):
        rows.write(tmp_path / f"{by}.jsonl", [*records[:3], {**records[3], by: None}, *records[4:]])
    drawn = karl_fast.sample(tmp_path / "group.jsonl", None, k=4, score="advantage")
    assert drawn.manifest["accounting"]["dropped"] == {"missing_group": 1}
    assert drawn.manifest["target"]["baseline"] == {"kind": "mean", "by": "group"}
    for kind in ("mean", "partition"):
        found = written(tmp_path / "domain.jsonl", score="advantage", baseline=kind, baseline_by="domain")
        assert len(found) == 8
        assert found["r3"]["score"] == 0.0
        assert found["r2"]["score"] != 0.0


@pytest.mark.parametrize(
    ("choices", "why"),
    [
        ({"baseline": "partition"}, "baseline applies only to the score advantage, and score is raw"),
        ({"score": "zscore", "baseline_by": "domain"}, "baseline_by applies only to the score advantage"),
        ({"score": "advantage", "baseline": "partition"}, "at an inverse temperature above 0"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(choices: Any, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        karl_fast.sample(LOG, None, k=4, **choices)


def test_a_log_without_domains_is_refused(tmp_path: Path) -> None:
    rows.write(tmp_path / "log.jsonl", [rows.record(n, "g", n / 8) for n in range(8)])
    with pytest.raises(UsageError, match="baseline_by is domain, but no record has a domain"):
        karl_fast.sample(tmp_path / "log.jsonl", None, k=4, score="advantage", baseline_by="domain")
