"""Collection of rewarded groups of rollouts from prompts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from karl_fast.rl.environment import GuardedEnvironment
from karl_fast.rl.episode import Episode, RolloutBudget
from karl_fast.rl.episode_loop import EpisodeLoop
from karl_fast.rl.timeouts import Guard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from karl_fast.rl.environment import Environment
    from karl_fast.rl.finished_rollouts import FinishedRollouts
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
        rows: rollouts that are drawn at a time.
        timeout_seconds: limit of each call of an environment.
        overlap: True to let environments answer while other rollouts go on.
    """

    group_size: int = 8
    budget: RolloutBudget = field(default_factory=lambda: RolloutBudget(128))
    rows: int = 256
    timeout_seconds: float = 60.0
    overlap: bool = False


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
        finished: FinishedRollouts | None = None,
    ) -> tuple[list[Rollout], list[str]]:
        """Draw a group for each prompt.

        Args:
            prompts: the prompts; a repeated one has several groups.
            first: the number of the first group, unique in the run.
            seed: seed of the draws.
            version: number of steps that the policy has taken.
            drawn: called with the rollouts, in their order, before they are rewarded.
            finished: record of rollouts. With `overlap` those in it are not drawn again; else a draw is read from it if
                it has all of them, for which rows are drawn together decides the last bits.

        Returns:
            The rollouts, group after group, and the failures, in sentences.
        """
        size = self.sampling.group_size
        ids = [_rollout_id(group, member) for group in range(first, first + len(prompts)) for member in range(size)]
        known = finished.known(ids, version, whole=not self.sampling.overlap) if finished is not None else {}
        episodes = [one for group, prompt in enumerate(prompts, first) for one in self._group(prompt, group, known)]
        found = known | self._drawn(episodes, seed, version, finished)
        rollouts = [found[id] for id in ids]
        drawn(rollouts)
        environments = [episode.environment for episode in episodes if episode.environment is not None]
        said = [str(environment.failure) for environment in environments if environment.failure is not None]
        groups, sentences = self.reward_functions(
            [rollouts[start : start + size] for start in range(0, len(rollouts), size)]
        )
        return [_drop_empty_reward(rollout) for group in groups for rollout in group], said + sentences

    def _group(self, prompt: Prompt, group: int, known: Mapping[str, Rollout]) -> Iterator[Episode]:
        """Begin the rollouts of a group that are not known."""
        tokens = self.policy.encode(prompt.messages) if self.make is None else None
        for member in range(self.sampling.group_size):
            if (id := _rollout_id(group, member)) in known:
                continue
            environment = None
            if self.make is not None:
                guard = Guard(f"the environment of prompt {prompt.id}", self.sampling.timeout_seconds)
                environment = GuardedEnvironment.made(self.make, guard)
            episode = Episode(id, prompt, group, self.sampling.budget, environment)
            episode.begin(self.policy, tokens)
            yield episode

    def _drawn(
        self, episodes: list[Episode], seed: int, version: int, finished: FinishedRollouts | None
    ) -> dict[str, Rollout]:
        """Generate the rollouts of some episodes, and record them: with `overlap` each as soon as it is finished."""
        found: dict[str, Rollout] = {}

        def finish(some: Sequence[Episode]) -> None:
            fresh = {episode.id: episode.rollout(version) for episode in some}
            if finished is not None and fresh:
                finished.add([*fresh.values()])
            found.update(fresh)

        overlap = self.sampling.overlap
        at_once = (lambda episode: finish([episode])) if overlap else lambda episode: None
        EpisodeLoop(self.policy, episodes, seed, at_once).run(self.decoder, self.sampling.rows, overlap=overlap)
        finish([episode for episode in episodes if episode.id not in found])
        return found


def _rollout_id(group: int, member: int) -> str:
    """Return the id of a rollout."""
    return f"{group}-{member}"


def _drop_empty_reward(rollout: Rollout) -> Rollout:
    """Drop the reward of a rollout without a token of the policy."""
    if rollout.states:
        return rollout
    why = rollout.missing or "no tokens: the prompt leaves no room"
    return rollout.but(missing=why, reward=float("nan"), outcome=float("nan"))
