"""Held-out prompts: attempts at them during a run, the curve of their measures, and the best adapter by it.

```text
OUT/held_out.jsonl      a line an evaluation: round, step, and each measure with its interval over prompts
OUT/best/               the adapter with the largest mean reward on the held-out prompts
```

Seeds of the attempts are functions of (seed, chunk of prompts), and the global generators of Python and NumPy are
restored: a run with held-out prompts has the rollouts and weights of one without. (No run draws from MLX's generator,
which each thread has its own of.)
"""

from __future__ import annotations

import contextlib
import json
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast import _atomic
from karl_fast.modeling.checkpoint import ADAPTERS, CONFIG
from karl_fast.modeling.parameters import flatten_tree, write_tensors
from karl_fast.resampling import Attempts, measure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from karl_fast.rl.episode import Collector, OnTokens
    from karl_fast.rl.rollout import Prompt, Rollout

FILE, BEST = "held_out.jsonl", "best"

PURPOSE = 0x68656C64  # "held" in ASCII
"""Number in the seeds of held-out attempts that no round has, so that they differ from those of training."""

RESAMPLES = 1999
"""Of the bootstrap of each point of the curve."""


def prompt_chunks(collector: Collector, prompts: Sequence[Prompt]) -> list[Sequence[Prompt]]:
    """Return the prompts in the chunks that are drawn together, a function of the settings alone."""
    size = max(1, collector.sampling.rows // collector.sampling.group_size)
    return [prompts[start : start + size] for start in range(0, len(prompts), size)]


def attempts(
    collector: Collector,
    prompts: Sequence[Prompt],
    *,
    seed: int,
    version: int = 0,
    done: int = 0,
    on_tokens: OnTokens = lambda finished, tokens: None,
) -> Iterator[tuple[list[Rollout], list[str]]]:
    """Yield the rollouts and failures of each chunk of prompts, except for the first ones that are done.

    `on_tokens` is called within a chunk with its rollouts finished and tokens generated so far.
    """
    first = 0
    for number, chunk in enumerate(prompt_chunks(collector, prompts)):
        if number >= done:
            stream = np.random.SeedSequence([seed, PURPOSE, number]).generate_state(1, np.uint64)
            yield collector(chunk, first=first, seed=int(stream[0]), version=version, on_tokens=on_tokens)
        first += len(chunk)


def attempt_columns(rollouts: Sequence[Rollout]) -> Attempts:
    """Return rollouts, prompt after prompt, as columns; their rewards are the outcomes."""
    by_prompt: dict[str, list[Rollout]] = {}
    for rollout in rollouts:
        by_prompt.setdefault(rollout.prompt.id, []).append(rollout)
    ordered = [rollout for group in by_prompt.values() for rollout in group]
    return Attempts(
        tuple(by_prompt),
        np.cumsum([0, *map(len, by_prompt.values())], dtype=np.int64),
        np.array([rollout.outcome for rollout in ordered], dtype=np.float64),
        np.array([rollout.length for rollout in ordered], dtype=np.int64),
        np.array([_distinct(group) for group in by_prompt.values()], dtype=np.int64),
    )


def _distinct(group: Sequence[Rollout]) -> int:
    return len({rollout.answer.tobytes() for rollout in group if not np.isnan(rollout.outcome)})


@contextlib.contextmanager
def keep_generators() -> Iterator[None]:
    """Restore the global generators of Python and NumPy, which a reward function or an environment may use."""
    python, numpy = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


@dataclass
class HeldOut:
    """Held-out prompts of a run, and their curve.

    Attributes:
        collector: draws the attempts.
        prompts: held-out prompts that fit.
        every: rounds from one evaluation to the next.
        patience: evaluations without a better one after which the run ends; None for no end.
        seed: of the run.
        identity: what the curve depends on besides the weights; a curve of another identity is not continued.
        curve: evaluations so far, each a line of held_out.jsonl.
    """

    collector: Collector
    prompts: list[Prompt]
    every: int
    patience: int | None
    seed: int
    identity: str
    curve: list[dict[str, Any]] = field(default_factory=list)

    @property
    def best(self) -> dict[str, Any] | None:
        """Evaluation with the largest mean reward, the first of equal ones; None before one with a reward."""
        return max((line for line in self.curve if "reward" in line), key=lambda line: line["reward"], default=None)

    @property
    def stopped(self) -> bool:
        """True if patience ran out."""
        best = self.best
        if self.patience is None or best is None:
            return False
        return len(self.curve) - 1 - self.curve.index(best) >= self.patience

    def due(self, round: int, *, last: bool) -> bool:
        """Return whether the weights after so many rounds are still to be evaluated."""
        return (last or round % self.every == 0) and all(line["round"] != round for line in self.curve)

    def evaluate(self, round: int, step: int) -> tuple[dict[str, Any], list[str]]:
        """Attempt all prompts with the present weights; return the new line of the curve, and failures."""
        rollouts: list[Rollout] = []
        failures: list[str] = []
        with keep_generators():
            for chunk, problems in attempts(self.collector, self.prompts, seed=self.seed, version=step):
                rollouts += chunk
                failures += problems
        table = attempt_columns(rollouts)
        line: dict[str, Any] = {"round": round, "step": step, "prompts": len(table.prompts), "attempts": len(rollouts)}
        line["missing"] = int(np.isnan(table.rewards).sum())
        for name, value in measure(table.columns(), resamples=RESAMPLES).items():
            line |= {name: value.value, f"{name}.low": value.low, f"{name}.high": value.high}
        self.curve.append(line)
        return line, failures

    def state(self) -> dict[str, Any]:
        """Return the curve, for a checkpoint."""
        return {"identity": self.identity, "curve": self.curve}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue the curve of a checkpoint, if it is of the same prompts and attempts."""
        if state.get("identity") == self.identity:
            self.curve = list(state["curve"])

    def write(self, out: Path) -> None:
        """Write the curve into the folder of the run."""
        text = "".join(json.dumps(line, sort_keys=True) + "\n" for line in self.curve)
        _atomic.write_file(out / FILE, lambda file: file.write(text.encode()))


def keep_best(folder: Path, model: Any, config: dict[str, Any]) -> None:
    """Write the present weights as the best adapter of a run."""
    with _atomic.name_file_errors(folder):
        folder.mkdir(exist_ok=True)
    text = json.dumps(config, indent=2, sort_keys=True) + "\n"
    _atomic.write_file(folder / CONFIG, lambda file: file.write(text.encode()))
    _atomic.write_file(folder / ADAPTERS, lambda file: write_tensors(flatten_tree(model.trainable_parameters()), file))
