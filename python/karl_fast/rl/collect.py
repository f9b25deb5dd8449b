"""Collection of rewarded groups of rollouts from prompts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from karl_fast.rl.environment import Stage
from karl_fast.rl.episode import Budget, Talk
from karl_fast.rl.generate import go_on
from karl_fast.rl.timeouts import Guard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from karl_fast.rl.environment import Environment
    from karl_fast.rl.kv_cache import Heard
    from karl_fast.rl.next_token import Decoder
    from karl_fast.rl.policy import Policy
    from karl_fast.rl.rewards import Jury
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
        jury: says what the rollouts are worth.
        sampling: how they are drawn.
        make: an environment for each rollout; None for a single turn.
    """

    decoder: Decoder
    jury: Jury
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
        talks = [talk for group, prompt in enumerate(prompts, first) for talk in self._group(prompt, group)]
        self._speak(talks, seed)
        rollouts = [talk.rollout(version) for talk in talks]
        drawn(rollouts)
        size = self.sampling.group_size
        said = [failure for talk in talks if talk.stage is not None for failure in _failure(talk.stage)]
        groups, sentences = self.jury([rollouts[start : start + size] for start in range(0, len(rollouts), size)])
        return [_speechless(rollout) for group in groups for rollout in group], said + sentences

    def _group(self, prompt: Prompt, group: int) -> Iterator[Talk]:
        tokens = self.policy.encode(prompt.messages) if self.make is None else None
        for member in range(self.sampling.group_size):
            stage = None
            if self.make is not None:
                guard = Guard(f"the environment of prompt {prompt.id}", self.sampling.timeout_seconds)
                stage = Stage.made(self.make, guard)
            talk = Talk(f"{group}-{member}", prompt, group, self.sampling.budget, stage)
            talk.begin(self.policy, tokens)
            yield talk

    def _speak(self, talks: list[Talk], seed: int) -> None:
        number = 0
        heard: dict[str, Heard | None] = {}
        while live := [talk for talk in talks if talk.finish is None]:
            stream = np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)
            said = go_on(
                self.decoder,
                [talk.tokens for talk in live],
                [talk.room for talk in live],
                [heard.get(talk.id) for talk in live],
                keep=self.make is not None and len(live) <= self.sampling.rows,
                rows=self.sampling.rows,
                seed=int(stream[0]),
            )
            for talk, (turn, _) in zip(live, said, strict=True):
                talk.hear(self.policy, turn)
            heard = {talk.id: one for talk, (_, one) in zip(live, said, strict=True) if talk.finish is None}
            number += 1


def _failure(stage: Stage) -> list[str]:
    return [] if stage.failure is None else [str(stage.failure)]


def _speechless(rollout: Rollout) -> Rollout:
    """Drop the reward of a rollout without a token of the policy."""
    if rollout.states:
        return rollout
    why = rollout.missing or "no tokens: the prompt leaves no room"
    return rollout.but(missing=why, reward=float("nan"), outcome=float("nan"))
