"""Rollouts that a round learns from: the choice of prompts, and the replay of earlier groups.

Prompts are chosen by the seed, the round and the statistics of prompts:

| order | chooses |
|---|---|
| shuffle | every prompt once, in a new order each pass |
| pass-rate | those with a mean outcome nearest to a half; unseen ones count as a half |
| paced | the same, by PACED's regression intercept, ``t`` times ``mean(r / t - (logp - logp_old))`` |
| | unseen ones by a head that learns this intercept from the prompt, where the recipe has one |
| stages | shuffled, from the levels of the current stage (`karl_fast.curriculum.EASY_TO_HARD`) |

Groups of earlier rounds are replayed by their priority:

| priority | takes |
|---|---|
| age | groups at random, log weight ``-rate * age`` |
| accuracy-error | the largest ``abs(mean outcome - estimate)``, with the curriculum's estimate before the draw |

Replayed rollouts have the ``version`` of the round that drew them, so that an objective sees their age. The behaviour
policy of their tokens is the one that drew them: `Rollout.logp` takes the place of the recomputed ``logp_old``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast import target
from karl_fast.curriculum import EASY_TO_HARD, nearest_rate
from karl_fast.errors import UsageError
from karl_fast.filter import differ
from karl_fast.replay import ExponentialDecay, Window, age_distribution, largest
from karl_fast.sampling.draw import draw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from karl_fast.curriculum import Schedule
    from karl_fast.rl.rollout import Prompt, Rollout
    from karl_fast.rl.settings import Online, Replay

TARGET_RATE = 0.5
"""The pass rate that teaches most (PACED, section 4; p (1 - p) is largest there)."""

PACED_TEMPERATURE = 0.05
"""beta of PACED (arXiv:2602.12642)."""

CANDIDATES = 8
"""Unseen prompts that are estimated for each one to choose: an estimate is a forward pass over the prompt."""


@dataclass
class Curriculum:
    """Order of prompts, and statistics of each.

    Attributes:
        prompts: all of them.
        order: one of the table above.
        seed: of all shuffles.
        positions: number of prompts chosen in order so far, by level.
        rates: mean outcome of each prompt's rollouts, by its number.
        head: estimates of the mean outcome of prompts by a learned log Z; None where there is none.
        guesses: estimates of unseen prompts in this round, by number.
        chosen: numbers of the prompts chosen in this round.
    """

    prompts: Sequence[Prompt]
    order: str
    seed: int
    per_round: int
    stage_field: str = "difficulty"
    schedule: Schedule = EASY_TO_HARD
    positions: dict[str, int] = field(default_factory=dict)
    rates: dict[int, float] = field(default_factory=dict)
    head: Callable[[Sequence[Prompt]], NDArray[np.float64]] | None = None
    guesses: dict[int, float] = field(default_factory=dict)
    chosen: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.order == "stages":
            levels = {level for stage in self.schedule.stages for level in stage.levels}
            for prompt in self.prompts:
                if prompt.columns.get(self.stage_field) not in levels:
                    level = prompt.columns.get(self.stage_field)
                    expected = ", ".join(sorted(levels))
                    raise UsageError(f"prompt {prompt.id} has the {self.stage_field} {level!r}, wanted {expected}")

    def choose(self, count: int, round: int, draw_number: int = 0) -> list[Prompt]:
        """Choose the prompts of a draw.

        Args:
            count: number of prompts.
            round: the round, from 0.
            also: the number of the draw in its round.
        """
        if self.order in ("shuffle", "stages"):
            return self._in_order(count, *self._level(round))
        return self._nearest(count, round, draw_number)

    def _level(self, round: int) -> tuple[str, list[Prompt]]:
        if self.order == "shuffle":
            return "", list(self.prompts)
        epoch = max(1, round_up(len(self.prompts), self.per_round))
        last = self.schedule.steps(epoch) - 1
        stage = self.schedule.stage_at(min(round, last), epoch_steps=epoch)
        prompts = [prompt for prompt in self.prompts if prompt.columns[self.stage_field] in stage.levels]
        return " ".join(stage.levels), prompts or list(self.prompts)

    def _in_order(self, count: int, level: str, prompts: list[Prompt]) -> list[Prompt]:
        start = self.positions.get(level, 0)
        self.positions[level] = start + count
        return [prompts[self._place(start + place, len(prompts), level)] for place in range(count)]

    def _place(self, place: int, size: int, level: str) -> int:
        return int(_shuffle(size, self.seed, place // size, *level.encode())[place % size])

    def _nearest(self, count: int, round: int, draw_number: int) -> list[Prompt]:
        """Choose the nearest prompts; ties are shuffled, so that unseen prompts are not in the order of the file."""
        if draw_number == 0:
            self.guesses, self.chosen = {}, set()
        shuffled = np.random.default_rng([self.seed, round, draw_number]).permutation(len(self.prompts))
        pool = self._pool([self.prompts[place] for place in shuffled], count)
        rates = np.array([self.estimate(prompt) for prompt in pool])
        nearest = [pool[place] for place in nearest_rate(rates, min(count, len(rates)), target=TARGET_RATE)]
        self.chosen |= {prompt.number for prompt in nearest}
        return [nearest[place % len(nearest)] for place in range(count)]

    def _pool(self, shuffled: list[Prompt], count: int) -> list[Prompt]:
        """Return the prompts to choose from: all, or with a head those seen and some unseen ones, which it estimates.

        The mean error of the head on seen prompts is subtracted from its guesses: before it has learned, unseen prompts
        then count as the mean of the others, and not as its arbitrary initial value.
        """
        seen = [prompt for prompt in shuffled if prompt.number in self.rates]
        unseen = [prompt for prompt in shuffled if prompt.number not in self.rates.keys() | self.chosen]
        unseen = unseen[: CANDIDATES * count]
        if self.head is None or not seen or not unseen:
            return shuffled
        probes = seen[:count]
        values = self.head([*probes, *unseen])
        error = float(np.mean(values[: len(probes)] - [self.rates[prompt.number] for prompt in probes]))
        guesses = values[len(probes) :] - error
        self.guesses |= {prompt.number: float(guess) for prompt, guess in zip(unseen, guesses, strict=True)}
        return [*seen, *unseen]

    def estimate(self, prompt: Prompt) -> float:
        """Return the estimated mean outcome of a prompt, from 0 to 1."""
        unseen = self.guesses.get(prompt.number, TARGET_RATE)
        return min(1.0, max(0.0, self.rates.get(prompt.number, unseen)))

    def learn(self, rollouts: Sequence[Rollout], drifts: NDArray[np.float64]) -> None:
        """Update the statistics with the rollouts of a round.

        Args:
            rollouts: with outcomes.
            drifts: the sum of ``logp - logp_old`` over each. [B]
        """
        members: dict[int, list[int]] = {}
        for row, rollout in enumerate(rollouts):
            if not np.isnan(rollout.outcome):
                members.setdefault(rollout.prompt.number, []).append(row)
        for number, rows in members.items():
            outcomes = np.array([rollouts[row].outcome for row in rows])
            if self.order == "paced":
                intercept = target.regression_intercept(
                    outcomes, drifts[rows], np.zeros(len(rows), dtype=np.int64), temperature=PACED_TEMPERATURE
                )
                self.rates[number] = PACED_TEMPERATURE * float(np.ravel(intercept)[0])
            else:
                self.rates[number] = float(outcomes.mean())

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {"asked": self.positions, "rates": {str(number): rate for number, rate in sorted(self.rates.items())}}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the result of `state`."""
        self.positions = dict(state["asked"])
        self.rates = {int(number): rate for number, rate in state["rates"].items()}


