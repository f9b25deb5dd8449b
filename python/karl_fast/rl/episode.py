"""Groups of rewarded rollouts from prompts: episodes of the policy with an environment, turn by turn.

```text
Collector     a group of rollouts for each prompt:  episodes --> EpisodeLoop --> rollouts --> RewardFunctions
EpisodeLoop   turn of the policy --> answer of the environment --> next turn ..., until each episode is finished
Episode       one rollout: its token ids as they were drawn, never rendered again, and the tokens of answers between
```

An environment may call the policy: an episode then waits for episodes that it called, which are generated with all
others, and goes on with the texts of their last turns. Its caches are not kept meanwhile: they would hold places of the
batch that the episodes which it waits for need.
"""

from __future__ import annotations

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.rl.environment import Guard, GuardedEnvironment
from karl_fast.rl.generate import PendingAnswer, TurnRequest, rollout_key
from karl_fast.rl.policy import is_step_policy
from karl_fast.rl.rewards import ENVIRONMENT
from karl_fast.rl.rollout import Prompt, Rollout, with_callees

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from karl_fast.rl.environment import Answer, Environment
    from karl_fast.rl.generate import Decoder, Turn
    from karl_fast.rl.policy import StepPolicy, TokenPolicy
    from karl_fast.rl.rewards import RewardFunctions
    from karl_fast.rl.rollout import FinishedRollouts
    from karl_fast.rl.steps import StepDecoder
    from karl_fast.rl.task_functions import TaskFunctions

    OnTokens = Callable[[int, int], None]

THREADS = 16
"""Environments that answer at a time, with `schedule = "overlap"`."""


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


BEGINNING = _hash("[]")
"""The state of a first turn that no environment opened."""


