"""The reward engine against its plain twin, from a dict and from JSON; and what a store holds after a backfill."""

from __future__ import annotations

import fcntl
import json
import math
import threading
import time
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from karl_fast import errors, reward
from tests.properties.karl_records import record
from tests.properties.naive import reward as naive

if TYPE_CHECKING:
    from pathlib import Path

VERSIONS: list[Any] = ["v1", "v2"]
RAISED = (TypeError, AttributeError, ArithmeticError, ValueError)
SEEDS = st.integers(0, 2**32)


def found_by(call: Any, *given: Any) -> str:
    """The result to the last bit, or the class of what was raised."""
    try:
        return repr(call(*given))
    except RAISED as error:
        return type(error).__name__


def signal_of(call: Any, *given: Any) -> Any:
    """A score and its components, or the class of what was raised."""
    try:
        return call(*given)
    except RAISED as error:
        return type(error).__name__


def a_rounding_away(signal: Any) -> Any:
    """What equals a signal but for four units in the last place: log2 is rounded otherwise elsewhere."""
    if isinstance(signal, str):
        return signal
    score, components = signal
    return pytest.approx(score, rel=4 * 2**-52, abs=0, nan_ok=True), components


def made(seed: int, junk: float) -> Any:
    return record(Random(seed), junk)


@pytest.mark.parametrize("version", VERSIONS)
@given(seed=SEEDS, junk=st.sampled_from([0.0, 0.02, 0.1, 0.5]))
def test_a_reward_is_its_twin_or_raises_alike(version: Any, seed: int, junk: float) -> None:
    given = made(seed, junk)
    wanted = found_by(naive.reward, given, version)
    assert found_by(lambda: reward.compute_reward(given, version=version)) == wanted
    raw = json.dumps(given).encode()
    assert found_by(lambda: reward.compute_reward(raw, version=version)) == wanted


@given(seed=SEEDS)
def test_versions_are_told_apart(seed: int) -> None:
    given = made(seed, 0.0)
    first, second = (reward.compute_reward(given, version=version) for version in VERSIONS)
    assert len(first) == 5
    assert len(second) == 8
    assert first["outcome_score"] == second["outcome_score"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_log_has_nan_where_a_line_raises(version: Any) -> None:
    records = [made(seed, junk) for junk in (0.0, 0.02, 0.3) for seed in range(200)]
    lines = "\n\n".join(json.dumps(one) for one in records).encode() + b'\n{"outcome": \n'
    found = reward.compute_rewards(lines, version=version)
    wanted = [found_by(lambda one=one: naive.reward(one, version)["reward_score"]) for one in records]
    assert [("nan" if math.isnan(score) else repr(score)) for score in found.tolist()] == [
        "nan" if score.endswith("Error") else score for score in [*wanted, "SyntaxError"]
    ]
    assert np.isnan(found).any()
    assert not np.isnan(found).all()


@pytest.mark.parametrize(
    "raw",
    [
        b'{"outcome": {"redo_detected": false, "redo_detected": true}}',
        b'{"trajectory": {"total_tools": 4, "tool_counts": {"Read": 9, "Edit": 2, "Read": 2}, "total_tools": 5}}',
        b'{"trajectory": {"total_tools": 3, "tool_counts": {"Re\\u0061d": 1, "\\u0045dit": 1}}}',
        b'{"trajectory": {"total_tools": 3, "tool_counts": {"Read": 1}, "tool_c\\u006funts": {"Edit": 3}}}',
        b'{"trajectory": {"tool_calls": [{"tool": "Read\\ud800", "success": false}, {"tool": "x"}]}}',
        b'{"timing": {"duration_s": 1e999}, "trajectory": {"total_tools": -0, "tool_count": 1E2}}',
        b' {"trajectory" : {"total_tools" : 1.0 , "events" : [ ] } , "timing" : null } ',
    ],
)
@pytest.mark.parametrize("version", VERSIONS)
def test_json_is_read_as_python_reads_it(raw: bytes, version: Any) -> None:
    wanted = found_by(naive.reward, json.loads(raw), version)
    assert found_by(lambda: reward.compute_reward(raw, version=version)) == wanted


@pytest.mark.parametrize(
    "raw", [b"", b"{", b'{"outcome": {}', b'{"outcome": {]}', b'{"trajectory": {"total_tools": 01}}']
)
def test_what_is_not_json_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match="not JSON"):
        reward.compute_reward(raw)


@pytest.mark.parametrize("version", VERSIONS)
@given(seed=SEEDS, junk=st.sampled_from([0.0, 0.3]))
def test_signals_alone_are_their_twins(version: Any, seed: int, junk: float) -> None:
    given = made(seed, junk)
    outcome, trajectory, timing = (given.get(key) for key in ("outcome", "trajectory", "timing"))
    assert found_by(reward._compute_outcome, outcome) == found_by(naive.outcome, outcome)
    ours = found_by(lambda: reward._compute_process(trajectory, version=version))
    assert ours == found_by(naive.process, trajectory, version)
    ours = signal_of(lambda: reward._compute_efficiency(trajectory, timing, version=version))
    assert ours == a_rounding_away(signal_of(naive.efficiency, trajectory, timing, version))