@lru_cache(maxsize=2)
def _shuffle(size: int, *words: int) -> NDArray[np.int64]:
    """Return the order of a draw, usually from one pass, sometimes from two."""
    return np.random.default_rng(words).permutation(size)


def round_up(number: int, by: int) -> int:
    """Return `number` divided by `by`, rounded up."""
    return -(-number // by)


def build_curriculum(
    settings: Online, prompts: Sequence[Prompt], head: Callable[[Sequence[Prompt]], NDArray[np.float64]] | None = None
) -> Curriculum:
    """Make the curriculum of a run; `head` estimates the mean outcome of prompts."""
    return Curriculum(
        prompts,
        settings.curriculum,
        settings.training.seed,
        settings.prompts_per_round,
        settings.stage_field,
        head=head,
    )


@dataclass
class ReplayBuffer:
    """Groups of earlier rounds.

    Attributes:
        settings: how many are replayed, and how old they may be.
        groups: the oldest first.
        errors: accuracy error of each group.
    """

    settings: Replay
    groups: dict[int, list[Rollout]] = field(default_factory=dict)
    errors: dict[int, float] = field(default_factory=dict)

    def add(self, rollouts: Iterable[Rollout], estimate: Callable[[Prompt], float]) -> None:
        """Keep the groups with different rewards, which have a gradient.

        `estimate` is that of the mean outcome of a prompt before its rollouts were drawn.
        """
        if not self.settings.groups:
            return
        fresh: dict[int, list[Rollout]] = {}
        for rollout in rollouts:
            fresh.setdefault(rollout.group, []).append(rollout)
        for group, members in fresh.items():
            if _have_different_rewards(members):
                self.groups[group] = members
                self.errors[group] = _accuracy_error(members, estimate(members[0].prompt))
        for group in list(self.groups)[: -self.settings.capacity]:
            self._drop(group)

    def _drop(self, group: int) -> None:
        del self.groups[group], self.errors[group]

    def draw(self, version: int, seed: int) -> tuple[list[Rollout], dict[str, float]]:
        """Choose some groups by their priority, each at most once, and return the statistics of ages."""
        self._drop_old(version)
        if not self.groups or not self.settings.groups:
            return [], {}
        ages = np.array([version - members[0].version for members in self.groups.values()], dtype=np.int64)
        weights = ExponentialDecay(self.settings.rate)(ages) + Window(self.settings.max_age)(ages)
        count = min(self.settings.groups, len(ages))
        if self.settings.priority == "age":
            places = draw(weights, count, seed=seed)
        else:
            places = largest(np.array([self.errors[group] for group in self.groups]), count)
        ages_report = age_distribution(ages, weights)
        members = list(self.groups.values())
        report = {
            "replay_groups": float(len(places)),
            "replay_age": ages_report.mean_age,
            "replay_ess": ages_report.ess,
        }
        return [rollout for place in sorted(places) for rollout in members[int(place)]], report

    def _drop_old(self, version: int) -> None:
        for group, members in list(self.groups.items()):
            if version - members[0].version > self.settings.max_age:
                self._drop(group)


def _accuracy_error(members: Sequence[Rollout], estimate: float) -> float:
    """Return the accuracy error of a group, 0 without an outcome."""
    outcomes = [rollout.outcome for rollout in members if not np.isnan(rollout.outcome)]
    return abs(float(np.mean(outcomes)) - estimate) if outcomes else 0.0


def _have_different_rewards(members: Sequence[Rollout]) -> bool:
    rewards = [rollout.reward for rollout in members if not np.isnan(rollout.reward)]
    return len(rewards) > 1 and differ(min(rewards), max(rewards))