@dataclass(frozen=True)
class RolloutBudget:
    """Limits of a rollout.

    Attributes:
        tokens: that the policy generates in all turns together.
        turns: of the policy.
        context: tokens of the prompt, the turns and what answers them.
        turn_tokens: that the policy generates in one turn.
        depth: of the rollouts that it may call: 1 if it may call some, 2 if those may, too; 0 for no calls.
        children: rollouts that one may call.
    """

    tokens: int
    turns: int = 1
    context: int = 1 << 20
    turn_tokens: int = 1 << 20
    depth: int = 0
    children: int = 8


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
    """Draws groups of rollouts and rewards them.

    Attributes:
        decoder: of the policy that generates.
        reward_functions: compute the rewards.
        sampling: settings of the generation.
        make: an environment for each rollout; None for a single turn.
        task_functions: compute what is known of rollouts besides rewards; None for nothing.
    """

    decoder: Decoder | StepDecoder
    reward_functions: RewardFunctions
    sampling: Sampling
    make: Callable[[], Environment] | None = None
    task_functions: TaskFunctions | None = None

    @property
    def policy(self) -> TokenPolicy | StepPolicy:
        """Policy that generates the rollouts."""
        return self.decoder.policy

    def __call__(
        self,
        prompts: Sequence[Prompt],
        *,
        first: int,
        seed: int,
        version: int,
        on_rollouts: Callable[[list[Rollout]], None] = lambda _: None,
        on_tokens: OnTokens = lambda finished, tokens: None,
        finished: FinishedRollouts | None = None,
    ) -> tuple[list[Rollout], list[str]]:
        """Draw a group for each prompt.

        Args:
            prompts: the prompts; a repeated one has several groups.
            first: the number of the first group, unique in the run.
            seed: seed of the draws.
            version: number of steps that the policy has taken.
            on_rollouts: called with the rollouts, in their order, before they are rewarded.
            on_tokens: called after each position with the rollouts finished and the tokens generated so far.
            finished: record of rollouts. With `overlap` those in it are not drawn again; else a draw is read from it if
                it has all of them, for which rows are drawn together decides the last bits.

        Returns:
            The rollouts, group after group, each with those that it called, and the failures, in sentences.
        """
        size = self.sampling.group_size
        ids = [_rollout_id(group, member) for group in range(first, first + len(prompts)) for member in range(size)]
        known = finished.find(ids, version, whole=not self.sampling.overlap) if finished is not None else {}
        episodes = [
            episode for group, prompt in enumerate(prompts, first) for episode in self._group(prompt, group, known)
        ]
        by_id = known | self._generate(episodes, seed, version, finished, on_tokens)
        rollouts = [by_id[id] for id in ids]
        on_rollouts(rollouts)
        environments = [episode.environment for episode in episodes if episode.environment is not None]
        problems = dict.fromkeys(environment.failure for environment in environments)  # a caller has that of a callee
        failures = [str(failure) for failure in problems if failure is not None]
        groups, sentences = self.reward_functions(
            [rollouts[start : start + size] for start in range(0, len(rollouts), size)]
        )
        if self.task_functions is not None:
            groups, more = self.task_functions(self.policy, groups)
            sentences = sentences + more
        return [_drop_empty_reward(rollout) for group in groups for rollout in group], failures + sentences

    def _group(self, prompt: Prompt, group: int, finished: Mapping[str, Rollout]) -> Iterator[Episode]:
        """Begin the rollouts of a group that are not known."""
        tokens = self.policy.encode(prompt.messages) if self.make is None else None
        for member in range(self.sampling.group_size):
            if (id := _rollout_id(group, member)) in finished:
                continue
            episode = Episode(id, prompt, group, self.sampling.budget, self._make_environment(prompt))
            episode.begin(self.policy, tokens)
            yield episode

    def _make_environment(self, prompt: Prompt) -> GuardedEnvironment | None:
        if self.make is None:
            return None
        guard = Guard(f"the environment of prompt {prompt.id}", self.sampling.timeout_seconds)
        return GuardedEnvironment.create(self.make, guard)

    def _generate(
        self,
        episodes: list[Episode],
        seed: int,
        version: int,
        finished: FinishedRollouts | None,
        on_tokens: OnTokens,
    ) -> dict[str, Rollout]:
        """Generate the rollouts of some episodes, and record them: with `overlap` each as soon as it is finished."""
        rollouts: dict[str, Rollout] = {}

        def finish(finished_episodes: Sequence[Episode]) -> None:
            fresh = {episode.id: episode.rollout(version) for episode in finished_episodes}
            if finished is not None and fresh:
                finished.add([*fresh.values()])
            rollouts.update(fresh)

        overlap = self.sampling.overlap
        at_once = (lambda episode: finish([episode])) if overlap else lambda episode: None
        EpisodeLoop(self.policy, episodes, seed, at_once, on_tokens, self._make_environment).run(
            self.decoder, self.sampling.rows, overlap=overlap
        )
        finish([episode for episode in episodes if episode.caller is None and episode.id not in rollouts])
        return rollouts


def _rollout_id(group: int, member: int) -> str:
    """Return the id of a rollout."""
    return f"{group}-{member}"


def _drop_empty_reward(rollout: Rollout) -> Rollout:
    """Drop the reward of a rollout without a token of the policy."""
    if rollout.states:
        return rollout
    why = rollout.missing or "no tokens: the prompt leaves no room"
    return rollout.but(missing=why, reward=float("nan"), outcome=float("nan"))


