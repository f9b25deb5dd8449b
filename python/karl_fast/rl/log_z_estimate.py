"""Estimates of the mean outcome of prompts by the learned log Z of a recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.objective.axes.advantage import Raw
from karl_fast.objective.axes.balance import BehaviourPolicy, Temperature, TokenSumLength

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from karl_fast.objective.base import Objective
    from karl_fast.rl.learner import PolicyLearner
    from karl_fast.rl.rollout import Prompt
    from karl_fast.rl.settings import Online

INTERCEPT = {"reward": Raw, "anchor": BehaviourPolicy, "length": TokenSumLength, "scale": Temperature}
"""Axes of the regression whose intercept is log Z."""


def estimate_log_z(settings: Online, learner: PolicyLearner) -> Callable[[Sequence[Prompt]], NDArray[np.float64]] | None:
    """Return the estimate t log Z of the mean outcome of prompts; None where log Z is no such estimate.

    It is one where log Z is regressed on r / t - (logp - logp_old) of whole rollouts, with the outcome itself as r: its
    optimum is then the mean outcome over t, plus a divergence from the policy that drew, which is small (PACED-RL,
    proposition 4.1). A log Z of scores within groups, as FlowRL has, says nothing of how hard a prompt is.
    """
    partition, policy, axes = learner.partition, learner.forward.policy, dict[str, Any](learner.objective.axes())
    shaped = settings.outcome is not None or settings.overlong_tokens
    if partition is None or settings.curriculum != "paced" or shaped or not _is_intercept(learner.objective):
        return None

    def estimate(prompts: Sequence[Prompt]) -> NDArray[np.float64]:
        found = partition.log_z(policy, (policy.encode(prompt.messages) for prompt in prompts))
        return np.asarray(axes["scale"].value * found)

    return estimate


def _is_intercept(objective: Objective) -> bool:
    return all(isinstance(objective.axes().get(axis), kind) for axis, kind in INTERCEPT.items())
