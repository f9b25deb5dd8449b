"""Baselines of domains and skill weights against their plain twins; merged, stored and read."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from karl_fast import errors, reward
from tests.properties.naive import composite as naive

if TYPE_CHECKING:
    from pathlib import Path

ROWS = st.lists(st.tuples(st.floats(-3, 3) | st.just(math.nan), st.sampled_from(["a", "b", "c", None])), max_size=30)
ALL: list[Any] = [
    reward.FixedBaseline(0.25),
    reward.MeanBaseline(),
    reward.EmaBaseline(alpha=0.25),
    reward.ShrunkBaseline(strength=3.0, min_count=2),
    reward.PartitionBaseline(inverse_temperature=2.0),
]


def columns(rows: Any) -> tuple[Any, list[str | None]]:
    return np.array([value for value, _ in rows], dtype=np.float64), [domain for _, domain in rows]


def plain(kind: str, own: list[float], whole: list[float]) -> tuple[float, float]:
    """Baseline and scale of a domain with those rewards, among all."""
    if kind == "shrunk" and whole:
        counted = own if len(own) >= 2 else whole
        return naive.shrunk(own, whole, 3.0), max(naive.deviation(counted), 0.02)
    if kind == "fixed":
        return 0.25, 1.0
    if not own:
        return 0.5, 1.0
    if kind == "mean":
        return naive.mean(own), 1.0
    return (naive.running(own, 0.25, 0.5) if kind == "ema" else naive.partition(own, 2.0)), 1.0


@pytest.mark.parametrize("baseline", ALL, ids=lambda one: one.kind)
@given(rows=ROWS)
def test_a_baseline_is_its_twin(baseline: Any, rows: Any) -> None:
    rewards, domains = columns(rows)
    filled = baseline.update(rewards, domains)
    present = [(value, domain) for value, domain in rows if domain is not None and not math.isnan(value)]
    whole = [value for value, _ in present]
    advantages = filled.advantages(rewards, domains)
    for domain in "abc":
        own = [value for value, name in present if name == domain]
        wanted, scale = plain(baseline.kind, own, whole)
        assert filled.of(domain) == pytest.approx(wanted, rel=1e-12, abs=1e-12)
        assert filled.scale(domain) == pytest.approx(scale, rel=1e-9, abs=1e-9)
        for at in [at for at, name in enumerate(domains) if name == domain and not math.isnan(rewards[at])]:
            assert advantages[at] == pytest.approx((rewards[at] - wanted) / scale, rel=1e-7, abs=1e-7)
    assert all(math.isnan(advantages[at]) for at, name in enumerate(domains) if name is None)
    assert baseline.of("a") == (0.25 if baseline.kind == "fixed" else 0.5)  # It did not change.


@pytest.mark.parametrize("baseline", [one for one in ALL if one.kind not in ("fixed", "ema")], ids=lambda one: one.kind)
@given(rows=ROWS, cut=st.integers(0, 30))
def test_parts_that_are_merged_are_the_whole(baseline: Any, rows: Any, cut: int) -> None:
    whole = baseline.update(*columns(rows))
    parts = baseline.update(*columns(rows[:cut])).merge(baseline.update(*columns(rows[cut:])))
    for domain in "abc":
        # Sums are exact; a sum of exponentials is so only to the last bits.
        assert parts.of(domain) == pytest.approx(whole.of(domain), rel=1e-14 if baseline.kind == "partition" else 0)
        assert parts.scale(domain) == whole.scale(domain)


@given(rows=ROWS, cut=st.integers(0, 30))
def test_a_running_mean_goes_on_where_it_was(rows: Any, cut: int) -> None:
    ema = reward.EmaBaseline()
    assert ema.update(*columns(rows[:cut])).update(*columns(rows[cut:])).means == ema.update(*columns(rows)).means


def test_baselines_that_differ_are_not_merged() -> None:
    for one, other in ((ALL[1], ALL[3]), (ALL[4], reward.PartitionBaseline(inverse_temperature=1.0))):
        with pytest.raises(errors.ArgumentError, match="of the same settings"):
            one.merge(other)


@pytest.mark.parametrize("baseline", [*ALL, reward.SkillWeights({"x": 0.75})], ids=lambda one: type(one).__name__)
def test_what_is_stored_is_read(baseline: Any, tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    filled = baseline.update(np.array([0.1, 0.2, 0.9]), ["a", "b", "a"])
    reward.save(filled, path)
    read: Any = reward.load(path)
    assert type(read) is type(filled)
    if isinstance(baseline, reward.SkillWeights):
        assert read == filled
    else:
        assert [read.of(name) for name in "abz"] == [filled.of(name) for name in "abz"]
    assert list(tmp_path.iterdir()) == [path]
    assert json.loads(path.read_text())["schema"] == 1


def stored(tmp_path: Path, **changes: Any) -> Path:
    path = tmp_path / "b.json"
    reward.save(reward.MeanBaseline().update(np.array([0.1]), ["a"]), path)
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return path


@pytest.mark.parametrize(
    "changes",
    [
        {"schema": 2}, {"format": "pickle"}, {"kind": "median"}, {"more": 1}, {"start": "0.5"}, {"start": None},
        {"states": {"a": "AAAA"}}, {"states": {"a": "?"}}, {"states": []}, {"kind": "ema"},
    ],
)  # fmt: skip
def test_another_file_is_refused(changes: Any, tmp_path: Path) -> None:
    with pytest.raises(errors.LogError, match="no baselines that this version can read"):
        reward.load(stored(tmp_path, **changes))


def test_damage_and_absence_are_refused(tmp_path: Path) -> None:
    path = stored(tmp_path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(errors.LogError):
        reward.load(path)
    with pytest.raises(errors.FileError):
        reward.load(tmp_path / "none.json")
    with pytest.raises(errors.FileError):
        reward.save(reward.MeanBaseline(), tmp_path / "none" / "b.json")


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from karl_fast.reward import baselines

    path = stored(tmp_path)
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(baselines.os, "fsync", full)
    with pytest.raises(errors.FileError, match="No space"):
        reward.save(reward.FixedBaseline(0.0), path)
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (before, [path])


@pytest.mark.parametrize("kind", [reward.MeanBaseline, reward.EmaBaseline, reward.SkillWeights, reward.FixedBaseline])
def test_rewards_that_are_none_are_refused(kind: Any) -> None:
    for rewards, domains in (
        (np.array([math.inf]), ["a"]),
        (np.array([1.0]), ["a", "b"]),
        (np.array([1]), ["a"]),
        ([1.0], ["a"]),
    ):
        with pytest.raises(errors.ArgumentError):
            kind().update(rewards, domains)
    for wrong in (
        lambda: reward.ShrunkBaseline(strength=-1.0),
        lambda: reward.PartitionBaseline(inverse_temperature=0.0),
        lambda: reward.SkillWeights(alpha=2.0),
        lambda: reward.SkillWeights(low=1.0, high=0.5),
    ):
        with pytest.raises(errors.ArgumentError):
            wrong()


def test_skill_weights_move_as_karls_do() -> None:
    # By hand: target .5 + .75 = 1.25, then .9 * 1 + .1 * 1.25; and one at its bound.
    before = reward.SkillWeights({"debug": 1.0, "ship": 1.5})
    after = before.update(np.array([0.5, 1.0, np.nan, 5.0, 0.0]), ["debug", "debug", "debug", "ship", None])
    assert after.weights == {"debug": 1.0 * (1 - 0.1) + 1.25 * 0.1, "ship": 1.5}
    assert before.weights["debug"] == 1.0
    assert before.update(np.array([0.0]), ["new"]).weights["new"] == 1.0 * (1 - 0.1) + 0.5 * 0.1


def test_what_others_wrote_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    for text in ("notes", "[]", '{"format": "other"}'):
        path.write_text(text)
        with pytest.raises(errors.OutputForeignError, match="something else than baselines"):
            reward.save(reward.FixedBaseline(0.0), path)
        assert path.read_text() == text
    path.unlink()
    path.symlink_to("theirs")
    with pytest.raises(errors.OutputForeignError, match="not a regular file"):
        reward.save(reward.FixedBaseline(0.0), path)
    assert path.is_symlink()