def test_the_longest_run_of_failures_is_the_twins() -> None:
    events = [{"success": flag} for flag in (False, False, None, False, False, False, 0, False)]
    assert reward._max_consecutive_failures(events) == naive.longest(events) == 3
    assert reward._max_consecutive_failures([]) == 0


def test_an_advantage_is_divided_by_deviation_or_beta() -> None:
    assert reward.compute_advantage({}, 0.75) == 0.25
    assert reward.compute_advantage({}, 0.75, 0.25, beta=2.0) == 0.25
    assert reward.compute_advantage({}, 0.75, 0.25, domain_std=0.25) == 2.0
    assert reward.compute_advantage({}, 0.75, 0.25, domain_std=0.01) == 0.5


def test_weights_come_from_the_environment_in_v1_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    given = made(3, 0.0)
    before = reward.compute_reward(given, version="v2")
    monkeypatch.setenv("KARL_REWARD_W_OUTCOME", "0.9")
    monkeypatch.setenv("KARL_REWARD_W_PROCESS", "0.1")
    monkeypatch.setenv("KARL_REWARD_W_EFFICIENCY", "0")
    assert reward.compute_reward(given) == naive.reward(given, "v1", (0.9, 0.1, 0.0))
    assert reward.compute_reward(given, version="v2") == before
    monkeypatch.setenv("KARL_REWARD_W_PROCESS", "much")
    with pytest.raises(errors.UsageError, match="KARL_REWARD_W_PROCESS is 'much'"):
        reward.compute_reward(given)


def test_another_version_is_refused() -> None:
    with pytest.raises(errors.ArgumentError, match='version is "v3"'):
        reward.compute_reward({}, version="v3")  # type: ignore[arg-type]


def stored(seed: int, **fields: Any) -> dict[str, Any]:
    return {"id": f"é{seed}", **fields, **made(seed, 0.0)}


def backfilled(lines: list[str], version: str) -> tuple[list[str], dict[str, float]]:
    """The lines after a backfill, by the plain way."""
    rewards: dict[str, list[float]] = {}
    for line in lines:
        if line.startswith("{") and (score := json.loads(line)["outcome"].get("reward_score")) is not None:
            rewards.setdefault(domain(json.loads(line), version), []).append(score)
    whole = [score for scores in rewards.values() for score in scores]
    mean = sum(whole) / len(whole)
    means, scales = {}, {}
    for name, scores in rewards.items():
        own = sum(scores) / len(scores)
        means[name] = own if version == "v1" else (len(scores) * own + 10 * mean) / (len(scores) + 10)
        some, centre = (scores, own) if len(scores) >= 5 else (whole, mean)
        scales[name] = max((sum((score - centre) ** 2 for score in some) / len(some)) ** 0.5, 0.02)
    return [annotated(line, version, means, scales) for line in lines], means


def domain(given: dict[str, Any], version: str) -> str:
    return (given if version == "v2" else given.get("skill", {})).get("domain") or "_global"


def annotated(line: str, version: str, means: dict[str, float], scales: dict[str, float]) -> str:
    if not line.startswith("{") or "reward_score" in json.loads(line)["outcome"]:
        return line
    given = json.loads(line)
    scores = naive.reward(given, version)
    name = domain(given, version)
    scale = scales.get(name, 1.0) if version == "v2" else 1.0
    order = {"reward_score": 0, "reward_components": 0, **{key: 0 for key in scores if key.endswith("_score")}}
    given["outcome"].update(
        {key: scores["components" if key == "reward_components" else key] for key in order},
        advantage=round((scores["reward_score"] - means.get(name, 0.5)) / scale, 4),
        annotation_status="scored",
    )
    return json.dumps(given)


def log(version: str) -> list[str]:
    lines = ["not json", ""]
    for seed in range(40):
        name = ["coding", "ops", "écrire", None][seed % 4]
        given = stored(seed, domain=name, skill={"domain": name} if version == "v1" else "skill")
        if seed % 3 == 0:
            given["outcome"] = {"reward_score": (seed * 37 % 101) / 101}
        lines.append(json.dumps(given, ensure_ascii=seed % 2 == 0, separators=(",", ":")))
    return lines


