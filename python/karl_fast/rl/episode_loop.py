"""Loop of episodes: a turn of the policy, the answer of the environment, and so on until each is finished."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from karl_fast.rl.generate import Generation
from karl_fast.rl.turn import Ask, PendingAnswer, rollout_key

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from karl_fast.rl.episode import Episode
    from karl_fast.rl.next_token import Decoder
    from karl_fast.rl.policy import Policy
    from karl_fast.rl.turn import Turn

THREADS = 16
"""Environments that answer at a time, with `schedule = "overlap"`."""


@dataclass(frozen=True)
class EpisodeLoop:
    """Loop over episodes that are generated together.

    Attributes:
        policy: that speaks.
        episodes: those that have begun.
        seed: seed of the draws.
        finish: called with each episode that is finished.
    """

    policy: Policy
    episodes: Sequence[Episode]
    seed: int
    finish: Callable[[Episode], None]
    threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(THREADS), init=False)

    def run(self, decoder: Decoder, rows: int, *, overlap: bool) -> None:
        """Run all episodes to their end, at most so many rows at a time.

        Args:
            decoder: decoder of the policy.
            rows: rollouts that are drawn at a time.
            overlap: True to let environments answer in threads while other rollouts go on.
        """
        asks = [self._ask(number) for number, episode in enumerate(self.episodes) if episode.finish is None]
        try:
            Generation(decoder, rows, overlap=overlap)(asks, self._answer_later if overlap else self._answer)
        finally:
            self.threads.shutdown(wait=False, cancel_futures=True)  # after Ctrl-C no answer is waited for

    def _ask(self, number: int) -> Ask:
        """Return the request for the next turn of an episode."""
        episode = self.episodes[number]
        noise = rollout_key(self.seed, *map(int, episode.id.split("-")))
        return Ask(number, episode.tokens, episode.room, noise, episode.drawn, last=episode.last_turn)

    def _next(self, number: int) -> Ask | None:
        """Return the request for the next turn; finish an episode that has none."""
        if self.episodes[number].finish is None:
            return self._ask(number)
        self.finish(self.episodes[number])
        return None

    def _answer(self, asked: Ask, turn: Turn) -> Ask | None:
        """Add a turn and the answer of the environment, which is waited for."""
        self.episodes[asked.rollout].hear(self.policy, turn)
        return self._next(asked.rollout)

    def _answer_later(self, asked: Ask, turn: Turn) -> Ask | PendingAnswer | None:
        """Add a turn, and let the environment answer in a thread."""
        episode = self.episodes[asked.rollout]
        text = episode.say(self.policy, turn)
        if episode.environment is None:
            return self._next(asked.rollout)
        work = self.threads.submit(episode.environment.answer, text)

        def then() -> Ask | None:
            episode.answered(self.policy, *work.result())
            return self._next(asked.rollout)

        return PendingAnswer(work, then)
