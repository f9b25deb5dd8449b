"""Attempts of one policy at held-out prompts, written to a log as they are made.

Apart from `rollouts` because it needs MLX, which promotions by rewards do without.
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING

import mlx.core as mx

from karl_fast import _atomic
from karl_fast._safe_text import counted
from karl_fast._user_code import working_folder
from karl_fast.errors import UsageError
from karl_fast.modeling.memory import cache_bytes
from karl_fast.rl import held_out, memory
from karl_fast.rl.episode import Collector
from karl_fast.rl.policy import is_step_policy
from karl_fast.rl.rollout import RolloutLog, parse_trees, rollout_line, with_callees
from karl_fast.rl.setup import (
    build_attempt_decoder,
    build_environment,
    build_reward_functions,
    build_sampling,
    build_step_forward,
    load_evaluated_policy,
    prompt_length,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from karl_fast.rl.policy import StepPolicy, TokenPolicy
    from karl_fast.rl.rollout import Prompt, Rollout
    from karl_fast.rl.settings import Online


class PolicyAttempts:
    """Attempts of one policy at prompts: ``number`` at each, from a seed, into a log."""

    def __init__(
        self,
        settings: Online,
        adapter: str | None,
        prompts: list[Prompt],
        log: Path,
        *,
        number: int,
        temperature: float,
        seed: int,
        on_remark: Callable[[str], object] | None = None,
    ) -> None:
        self.settings, self.log, self.number, self.seed = settings, log, number, seed
        make, reward_functions = (
            build_environment(settings, working_folder()),
            build_reward_functions(settings, working_folder()),
        )
        self.policy: TokenPolicy | StepPolicy = load_evaluated_policy(settings, adapter, on_remark)
        lengths = [prompt_length(self.policy, prompt) for prompt in prompts]
        pairs = zip(prompts, lengths, strict=True)
        self.prompts = [prompt for prompt, length in pairs if length < settings.max_context]
        self.too_long = len(prompts) - len(self.prompts)
        if not self.prompts:
            shortest = f"the shortest prompt has {counted(min(lengths), 'token')}: no room for an answer"
            raise UsageError(f"max_context is {settings.max_context}, and {shortest}", "max_context")
        decoder = build_attempt_decoder(settings, self.policy, temperature)
        sampling = replace(build_sampling(settings), group_size=number)
        self.collector = Collector(decoder, reward_functions, sampling, make)
        self.chunks = held_out.prompt_chunks(self.collector, self.prompts)
        self._check_memory(max(length for length in lengths if length < settings.max_context))

    def _check_memory(self, longest: int) -> None:
        """Raise if the attempts at the largest chunk of prompts need more memory than there is."""
        settings = self.settings
        groups = max(map(len, self.chunks))
        sizes = memory.Sizes.of_run(settings, longest, self.policy)
        sizes = replace(sizes, group_size=self.number, groups=groups)
        if is_step_policy(self.policy):
            forward = build_step_forward(settings, self.policy)
            need = memory.estimate_steps(forward, settings, {}).check_generation(sizes, settings)
        else:
            need = memory.estimate_round(self.policy, settings, {}).check_generation(sizes, settings)
        mx.set_cache_limit(cache_bytes(settings.training, need.total))

    def attempt(
        self,
        progress: Callable[[str, int, int, list[str]], None] | None,
        on_tokens: Callable[[int, int, int], object] | None = None,
    ) -> list[Rollout]:
        """Make the attempts that are left, and return all of them from the log."""
        collector, chunks = self.collector, self.chunks
        ends = [sum(map(len, chunks[:number])) for number in range(len(chunks) + 1)]
        done, size = _complete(self.log, [end * self.number for end in ends])
        journal = RolloutLog(self.log, size)
        if progress is not None and done < len(chunks):
            progress(self.log.name, ends[done], len(self.prompts), [])
        try:
            chunk = done

            def report(finished: int, tokens: int) -> None:
                if on_tokens is not None:
                    on_tokens(finished, self.number * len(chunks[chunk]), tokens)

            missing_chunks = held_out.attempts(collector, self.prompts, seed=self.seed, done=done, on_tokens=report)
            for chunk, (rollouts, failures) in enumerate(missing_chunks, done + 1):
                journal.write(
                    rollout_line(rollout, 0)(rollout.logp, learned=False) for rollout in with_callees(rollouts)
                )
                if progress is not None:
                    progress(self.log.name, ends[chunk], len(self.prompts), failures)
        finally:
            journal.finish()
        by_id = {prompt.id: prompt for prompt in self.prompts}
        with self.log.open(encoding="utf-8") as lines:
            return list(parse_trees(lines, by_id))


def _complete(log: Path, ends: list[int]) -> tuple[int, int]:
    """Return the number of complete chunks in a log, and their bytes; ``ends`` are the attempts after each chunk."""
    if not log.is_file():
        return 0, 0
    with _atomic.name_file_errors(log):
        lines = log.read_bytes().splitlines(keepends=True)
    places = [0]  # in the file, after each attempt: those that it called are in front of it
    for line, end in zip(lines, accumulate(map(len, lines)), strict=True):
        if line.endswith(b"\n") and json.loads(line).get("parent") is None:
            places.append(end)
    done = max(number for number, end in enumerate(ends) if end < len(places))
    return done, places[ends[done]]
