"""Online reinforcement learning with MLX: rollouts, rewards, scores, steps, with any recipe of `karl_fast.objective`.

| name | what it does |
|---|---|
| `rl` | trains a policy on the rewards of its rollouts, or resumes a run |
| `Online`, `Alarms`, `Replay` | the settings of a run |
| `load` | the settings of an ``rl.toml`` |
| `TokenPolicy`, `StepPolicy`, `Environment` | the interfaces of a custom model, and of a world to act in |
| `Call` | a call of the policy by itself, which an environment makes |
| `Policy` | what both kinds of models have |

Needs the extra ``train``; MLX is imported when it is needed.

Where to find what, in the order of a round:

| module | what it holds |
|---|---|
| `run` | the loop from settings to adapter |
| `setup`, `run_folder`, `settings` | preparation of a run, its files, its settings |
| `memory` | the memory plan of a round, over that of `karl_fast.modeling.memory` |
| `curriculum` | choice of prompts, and replay |
| `episode`, `environment` | groups of rollouts, turn by turn with an environment |
| `generate`, `kv_cache`, `compiled` | batched generation, and the key/value caches of a batch |
| `language_model`, `policy` | a model of mlx-lm as a policy, and the interface of custom ones |
| `rewards` | reward functions |
| `rollout` | rollouts, and the files of them |
| `steps` | rollouts, scores and gradients of a model that draws in steps: discrete flow, masked diffusion |
| `learner`, `logprobs`, `log_z` | scores, gradients and steps; the step is `karl_fast.modeling.optimizer` |
| `metrics`, `held_out` | metrics and alarms, held-out prompts |

GSPO, GRPO, DAPO, SAMPO and FlowRL are recipes: `karl_fast.objective.recipes`; their clips and ratios are
`karl_fast.objective.axes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karl_fast.rl.settings import Alarms, Online, Replay

if TYPE_CHECKING:
    from karl_fast.rl.environment import Call, Environment
    from karl_fast.rl.policy import Policy, StepPolicy, TokenPolicy
    from karl_fast.rl.run import RunResult, rl
    from karl_fast.rl.settings import load

__all__ = [
    "Alarms",
    "Call",
    "Environment",
    "Online",
    "Policy",
    "Replay",
    "RunResult",
    "StepPolicy",
    "TokenPolicy",
    "load",
    "rl",
]

HOMES = {
    "Call": "environment",
    "Environment": "environment",
    "RunResult": "run",
    "Policy": "policy",
    "StepPolicy": "policy",
    "TokenPolicy": "policy",
    "load": "settings",
    "rl": "run",
}
"""Home modules of public names that need NumPy; loaded on first use."""


def __getattr__(name: str) -> object:
    from importlib import import_module

    from karl_fast._extras import mlx_needed

    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with mlx_needed():
        return getattr(import_module(f"karl_fast.rl.{HOMES[name]}"), name)