@dataclass(frozen=True)
class EpisodeLoop:
    """Loop over episodes that are generated together.

    Attributes:
        policy: that generates.
        episodes: those that have begun; those that they call are appended.
        seed: seed of the draws.
        finish: called with each episode that is finished and that no other called.
        on_tokens: called after each position with the number of those and the tokens generated so far.
        make_environment: makes the environment of an episode that another called.
    """

    policy: TokenPolicy | StepPolicy
    episodes: list[Episode]
    seed: int
    finish: Callable[[Episode], None]
    on_tokens: OnTokens = lambda finished, tokens: None
    make_environment: Callable[[Prompt], GuardedEnvironment | None] = lambda _: None
    threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(THREADS), init=False)

    def run(self, decoder: Decoder | StepDecoder, rows: int, *, overlap: bool) -> None:
        """Run all episodes to their end, at most so many rows at a time.

        Args:
            decoder: decoder of the policy.
            rows: rollouts that are drawn at a time.
            overlap: True to let environments answer in threads while other rollouts go on.
        """
        roots = list(self.episodes)
        for number, episode in enumerate(roots):
            episode.number = number
        asks = [self._ask(episode) for episode in roots if episode.finish is None]
        tokens = 0

        def add_tokens(count: int) -> None:
            nonlocal tokens
            tokens += count
            self.on_tokens(sum(episode.finish is not None for episode in roots), tokens)

        try:
            decoder.draws(rows, overlap=overlap, on_tokens=add_tokens)(
                asks, self._answer_later if overlap else self._answer
            )
        finally:
            self.threads.shutdown(wait=False, cancel_futures=True)  # after Ctrl-C no answer is waited for

    def _ask(self, episode: Episode) -> TurnRequest:
        """Return the request for the next turn of an episode."""
        noise = rollout_key(self.seed, *map(int, episode.id.split("-")))
        return TurnRequest(
            episode.number, episode.tokens, episode.room, noise, episode.num_drawn, last=episode.last_turn
        )

    def _answer(self, ask: TurnRequest, turn: Turn) -> list[TurnRequest]:
        """Add a turn and the answer of the environment, which is waited for."""
        episode = self.episodes[ask.rollout]
        text = episode.add_turn(self.policy, turn)
        if episode.environment is None:
            return self._next(episode)
        return self._take(episode, episode.environment.answer(text))

    def _answer_later(self, ask: TurnRequest, turn: Turn) -> list[TurnRequest] | PendingAnswer:
        """Add a turn, and let the environment answer in a thread."""
        episode = self.episodes[ask.rollout]
        text = episode.add_turn(self.policy, turn)
        if episode.environment is None:
            return self._next(episode)
        work = self.threads.submit(episode.environment.answer, text)
        return PendingAnswer(work, lambda: self._take(episode, work.result()))

    def _take(self, episode: Episode, answer: Answer) -> list[TurnRequest]:
        """Take the answer of the environment to a turn, and return the requests that follow."""
        if not answer.calls:
            episode.add_answer(self.policy, answer.messages, answer.done)
            return self._next(episode)
        running = self._begin_callees(episode, answer)
        return [self._ask(callee) for callee in running] or self._end_calls(episode)

    def _begin_callees(self, episode: Episode, answer: Answer) -> list[Episode]:
        """Begin the episodes that another calls, and return those that have a turn."""
        for callee in episode.call(answer, self.make_environment):
            callee.begin(self.policy)
            callee.number = len(self.episodes)
            self.episodes.append(callee)
        return [callee for callee in episode.pending if callee is not None and callee.finish is None]

    def _end_calls(self, episode: Episode) -> list[TurnRequest]:
        """Give an episode the results of its calls, and return the requests that follow."""
        episode.add_results(self.policy)
        return self._next(episode)

    def _next(self, episode: Episode) -> list[TurnRequest]:
        """Return the request for the next turn; at its end, the requests that follow in the episode that called it."""
        if episode.finish is None:
            return [self._ask(episode)]
        caller = episode.caller
        if caller is None:
            self.finish(episode)
            return []
        running = any(callee is not None and callee.finish is None for callee in caller.pending)
        return [] if running else self._end_calls(caller)


