"""Collection of rewarded groups of rollouts from prompts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from karl_fast.rl.environment import Stage
from karl_fast.rl.episode import Budget, Episode
from karl_fast.rl.generate import go_on
from karl_fast.rl.timeouts import Guard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from karl_fast.rl.environment import Environment
    from karl_fast.rl.kv_cache import CachedPrefix
    from karl_fast.rl.next_token import Decoder
    from karl_fast.rl.policy import Policy
    from karl_fast.rl.rewards import RewardFunctions
    from karl_fast.rl.rollout import Prompt, Rollout


@dataclass(frozen=True)
class Sampling:
    """Settings of the generation of rollouts.

    Attributes:
        group_size: G, rollouts a prompt.
        budget: limits of a rollout.
        rows: rollouts that are drawn at a time; caches are kept from turn to turn for at most as many.
        timeout_seconds: limit of each call of an environment.
    """

    group_size: int = 8
    budget: Budget = field(default_factory=lambda: Budget(128))
    rows: int = 256
    timeout_seconds: float = 60.0


@dataclass(frozen=True)
class Collector:
    """Collector that draws groups and rewards them.

    Attributes:
        decoder: of the policy who speaks.
        reward_functions: says what the rollouts are worth.
        sampling: how they are drawn.
        make: an environment for each rollout; None for a single turn.
    """

    decoder: Decoder
    reward_functions: RewardFunctions
    sampling: Sampling
    make: Callable[[], Environment] | None = None

    @property
    def policy(self) -> Policy:
        """Policy that generates the rollouts."""
        return self.decoder.policy

    def __call__(
        self,
        prompts: Sequence[Prompt],
        *,
        first: int,
        seed: int,
        version: int,
        drawn: Callable[[list[Rollout]], None] = lambda _: None,
    ) -> tuple[list[Rollout], list[str]]:
        """Draw a group for each prompt.

        Args:
            prompts: the prompts; a repeated one has several groups.
            first: the number of the first group, unique in the run.
            seed: seed of the draws.
            version: number of steps that the policy has taken.
            drawn: called with the rollouts, in their order, before they are rewarded.

        Returns:
            The rollouts, group after group, and the failures, in sentences.
        """
        episodes = [episode for group, prompt in enumerate(prompts, first) for episode in self._group(prompt, group)]
        self._speak(episodes, seed)
        rollouts = [episode.rollout(version) for episode in episodes]
        drawn(rollouts)
        size = self.sampling.group_size
        said = [failure for episode in episodes if episode.stage is not None for failure in _failure(episode.stage)]
        groups, sentences = self.reward_functions(
            [rollouts[start : start + size] for start in range(0, len(rollouts), size)]
        )
        return [_speechless(rollout) for group in groups for rollout in group], said + sentences

    def _group(self, prompt: Prompt, group: int) -> Iterator[Episode]:
        tokens = self.policy.encode(prompt.messages) if self.make is None else None
        for member in range(self.sampling.group_size):
            stage = None
            if self.make is not None:
                guard = Guard(f"the environment of prompt {prompt.id}", self.sampling.timeout_seconds)
                stage = Stage.made(self.make, guard)
            episode = Episode(f"{group}-{member}", prompt, group, self.sampling.budget, stage)
            episode.begin(self.policy, tokens)
            yield episode

    def _speak(self, episodes: list[Episode], seed: int) -> None:
        number = 0
        heard: dict[str, CachedPrefix | None] = {}
        while live := [episode for episode in episodes if episode.finish is None]:
            stream = np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)
            said = go_on(
                self.decoder,
                [episode.tokens for episode in live],
                [episode.room for episode in live],
                [heard.get(episode.id) for episode in live],
                keep=self.make is not None and len(live) <= self.sampling.rows,
                rows=self.sampling.rows,
                seed=int(stream[0]),
            )
            for episode, (turn, _) in zip(live, said, strict=True):
                episode.hear(self.policy, turn)
            heard = {episode.id: one for episode, (_, one) in zip(live, said, strict=True) if episode.finish is None}
            number += 1


def _failure(stage: Stage) -> list[str]:
    return [] if stage.failure is None else [str(stage.failure)]


def _speechless(rollout: Rollout) -> Rollout:
    """Drop the reward of a rollout without a token of the policy."""
    if rollout.states:
        return rollout
    why = rollout.missing or "no tokens: the prompt leaves no room"
    return rollout.but(missing=why, reward=float("nan"), outcome=float("nan"))
