"""A student that learns from the rollouts of a teacher which sees more than it: pedagogical reinforcement learning.

```text
teacher (the policy of the run):  teacher_prompt  answer      drawn; learns from R G, by the recipe of the run
student (another policy):         prompt          answer      G: how learnable the answer is for it; learns it by a gate
```

G is 1 for an answer that the student would write itself, and falls with its largest surprise, so that the policy learns
to answer in steps that the student can follow (`karl_fast.rl.student.Student.reward`). The student sees the prompt in
the place of the `teacher_prompt`: neither its passes nor the messages in the log of rollouts have what is in that
alone. The field `ids` of the log has the tokens of the teacher, its prompt among them.

Reference: noahziems.com/pedagogical-rl; rl-experiments @879294c, `pedagogy_sandbox`. There the student learns from
fresh rollouts, here from those that the teacher learned from: a round draws once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten, tree_unflatten

from karl_fast import _atomic, _core
from karl_fast.errors import CheckpointError, UsageError
from karl_fast.modeling.adapters import check_fit, load_tensors
from karl_fast.modeling.parameters import flatten_tree
from karl_fast.rl.held_out import keep_best
from karl_fast.rl.learner import check_finite
from karl_fast.rl.rollout import pack
from karl_fast.rl.teacher import COLUMN, teacher_messages
from karl_fast.train.settings import BETA

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from karl_fast.rl.learner import PolicyLearner
    from karl_fast.rl.policy import TokenPolicy
    from karl_fast.rl.rollout import Prompt, Rollout

FOLDER = "student"
"""Folder of the student's adapter in that of a run."""