@pytest.mark.parametrize("version", VERSIONS)
def test_a_backfill_writes_what_the_plain_way_writes(version: Any, tmp_path: Path) -> None:
    store, lines = tmp_path / "t.jsonl", log(version)
    store.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    store.chmod(0o640)
    report = reward.backfill_rewards(path=store, version=version)
    wanted, means = backfilled(lines, version)
    assert store.read_text("utf-8").splitlines() == wanted
    assert report["domain_baselines"] == pytest.approx(means, rel=1e-14)
    assert list(report["domain_baselines"]) == list(means)
    assert [report[key] for key in ("total", "scored", "skipped", "errors")] == [42, 26, 14, 2]
    assert store.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [store]
    before = store.read_bytes()
    again = reward.backfill_rewards(path=store, version=version)
    assert (again["scored"], again["skipped"], store.read_bytes()) == (0, 40, before)
    assert reward.backfill_rewards(True, path=store, version=version)["scored"] == 40


def test_the_default_store_is_the_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reward, "STORE_PATH", tmp_path / "none.jsonl")
    assert reward.backfill_rewards() == {"total": 0, "scored": 0, "skipped": 0, "errors": 0}
    assert reward.get_reward_stats() == {}
    (tmp_path / "none.jsonl").write_text("{}\n")
    assert reward.backfill_rewards()["scored"] == 1
    assert reward.get_reward_stats()["scored"] == 1


def test_the_environment_names_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    from karl_fast.reward.karl_store import store_path

    for name in ("KARL_STORE_PATH", "KARL_DATA_DIR", "KARL_DIR"):
        monkeypatch.delenv(name, raising=False)
    assert str(store_path()) == "data/trajectories.jsonl"
    monkeypatch.setenv("KARL_DIR", "/k")
    assert str(store_path()) == "/k/data/trajectories.jsonl"
    monkeypatch.setenv("KARL_DATA_DIR", "/d")
    assert str(store_path()) == "/d/trajectories.jsonl"
    monkeypatch.setenv("KARL_STORE_PATH", "/s.jsonl")
    assert str(store_path()) == "/s.jsonl"
    monkeypatch.setenv("KARL_STORE_PATH", "~no-such-user/s.jsonl")
    assert str(store_path()) == "~no-such-user/s.jsonl"


def test_a_waiting_writer_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from karl_fast.reward import karl_store

    store = tmp_path / "t.jsonl"
    store.write_text("".join(f"{json.dumps(stored(seed))}\n" for seed in range(3)))
    waiting = threading.Event()

    def tap() -> None:
        with store.open("a") as file:
            waiting.set()
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write('{"id": "late"}\n')

    writer = threading.Thread(target=tap)
    measure = karl_store.measure_baselines

    def slow(*given: Any) -> Any:
        writer.start()
        assert waiting.wait(10)
        time.sleep(0.05)
        return measure(*given)

    monkeypatch.setattr(karl_store, "measure_baselines", slow)
    assert reward.backfill_rewards(path=store)["scored"] == 3
    writer.join()
    assert store.read_text().splitlines()[-1] == '{"id": "late"}'
    assert len(store.read_text().splitlines()) == 4


def test_a_backfill_that_fails_leaves_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from karl_fast.reward import karl_store

    store = tmp_path / "t.jsonl"
    store.write_text(json.dumps(stored(1)) + "\n")
    before = store.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(karl_store.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        reward.backfill_rewards(path=store)
    assert store.read_bytes() == before
    assert list(tmp_path.iterdir()) == [store]


def test_an_invalid_stored_reward_is_ignored(tmp_path: Path) -> None:
    store = tmp_path / "t.jsonl"
    odd: list[Any] = ["0.5", [1], float("nan"), float("inf"), 10**400, 0.25]
    records: list[Any] = [{"skill": {"domain": "a"}, "outcome": {"reward_score": value}} for value in odd]
    records += [[1], {"skill": None}, {"skill": {"domain": [1]}}, {"outcome": None}]
    store.write_text("".join(f"{json.dumps(one)}\n" for one in records))
    report = reward.backfill_rewards(path=store)
    assert report == {"total": 10, "scored": 0, "skipped": 6, "errors": 4, "domain_baselines": {"a": 0.25}}
    assert reward.get_reward_stats(store)["scored"] == 1


def test_statistics_are_by_channel_and_by_domain(tmp_path: Path) -> None:
    store = tmp_path / "t.jsonl"
    rows = [("a", "x", 0.25), ("a", None, 0.5), (None, "x", 1.0)]
    records = [
        {**({"channel": channel} if channel else {}), "skill": {"domain": name}, "outcome": {"reward_score": score}}
        for channel, name, score in rows
    ]
    store.write_text("".join(f"{json.dumps(one)}\n" for one in records))
    assert reward.get_reward_stats(store) == {
        "scored": 3,
        "mean": 0.5833,
        "min": 0.25,
        "max": 1.0,
        "by_channel": {"a": {"count": 2, "mean": 0.375}, "unknown": {"count": 1, "mean": 1.0}},
        "by_domain": {"x": {"count": 2, "mean": 0.625}, "_global": {"count": 1, "mean": 0.5}},
    }
    store.write_text("{}\n")
    assert reward.get_reward_stats(store) == {"scored": 0}
