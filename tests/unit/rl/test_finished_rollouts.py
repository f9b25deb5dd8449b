"""Rollouts that are finished when a run ends are read when it goes on, and not drawn again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from karl_fast.rl import rl
from karl_fast.rl.episode import Collector, RolloutBudget, Sampling
from karl_fast.rl.generate import Decoder, Generation
from karl_fast.rl.learner import Preparer
from karl_fast.rl.rewards import RewardFunctions
from karl_fast.rl.rollout import FINISHED_FILE, FinishedRollouts, RolloutLog, read_groups, rollout_line
from karl_fast.rl.settings import read_prompts
from tests.unit.rl.test_run import left

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from types import ModuleType

    from karl_fast.rl.rollout import Rollout
    from karl_fast.rl.settings import Online


class StopError(Exception):
    """A run that ends in the middle of a round."""


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Number of contexts of each call of the generation."""
    counts, call = list[int](), Generation.__call__

    def counted(self: Generation, asks: Sequence[Any], answer: Any) -> None:
        counts.append(len(asks))
        call(self, asks, answer)

    monkeypatch.setattr(Generation, "__call__", counted)
    return counts


def stop(settings: Online, monkeypatch: pytest.MonkeyPatch, round: int) -> None:
    """Make a run that ends after the rollouts of a round, counted from 1."""
    calls, prepare = list[int](), Preparer.__call__

    def until(self: Preparer, *arguments: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) == round:
            raise StopError
        return prepare(self, *arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Preparer, "__call__", until)
        with pytest.raises(StopError):
            rl(settings)


@pytest.mark.parametrize(("round", "again"), [(1, [0, 16, 16, 16]), (4, [0, 0])])
def test_whole_draws_are_read_with_same_bytes(
    online: Callable[..., Online],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    drawn: list[int],
    round: int,
    again: list[int],
) -> None:
    rl(online(out=str(tmp_path / "whole")))
    stop(online(), monkeypatch, round)
    drawn.clear()
    rl(online(), resume=True)
    assert drawn == again
    assert left(tmp_path / "out") == left(tmp_path / "whole")
    assert not (tmp_path / "out" / FINISHED_FILE).exists()


def test_rollouts_of_other_settings_are_ignored(
    online: Callable[..., Online], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drawn: list[int]
) -> None:
    stop(online(temperature=0.5), monkeypatch, 1)
    drawn.clear()
    rl(online(rounds=1), force=True)
    assert drawn == [16]


class Again:
    """An environment that listens twice."""

    def reset(self, prompt: Any) -> None:
        self.turns = 0

    def step(self, text: str) -> tuple[str, bool]:
        self.turns += 1
        return "1 2", self.turns > 1

    def score(self) -> float:
        return 0.25


def test_with_overlap_each_finished_rollout_is_read(
    tmp_path: Path, reversal: ModuleType, monkeypatch: pytest.MonkeyPatch, drawn: list[int]
) -> None:
    reversal.write_prompts(tmp_path / "prompts.jsonl", length=2)
    prompts, rewards = read_prompts(tmp_path / "prompts.jsonl")[:4], RewardFunctions((), environment=1.0)
    sampling = Sampling(4, budget=RolloutBudget(6, turns=2, turn_tokens=3), overlap=True)
    collector = Collector(Decoder(reversal.policy(0), 1.0), rewards, sampling, Again)
    how = {"first": 8, "seed": 3, "version": 5}
    path, by_id = tmp_path / FINISHED_FILE, {one.id: one for one in prompts}
    record = FinishedRollouts(path, {"of": 1}, by_id)
    wanted, _ = collector(prompts, finished=record, **how)  # type: ignore[arg-type]
    record.finish()
    cut = path.read_bytes().splitlines(keepends=True)
    assert len(cut) == 17
    path.write_bytes(b"".join(cut[:12]) + cut[12][:-30])  # eleven whole rollouts, and a part of one
    record = FinishedRollouts(path, {"of": 1}, by_id)
    found, _ = collector(prompts, finished=record, **how)  # type: ignore[arg-type]
    assert drawn == [16, 5]
    assert [*map(same, found)] == [*map(same, wanted)]
    kept = [one for one in found if one.id in record.rollouts]
    by_rollout = {one.id: one for one in wanted}
    assert len(kept) == 11
    assert all((one.logp == by_rollout[one.id].logp).all() for one in kept)
    assert all((one.entropy == by_rollout[one.id].entropy).all() for one in kept)
    record.finish()
    assert len(path.read_bytes().splitlines()) == 17
    other = FinishedRollouts(path, {"of": 2}, by_id)
    assert not other.rollouts
    other.finish()
    assert not path.exists()


def same(rollout: Rollout) -> tuple[Any, ...]:
    """Return what the path of a rollout through batches does not change."""
    assert np.isfinite(rollout.logp).all()
    tokens = (rollout.tokens.tolist(), rollout.spans, rollout.messages, rollout.states, rollout.turn_rewards)
    return (rollout.id, *tokens, rollout.finish, rollout.reward, rollout.components)


def test_half_surrogate_round_trips_as_escape(tmp_path: Path, reversal: ModuleType) -> None:
    reversal.write_prompts(tmp_path / "prompts.jsonl", length=2)
    prompts = read_prompts(tmp_path / "prompts.jsonl")[:1]
    sampling, rewards = Sampling(2, budget=RolloutBudget(3)), RewardFunctions((), environment=1.0)
    drawn, _ = Collector(Decoder(reversal.policy(0), 1.0), rewards, sampling)(prompts, first=0, seed=3, version=0)
    texts = ["a \ud800 \\ud83d \U0001f600", "\udfff\\"]
    said = [one.but(messages=({"role": "assistant", "content": text},)) for one, text in zip(drawn, texts, strict=True)]
    by_id = {one.id: one for one in prompts}
    record = FinishedRollouts(tmp_path / FINISHED_FILE, {}, by_id)
    record.add(said)
    record.finish()
    journal = RolloutLog(tmp_path / "rollouts.jsonl", 0)
    journal.write(rollout_line(one, 0)(one.logp, learned=True) for one in said)
    journal.finish()
    again = FinishedRollouts(tmp_path / FINISHED_FILE, {}, by_id)
    assert [again.rollouts[one.id].messages for one in said] == [one.messages for one in said]
    assert [one.messages for one in read_groups(journal.path, [0], by_id)[0]] == [one.messages for one in said]
    again.finish()
    assert "?" not in (tmp_path / FINISHED_FILE).read_text("utf-8") + journal.path.read_text("utf-8")