class Student:
    """A policy that learns from the rollouts of another one, behind prompts of its own."""

    def __init__(
        self, learner: PolicyLearner, config: dict[str, Any], *, reward: str, penalty: float, micro_batch: int
    ) -> None:
        """Take a learner of the student's objective.

        Args:
            learner: of the student.
            config: configuration of its adapter.
            reward: ``learnability`` for R G, ``surprisal`` for R less a penalty on its mean surprisal (TeacherRL).
            penalty: lambda of either.
            micro_batch: rollouts in a pass.
        """
        self.learner, self.config = learner, config
        self._reward, self.penalty, self.micro_batch = reward, penalty, micro_batch
        self._prompts: dict[int, list[int]] = {}

    @property
    def policy(self) -> TokenPolicy:
        """Policy that is taught."""
        return self.learner.forward.policy

    def shown(self, rollout: Rollout) -> Rollout:
        """Return a rollout behind the prompt of the student."""
        first = rollout.spans[0][0]
        opening = list(rollout.messages[: _first_turn(rollout)])
        prompt = self._prompt_tokens(rollout.prompt, opening)
        tokens = np.concatenate([np.array(prompt, dtype=np.int32), rollout.tokens[first:]])
        shift = len(prompt) - first
        return rollout.but(tokens=tokens, spans=tuple((start + shift, end + shift) for start, end in rollout.spans))

    def _prompt_tokens(self, prompt: Prompt, opening: Sequence[Mapping[str, Any]]) -> list[int]:
        if opening:
            return self.policy.encode([*prompt.logged, *opening])
        if prompt.number not in self._prompts:
            self._prompts[prompt.number] = self.policy.encode(prompt.logged)
        return self._prompts[prompt.number]

    def reward(self, rollouts: Sequence[Rollout]) -> list[Rollout]:
        """Return rollouts with the reward of the teacher, and with its parts as components.

        ```text
        learnability:  R G, G = exp(-lambda spike)        surprisal:  R + lambda mean logp
        ```

        The outcome stays R; a missing reward stays missing.
        """
        known = [row for row, rollout in enumerate(rollouts) if rollout.length and not np.isnan(rollout.reward)]
        result = list(rollouts)
        for start in range(0, len(known), self.micro_batch):
            rows = known[start : start + self.micro_batch]
            for row, parts in zip(rows, self._measure([rollouts[row] for row in rows]), strict=True):
                own = rollouts[row].reward
                taught = own * parts["learnability"]
                if self._reward == "surprisal":
                    taught = own - self.penalty * parts["surprisal"]
                components = {**rollouts[row].components, **parts}
                result[row] = rollouts[row].but(reward=float(taught), components=components)
        return result

    def _measure(self, rollouts: Sequence[Rollout]) -> list[dict[str, float]]:
        """Return how far the student is from each rollout."""
        packed = pack([self.shown(rollout) for rollout in rollouts])
        columns = self.learner.forward.flat(packed.tokens, packed.mask, ("logp", "gap"))()
        logp = check_finite(columns["logp"], "student").astype(np.float64)
        offsets = np.concatenate([[0], np.cumsum(packed.mask.sum(1))]).astype(np.int64)
        gaps = np.maximum(columns["gap"].astype(np.float64), 0.0)
        _, spikes, learnable = _core.learnability(gaps, offsets, beta=BETA, lambda_=self.penalty)
        surprisals = _core.surprisal(logp, offsets)
        names = ("learnability", "spike", "surprisal")
        return [
            dict(zip(names, map(float, values), strict=True))
            for values in zip(learnable, spikes, surprisals, strict=True)
        ]

    def learn(
        self, rollouts: Sequence[Rollout], *, seed: int, set_learning_rate: Callable[[Any, int], None]
    ) -> dict[str, float]:
        """Make the steps of a round; return its metrics, whose names begin with ``student_``.

        Args:
            rollouts: of the teacher; those without a reward are left out.
            seed: of their order.
            set_learning_rate: called before each step with the optimizer and the number of the step.
        """
        shown = [self.shown(rollout) for rollout in rollouts if rollout.length and not np.isnan(rollout.reward)]
        if not shown:
            return {}
        prepared = self.learner.prepare(shown, version=shown[0].version, seed=seed)
        learned = self.learner.learn(
            prepared, seed=seed, set_learning_rate=lambda number: set_learning_rate(self.learner.optimizer, number)
        )
        values = {"loss": learned.losses, "gradient_norm": learned.norms}
        metrics = {f"student_{name}": float(np.mean(numbers)) for name, numbers in values.items() if numbers}
        mask = prepared.mask
        return metrics | {"student_logp": float(learned.logp[mask].mean(dtype=np.float64))}

    def save(self, path: Path) -> None:
        """Write its weights and its optimizer, whole."""
        _atomic.write_file(path, lambda file: mx.save_safetensors(file, self._arrays()))

    def load(self, path: Path) -> None:
        """Load both from a file.

        Raises:
            CheckpointError: the file is missing, damaged, or of another student.
        """
        arrays = load_tensors(path, CheckpointError)
        check_fit(arrays, self._arrays(), str(path), CheckpointError)
        tree: Any = tree_unflatten(list(arrays.items()))
        model = self.policy.model
        weights: Any = tree_flatten(tree["weights"])
        model.load_weights(weights, strict=False)
        self.learner.optimizer.state = tree["optimizer"]
        mx.eval(model.parameters(), self.learner.optimizer.state)

    def _arrays(self) -> Any:
        model = self.policy.model
        return flatten_tree({"weights": model.trainable_parameters(), "optimizer": self.learner.optimizer.state})

    def write_adapter(self, out: Path) -> None:
        """Write its weights as an adapter into the folder of the run."""
        keep_best(out / FOLDER, self.policy.model, self.config)


def _first_turn(rollout: Rollout) -> int:
    """Return the number of messages before the first turn of the policy."""
    roles = [message.get("role") for message in rollout.messages]
    return roles.index("assistant") if "assistant" in roles else 0


def swap_prompts(prompts: Sequence[Prompt]) -> list[Prompt]:
    """Return prompts as the teacher sees them; those of the student stay with them, for the log and the student.

    Raises:
        UsageError: a prompt has no field for the teacher.
    """
    for prompt in prompts:
        if prompt.columns.get(COLUMN) is None:
            raise UsageError(
                f"student is set, and the prompt {prompt.id} has no {COLUMN}: the teacher would see no more than the "
                "student",
                "student",
                hint=f"give each line of the prompts a {COLUMN}, such as the prompt with its answer",
            )
    return [replace(prompt, messages=teacher_messages(prompt), unprivileged=prompt.messages) for prompt in prompts]