@dataclass
class Episode:
    """A rollout that is being generated.

    Attributes:
        id, prompt, group: of the rollout.
        budget: its limits.
        environment: that answers; None for a single turn.
        opening: messages of the environment before the first turn.
        tokens: prompt, turns and answers so far.
        turns: turns of the policy, each with its start in the tokens.
        messages: messages after the opening.
        states: hash of the environment's answer before each turn.
        finish: why it is finished; None while it is not.
        caller: the episode that called it; None for a root.
        depth: number of episodes above it.
        fields: what its environment gets besides the fields of the prompt.
        callees: all episodes that it has called.
        pending: those of its last turn whose results it waits for; None for a call that was not made.
        text: of the last turn of the policy; empty before one.
        number: of the episode in its loop.
    """

    id: str
    prompt: Prompt
    group: int
    budget: RolloutBudget
    environment: GuardedEnvironment | None
    opening: list[dict[str, Any]] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    turns: list[tuple[int, Turn]] = field(default_factory=list)
    messages: list[Mapping[str, Any]] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    finish: str | None = None
    caller: Episode | None = None
    depth: int = 0
    fields: Mapping[str, Any] = field(default_factory=dict)
    callees: list[Episode] = field(default_factory=list)
    pending: list[Episode | None] = field(default_factory=list)
    text: str = ""
    number: int = 0
    _done: bool = False

    def begin(self, policy: TokenPolicy | StepPolicy, tokens: Sequence[int] | None = None) -> None:
        """Start the environment, and encode the prompt; `tokens` are that, if known."""
        if self.environment is not None:
            depth = {"depth": self.depth} if self.depth else {}
            line = {"id": self.prompt.id, **self.prompt.columns, **self.fields, "prompt": list(self.prompt.messages)}
            line |= depth
            self.opening = self.environment.begin(deepcopy(line))  # an environment may change what it is given
        self.tokens = list(self._encode(policy) if tokens is None else tokens)
        self.states.append(_state(self.opening))
        if self.environment is not None and self.environment.failure is not None:
            self.finish = "failed"
        elif self.room < 1:
            self.tokens, self.finish = self.tokens[: self.budget.context], "length"

    def _encode(self, policy: TokenPolicy | StepPolicy) -> Sequence[int]:
        """Return the tokens of the prompt and the first observation; without that if it cannot be rendered."""
        if self.environment is not None and self.opening:
            try:
                return policy.encode([*self.prompt.messages, *self.opening])
            except Exception as error:  # of a template
                self.environment.fail_template(error)
        return policy.encode(self.prompt.messages)

    @property
    def num_drawn(self) -> int:
        """Number of tokens that the policy has drawn."""
        return sum(len(turn.tokens) for _, turn in self.turns)

    @property
    def last_turn(self) -> bool:
        """True if no turn can follow the next one."""
        return self.environment is None or len(self.turns) + 1 >= self.budget.turns

    @property
    def room(self) -> int:
        """Number of tokens that the next turn may have."""
        return min(self.budget.tokens - self.num_drawn, self.budget.context - len(self.tokens), self.budget.turn_tokens)

    def add_turn(self, policy: TokenPolicy | StepPolicy, turn: Turn) -> str:
        """Add a turn of the policy, and return its text; without an environment it is the last."""
        self.turns.append((len(self.tokens), turn))
        tokens = turn.tokens.tolist()
        self.tokens += tokens
        self.text = policy.decode(tokens)
        self.messages.append({"role": "assistant", "content": self.text})
        if self.environment is None:
            self.finish = "stop" if turn.ended else "length"
        return self.text

    def add_answer(self, policy: TokenPolicy | StepPolicy, answer: list[dict[str, Any]], done: bool) -> None:
        """Add the answer of the environment to the last turn."""
        turn = self.turns[-1][1]
        self.messages += answer
        self.finish = self._finish_reason(turn, done)
        if self.finish is None:
            self._add_tokens(policy, answer, int(turn.tokens[-1]) if turn.ended else None)

    def call(self, answer: Answer, make: Callable[[Prompt], GuardedEnvironment | None]) -> list[Episode]:
        """Make the episodes that an answer calls, as far as there may be some; `make` makes their environments."""
        assert self.environment is not None
        if not self.budget.depth:
            self.environment.fail_calls()
        self._done = answer.done
        room = self.budget.children - len(self.callees) if self.depth < self.budget.depth else 0
        fresh = []
        for number, call in enumerate(answer.calls[: max(0, room)], len(self.callees) + 1):
            prompt = replace(self.prompt, messages=call.prompt, unprivileged=None)
            # Counted from 1: a last word of 0 would leave the key of the caller's noise as it is.
            callee = Episode(f"{self.id}-{number}", prompt, self.group, self.budget, make(prompt), caller=self)
            callee.depth, callee.fields = self.depth + 1, call.fields
            fresh.append(callee)
        self.callees += fresh
        self.pending = [*fresh, *[None] * (len(answer.calls) - len(fresh))]
        return fresh

    def add_results(self, policy: TokenPolicy | StepPolicy) -> None:
        """Add what the environment makes of the results of calls; the failure of one fails this episode, too."""
        environment = self.environment
        assert environment is not None
        results: list[str | None] = []
        for callee in self.pending:
            results.append(None if callee is None else callee.text)
            if callee is not None and callee.environment is not None:
                results[-1] = callee.environment.result(callee.text)
                environment.failure = environment.failure or callee.environment.failure
        messages = environment.join(results)
        self.pending = []
        self.add_answer(policy, messages, self._done)

    def _add_tokens(self, policy: TokenPolicy | StepPolicy, answer: list[dict[str, Any]], last: int | None) -> None:
        """Append the answer of the environment before the next turn; if no room is left, there is no next turn."""
        assert self.environment is not None
        assert not is_step_policy(policy)  # which has one turn: `check_kind`
        try:
            tokens = policy.answer(answer, last)
        except Exception as error:  # of a template
            self.environment.fail_template(error)
            self.finish = "failed"
            return
        if len(self.tokens) + len(tokens) >= self.budget.context:
            self.finish = "length"
            return
        self.tokens += tokens
        self.states.append(_state(answer))

    def _finish_reason(self, turn: Turn, done: bool) -> str | None:
        if self.environment is not None and self.environment.failure is not None:
            return "failed"
        if done:
            return "stop"
        if self.room < 1:
            return "length"
        return "turns" if len(self.turns) >= self.budget.turns else None

    def rollout(self, version: int) -> Rollout:
        """Return the finished rollout, with those that it called; one that was called has no reward of its own."""
        score = None if self.environment is None or self.caller is not None else self.environment.score()
        callees = with_callees([callee.rollout(version) for callee in self.callees])
        failure = None if self.environment is None else self.environment.failure
        turn_rewards = (0.0,) * len(self.turns) if self.environment is None else tuple(self.environment.turn_rewards)
        turns = [turn for _, turn in self.turns]
        return Rollout(
            id=self.id,
            prompt=self.prompt,
            group=self.group,
            tokens=np.array(self.tokens, dtype=np.int32),
            spans=tuple((first + start, first + end) for first, turn in self.turns for start, end in turn.spans),
            messages=(*self.opening, *self.messages),
            states=tuple(chain.from_iterable(map(_turn_states, turns, self.states))),
            turn_rewards=tuple(chain.from_iterable(map(_span_rewards, turns, turn_rewards))),
            finish=self.finish or "failed",
            version=version,
            components={} if score is None else {ENVIRONMENT: score},
            missing=f"{ENVIRONMENT}: {failure.kind}" if failure is not None else None,
            logp=_concatenate([turn.logp for turn in turns]),
            entropy=_concatenate([turn.entropy for turn in turns]),
            width=turns[0].width if turns else 0,
            parent=None if self.caller is None else self.caller.id,
            callees=tuple(callee.but(callees=()) for callee in callees),
        )


def _turn_states(turn: Turn, first: str) -> tuple[str, ...]:
    return turn.states(first)


def _span_rewards(turn: Turn, reward: float) -> tuple[float, ...]:
    """Return the reward of each span of a turn: that of the turn is of its last."""
    return (*(0.0,) * (len(turn.spans) - 1), reward)


def _concatenate(turns: list[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Concatenate as a copy: arrays of a turn are rows of larger ones."""
    return np.concatenate([*turns, np.zeros(0, np.float32)])


def _state(messages: list[Any]) -> str:
    return _hash(json.dumps(messages, sort_keys=True, default=str)) if messages else BEGINNING
